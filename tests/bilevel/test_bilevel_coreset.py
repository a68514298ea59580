"""BilevelCoreset as its users meet it."""

import tracemalloc

import numpy as np
import pytest
from handful import BilevelCoreset, LeastSquares, Logistic, UniformCoreset
from handful.bilevel import Forward
from handful.checks import ConvergenceError
from handful.models import Joint, Poisson
from handful.models.base import outer_rows
from handful.models.glm import GLM
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

WEIGHTINGS = ["equal", "optimised", "corrective"]
RULES = ["linear", "quadratic"]
JOINT = Joint(Logistic(0.01), Logistic(0.1))
# small sizes on purpose
pytestmark = pytest.mark.filterwarnings("ignore:all .* points are of the random start")


def two_classes(n=400, d=5, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1, -1)
    y[:2] = 1, -1
    return rng.normal(size=(n, d)) + 0.7 * y[:, None] / np.sqrt(d), y


def refit_loss(X, y, coreset, l2):
    X_small, y_small, w = coreset.take(X, y)
    model = LogisticRegression(C=1 / (l2 * len(y)), tol=1e-8, max_iter=1000).fit(
        X_small, y_small, sample_weight=w
    )
    return np.logaddexp(0, -y * model.decision_function(X)).mean()


# The penalty of the outer loss --------------------------------------------------------------------


def standardised(load):
    X, y = load(return_X_y=True)
    X = X[:, X.std(0) > 0]
    return (X - X.mean(0)) / X.std(0), y


def held_out(few, X, y, l2, seed):
    """Loss on new rows of the model trained on those that `few` chose, and of that of all rows."""
    train, new = train_test_split(np.arange(len(y)), random_state=seed, stratify=y)
    few.fit(X[train], y[train])
    model = Logistic(l2).estimator(len(train))
    found = []
    for rows, weights in ((train[few.indices_], few.weights_), (train, None)):
        model.fit(X[rows], y[rows], sample_weight=weights)
        found.append(log_loss(y[new], model.predict_proba(X[new])))
    return found


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_iris])
@pytest.mark.parametrize("size", [30, 90])
def test_few_rows_of_a_small_table_give_the_model_of_all_rows(load, size):
    X, y = standardised(load)
    few = BilevelCoreset(Logistic(1e-3), size=size, random_state=0)
    losses = [held_out(few, X, y, 1e-3, seed) for seed in range(4)]
    of_few, of_all = np.mean(losses, axis=0)
    assert of_few < 1.05 * of_all
    uniform = [held_out(UniformCoreset(size, random_state=s), X, y, 1e-3, s)[0] for s in range(4)]
    assert of_few < 1.05 * np.mean(uniform)


def test_without_the_penalty_few_rows_make_up_for_it_and_overfit():
    X, y = standardised(load_breast_cancer)
    few = BilevelCoreset(Logistic(1e-3), size=90, outer_penalty=False, random_state=0)
    of_few, of_all = held_out(few, X, y, 1e-3, 0)
    assert of_few > 1.2 * of_all


@pytest.mark.parametrize("problem", [Logistic(1e-3), LeastSquares(0.3), Logistic(1.0)], ids=str)
def test_weights_give_the_coefficients_of_all_rows_however_large_the_penalty(problem):
    X, y = two_classes(n=2000, d=4)
    few = BilevelCoreset(problem, size=60, random_state=0).fit(X, y)
    of_all, of_few = (
        problem.estimator(2000).fit(X, y, sample_weight=w) for w in (None, few_w(few))
    )
    np.testing.assert_allclose(of_few.coef_, of_all.coef_, atol=0.01 * np.abs(of_all.coef_).max())


def few_w(few):
    return np.bincount(few.indices_, weights=few.weights_, minlength=2000)


# Nested sets, ties, threads ----------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("n_start", "batch_size"), [(None, 1), (6, 1), (6, 7), (1, 90)])
@pytest.mark.parametrize("share", [0.5, 0.02])
def test_a_prefix_is_the_smaller_coreset(rule, n_start, batch_size, share):
    X, y = two_classes(share=share)
    options = dict(
        rule=rule, weighting="equal", strategy=Forward(batch_size, n_start=n_start), random_state=3
    )
    largest = BilevelCoreset(size=100, **options).fit(X, y).indices_
    for size in (2, 4, 6, 13, 50, 75):
        assert (BilevelCoreset(size=size, **options).fit(X, y).indices_ == largest[:size]).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.01, 0.3])
@pytest.mark.parametrize(
    "options", [{}, {"strategy": Forward(n_start=1)}, {"rule": "linear"}], ids=str
)
def test_the_first_two_points_are_of_both_classes_however_rare_one_is(seed, share, options):
    X, y = two_classes(share=share)
    chosen = BilevelCoreset(size=5, random_state=seed, **options).fit(X, y).indices_
    assert set(y[chosen[:2]]) == {-1, 1}


def test_among_equal_rows_the_smallest_index_is_chosen():
    X, y = two_classes(n=60)
    # 12 copies of every row, more than the quadratic rule's 256 candidates
    repeated = np.tile(np.arange(60), 12)
    for rule in RULES:
        options = dict(rule=rule, weighting="equal", strategy=Forward(n_start=2), random_state=0)
        chosen = BilevelCoreset(size=20, **options).fit(X[repeated], y[repeated]).indices_
        for step in range(2, 20):
            taken = set(chosen[:step].tolist())
            row = chosen[step]
            copies = [i for i in range(row % 60, row, 60) if i not in taken]
            assert not copies, f"{row} was chosen before its copies {copies}"


def test_sixty_rows_of_counts_train_nearly_the_model_of_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = rng.poisson(np.exp(np.minimum(X @ rng.normal(size=6) - 1, 5)))
    trainer = Poisson(1e-2).estimator(3000)

    def loss(*rows):
        rate = trainer.fit(rows[0], rows[1], sample_weight=rows[2]).predict(X)
        return np.mean(rate - y * np.log(rate))

    few = BilevelCoreset(Poisson(1e-2), size=60, random_state=0).fit(X, y)
    assert loss(*few.take(X, y)) - loss(X, y, np.ones(3000)) < 1e-3


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("problem", [Logistic(0.01), LeastSquares(0.01), JOINT], ids=str)
def test_weights_add_up_to_the_data_sets_weight_and_absent_rows_stay_absent(weighting, problem):
    X, y = two_classes()
    u = np.random.default_rng(1).exponential(size=len(y)) * (np.arange(len(y)) % 3 > 0)
    chosen = BilevelCoreset(problem, size=25, weighting=weighting, random_state=0).fit(X, y, u)
    assert len(set(chosen.indices_)) == 25
    assert (u[chosen.indices_] > 0).all()
    assert chosen.weights_.min() >= 0
    assert chosen.weights_.sum() == pytest.approx(u.sum(), rel=1e-12)
    if weighting == "equal":
        np.testing.assert_allclose(chosen.weights_, u.sum() / 25)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_unit_of_sample_weight_changes_no_selection(unit, dtype):
    X, y = two_classes()
    u = np.random.default_rng(1).exponential(size=len(y))
    fits = [
        BilevelCoreset(size=20, random_state=0).fit(X.astype(dtype), y, w) for w in (u, unit * u)
    ]
    assert (fits[0].indices_ == fits[1].indices_).all()
    np.testing.assert_allclose(fits[1].weights_, unit * fits[0].weights_)


# What it is for ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_coreset_trains_better_than_random_points(rule, seed):
    X, y = two_classes(n=2000, seed=seed)
    fit = BilevelCoreset(Logistic(0.01), size=40, rule=rule, random_state=seed).fit(X, y)
    chance = [refit_loss(X, y, UniformCoreset(40, random_state=s).fit(X), 0.01) for s in range(10)]
    assert refit_loss(X, y, fit, 0.01) < min(chance)


@pytest.mark.parametrize("weighting", ["optimised", "corrective"])
def test_an_optimised_coreset_reaches_the_loss_of_training_on_all_the_data(weighting):
    X, y = two_classes(n=2000)
    fit = BilevelCoreset(Logistic(0.01), size=40, weighting=weighting, random_state=0).fit(X, y)
    full = UniformCoreset(2000).fit(X)
    assert refit_loss(X, y, fit, 0.01) <= refit_loss(X, y, full, 0.01) + 1e-3


# Layouts and hard data ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_data_far_from_the_origin(dtype):
    # the offset is in the span of the free intercept; 1e4 leaves float32 three digits of the
    # features
    X, y = two_classes(n=1000)
    shifted = (X + (1e6 if dtype is np.float64 else 1e4)).astype(dtype)
    fit = BilevelCoreset(Logistic(0.01), size=60, weighting="optimised", random_state=0).fit(
        shifted, y
    )
    near = BilevelCoreset(Logistic(0.01), size=60, weighting="optimised", random_state=0).fit(X, y)
    losses = [refit_loss(X, y, coreset, 0.01) for coreset in (fit, near)]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


@pytest.mark.parametrize("shift", [1e3, 1e5, 1e9])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_place_of_the_columns_changes_no_choice(shift, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=200)
    if classes:
        y = np.digitize(y, [0.0, 1.0][: classes - 1])
    selector = BilevelCoreset(
        (Logistic if classes else LeastSquares)(0.01), size=10, random_state=0
    )
    near, far = (clone(selector).fit(X + s, y) for s in (0.0, shift))
    np.testing.assert_array_equal(far.indices_, near.indices_)
    np.testing.assert_allclose(far.weights_, near.weights_, rtol=1e-3, atol=1e-3)


def test_columns_far_from_zero_are_found_without_a_copy_of_the_rows():
    X, y = two_classes(n=50_000)
    X = np.asfortranarray(np.tile(X, 20), dtype=np.float32)
    problem = Logistic(0.01)
    rows = outer_rows(X, y, np.ones(len(X)), "train", None, classes=True)
    tracemalloc.start()
    try:
        assert problem.near_zero(rows) is rows
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < X.nbytes


def test_a_second_choice_that_does_not_converge_leaves_the_first(monkeypatch):
    X, y = two_classes(n=1000)
    selector = BilevelCoreset(Logistic(0.01), size=60, weighting="optimised", random_state=0)
    first = selector.fit(X, y).coreset_
    grow = Forward._grow

    def fails(self, model, size, rule, weighting, bar):
        found = grow(self, model, size, rule, weighting, bar)
        if weighting == "equal":
            raise ConvergenceError("of equal weights")
        return found

    monkeypatch.setattr(Forward, "_grow", fails)
    # a second choice is made whatever the first one is
    monkeypatch.setattr("handful.bilevel.strategy.RISE", -10.0)
    assert selector.fit(X, y).indices_.tolist() == first.indices.tolist()
    assert selector.weights_ == pytest.approx(first.weights)


# Interruption, progress, options -----------------------------------------------------------------


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize(
    ("method", "calls"),
    [("fit", 1), ("fit", 30), ("candidate_scores", 9), ("add_rows", 12), ("outer_loss", 7)],
)
@pytest.mark.parametrize("n_absent", [0, 50])
def test_an_interrupted_selection_keeps_its_points(weighting, method, calls, n_absent, monkeypatch):
    X, y = two_classes()
    counts = np.repeat([0.0, 1.0], [n_absent, len(y)])
    X = np.vstack([np.zeros((n_absent, X.shape[1])), X])
    y = np.r_[np.full(n_absent, 7), y]
    original = getattr(GLM, method)
    made = [0]
    stop = [0]

    def counted(self, *args, **kwargs):
        made[0] += 1
        if made[0] == stop[0]:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(GLM, method, counted)
    fit = BilevelCoreset(Logistic(0.01), size=30, weighting=weighting, random_state=0)
    whole = fit.fit(X, y, counts).indices_
    # it solves once a point, and asks for no outer loss
    if made[0] < calls:
        assert weighting == "equal"
        return
    made[0] = 0
    stop[0] = calls
    with pytest.raises(KeyboardInterrupt):
        fit.fit(X, y, counts)
    assert fit.n_samples_fit_ == len(y)
    assert 2 <= len(set(fit.indices_)) == len(fit.indices_) == len(fit.weights_) <= 30
    assert fit.weights_.min() >= 0
    assert fit.weights_.sum() == pytest.approx(400)
    assert set(y[fit.indices_]) == {-1, 1}
    if weighting == "equal":
        assert (whole[: len(fit.indices_)] == fit.indices_).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(strategy=Forward), r"strategy must be one of .* or an object such as Forward\("),
        (
            dict(problem=Logistic),
            r"a LeastSquares or another Problem or a Joint of them, got <class.*: give Logistic",
        ),
        (
            dict(problem=LogisticRegression()),
            r"got LogisticRegression\(\): for an estimator .*AnyEstimatorCoreset\(",
        ),
        (dict(size=1), r"size must be at least 2, one point of each class, got size=1"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_bad_option_is_named(options, message):
    X, y = two_classes()
    with pytest.raises(ValueError, match=message):
        BilevelCoreset(**{"size": 10} | options).fit(X, y)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_optimised_weights_of_fewer_rows_than_columns_lose_no_more_than_equal_ones(seed):
    rng = np.random.default_rng(seed)
    n = 2000
    d = 60
    # rare columns, nearly interpolated by few rows
    X = (rng.random((n, d)) < rng.uniform(0.01, 0.2, d)).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (X @ rng.normal(size=d) + 5 * rng.normal(size=n) > 12).astype(float)
    losses = {}
    for weighting in ("optimised", "equal"):
        coreset = BilevelCoreset(
            LeastSquares(1e-4), size=40, weighting=weighting, random_state=0
        ).fit(X, y)
        few, y_few, weights = coreset.take(X, y)
        model = Ridge(alpha=1e-4 * n).fit(few, y_few, sample_weight=weights)
        losses[weighting] = ((model.predict(X) - y) ** 2).mean() / y.var()
    assert losses["optimised"] < 1.01 * losses["equal"] < 1


@pytest.mark.parametrize(
    ("seed", "l2"), [(5, 1e-5), (17, 1e-5), (22, 1e-4), (26, 1e-4), (27, 1e-4)]
)
def test_two_rows_of_a_rare_class_are_chosen_from_where_a_step_leaves_a_class_without_weight(
    seed, l2
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 3))
    y = (X @ [1, -1, 0.5] + rng.logistic(size=2000) > 0).astype(int)
    y[:2] = 2
    X[:2] += 4
    few = BilevelCoreset(Logistic(l2), size=20, random_state=0).fit(X, y)
    assert set(y[few.indices_]) == {0, 1, 2}
    model = LogisticRegression(C=1 / (l2 * len(y)), max_iter=10_000)
    every = log_loss(y, model.fit(X, y).predict_proba(X))
    X_small, y_small, w = few.take(X, y)
    assert log_loss(y, model.fit(X_small, y_small, w).predict_proba(X)) < 1.1 * every
