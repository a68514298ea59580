"""Pools of sparse rows, such as TF-IDF of texts: every rule asks for the points that it asks for of
dense rows."""

import numpy as np
import pytest
from handful.active import (
    ActiveLoop,
    Badge,
    BilevelQuery,
    ClusterMarginQuery,
    KCenterQuery,
    KMeansQuery,
    MaxEntropyQuery,
    UniformQuery,
)
from handful.active.reach import within_reach
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

RULES = {
    "uniform": UniformQuery(random_state=0),
    "entropy": MaxEntropyQuery(),
    "k-center": KCenterQuery(random_state=0),
    "k-means": KMeansQuery(random_state=0),
    "cluster margin": ClusterMarginQuery(random_state=0),
    "Badge": Badge(random_state=0),
    "bilevel": BilevelQuery(l2=1e-2),
}
every_rule = pytest.mark.parametrize("query", RULES.values(), ids=RULES)
FORMS = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array]


def texts(n=300, n_words=60, seed=0):
    """Texts of one word in every text and others that depend on the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    favourites = rng.dirichlet(np.full(n_words, 0.3), size=3)
    words = [rng.choice(n_words, size=rng.integers(5, 30), p=favourites[c]) for c in y]
    return TfidfVectorizer().fit_transform(
        [" ".join(["every", *(f"w{w}" for w in ws)]) for ws in words]
    ), y


X, Y = texts()
LABELLED = np.concatenate([np.flatnonzero(c == Y)[:4] for c in range(3)])
POOL = np.setdiff1d(np.arange(len(Y)), LABELLED)
MODEL = LogisticRegression(C=10).fit(X[LABELLED], Y[LABELLED])


def ask(query, rows, labelled, n=12, **options):
    P = MODEL.predict_proba(X[POOL])
    known = dict(probabilities=P, labelled=labelled, labels=Y[LABELLED], classes=MODEL.classes_)
    return query.query(n, features=rows, **known | options)


@every_rule
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_sparse_rows_are_asked_for_as_dense_ones(query, form):
    dense = ask(query, X[POOL].toarray(), X[LABELLED].toarray())
    np.testing.assert_array_equal(ask(query, form(X[POOL]), form(X[LABELLED])), dense)
    np.testing.assert_array_equal(ask(query, form(X[POOL]), X[LABELLED].toarray()), dense)
    np.testing.assert_array_equal(ask(query, X[POOL].toarray(), form(X[LABELLED])), dense)


@every_rule
def test_entries_that_are_stored_in_parts_are_added_up_and_the_pool_is_not_touched(query):
    whole = sparse.csr_array(X[POOL])
    parts = whole.copy()
    parts.data = np.repeat(whole.data / 2, 2)
    parts.indices = np.repeat(whole.indices, 2)
    parts.indptr = 2 * whole.indptr
    before = parts.data.copy()
    np.testing.assert_array_equal(ask(query, parts, X[LABELLED]), ask(query, whole, X[LABELLED]))
    np.testing.assert_array_equal(parts.data, before)


def test_without_labelled_points_and_with_empty_ones():
    for query in (KCenterQuery(random_state=1), KMeansQuery(random_state=1)):
        dense = query.query(10, features=X.toarray())
        np.testing.assert_array_equal(query.query(10, features=X), dense)
        np.testing.assert_array_equal(query.query(10, features=X, labelled=X[:0]), dense)


def test_far_rows_are_pulled_back_as_dense_ones_are_and_stay_sparse():
    far = sparse.csr_array(sparse.vstack([X, 40 * X[:9]]))
    pulled = within_reach(far)(far)
    assert sparse.issparse(pulled)
    assert pulled.nnz <= far.nnz + 9 * 3
    np.testing.assert_allclose(
        pulled.toarray(), within_reach(far.toarray())(far.toarray()), atol=1e-12
    )


def test_what_cannot_be_sparse_says_so():
    with pytest.raises(
        ValueError, match=r"variants of points need dense features, got sparse ones: use .*toarray"
    ):
        ask(BilevelQuery(variants=lambda i: np.zeros((2, X.shape[1]))), X[POOL], X[LABELLED])
    with pytest.raises(ValueError, match="labelled must have shape"):
        ask(UniformQuery(), X[POOL], X[LABELLED][:, :5])
    bad = X[POOL].copy()
    bad.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ask(UniformQuery(), bad, X[LABELLED])


def test_a_loop_labels_a_pool_of_texts():
    def propose(labelled, labels, pool, n):
        if not len(labelled):
            return pool[KMeansQuery(random_state=0).query(n, features=X[pool])]
        model = LogisticRegression(C=10).fit(X[labelled], labels)
        return pool[
            ClusterMarginQuery(random_state=0).query(
                n, features=X[pool], probabilities=model.predict_proba(X[pool])
            )
        ]

    loop = ActiveLoop(propose, n_pool=X.shape[0], classes=range(3), batch_size=10)
    loop.run(lambda i: int(Y[i]), n_rounds=4)
    assert len(set(loop.labelled.tolist())) == 40
