"""What to label next: the accuracy that each acquisition rule reaches, less that of uniform labels, on nine pools.

Every rule begins with the same ten rows, the nearest to the centers of k-means, and asks for ten more in each round.
The model is a logistic regression of the rows labelled so far. Differences are paired by seed.
"""

import numpy as np
from _harness import Bench
from _tables import halves
from handful.active import Badge, BilevelQuery, KMeansQuery, MaxEntropyQuery, UniformQuery
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

MOST = 2500  # rows of the pool, and as many for the test
BATCH, ROUNDS, SEEDS = 10, 5, range(20)
SETS = ("digits", "phishing", "cod_rna", "covtype_subset", "credit_default", "a9a", "htru2")
BLOBS = {"4 blobs in 10 columns": (4, 10, 4.5), "3 blobs in 2 columns": (3, 2, 2.0)}  # classes, columns, deviation
RULES = {
    "UniformQuery": lambda seed: UniformQuery(random_state=seed),
    "MaxEntropyQuery": lambda seed: MaxEntropyQuery(),
    "KMeansQuery": lambda seed: KMeansQuery(random_state=seed),
    "Badge": lambda seed: Badge(random_state=seed),
    "BilevelQuery, l2 = 1e-4": lambda seed: BilevelQuery(),
    "BilevelQuery, l2 = 1e-3": lambda seed: BilevelQuery(l2=1e-3),
}


def tables(name, seed):
    if name not in BLOBS:
        return halves(name, np.random.default_rng(seed), MOST)
    k, d, deviation = BLOBS[name]
    X, y = make_blobs(2 * MOST, n_features=d, centers=k, cluster_std=deviation, center_box=(-4, 4), random_state=seed)
    return X[:MOST] / deviation, y[:MOST], X[MOST:] / deviation, y[MOST:]


def accuracies(name, rule, seed):
    """Test accuracy after the first batch and after each round."""
    X, y, X_test, y_test = tables(name, seed)
    labelled = np.asarray(KMeansQuery(random_state=seed).query(BATCH, features=X))
    rng, reached = np.random.default_rng(seed), []
    for turn in range(ROUNDS + 1):
        pool = np.setdiff1d(np.arange(len(X)), labelled)
        if len(np.unique(y[labelled])) == 1:  # no rule has a model yet
            reached.append(np.mean(y_test == y[labelled[0]]))
            asked = rng.choice(len(pool), BATCH, replace=False)
        else:
            model = LogisticRegression(max_iter=2000).fit(X[labelled], y[labelled])
            reached.append(model.score(X_test, y_test))
            known = dict(labelled=X[labelled], labels=y[labelled], classes=model.classes_)
            chances = model.predict_proba(X[pool])
            asked = RULES[rule](seed + len(SEEDS) * turn).query(BATCH, features=X[pool], probabilities=chances, **known)
        labelled = np.append(labelled, pool[asked])
    return reached


bench = Bench("queries", "What to label next: accuracy over uniform labels, from the same ten labelled rows")
for name in (*SETS, *BLOBS):
    reached = {rule: 100 * np.array([accuracies(name, rule, seed) for seed in SEEDS]) for rule in RULES}
    for turn in (1, 3, 5):
        labels = BATCH * (1 + turn)
        for rule, values in reached.items():
            if rule == "UniformQuery":
                bench.value(f"{name}, {labels} labels", rule, values[:, turn].mean(), unit="% accuracy")
            else:
                gain = (values - reached["UniformQuery"])[:, turn]
                error = gain.std(ddof=1) / len(SEEDS) ** 0.5
                bench.value(f"{name}, {labels} labels", rule, gain.mean(), unit=f"points more ± {error:.1f}")
bench.note("The number behind ± is the standard error over 20 seeds. The blobs' centers are drawn anew in each.")
bench.write(parameters=dict(most=MOST, batch=BATCH, rounds=ROUNDS, seeds=list(SEEDS), sets=SETS, blobs=BLOBS))
