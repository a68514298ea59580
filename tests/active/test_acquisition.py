"""Acquisition functions: against plainer ones, what must hold for all of them, and bad input."""

import numpy as np
import pytest
from handful.active import (
    Badge,
    BilevelQuery,
    ClusterMarginQuery,
    KCenterQuery,
    KMeansQuery,
    MaxEntropyQuery,
    UniformQuery,
)
from handful.active.reach import within_reach
from handful.checks import ConvergenceError
from handful.models.inverse import ConjugateGradients
from handful_papers.bico.active import most_varying
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

ALL = [
    UniformQuery(random_state=0),
    MaxEntropyQuery(),
    KCenterQuery(random_state=0),
    KMeansQuery(random_state=0),
    ClusterMarginQuery(random_state=0),
    Badge(random_state=0),
    BilevelQuery(1e-2),
]
NAMES = [type(a).__name__ for a in ALL]


@pytest.fixture
def pool(rng):
    """What a model says of 40 points, in two variants, and of 6 labelled ones."""
    return dict(
        features=rng.normal(size=(40, 5)),
        probabilities=rng.dirichlet(np.ones(3), size=(2, 40)),
        labelled=rng.normal(size=(6, 5)),
        labels=np.array([0, 1, 2, 0, 1, 2]),
    )


@pytest.mark.parametrize("acquisition", ALL, ids=NAMES)
def test_batches_are_distinct_points_of_the_pool_and_the_same_every_time(acquisition, pool):
    for n in (1, 7, 40):
        chosen = clone(acquisition).query(n, **pool)
        assert chosen.dtype == np.intp
        assert len(set(chosen.tolist())) == n
        assert set(chosen.tolist()) <= set(range(40))
        np.testing.assert_array_equal(chosen, clone(acquisition).query(n, **pool))


@pytest.mark.parametrize("acquisition", ALL, ids=NAMES)
def test_a_scikit_learn_model_is_enough(acquisition):
    X, y = load_digits(return_X_y=True)
    X = X[:300] / 16
    words = np.array(list("abcdefghij"))[y[:300]]
    known = np.concatenate([np.flatnonzero(words == c)[:2] for c in "abcdefghij"])
    model = LogisticRegression().fit(X[known], words[known])
    rest = np.setdiff1d(np.arange(300), known)
    noisy = X[rest] + 0.1 * np.random.default_rng(0).normal(size=X[rest].shape)
    P = np.stack([model.predict_proba(X[rest]), model.predict_proba(noisy)])
    asked = dict(
        features=X[rest],
        probabilities=P,
        labelled=X[known],
        labels=words[known],
        classes=model.classes_,
    )
    assert len(acquisition.query(5, **asked)) == 5


def test_uniform_draws_every_point_equally_often():
    query = UniformQuery(random_state=np.random.default_rng(0))
    counts = np.bincount(
        np.concatenate([query.query(5, n_pool=20) for _ in range(2000)]), minlength=20
    )
    assert abs(counts - 500).max() < 5 * np.sqrt(500)


def test_max_entropy_takes_the_largest_entropies_of_the_mean_prediction(pool):
    P = pool["probabilities"].mean(axis=0)
    entropy = [-sum(p * np.log(p) for p in row) for row in P]
    assert (
        MaxEntropyQuery().query(6, **pool).tolist()
        == sorted(range(40), key=lambda i: -entropy[i])[:6]
    )


def test_the_most_varying_points_have_the_largest_summed_variances(pool):
    P = pool["probabilities"]
    spread = [sum(np.var(P[:, i, c]) for c in range(3)) for i in range(40)]
    assert most_varying(P, 6).tolist() == sorted(range(40), key=lambda i: -spread[i])[:6]


def test_k_center_takes_the_farthest_from_everything_before(pool):
    centres = list(pool["labelled"])
    chosen = []
    for _ in range(8):
        away = [min(np.linalg.norm(x - c) for c in centres) for x in pool["features"]]
        chosen.append(int(np.argmax(away)))
        centres.append(pool["features"][chosen[-1]])
    assert KCenterQuery().query(8, **pool).tolist() == chosen


def test_k_means_takes_the_most_typical_of_each_group_the_largest_first(rng):
    groups = np.repeat([0, 1, 2], [30, 20, 10])
    X = 50.0 * np.eye(3)[groups] + rng.normal(size=(60, 3)) + 1e6
    typical = []
    for g in range(3):
        away = [np.linalg.norm(x - X[groups == g].mean(axis=0)) for x in X]
        typical.append(int(np.argmin(np.where(groups == g, away, np.inf))))
    assert KMeansQuery(random_state=0).query(3, features=X).tolist() == typical
    assert KMeansQuery(random_state=0).query(2, features=X, labelled=X[5:6]).tolist() == typical[1:]
    # of one labelled point
    variants = X[[[31, 32]]]
    assert KMeansQuery(random_state=0).query(2, features=X, labelled=variants).tolist() == [
        typical[0],
        typical[2],
    ]


def test_badge_is_k_means_plus_plus_of_the_gradients_it_never_forms(pool):
    P = pool["probabilities"].mean(axis=0)
    residual = P - np.eye(3)[P.argmax(axis=1)]
    G = np.stack([np.outer(r, h).ravel() for r, h in zip(residual, pool["features"])])
    rng = np.random.default_rng(3)
    chosen = [int(np.argmax((G**2).sum(axis=1)))]
    while len(chosen) < 6:
        nearest = ((G[:, None] - G[chosen]) ** 2).sum(axis=2).min(axis=1)
        nearest[chosen] = 0
        chosen.append(int(rng.choice(40, p=nearest / nearest.sum())))
    assert Badge(random_state=3).query(6, **pool).tolist() == chosen


def test_a_batch_is_filled_from_equal_points():
    same = dict(
        features=np.ones((5, 2)),
        probabilities=np.full((5, 2), 0.5),
        labelled=np.ones((1, 2)),
        labels=[0],
    )
    for acquisition in (Badge(random_state=0), KCenterQuery(), KMeansQuery()):
        assert sorted(acquisition.query(5, **same)) == list(range(5))


# --- Equation 10, against a plain solver and finite differences


def inner(theta, A, Y, weights, l2, classes):
    """Weighted mean loss of softmax regression, penalty on all parameters, and its gradient."""
    theta = theta.reshape(-1, classes)
    Z = A @ theta
    Z -= Z.max(axis=1, keepdims=True)
    log_p = Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))
    value = -weights @ (Y * log_p).sum(axis=1) + 0.5 * l2 * (theta**2).sum()
    return value, (A.T @ (weights[:, None] * (np.exp(log_p) - Y)) + l2 * theta).ravel()


def solve(A, Y, weights, l2):
    start = np.zeros(A.shape[1] * Y.shape[1])
    options = dict(maxiter=10000, gtol=1e-11, ftol=1e-15)
    fit = minimize(
        inner, start, (A, Y, weights, l2, Y.shape[1]), jac=True, method="L-BFGS-B", options=options
    )
    return fit.x


def best_by_finite_differences(X, P, L, y, l2, copies=None):
    """The pool's point whose entry with a tiny weight lowers the outer loss of Equation 10 most."""
    one = np.eye(P.shape[1])
    A_out = np.column_stack([np.ones(len(X) + len(L)), np.vstack([X, L.mean(axis=1)])])
    A_in = np.column_stack([np.ones(L.shape[0] * L.shape[1]), L.reshape(-1, L.shape[2])])
    Y_in = np.repeat(one[y], L.shape[1], axis=0)
    w = np.full(len(A_in), 1 / len(A_in))
    assert L.shape[1] == 1, "outside, a labelled point stands for itself"
    Y_out = np.vstack([P, one[y]])

    def outer(theta):
        return inner(theta, A_out, Y_out, np.ones(len(A_out)) / len(A_out), 0.0, P.shape[1])[0]

    h = 1e-4
    base = outer(solve(A_in, Y_in, w, l2))
    gains = [
        base
        - outer(
            solve(np.vstack([A_in, np.append(1, x)]), np.vstack([Y_in, p]), np.append(w, h), l2)
        )
        for x, p in zip(X, P)
    ]
    return np.array(gains)


def test_bilevel_takes_the_point_of_the_steepest_fall_of_equation_10(rng):
    X = rng.normal(size=(15, 3))
    L = rng.normal(size=(4, 3))
    P = rng.dirichlet(np.ones(3), size=15)
    y = np.array([0, 1, 2, 1])
    first = BilevelQuery(0.05).query(1, features=X, probabilities=P, labelled=L, labels=y)
    gains = best_by_finite_differences(X, P, L[:, None], y, 0.05)
    assert first[0] == np.argmax(gains)
    # the second best is another
    assert np.partition(gains, -2)[-2] < gains.max() * 0.999


def test_bilevel_goes_on_as_if_the_selected_points_had_been_labelled_so(rng):
    X = rng.normal(size=(30, 4))
    L = rng.normal(size=(3, 4))
    y = rng.integers(3, size=30)
    labels = np.arange(3)
    # hard guesses: then selecting and labelling are the same to the inner problem
    P = np.eye(3)[y]
    both = BilevelQuery(0.01).query(2, features=X, probabilities=P, labelled=L, labels=labels)
    rest = np.delete(np.arange(30), both[0])
    joined = dict(labelled=np.vstack([L, X[both[:1]]]), labels=np.append(labels, y[both[0]]))
    second = BilevelQuery(0.01).query(1, features=X[rest], probabilities=P[rest], **joined)
    assert rest[second[0]] == both[1]


def test_variants_that_are_all_the_same_change_nothing(rng):
    X = rng.normal(size=(30, 4))
    L = rng.normal(size=(3, 4))
    asked = dict(features=X, probabilities=rng.dirichlet(np.ones(3), size=30), labels=np.arange(3))
    plain = BilevelQuery(0.01).query(5, labelled=L, **asked)
    query = BilevelQuery(0.01, variants=lambda i: np.repeat(X[i : i + 1], 3, axis=0))
    np.testing.assert_array_equal(
        query.query(5, labelled=np.repeat(L[:, None], 3, axis=1), **asked), plain
    )


def test_bilevel_does_not_ask_for_the_same_thing_twice(rng):
    # two tight clusters that nobody has labelled, one of them of 60 points: a batch of two takes
    # one of each
    L = np.array([[0.0, 3.0], [0.1, 3.0], [0.0, -3.0]])
    X = np.vstack(
        [
            [3.0, 0.0] + 0.01 * rng.normal(size=(60, 2)),
            [-3.0, 0.0] + 0.01 * rng.normal(size=(20, 2)),
        ]
    )
    P = np.repeat([[0.1, 0.1, 0.8, 0.0], [0.1, 0.1, 0.0, 0.8]], [60, 20], axis=0)
    chosen = BilevelQuery(1e-2).query(2, features=X, probabilities=P, labelled=L, labels=[0, 0, 1])
    assert {c < 60 for c in chosen.tolist()} == {True, False}


def test_bilevel_works_where_a_class_was_never_labelled(pool):
    assert len(BilevelQuery(1e-2).query(4, **pool | dict(labels=np.zeros(6, dtype=int)))) == 4


def test_conjugate_gradients_to_the_end_are_exact(pool):
    exact = BilevelQuery(0.1).query(6, **pool)
    np.testing.assert_array_equal(
        BilevelQuery(0.1, ihvp=ConjugateGradients(500)).query(6, **pool), exact
    )


# --- bad input


@pytest.mark.parametrize("acquisition", ALL, ids=NAMES)
@pytest.mark.parametrize("n", [0, 41, 2.5, True])
def test_a_batch_larger_than_the_pool_is_refused(acquisition, n, pool):
    with pytest.raises(
        ValueError,
        match=r"n must be an integer of at least 1 and at most 40, got n=.* than the pool has",
    ):
        acquisition.query(n, **pool)


@pytest.mark.parametrize("acquisition", ALL, ids=NAMES)
def test_an_empty_pool_is_refused(acquisition, pool):
    empty = dict(features=np.empty((0, 5)), probabilities=np.empty((2, 0, 3)))
    with pytest.raises(ValueError, match="is empty: there is nothing left in the pool"):
        acquisition.query(1, **pool | empty)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            dict(probabilities=np.full((40, 3), 0.5)),
            "add up to 1 in every row, .* sums from 1.5 to 1.5",
        ),
        (
            dict(probabilities=np.tile([1.5, -0.5, 0.0], (40, 1))),
            "at least 0 .* got values from -0.5 on",
        ),
        (
            dict(probabilities=np.full((39, 2), 0.5)),
            "the pool has one size only, got 40 by features, 39 by prob",
        ),
        (dict(labelled=np.zeros((6, 4))), r"labelled must have shape .l, 5. .* got .6, 4."),
        (dict(labels=[0, 1]), "one label for each of 6 labelled points, got 2"),
        (dict(labels=list("abcabd"), classes=list("abc")), "labels holds d: a class"),
        (dict(classes=list("ab")), "classes must name each column"),
        (dict(labelled=np.zeros((0, 5)), labels=np.zeros(0, dtype=int)), "labelled is empty"),
        (dict(labelled=None), "BilevelQuery needs labelled"),
    ],
)
def test_what_does_not_fit_is_named(change, message, pool):
    with pytest.raises(ValueError, match=message):
        BilevelQuery(1e-2).query(3, **pool | change)


def test_a_batch_of_no_point_is_not_told_of_too_many():
    with pytest.raises(ValueError, match="got n=0: a batch has at least one point, and no more"):
        UniformQuery().query(0, n_pool=5)


LABELS = (list("abcabc"), [-1, 1, -1, 1, 7, 7], [0.5] * 6, [np.nan] * 6, [None, "a"] * 3)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("acquisition", ALL[:-1], ids=NAMES[:-1])
def test_labels_that_a_rule_does_not_read_may_be_any(acquisition, labels, pool):
    needed = {name: pool[name] for name in acquisition._needs}
    for given in (pool, needed | dict(labelled=pool["labelled"], n_pool=40)):
        plain = clone(acquisition).query(5, **given | dict(labels=None))
        for of_any in (labels, np.array(labels, dtype=object)):
            chosen = clone(acquisition).query(5, **given | dict(labels=of_any))
            assert chosen.tolist() == plain.tolist()
        with pytest.raises(ValueError, match="for each of 6 labelled points, got 5"):
            acquisition.query(5, **given | dict(labels=labels[:5]))


def test_variants_of_the_wrong_shape_are_refused(pool):
    with pytest.raises(ValueError, match=r"got shape \(2, 4\) for row"):
        BilevelQuery(1e-2, variants=lambda i: np.zeros((2, 4))).query(3, **pool)


def test_cluster_margin_lets_groups_of_unsure_points_take_turns_the_smallest_first():
    # two groups of unsure points, a sure one
    X = np.array([[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2], [5.0]])
    margin = np.array([0.03, 0.01, 0.02, 0.04, 0.2, 0.1, 0.3, 0.9])
    P = np.stack([(1 + margin) / 2, (1 - margin) / 2], axis=1)
    chosen = ClusterMarginQuery(factor=3, random_state=0).query(2, features=X, probabilities=P)
    # the least margin of the smaller group, then of the larger
    assert chosen.tolist() == [5, 1]
    few = ClusterMarginQuery(factor=1, random_state=0).query(2, features=X, probabilities=P)
    # without a choice it is the margin alone
    assert sorted(few) == [1, 2]


def test_what_is_within_reach_stays_and_the_rest_is_pulled_back_along_its_way(rng):
    X = rng.normal(size=(200, 3)) + 7.0
    X[:3] *= 1000
    center = np.median(X, axis=0)
    usual = np.median(np.linalg.norm(X - center, axis=1))
    pulled = within_reach(X)(X)
    far = np.linalg.norm(X - center, axis=1) > 2 * usual
    np.testing.assert_array_equal(pulled[~far], X[~far])
    np.testing.assert_allclose(np.linalg.norm(pulled[far] - center, axis=1), 2 * usual)
    ways = (X - center) / np.linalg.norm(X - center, axis=1, keepdims=True)
    np.testing.assert_allclose(np.einsum("ij,ij->i", pulled - center, ways)[far], 2 * usual)
    np.testing.assert_array_equal(within_reach(np.zeros((4, 2)))(np.ones((3, 2))), np.ones((3, 2)))


@pytest.mark.parametrize("seed", [1, 3])
def test_bilevel_gives_a_batch_where_one_row_of_fifty_lies_twenty_times_as_far_out(seed):
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    far = rng.permutation(len(X))[: len(X) // 50]
    X[far] *= 20
    labelled = rng.permutation(len(X))[:30]
    rest = np.setdiff1d(np.arange(len(X)), labelled)
    model = LogisticRegression(max_iter=3000).fit(X[labelled], y[labelled])
    known = dict(labelled=X[labelled], labels=y[labelled], classes=model.classes_)
    chosen = BilevelQuery().query(
        10, features=X[rest], probabilities=model.predict_proba(X[rest]), **known
    )
    assert np.isin(rest[chosen], far).sum() <= 5


def test_where_the_inner_problem_does_not_converge_the_penalty_is_raised_and_told(
    pool, monkeypatch
):
    choose = BilevelQuery._choose
    tried = []

    def fails_below(self, problem, *args):
        tried.append(problem.l2)
        if problem.l2 < 5e-3:
            raise ConvergenceError("no end.")
        return choose(self, problem, *args)

    monkeypatch.setattr(BilevelQuery, "_choose", fails_below)
    with pytest.warns(ConvergenceWarning, match="no end. The batch is chosen at l2=0.01 instead"):
        found = BilevelQuery().query(3, **pool)
    assert tried == pytest.approx([1e-4, 1e-3, 1e-2])
    assert found.tolist() == BilevelQuery(tried[-1]).query(3, **pool).tolist()


def test_kmeans_takes_no_outlier_for_a_cluster(rng):
    X = np.concatenate([rng.normal(size=(200, 2)), [[500.0, 0.0], [0.0, 900.0]]])
    assert max(KMeansQuery(random_state=0).query(5, features=X)) < 200


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_batch_by_points_that_are_their_own_variants_is_that_of_the_points(n_classes, rng):
    X = rng.normal(size=(200, 4))
    y = (X @ rng.normal(size=(4, n_classes)) + rng.gumbel(size=(200, n_classes))).argmax(1)
    first = np.concatenate([np.flatnonzero(y == k)[:3] for k in range(n_classes)])
    known = dict(
        features=X,
        probabilities=LogisticRegression().fit(X[first], y[first]).predict_proba(X),
        labelled=X[first],
        labels=y[first],
    )
    np.testing.assert_array_equal(
        BilevelQuery(l2=1e-2, variants=lambda row: X[row : row + 1]).query(8, **known),
        BilevelQuery(l2=1e-2).query(8, **known),
    )
