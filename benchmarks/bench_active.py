"""What an acquisition costs on the Spoken Digits at the paper's size: 10 from 2,700 recordings,
2,048 features.

Probabilities are those of a logistic regression on the labelled recordings' features: any model's
will do.
"""

import time

import numpy as np
from _harness import Bench
from handful.active import Badge, BilevelQuery, KCenterQuery
from handful_papers.bico.active import first_labels
from handful_papers.bico.active_data import Proxy, prepare
from sklearn.linear_model import LogisticRegression

# as in the laptop profile of Figure 10
VARIANTS = 10


def clocked(function):
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def acquisition(bench, data, proxy, n_labelled):
    rng = np.random.default_rng(0)
    labelled = first_labels(data.y, n_labelled, seed=0)
    pool = np.setdiff1d(np.arange(len(data.X)), labelled)
    model = LogisticRegression(C=1e4, max_iter=1000).fit(proxy.Z[labelled], data.y[labelled])
    asked = dict(
        features=proxy.Z[pool],
        probabilities=model.predict_proba(proxy.Z[pool]),
        labels=data.y[labelled],
        classes=model.classes_,
    )
    variants = np.stack([proxy.variants(i) for i in labelled])
    with_variants = BilevelQuery(variants=lambda row: proxy.variants(pool[row]))
    candidates = {
        "BilevelQuery": lambda: BilevelQuery().query(10, labelled=proxy.Z[labelled], **asked),
        f"with {VARIANTS} variants of a point": lambda: with_variants.query(
            10, labelled=variants, **asked
        ),
        "KCenterQuery": lambda: KCenterQuery().query(10, labelled=proxy.Z[labelled], **asked),
    }
    yardstick = (
        "Badge",
        lambda: Badge(random_state=rng).query(10, labelled=proxy.Z[labelled], **asked),
    )
    what = f"10 of {len(pool)}, {n_labelled} labelled"
    bench.time(what, candidates, yardstick, bars={}, repeats=3)
    for name in list(candidates)[:2]:
        seconds = np.median([clocked(candidates[name])[0] for _ in range(3)])
        bench.value(what, name, seconds, unit="s of one core", bar=5)


def main():
    bench = Bench("active", "Batch active learning: seconds of an acquisition and of its features")
    data = prepare("fsdd", n_copies=VARIANTS)
    seconds, proxy = clocked(
        lambda: Proxy(data, kernel="cntk", n_landmarks=2048, n_variants=VARIANTS, cache=False)
    )
    what = f"CNTK features of {len(data.X)}"
    bench.value(
        what, "flatten, 32 x 32, 2,048 landmarks", seconds / 60, unit="min of one core", bar=15
    )
    seconds, _ = clocked(lambda: proxy.variants(0))
    bench.value(what, f"{VARIANTS} variants of one recording", seconds, unit="s of one core")
    for n_labelled in (10, 60):
        acquisition(bench, data, proxy, n_labelled)
    bench.write(data={data.name: data.sha256})


if __name__ == "__main__":
    main()
