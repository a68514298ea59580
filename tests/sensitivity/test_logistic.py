"""Sensitivity coresets for logistic regression."""

import numpy as np
import pytest
from handful import LogisticSensitivity
from handful.sensitivity.logistic import logistic_sensitivities
from scipy.optimize import minimize
from sklearn.cluster import kmeans_plusplus


def signed(n=40, d=2, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, d))
    y = rng.choice([-1.0, 1.0], n)
    return np.column_stack([X, np.ones(n)]) * y[:, None], rng.exponential(size=n) + 0.05


def naive_sensitivities(Z, weights, n_clusters, radius, rng):
    # Lemma 3.1 of the paper, point by point; a point of weight w is w points of weight one
    seed = int(rng.integers(np.iinfo(np.int32).max))
    _, centres = kmeans_plusplus(
        Z, n_clusters, sample_weight=weights, random_state=seed, n_local_trials=1
    )
    centres = np.unique(centres)
    nearest = [np.argmin([np.sum((z - Z[c]) ** 2) for c in centres]) for z in Z]
    bounds = []
    for n, z in enumerate(Z):
        total = weights[n]
        for cluster in range(len(centres)):
            others = [m for m in range(len(Z)) if nearest[m] == cluster and m != n]
            if others:
                mean = np.average(Z[others], axis=0, weights=weights[others])
                total += weights[others].sum() * np.exp(-radius * np.linalg.norm(mean - z))
        bounds.append(weights.sum() / total)
    return np.array(bounds)


@pytest.mark.parametrize("n_clusters", [1, 3, 12, 40])
@pytest.mark.parametrize("radius", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_sensitivities_are_the_lemmas_point_by_point(n_clusters, radius, weighted):
    Z, weights = signed()
    weights = weights if weighted else np.ones(len(Z))
    fast = logistic_sensitivities(Z, weights, n_clusters, radius, rng=np.random.default_rng(1))
    naive = naive_sensitivities(Z, weights, n_clusters, radius, np.random.default_rng(1))
    np.testing.assert_allclose(fast, naive, rtol=1e-9)
    assert (fast >= 1 - 1e-12).all()
    assert (fast <= weights.sum() / weights + 1e-9).all()


@pytest.mark.parametrize("label", [-1, 1])
def test_rows_of_one_class_are_drawn_by_their_bound(label):
    """As `fit` draws them when one row of the other class, whose weight is next to none, stands
    beside them."""
    X, _ = signed(60)
    X = X[:, :2]
    weights = np.linspace(1, 5, 60)
    options = {"size": 200, "n_clusters": 1, "radius": 2.0}
    indices, drawn = LogisticSensitivity(**options)._select_one_class(
        X, weights, np.random.default_rng(0)
    )
    both = LogisticSensitivity(**options, random_state=np.random.default_rng(0))
    y = np.append(np.full(60, label), -label)
    both.fit(np.vstack([X, X.mean(0)]), y, sample_weight=np.append(weights, 1e-12))
    np.testing.assert_array_equal(indices, both.indices_)
    np.testing.assert_allclose(drawn, both.weights_, rtol=1e-9)
    # by bounds that differ, not uniformly
    assert len(np.unique(drawn / weights[indices])) > 20


def largest_share(Z, weights, n, radius, rng):
    # sup over |theta| <= radius of U loss_n / sum_m u_m loss_m, from several starts; the ball is an
    # image of all space
    def negative(t):
        theta = radius * t / np.sqrt(1 + t @ t)
        loss = np.logaddexp(0, -Z @ theta)
        return -weights.sum() * loss[n] / (weights @ loss)

    starts = [
        -3 * Z[n],
        *(10.0 ** rng.uniform(-1, 2, size=(4, 1)) * rng.normal(size=(4, Z.shape[1]))),
    ]
    return max(-minimize(negative, start, method="Nelder-Mead").fun for start in starts)


@pytest.mark.parametrize("radius", [0.3, 2.0, 10.0])
@pytest.mark.parametrize("unit", [None, 1e-3, 1.0, 10.0])
def test_sensitivities_bound_the_largest_share_of_the_loss(radius, unit):
    Z, weights = signed(n=15)
    weights = np.ones(15) if unit is None else unit * weights
    rng = np.random.default_rng(0)
    largest = np.array([largest_share(Z, weights, n, radius, rng) for n in range(15)])
    for n_clusters in (1, 3, 15):
        bound = logistic_sensitivities(Z, weights, n_clusters, radius, rng=rng)
        assert (bound >= largest * (1 - 1e-9)).all()
    # where all losses are nearly equal, so are the shares: the bound is no empty one
    if radius == 0.3:
        assert bound.max() < 3 * largest.max()


def test_the_unit_of_the_weights_changes_no_sensitivity():
    Z, weights = signed()
    once, again = (
        logistic_sensitivities(Z, w, 5, 1.0, rng=np.random.default_rng(0))
        for w in (weights, 1e-6 * weights)
    )
    np.testing.assert_allclose(again, once, rtol=1e-9)


def test_points_far_from_the_origin_have_sensitivities():
    # two clouds, at plus and minus 1e6: distances within a cloud are rounding of those between
    Z, _ = signed(n=2000, d=5)
    Z[:, :-1] += 1e6 * Z[:, -1:]
    bound = logistic_sensitivities(Z, np.ones(2000), 10, 100.0, rng=np.random.default_rng(0))
    assert np.isfinite(bound).all()
    assert (bound >= 1 - 1e-9).all()
    assert (bound <= 2000 + 1e-6).all()


def test_a_point_alone_with_its_label_is_drawn_more_often():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) + 3
    y = np.ones(200)
    y[7] = -1
    draws = LogisticSensitivity(4000, n_clusters=5, radius=1.0, random_state=0).fit(X, y).indices_
    assert np.mean(draws == 7) > 10 / 200


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e7, 1e8])
def test_the_bounds_hold_for_columns_far_from_zero(offset, rng):
    n = 400
    X = rng.normal(size=(n, 2))
    X[0] = [0, 5]
    X[:, 0] += offset
    Z = np.column_stack([X, np.ones(n)])
    bounds = logistic_sensitivities(Z, np.ones(n), 5, 1.0, rng=np.random.default_rng(0)) / n
    for angle in np.linspace(0, 2 * np.pi, 300):
        losses = np.logaddexp(0, -Z @ [0, np.cos(angle), np.sin(angle)])
        assert (losses / losses.sum() <= bounds).all()
