"""Linear models: one order of parameters, the intercept last, and the protocol of any problem."""

import numpy as np
import pytest
from handful.models import LeastSquares, Logistic, Poisson
from handful.models.links import LinearModel
from scipy import sparse
from scipy.special import expit

N = 60


def rows(kind):
    """A problem without a penalty of its intercept, rows X and what users give as y."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    eta = X @ [1.0, -0.5, 0.3] + 0.4
    targets = {
        "two classes": np.where(rng.random(N) < expit(eta), "b", "a"),
        "three classes": np.digitize(eta + rng.normal(size=N), [-0.5, 0.8]),
        "squares": eta + rng.normal(size=N),
        "counts": rng.poisson(np.exp(eta)),
    }
    problems = {"squares": LeastSquares(0.1), "counts": Poisson(0.1)}
    return problems.get(kind, Logistic(0.1)), X, targets[kind]


KINDS = ["two classes", "three classes", "squares", "counts"]


def differences(f, theta, h=1e-5):
    """Central differences of a function of parameters, one for each along the last axis."""
    steps = h * np.eye(len(theta))
    return np.stack([(f(theta + s) - f(theta - s)) / (2 * h) for s in steps], axis=-1)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_the_losses_are_those_of_differences(kind, fit_intercept):
    problem, X, y = rows(kind)
    problem.fit_intercept = fit_intercept
    y = problem.encode(y)
    start = problem.start(X, y)
    theta = start + np.random.default_rng(1).normal(size=len(start))
    assert len(theta) == y.shape[1] * (3 + fit_intercept)
    slopes = differences(lambda at: problem.losses(at, X, y), theta)
    np.testing.assert_allclose(problem.gradients(theta, X, y), slopes, atol=1e-7)
    curvatures = differences(lambda at: problem.gradients(at, X, y), theta)
    np.testing.assert_allclose(problem.row_hessians(theta, X, y), curvatures, atol=1e-7)
    weights = np.random.default_rng(2).random(N)
    penalty = problem.hessian(theta, X, y, np.zeros(N))
    whole = np.tensordot(weights, curvatures, axes=1) + penalty
    np.testing.assert_allclose(problem.hessian(theta, X, y, weights), whole, atol=1e-6)
    free = np.zeros(len(theta))
    free[3 :: 3 + fit_intercept] = fit_intercept
    np.testing.assert_array_equal(penalty, np.diag(0.1 * (1 - free)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_protocols_solution_is_that_of_scikit_learn_intercept_last(kind):
    problem, X, y = rows(kind)
    theta = problem.solve(X, problem.encode(y), np.full(N, 1 / N))
    other = problem.estimator(N).set_params(tol=1e-10).fit(X, y)
    theta = theta.reshape(-1, 4)
    np.testing.assert_allclose(theta[:, :3], np.atleast_2d(other.coef_), atol=1e-4)
    intercept = theta[:, 3]
    if kind == "three classes":
        # Intercepts that rise together change nothing.
        intercept = intercept - intercept.mean()
    np.testing.assert_allclose(intercept, other.intercept_, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_rows_are_taken_as_dense_ones(kind):
    problem, X, y = rows(kind)
    y = problem.encode(y)
    theta = np.random.default_rng(1).normal(size=len(problem.start(X, y)))
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    few = sparse.csr_matrix(X)
    for method in ("losses", "gradients"):
        asked = getattr(problem, method)
        np.testing.assert_array_equal(asked(theta, few, y), asked(theta, X, y))


def test_parameters_of_several_outputs_stand_one_output_after_the_other():
    problem, X, _ = rows("three classes")
    linear = LinearModel(problem, 3)
    coefficients = np.arange(9.0).reshape(3, 3)
    intercepts = np.array([10.0, 20.0, 30.0])
    theta = np.column_stack([coefficients, intercepts]).ravel()
    found = linear.predictors(theta, linear.design(X))
    np.testing.assert_allclose(found, X @ coefficients.T + intercepts)
    assert linear.penalised(3).tolist() == 3 * [1.0, 1.0, 1.0, 0.0]
