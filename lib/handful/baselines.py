"""Baselines that every paper compares with: uniform sampling, k-means++, k-center and forgetting events."""

import numpy as np
from numba import njit
from scipy.special import softmax
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import check_classification_targets

from handful.checks import MAX_SEED, check_integer, check_number
from handful.coreset import Selector


class UniformCoreset(Selector):
    """Rows drawn uniformly without repetition.

    Parameters
    ----------
    size : number of points m
    random_state : int, Generator or None

    Attributes
    ----------
    indices_ : shape (m,)
    weights_ : shape (m,), ``sample_weight * n / m``: an unbiased estimate of every weighted sum

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> X_small, w = UniformCoreset(5, random_state=0).fit(X).take(X)
    >>> X_small.shape, w.tolist()
    ((5, 2), [2.0, 2.0, 2.0, 2.0, 2.0])
    """

    _takes_sparse = True
    _computes = False

    def __init__(self, size=100, *, random_state=None):
        self.size = size
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        present = np.flatnonzero(sample_weight)
        indices = rng.choice(present, self.size, replace=False)
        return indices, sample_weight[indices] * (len(present) / self.size)


class _Centres(Selector):
    # Selectors that pick rows as cluster centres; `weighting` says what a centre stands for.

    def __init__(self, size=100, *, weighting="binary", random_state=None):
        self.size = size
        self.weighting = weighting
        self.random_state = random_state

    def _select(self, X, y, sample_weight, rng):
        if self.weighting not in ("binary", "cells"):
            raise ValueError(f"weighting must be 'binary' or 'cells', got {self.weighting!r}.")
        present = np.flatnonzero(sample_weight)
        X, sample_weight = X[present], sample_weight[present]
        centres = self._centres(X, sample_weight, rng)
        if self.weighting == "binary":
            weights = np.full(self.size, sample_weight.sum() / self.size)
        else:
            nearest = pairwise_distances_argmin(X, X[centres])
            weights = np.bincount(nearest, weights=sample_weight, minlength=self.size)
        return present[centres], weights


class KMeansPlusPlus(_Centres):
    """The rows that k-means++ seeding picks (Arthur and Vassilvitskii 2007): each far from those before it.

    Parameters
    ----------
    size : number of points m
    weighting : "binary" gives every row the same weight, as the papers do; "cells" the summed sample_weight of the
        rows nearest to it
    random_state : int, Generator or None

    Attributes
    ----------
    indices_ : shape (m,), distinct, in the order of selection
    weights_ : shape (m,), they add up to the total sample_weight

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0]])
    >>> centres, w = KMeansPlusPlus(2, weighting="cells", random_state=0).fit(X).take(X)
    >>> sorted(w.tolist())
    [1.0, 3.0]
    """

    def _centres(self, X, sample_weight, rng):
        seed = int(rng.integers(MAX_SEED))
        # one trial a step is the published algorithm; scikit-learn's default is greedy
        _, centres = kmeans_plusplus(X, self.size, sample_weight=sample_weight, random_state=seed, n_local_trials=1)
        distinct = list(dict.fromkeys(centres.tolist()))
        if len(distinct) < self.size:  # fewer distinct rows than centres: every further row is as good as any other
            rest = np.setdiff1d(np.arange(len(X)), distinct)
            distinct += rng.choice(rest, self.size - len(distinct), replace=False).tolist()
        return np.array(distinct)


class KCenter(_Centres):
    """Greedy k-center (Gonzalez 1985): a random row, then always the row farthest from those chosen.

    Parameters
    ----------
    size : number of points m
    weighting : as in `KMeansPlusPlus`
    random_state : int, Generator or None; decides the first row, ties go to the smallest index

    Attributes
    ----------
    indices_ : shape (m,), distinct, in the order of selection
    weights_ : shape (m,), they add up to the total sample_weight

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [9.0]])
    >>> KCenter(3, random_state=0).fit(X).take(X)[0].ravel().tolist()
    [9.0, 0.0, 5.0]
    """

    def _centres(self, X, sample_weight, rng):
        chosen = [int(rng.integers(len(X)))]
        sq_dist = np.full(len(X), np.inf)
        while True:
            last = chosen[-1]
            _approach(X, last, sq_dist)
            sq_dist[last] = -1.0  # a chosen row is not chosen again, not even where all rows are equal
            if len(chosen) == self.size:
                return np.array(chosen)
            chosen.append(int(np.argmax(sq_dist)))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _approach(X, row, sq_dist):
    # Squared distances where `row` is nearer than what was, from the differences: norms and products would cancel.
    center = X[row].astype(np.float64)
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            difference = X[i, j] - center[j]
            total += difference * difference
        sq_dist[i] = min(sq_dist[i], total)


def forgetting_events(correct):
    """How often each row was forgotten: classified wrongly after it had been classified correctly.

    Parameters
    ----------
    correct : bool array, shape (epochs, n), whether each row was classified correctly when its turn came

    Returns
    -------
    float array, shape (n,); infinite for rows that were never classified correctly (Toneva et al. 2019, Algorithm 1)
    """
    correct = np.asarray(correct, dtype=bool)
    events = np.count_nonzero(correct[:-1] & ~correct[1:], axis=0).astype(np.float64)
    events[~correct.any(axis=0)] = np.inf
    return events


class ForgettingEvents(Selector):
    """The rows that a classifier forgets most often while it is trained (Toneva et al., ICLR 2019).

    Two stages: multinomial logistic regression is trained by stochastic gradient descent, and each time a row's
    minibatch comes up it is noted as right or wrong; then the rows of most `forgetting_events` are taken. For a
    network, note right and wrong during its own training and count with `forgetting_events`.

    Parameters
    ----------
    size : number of points m
    n_epochs : passes over the data
    batch_size : rows of a minibatch
    step : step size, in units of the mean squared norm of a row
    random_state : int, Generator or None; order of the rows, and of those with as many events

    Attributes
    ----------
    indices_ : shape (m,), the most forgotten first; before them those that were never learned
    weights_ : shape (m,), equal, adding up to the total sample_weight, which matters for nothing else
    events_ : shape (n,), the `forgetting_events` of every row

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> forgotten = ForgettingEvents(100, random_state=0).fit(X, y)
    >>> bool(forgotten.events_[forgotten.indices_].min() > np.median(forgotten.events_))
    True
    """

    _needs_y = True
    _takes_sparse = True

    def __init__(self, size=100, *, n_epochs=20, batch_size=32, step=1.0, random_state=None):
        self.size = size
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.step = step
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        return tags

    def _select(self, X, y, sample_weight, rng):
        for name in ("n_epochs", "batch_size"):
            check_integer(name, getattr(self, name))
        check_number("step", self.step, above=0)
        check_classification_targets(y)
        present = np.flatnonzero(sample_weight)
        code = np.unique(y[present], return_inverse=True)[1]
        events = forgetting_events(self._train(X[present], code, rng))
        order = np.lexsort([rng.random(len(present)), -events])[: self.size]
        self.events_ = np.full(len(y), np.nan)
        self.events_[present] = events
        return present[order], np.full(self.size, sample_weight.sum() / self.size)

    def _train(self, X, code, rng):
        # Whether each row was classified correctly when its turn came, shape (epochs, n).
        n, d = X.shape
        X = X.astype(np.float64)
        sq_norm = float(X.multiply(X).sum() if hasattr(X, "multiply") else np.einsum("ij,ij->", X, X)) / n
        step = self.step / (1.0 + sq_norm)  # 1 for the intercept
        W, b = np.zeros((d, code.max() + 1)), np.zeros(code.max() + 1)
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
