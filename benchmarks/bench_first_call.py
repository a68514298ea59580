"""The first call: CPU seconds of importing and of each first fit with an empty compile cache,
against scikit-learn.

Every case is a process of its own with a cache folder of its own. It imports, fits once, and fits
twice more; what the first fit costs beyond the fastest later one is compiling and importing. The
yardstick is the CPU time of ``import sklearn.linear_model`` in processes that take turns with the
cases. `--only NAME` runs some of the cases, `--kernels` prints the functions that numba compiled
and the seconds each took, without those that it called.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import warnings

from numba.core import event

# case -> (module of the class, expression that makes it, data set, how it is called)
CASES = {
    "BilevelCoreset, logistic": ("handful", "h.BilevelCoreset(size=40, random_state=0)", "binary"),
    "BilevelCoreset, least squares": (
        "handful",
        "h.BilevelCoreset(h.LeastSquares(), size=40, random_state=0)",
        "target",
    ),
    "BilevelCoreset, multinomial": (
        "handful",
        "h.BilevelCoreset(size=40, random_state=0)",
        "digits",
    ),
    "BilevelCoreset, optimised weights": (
        "handful",
        "h.BilevelCoreset(size=40, weighting='optimised', random_state=0)",
        "binary",
    ),
    "BilevelCoreset, mixture": (
        "handful.bilevel",
        "h.BilevelCoreset(h.GaussianMixture(3, random_state=0), size=10, random_state=0)",
        "few points",
    ),
    "VCGMM": ("handful", "h.VCGMM(20, random_state=0)", "points"),
    "VCGMM, on a coreset": ("handful", "h.VCGMM(20, coreset_size=300, random_state=0)", "points"),
    "SVMCoreset": ("handful", "h.SVMCoreset(size=60, random_state=0)", "binary"),
    "LinearSVM": ("handful", "h.LinearSVM()", "binary"),
    "MixtureSampler": (
        "handful.sampling",
        "h.MixtureSampler(h.distance_components(X, 5, random_state=0), batch_size=20, "
        "random_state=0)",
        "points",
    ),
    "KMeansPlusPlus": ("handful", "h.KMeansPlusPlus(size=40, random_state=0)", "points"),
    "KCenter": ("handful", "h.KCenter(size=40, random_state=0)", "points"),
    "LightweightCoreset": ("handful", "h.LightweightCoreset(size=40, random_state=0)", "points"),
    "UniformCoreset": ("handful", "h.UniformCoreset(size=40, random_state=0)", "points"),
    "MiniBatchKMeans": (
        "handful.clustering",
        "h.MiniBatchKMeans(20, n_steps=30, random_state=0)",
        "points",
    ),
    "LogisticSensitivity": ("handful", "h.LogisticSensitivity(size=40, random_state=0)", "binary"),
    "MergeReduce": (
        "handful",
        "h.MergeReduce(h.LightweightCoreset(), size=40, leaf_size=100, random_state=0)",
        "points",
    ),
    "Reservoir": ("handful.streaming", "h.Reservoir(size=40, random_state=0)", "points"),
    "KDPP": (
        "handful.sampling",
        "h.KDPP(X[:200] @ X[:200].T + np.eye(200), 5, random_state=0)",
        "points",
    ),
}
TYPES = ("float64", "float32")


def data(name):
    """``(X, y)``, rows of data sets that ship with scikit-learn; of column variance one, or digits
    in [0, 1]."""
    from sklearn.datasets import load_breast_cancer, load_digits

    if name == "digits":
        X, y = load_digits(n_class=5, return_X_y=True)
        return X / 16, y
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    sets = {
        "binary": (X, y),
        "target": (X[:, 1:], X[:, 0]),
        "points": (X, None),
        "few points": (X[:150, :3], None),
    }
    return sets[name]


def cpu_seconds():
    """CPU seconds of this process and its children so far, of all threads."""
    return sum(os.times()[:4])


def one_case(case, dtype):
    """Run in a fresh process: seconds of the import, of each of three fits, and of the functions
    compiled."""
    import numpy as np

    module, expression, kind = CASES[case]
    X, y = data(kind)
    X = np.ascontiguousarray(X, dtype=dtype)
    kernels = Kernels()
    # what importing leaves, such as thread pools, belongs to the import
    start = cpu_seconds()
    names = {"h": __import__(module, fromlist=["x"]), "np": np, "X": X}
    seconds = []
    for _ in range(3):
        start = cpu_seconds()
        # our own table
        made = eval(expression, names)
        if hasattr(made, "fit"):
            made.fit(X, y)
        else:
            made.sample()
        if hasattr(made, "update"):
            made.update(np.ones(20))
        seconds.append(cpu_seconds() - start)
    return dict(seconds=seconds, kernels=kernels.seconds)


class Kernels(event.Listener):
    """Listens to numba: seconds that each compiled function took, without those that it called."""

    def __init__(self):
        self.seconds = {}
        self._open = []
        event.register("numba:compile", self)

    def on_start(self, what):
        self._open.append([cpu_seconds(), 0.0])

    def on_end(self, what):
        start, inner = self._open.pop()
        total = cpu_seconds() - start
        if self._open:
            self._open[-1][1] += total
        function = what.data["dispatcher"].py_func
        name = f"{function.__module__}.{function.__qualname__}"
        self.seconds[name] = self.seconds.get(name, 0.0) + total - inner


def child(*arguments):
    """What a fresh Python with an empty compile cache prints, read as JSON."""
    with tempfile.TemporaryDirectory() as cache:
        # as pip leaves a package
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["NUMBA_CACHE_DIR"] = cache
        out = subprocess.run(
            [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, check=True
        )
    return json.loads(out.stdout.splitlines()[-1])


def import_seconds(module):
    """CPU seconds of importing a module in a fresh process."""
    code = (
        f"import os; before = sum(os.times()[:4]); import {module}; print(sum(os.times()[:4]) - "
        "before)"
    )
    return child("-c", code)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--types", nargs="+", default=TYPES, choices=TYPES)
    parser.add_argument("--repeats", type=int, default=1, help="fresh processes a case")
    parser.add_argument(
        "--kernels", action="store_true", help="print what was compiled; write no table"
    )
    # what the children run
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        warnings.simplefilter("ignore")
        print(json.dumps(one_case(*args.case)))
        return

    from _harness import Bench

    bench = Bench("first_call", "The first call, with an empty compile cache")
    # leaves the byte code on disk
    import_seconds("handful")
    yardstick = []
    ours = []
    # single runs vary by a tenth
    for _ in range(12 + args.repeats):
        yardstick.append(import_seconds("sklearn.linear_model"))
        ours.append(import_seconds("handful"))
    unit = statistics.median(yardstick)
    bench.note(
        "A CPU second is worth less where neighbours take the caches: in this run `import "
        "sklearn.linear_model` took "
        f"{unit:.2f} of them, which is the unit of the ratios."
    )
    bench.value(
        "import",
        "handful",
        statistics.median(ours) / unit,
        unit="x import sklearn.linear_model",
        bar=1.3,
    )
    details = []
    for case in CASES:
        if args.only not in case:
            continue
        for dtype in args.types:
            runs = [child(__file__, "--case", case, dtype) for _ in range(args.repeats)]
            extra = statistics.median(run["seconds"][0] - min(run["seconds"][1:]) for run in runs)
            bench.value(
                case, f"first fit, {dtype}", extra / unit, unit="x import sklearn.linear_model"
            )
            bench.value(
                case,
                f"first fit, {dtype}, seconds",
                extra,
                unit="CPU seconds beyond a later fit",
                bar=3,
            )
            details.append(dict(case=case, dtype=dtype, runs=runs))
            if args.kernels:
                for name, seconds in sorted(runs[0]["kernels"].items(), key=lambda item: -item[1]):
                    print(f"    {seconds:6.2f}  {name}")
        # after each case, as all of them take a while
        if not (args.kernels or args.only):
            bench.write(
                import_sklearn_seconds=yardstick, import_handful_seconds=ours, cases=details
            )


if __name__ == "__main__":
    main()
