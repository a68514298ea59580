"""What to label next in sparse rows: rules of the library beside three lines of margin sampling, at
120 labels.

Two pools of TF-IDF features: the web pages of w8a, of which half are of the rare class (keywords
that a page holds), and generated texts of twenty topics. Every rule begins with the same 20 random
rows and asks for 20 more in each round.
"""

import os
import sys

import numpy as np
from _harness import Bench
from handful import data
from handful.active import Badge, ClusterMarginQuery, MaxEntropyQuery, UniformQuery
from joblib import Memory
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

BATCH = 20
ROUNDS = 5
SEEDS = range(10)
# of the generated texts
TOPICS = 20
WORDS = 3000
TEXTS = 4000
POOLS = ("web pages (w8a)", "20 topics")


class Margin:
    """The points with the smallest difference of their two largest probabilities."""

    def query(self, n, *, probabilities, **known):
        two = np.sort(probabilities, axis=1)[:, -2:]
        return np.argsort(two[:, 1] - two[:, 0], kind="stable")[:n]


RULES = {
    "UniformQuery": lambda seed: UniformQuery(random_state=seed),
    "three lines: the smallest margins": lambda seed: Margin(),
    "MaxEntropyQuery": lambda seed: MaxEntropyQuery(),
    "ClusterMarginQuery": lambda seed: ClusterMarginQuery(random_state=seed),
    "Badge": lambda seed: Badge(random_state=seed),
}


def counts(name, rng):
    """Counts of words as CSR, and a label for each text."""
    if name != "20 topics":
        source = data.load("w8a")
        rare = np.flatnonzero(source.y > 0)
        often = np.flatnonzero(source.y <= 0)
        rows = np.concatenate([rare, rng.choice(often, len(rare), replace=False)])
        return sparse.csr_array(np.asarray(source.X[rows], dtype=float)), source.y[rows] > 0
    # Zipf's law
    common = 1.0 / np.arange(1, WORDS + 1)
    favourites = rng.dirichlet(0.2 * common / common.mean(), size=TOPICS)
    y = rng.integers(0, TOPICS, TEXTS)
    chances = 0.7 * common / common.sum() + 0.3 * favourites
    texts = [rng.multinomial(rng.integers(30, 150), chances[topic]) for topic in y]
    return sparse.csr_array(np.array(texts, dtype=float)), y


@Memory(os.environ.get("HANDFUL_BENCH_CACHE"), verbose=0).cache
def accuracies(name, rule, seed):
    """Test accuracy after the first batch and after each round."""
    rng = np.random.default_rng(seed)
    X, y = counts(name, rng)
    X = sparse.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(X))
    order = rng.permutation(len(y))
    half = len(y) // 2
    X_test = X[order[half:]]
    y_test = y[order[half:]]
    X = X[order[:half]]
    y = y[order[:half]]
    labelled = np.arange(BATCH)
    reached = []
    for turn in range(ROUNDS + 1):
        pool = np.setdiff1d(np.arange(half), labelled)
        model = LogisticRegression(C=10.0, max_iter=2000).fit(X[labelled], y[labelled])
        reached.append(model.score(X_test, y_test))
        chances = model.predict_proba(X[pool])
        asked = RULES[rule](seed + len(SEEDS) * turn).query(
            BATCH, features=X[pool], probabilities=chances
        )
        labelled = np.append(labelled, pool[asked])
    return reached


bench = Bench("queries_text", "What to label next in sparse rows: accuracy over uniform labels")
for name in sys.argv[1:] or POOLS:
    reached = {
        rule: 100 * np.array([accuracies(name, rule, seed) for seed in SEEDS]) for rule in RULES
    }
    for turn in (2, 5):
        at_turn = {rule: values[:, turn] for rule, values in reached.items()}
        bench.gains(f"{name}, {BATCH * (1 + turn)} labels", at_turn, over="UniformQuery")
bench.note(
    "The number behind ± is the standard error over 10 seeds, by which the differences are paired."
)
if not sys.argv[1:]:
    bench.write(parameters=dict(batch=BATCH, rounds=ROUNDS, seeds=list(SEEDS), pools=list(POOLS)))
