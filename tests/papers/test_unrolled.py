"""Unrolled training against the same training with a little more and a little less weight on a
row."""

import numpy as np
import pytest
from handful import LeastSquares, Logistic
from handful_papers.public.unrolled import unrolled
from scipy.special import log_softmax
from test_attribution import row_losses

L2 = 0.1


@pytest.mark.parametrize("kind", ["two classes", "three classes", "targets"])
def test_the_unrolled_derivative_is_that_of_training_with_a_little_more_weight(kind):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(12, 2))
    T = rng.normal(size=(4, 2))
    k = 3 if kind == "three classes" else 1
    classes = kind != "targets"
    y, t = (np.arange(m) % (3 if k == 3 else 2) + (0 if classes else 0.5) for m in (12, 4))
    Y, R = ((np.eye(3)[of] if k == 3 else of[:, None].astype(float)) for of in (y, t))
    A, B = (np.column_stack([M, np.ones(len(M))]) for M in (X, T))
    options = dict(n_epochs=3, batch_size=5, learning_rate=0.3)

    def final(weights):
        rng = np.random.default_rng(7)
        W = np.zeros((3, k))
        for order in [rng.permutation(12) for _ in range(3)]:
            for start in range(0, 12, 5):
                rows = order[start : start + 5]
                Z = A[rows] @ W
                P = (
                    Z
                    if not classes
                    else np.exp(log_softmax(Z, axis=1))
                    if k > 1
                    else 1 / (1 + np.exp(-Z))
                )
                decayed = W * np.array([[1 - 0.3 * L2], [1 - 0.3 * L2], [1.0]])
                W = decayed - 0.3 / len(rows) * A[rows].T @ (weights[rows, None] * (P - Y[rows]))
        return row_losses(W, B, R, classes)

    scores = unrolled(
        (Logistic if classes else LeastSquares)(L2),
        X,
        y,
        T,
        t,
        n_replays=1,
        random_state=7,
        **options,
    )
    for i in range(12):
        step = 1e-5 * (np.arange(12) == i)
        np.testing.assert_allclose(scores[i], (final(1 - step) - final(1 + step)) / 2e-5, atol=1e-8)


def test_a_training_that_diverges_is_refused(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="the training diverged"):
        unrolled(Logistic(), 1e60 * X, y, X, y)
