"""What each row does to the loss of each test row along a training by SGD that ends early: dattri's
table."""

from typing import Any

import numpy as np
from handful.attribution import LinearTraining
from handful.checks import ConvergenceError, as_generator, check_integer, check_number
from handful.types import Seed, Table


def unrolled(
    problem: Any,
    X: Table,
    y: Table,
    X_test: Table,
    y_test: Table,
    *,
    n_epochs: int = 20,
    batch_size: int = 32,
    learning_rate: float = 0.01,
    n_replays: int = 3,
    random_state: Seed = None,
) -> np.ndarray:
    """What each row does to the loss of each test row *along a training by SGD* that ends before it
    converges.

    The sign and the unit are those of `handful.influence`: the rise of the test row's loss for a
    row left out, to first order. It is minus the exact derivative of the final loss by the row's
    weight, by going back through the steps of plain SGD in closed form for a linear model; nothing
    has to be tuned. It starts at zero, the mean of the usual random starts: a random one adds noise
    that takes several replays to average out. Each replay has an order of its own, and the mean of
    several is nearer to what a training does on average. Principal components that keep the
    variance give the same for less.

    Parameters
    ----------
    problem : Logistic or LeastSquares; its `l2` is a weight decay in every step
    X, y, X_test, y_test : as in `handful.influence`
    n_epochs, batch_size, learning_rate : of the training. If a trained model saw only a share of
        the rows, give that share of its epochs: then there are as many steps
    n_replays : int
    random_state : int, Generator or None

    Returns
    -------
    array, shape (n, t); memory for as much, and for t times the number of parameters

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from handful import Logistic
    >>> from handful_papers.public.unrolled import unrolled
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X / 16
    >>> unrolled(Logistic(1e-6), X[:200], y[:200], X[200:210], y[200:210], n_replays=2).shape
    (200, 10)
    """
    model = LinearTraining(problem, X, y, X_test, y_test)
    check_integer("n_epochs", n_epochs)
    check_integer("batch_size", batch_size)
    check_integer("n_replays", n_replays)
    check_number("learning_rate", learning_rate, above=0)
    rng = as_generator(random_state)
    A = model.A
    Y = model.Y
    k = model.k
    dtype = model.A.dtype
    n, p = A.shape
    lr = dtype.type(learning_rate)
    penalty = problem.l2 * model.linear.penalised(model.d)[:p, None]
    decay = 1 - lr * penalty.astype(dtype)
    scores = np.zeros((n, len(model.A_test)), dtype=dtype)
    for _ in range(n_replays):
        W = np.zeros((p, k), dtype)
        orders = [rng.permutation(n) for _ in range(n_epochs)]
        starts = range(0, n, batch_size)
        batches = [order[start : start + batch_size] for order in orders for start in starts]
        path = []
        for rows in batches:
            path.append(W)
            error = model.link.mean(A[rows] @ W) - Y[rows]
            slope = A[rows].T @ error
            W = decay * W - lr / len(rows) * slope
        slopes = model.link.mean(model.A_test @ W) - model.Y_test
        # The derivative of the test losses in W.
        V = np.einsum("tp,tk->pkt", model.A_test, slopes).reshape(p, -1)
        for rows, W in zip(reversed(batches), reversed(path)):
            P = model.link.mean(A[rows] @ W)
            U = (A[rows] @ V).reshape(len(rows), k, -1)
            shares = np.einsum("ikt,ik->it", U, P - Y[rows])
            scores[rows] += lr / len(rows) * shares
            V *= decay
            C = model.link.hessians(P)
            # Both are the same, but a product of matrices of one entry takes longer.
            bent = C @ U if k > 1 else C * U
            bent = bent.reshape(len(rows), -1)
            V -= lr / len(rows) * (A[rows].T @ bent)
    if not np.isfinite(scores).all():
        raise ConvergenceError(
            "the training diverged: scale the features, or take a smaller learning_rate."
        )
    return scores / n_replays
