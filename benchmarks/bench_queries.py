"""What to label next: the accuracy that each acquisition rule reaches, less that of uniform labels,
on eleven pools.

Every rule begins with the same ten rows, the nearest to the centers of k-means, and asks for ten
more in each round. The model is a logistic regression of the rows labelled so far. Differences are
paired by seed. In two of the pools one row of fifty lies twenty times as far out as it did.

With names of pools as arguments only these are run, and no table is written: in pieces, with
HANDFUL_BENCH_CACHE naming a folder, and at the end without arguments, which reads what is there.
"""

import os
import sys

import numpy as np
from _harness import Bench
from _tables import halves
from handful.active import (
    Badge,
    BilevelQuery,
    ClusterMarginQuery,
    KMeansQuery,
    MaxEntropyQuery,
    UniformQuery,
)
from joblib import Memory
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

# rows of the pool, and as many for the test
MOST = 2500
BATCH = 10
ROUNDS = 5
SEEDS = range(20)
SETS = ("digits", "phishing", "cod_rna", "covtype_subset", "credit_default", "a9a", "htru2")
# classes, columns, deviation
BLOBS = {"4 blobs in 10 columns": (4, 10, 4.5), "3 blobs in 2 columns": (3, 2, 2.0)}
OUTLIERS = {
    "digits with outliers": "digits",
    "4 blobs in 10 columns with outliers": "4 blobs in 10 columns",
}
RULES = {
    "UniformQuery": lambda seed: UniformQuery(random_state=seed),
    "MaxEntropyQuery": lambda seed: MaxEntropyQuery(),
    "ClusterMarginQuery": lambda seed: ClusterMarginQuery(random_state=seed),
    "KMeansQuery": lambda seed: KMeansQuery(random_state=seed),
    "Badge": lambda seed: Badge(random_state=seed),
    "BilevelQuery, l2 = 1e-4": lambda seed: BilevelQuery(),
    "BilevelQuery, l2 = 1e-3": lambda seed: BilevelQuery(l2=1e-3),
}


def tables(name, seed):
    if name in OUTLIERS:
        X, y, X_test, y_test = tables(OUTLIERS[name], seed)
        rng = np.random.default_rng(seed)
        for rows in (X, X_test):
            rows[rng.permutation(len(rows))[: len(rows) // 50]] *= 20
        return X, y, X_test, y_test
    if name not in BLOBS:
        return halves(name, np.random.default_rng(seed), MOST)
    k, d, deviation = BLOBS[name]
    X, y = make_blobs(
        2 * MOST,
        n_features=d,
        centers=k,
        cluster_std=deviation,
        center_box=(-4, 4),
        random_state=seed,
    )
    return X[:MOST] / deviation, y[:MOST], X[MOST:] / deviation, y[MOST:]


@Memory(os.environ.get("HANDFUL_BENCH_CACHE"), verbose=0).cache
def accuracies(name, rule, seed):
    """Test accuracy after the first batch and after each round."""
    X, y, X_test, y_test = tables(name, seed)
    labelled = np.asarray(KMeansQuery(random_state=seed).query(BATCH, features=X))
    rng = np.random.default_rng(seed)
    reached = []
    for turn in range(ROUNDS + 1):
        pool = np.setdiff1d(np.arange(len(X)), labelled)
        # no rule has a model yet
        if len(np.unique(y[labelled])) == 1:
            reached.append(np.mean(y_test == y[labelled[0]]))
            asked = rng.choice(len(pool), BATCH, replace=False)
        else:
            model = LogisticRegression(max_iter=2000).fit(X[labelled], y[labelled])
            reached.append(model.score(X_test, y_test))
            known = dict(labelled=X[labelled], labels=y[labelled], classes=model.classes_)
            chances = model.predict_proba(X[pool])
            asked = RULES[rule](seed + len(SEEDS) * turn).query(
                BATCH, features=X[pool], probabilities=chances, **known
            )
        labelled = np.append(labelled, pool[asked])
    return reached


bench = Bench(
    "queries", "What to label next: accuracy over uniform labels, from the same ten labelled rows"
)
pools = [*SETS, *BLOBS, *OUTLIERS]
for name in sys.argv[1:] or pools:
    reached = {
        rule: 100 * np.array([accuracies(name, rule, seed) for seed in SEEDS]) for rule in RULES
    }
    for turn in (1, 3, 5):
        at_turn = {rule: values[:, turn] for rule, values in reached.items()}
        bench.gains(f"{name}, {BATCH * (1 + turn)} labels", at_turn, over="UniformQuery")
bench.note(
    "The number behind ± is the standard error over 20 seeds. The blobs' centers are drawn anew in "
    "each."
)
if not sys.argv[1:]:
    bench.write(
        parameters=dict(most=MOST, batch=BATCH, rounds=ROUNDS, seeds=list(SEEDS), pools=pools)
    )
