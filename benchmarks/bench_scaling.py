"""How time and memory grow with rows, features and points: exponents fitted over sizes, against the
stated ones.

An exponent is the slope of a line through the logarithms of medians of CPU seconds, or of the peak
of what numpy and Python allocate beyond the data. A stream is fed the same chunk again and again.
The run fails where an exponent is above what is stated by more than the margin.
"""

import statistics
import sys
import time
import tracemalloc

import numpy as np
from _harness import Bench
from handful import (
    VCGMM,
    BilevelCoreset,
    KMeansPlusPlus,
    LightweightCoreset,
    Logistic,
    SVMCoreset,
    UniformCoreset,
)
from handful.streaming import MergeReduce
from handful.svm import LinearSVM

MARGIN = 0.15
# a run of more than so many seconds is not repeated
REPEATS = 2
LONG = 5.0
# rows of a stream at a time
CHUNK = 100_000
BASE = dict(n=20_000, d=20, m=50)
GRIDS = dict(
    n=(62_500, 250_000, 1_000_000),
    stream=(100_000, 1_000_000, 10_000_000),
    d=(16, 32, 64, 128),
    m=(25, 50, 100, 200),
)

# What grows how: (method, {letter: (exponent of time, exponent of memory)}); a letter that is
# absent does not apply. Points of a bilevel coreset cost a pass each, and up to m cubed within; a
# stream holds what its tree holds.
METHODS = {
    "BilevelCoreset, linear": (
        lambda m: BilevelCoreset(
            Logistic(1e-2), size=m, rule="linear", weighting="equal", random_state=0
        ),
        dict(n=(1, 1), d=(1, 1), m=(1, 0)),
    ),
    "BilevelCoreset, quadratic": (
        lambda m: BilevelCoreset(Logistic(1e-2), size=m, weighting="equal", random_state=0),
        dict(n=(1, 1), d=(1.5, 1), m=(1, 0)),
    ),
    "SVMCoreset": (lambda m: SVMCoreset(m, random_state=0), dict(n=(1, 1), d=(1.5, 1), m=(0, 0))),
    "LightweightCoreset": (
        lambda m: LightweightCoreset(size=m, random_state=0),
        dict(n=(1, 1), d=(1, 1), m=(0, 0)),
    ),
    "KMeansPlusPlus": (
        lambda m: KMeansPlusPlus(size=m, random_state=0),
        dict(n=(1, 1), d=(1, 1), m=(1, 0)),
    ),
    "UniformCoreset": (lambda m: UniformCoreset(size=m, random_state=0), dict(n=(1, 1), m=(0, 0))),
    "MergeReduce(LightweightCoreset)": (
        lambda m: MergeReduce(LightweightCoreset(), size=m, random_state=0),
        dict(n=(1, 0), d=(1, 1)),
    ),
    "LinearSVM": (lambda m: LinearSVM(), dict(n=(1, 1), d=(1.5, 1))),
    "VCGMM": (lambda m: VCGMM(m, random_state=0), dict(n=(1, 1), d=(1, 1))),
}


def rows_of(n, d):
    """Two classes over clusters; the same rows whatever n is, as far as they go."""
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(20, d))
    X = centers[rng.integers(20, size=n)] + rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=d) + 3 * rng.logistic(size=n) > 0).astype(int)


def fitted(estimator, X, y, n):
    """The estimator after n rows: those of X, as often as it takes for a stream."""
    if not isinstance(estimator, MergeReduce):
        return estimator.fit(X, y)
    for start in range(0, n, len(X)):
        estimator.partial_fit(X[: n - start], y[: n - start])
    return estimator


def measured(make, n, d, m):
    """Median CPU seconds, and peak bytes beyond the data."""
    X, y = rows_of(min(n, CHUNK) if isinstance(make(m), MergeReduce) else n, d)
    seconds = []
    while len(seconds) < REPEATS and max(seconds, default=0.0) < LONG:
        start = time.process_time()
        fitted(make(m), X, y, n)
        seconds.append(time.process_time() - start)
    tracemalloc.start()
    fitted(make(m), X, y, n)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return statistics.median(seconds), peak


def slope(sizes, values):
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main(only=""):
    bench = Bench("scaling", "Exponents of time and memory")
    for name, (make, stated) in METHODS.items():
        for letter, bars in stated.items() if only in name else ():
            grid = GRIDS["stream" if letter == "n" and isinstance(make(1), MergeReduce) else letter]
            # the first one compiles
            turns = (grid[0], *grid)
            runs = [measured(make, **(BASE | {letter: value})) for value in turns][1:]
            span = f"{letter} = {grid[0]:,} to {grid[-1]:,}"
            for what, values, bar in zip(("time", "memory"), zip(*runs), bars):
                bench.value(
                    name, f"{what} in {letter}", slope(grid, values), unit=span, bar=bar + MARGIN
                )
    if not only:
        bench.write(base=BASE, grids=GRIDS, margin=MARGIN, data="generated")
    missed = [f"{row['case']}: {row['name']}" for row in bench.rows if not row["met"]]
    if missed:
        sys.exit(f"above the stated exponent by more than {MARGIN}: {'; '.join(missed)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
