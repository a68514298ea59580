"""Rows that a classifier forgets while it is trained."""

import numpy as np
from handful.checks import Accepts
from handful.coreset import Selector
from scipy.special import softmax


def forgetting_events(correct):
    """How often each row was forgotten: classified wrongly after it had been classified correctly.

    Parameters
    ----------
    correct : bool array, shape (epochs, n), whether each row was classified correctly when its turn
        came

    Returns
    -------
    float array, shape (n,); infinite for rows that were never classified correctly (Toneva et al.
    2019, Algorithm 1)
    """
    correct = np.asarray(correct, dtype=bool)
    forgotten = correct[:-1] & ~correct[1:]
    events = np.count_nonzero(forgotten, axis=0).astype(np.float64)
    events[~correct.any(axis=0)] = np.inf
    return events


class ForgettingEvents(Selector):
    """The rows that a classifier forgets most often while it is trained (Toneva et al., ICLR 2019).

    Two stages: multinomial logistic regression is trained by stochastic gradient descent, and each
    time a row's minibatch comes up it is noted as right or wrong; then the rows of most
    `forgetting_events` are taken. For a network, note right and wrong during its own training and
    count with `forgetting_events`.

    Parameters
    ----------
    size : number of points m
    n_epochs : passes over the data
    batch_size : rows of a minibatch
    learning_rate : step size, in units of the mean squared norm of a row
    random_state : int, Generator or None; decides the order of training, and among rows with
        equally many events

    Attributes
    ----------
    indices_ : shape (m,), rows that were never learned first, then the most forgotten ones
    weights_ : shape (m,), equal, adding up to the total sample_weight; beyond that, only zero
        weights matter
    events_ : shape (n,), the `forgetting_events` of every row
    """

    _accepts = Accepts("classes", sparse=True)
    _sees_absent = True

    def __init__(
        self, size=100, *, n_epochs=20, batch_size=32, learning_rate=1.0, random_state=None
    ):
        self.size = size
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        present = np.flatnonzero(sample_weight)
        code = np.unique(y[present], return_inverse=True)[1]
        events = forgetting_events(self._train(X[present], code, rng))
        ties = rng.random(len(present))
        order = np.lexsort([ties, -events])[: self.size]
        self.events_ = np.full(len(y), np.nan)
        self.events_[present] = events
        return present[order], np.full(self.size, sample_weight.sum() / self.size)

    def _train(self, X, code, rng):
        # Whether each row was classified correctly when its turn came, shape (epochs, n).
        n, d = X.shape
        X = X.astype(np.float64)
        total = X.multiply(X).sum() if hasattr(X, "multiply") else np.einsum("ij,ij->", X, X)
        sq_norm = float(total) / n
        # The column of the intercept adds 1.
        step = self.learning_rate / (1.0 + sq_norm)
        W = np.zeros((d, code.max() + 1))
        b = np.zeros(code.max() + 1)
        correct = np.empty((self.n_epochs, n), dtype=bool)
        for right in correct:
            order = rng.permutation(n)
            for start in range(0, n, self.batch_size):
                rows = order[start : start + self.batch_size]
                logits = X[rows] @ W + b
                right[rows] = logits.argmax(axis=1) == code[rows]
                residual = softmax(logits, axis=1)
                residual[np.arange(len(rows)), code[rows]] -= 1.0
                W -= step / len(rows) * (X[rows].T @ residual)
                b -= step * residual.mean(axis=0)
        return correct
