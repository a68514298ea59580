"""Points for boosting and forests: the time of the choice against one fit of the estimator on all rows."""

import numpy as np
from _harness import Bench
from handful import BilevelCoreset
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

ROWS, FEATURES, SIZE = 50_000, 50, 200
AIM = 10.0  # times one fit of that estimator on all rows


def main():
    bench = Bench("trainer", "Points for boosting and forests")
    X, y = make_classification(ROWS, FEATURES, n_informative=20, n_clusters_per_class=4, flip_y=0.05, random_state=0)
    X = X.astype(np.float32)
    for estimator in (HistGradientBoostingClassifier(random_state=0), RandomForestClassifier(random_state=0)):
        few = BilevelCoreset.for_estimator(estimator, size=SIZE, random_state=0)
        bench.time(
            f"{ROWS:,} x {FEATURES}, m = {SIZE}",
            {type(estimator).__name__: lambda few=few: few.fit(X, y)},
            ("one fit on all rows", lambda estimator=estimator: estimator.fit(X, y)),
            bars={type(estimator).__name__: AIM},
            repeats=1 if isinstance(estimator, RandomForestClassifier) else 3,  # a forest on all rows takes a minute
        )
    bench.write(rows=ROWS, features=FEATURES, size=SIZE)


if __name__ == "__main__":
    main()
