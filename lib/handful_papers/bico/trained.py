"""What the papers compare with, chosen by what a trained network makes of the rows: losses, logits
or embeddings.

Each takes that as `X`; `handful.continual.network_views` computes it. The first k rows are the
selection of k, and for `FRCL`, which exchanges rows, the best k of its m.
"""

import numpy as np
from handful.baselines.herding import Herding, _EqualWeights, herd, unit_rows
from handful.checks import Accepts
from scipy.special import entr, softmax


class Hardest(_EqualWeights):
    """The rows of the largest loss (the "hardest samples" of Borsos et al. 2024, Appendix D).

    Parameters
    ----------
    size : number of points m
    random_state : int, Generator or None; rows of equal loss come in random order

    Attributes
    ----------
    indices_ : shape (m,), the largest loss first; `fit` takes losses as `X`, shape (n, 1), or
        several to be added
    weights_ : shape (m,), equal, adding up to the total sample_weight
    """

    def _order(self, X, y, sample_weight, rng):
        return _largest(X.sum(axis=1), self.size, rng)


class MaxEntropy(_EqualWeights):
    """The rows whose predicted classes are the least certain, by the entropy of the prediction.

    Parameters
    ----------
    size : number of points m
    random_state : int, Generator or None; rows of equal entropy come in random order

    Attributes
    ----------
    indices_ : shape (m,), the largest entropy first; `fit` takes logits as `X`, shape (n, classes)
    weights_ : shape (m,), equal, adding up to the total sample_weight
    """

    def _order(self, X, y, sample_weight, rng):
        return _largest(entr(softmax(X, axis=1)).sum(axis=1), self.size, rng)


class ICaRL(Herding):
    """Herding within each class, the classes taking turns (Rebuffi et al. 2017, in the normalised
    embedding).

    Without labels it is `Herding`.

    Parameters
    ----------
    size : number of points m
    normalise : whether rows are scaled to length one first
    random_state : not used; ties go to the smallest index

    Attributes
    ----------
    indices_ : shape (m,), distinct, one of each class in turn
    weights_ : shape (m,), equal, adding up to the total sample_weight
    """

    _accepts = Accepts()

    def _order(self, X, y, sample_weight, rng):
        if y is None:
            return super()._order(X, y, sample_weight, rng)
        X = unit_rows(X) if self.normalise else X
        turns = []
        rows = []
        for label in np.unique(y):
            members = np.flatnonzero(y == label)
            order = herd(X[members], sample_weight[members], min(self.size, len(members)))
            rows.append(members[order])
            turns.append(np.arange(len(order)))
        rows = np.concatenate(rows)
        turns = np.concatenate(turns)
        return rows[np.argsort(turns, kind="stable")][: self.size]


class FRCL(_EqualWeights):
    """Inducing points of a Gaussian process with linear kernel (FRCL's selection, Titsias et al.
    2020).

    Starts from random rows and exchanges them one by one for better ones, by the trace of the
    posterior covariance of all rows given the chosen ones. Rows are then put into greedy order, the
    one that lowers the trace most first.

    Parameters
    ----------
    size : number of points m
    n_sweeps : how often each chosen row is compared with others
    n_candidates : random rows in each comparison
    noise : variance of the observations, 1e-10 to 1e10, in units of the rows' mean squared length
    random_state : int, Generator or None

    Attributes
    ----------
    indices_ : shape (m,), distinct
    weights_ : shape (m,), equal, adding up to the total sample_weight

    Notes
    -----
    One exchange costs O(d^2) for d columns: meant for embeddings, not for raw images.
    """

    def __init__(
        self,
        size=100,
        *,
        n_sweeps=2,
        n_candidates=20,
        noise=1e-3,
        random_state=None,
    ):
        self.size = size
        self.n_sweeps = n_sweeps
        self.n_candidates = n_candidates
        self.noise = noise
        self.random_state = random_state

    def _order(self, X, y, sample_weight, rng):
        chosen = rng.choice(len(X), self.size, replace=False)
        sq_length = np.einsum("ij,ij->i", X, X)
        largest = sq_length.max()
        if not largest > 0:
            # All rows, or their squares, are zero.
            return chosen
        X = X / np.sqrt(largest)
        noise = self.noise * float((sq_length / largest).mean())
        moment = (X.T * (sample_weight / sample_weight.sum())) @ X
        if self.size < len(X):
            for _ in range(self.n_sweeps):
                # Each exchange updates the inverse; computing it anew for each sweep keeps rounding
                # from piling up.
                inverse = np.linalg.inv(noise * np.eye(X.shape[1]) + X[chosen].T @ X[chosen])
                for position in range(self.size):
                    inverse = self._exchange(
                        X,
                        chosen,
                        position,
                        inverse,
                        moment,
                        rng,
                    )
        return chosen[_greedy_trace(X[chosen], moment, noise)]

    def _exchange(
        self,
        X,
        chosen,
        position,
        inverse,
        moment,
        rng,
    ):
        # Puts the best of a few random rows and the old one into one place; returns the updated
        # inverse.
        others = rng.integers(len(X), size=self.n_candidates)
        trial = np.append(chosen[position], others[~np.isin(others, chosen)])
        without = _rank_one(inverse, X[chosen[position]], -1.0)
        gains = _trace_gains(X[trial], without, moment)
        chosen[position] = trial[np.argmax(gains)]
        return _rank_one(without, X[chosen[position]], 1.0)


def _largest(scores, size, rng):
    shuffled = rng.permutation(len(scores))
    return shuffled[np.argsort(-scores[shuffled], kind="stable")[:size]]


def _trace_gains(rows, inverse, moment):
    # How much the trace of (inverse @ moment) falls if a row joins, by the formula of Sherman and
    # Morrison.
    V = rows @ inverse
    return np.einsum("ij,ij->i", V @ moment, V) / (1.0 + np.einsum("ij,ij->i", V, rows))


def _rank_one(inverse, row, sign):
    v = inverse @ row
    return inverse - sign * np.outer(v, v) / (1.0 + sign * (row @ v))


def _greedy_trace(rows, moment, noise):
    inverse = np.eye(rows.shape[1]) / noise
    order = []
    left = np.ones(len(rows), dtype=bool)
    for _ in range(len(rows)):
        gains = np.where(left, _trace_gains(rows, inverse, moment), -np.inf)
        order.append(int(np.argmax(gains)))
        left[order[-1]] = False
        inverse = _rank_one(inverse, rows[order[-1]], 1.0)
    return np.array(order)
