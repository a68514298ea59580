"""Lewis weights: one coreset, chosen without labels, for the hinge loss and the logistic loss alike."""

from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms

from handful.checks import check_integer, check_number, check_rows, check_sample_weight
from handful.coreset import SizedSelector
from handful.linalg import centred, one_blas_thread
from handful.sensitivity.draws import multinomial_draw
from handful.svm.interior_point import gram, with_ones
from handful.types import Table

RANK = 1e-12  # eigenvalues below this share of the largest count as 0


def lewis_weights(A: Table, sample_weight: Table = None, *, tol: float = 1e-6, max_iter: int = 60) -> Any:
    """The l1 Lewis weights of the rows of a matrix: each row's weight in the norm ``|A x|_1``.

    They are the w with ``w_i^2 = a_i' (sum_j a_j a_j' / w_j)^-1 a_i`` (Cohen and Peng 2015), found by repeating that
    equation, which halves the logarithm of the error each time. Row i bounds ``|a_i x| <= w_i |A x|_1`` up to a factor.

    Parameters
    ----------
    A : array or CSR matrix, shape (n, d)
    sample_weight : shape (n,), non-negative, factors of the rows; None for ones
    tol : float, largest relative change of a weight at which to stop
    max_iter : int

    Returns
    -------
    float array, shape (n,), between 0 and 1; they add up to the rank of the weighted matrix

    Raises
    ------
    ValueError
        for values that are not finite, bad weights, and `tol` or `max_iter` out of range
    """
    A = check_rows(A, "A", accept_sparse="csr")
    u = check_sample_weight(sample_weight, A.shape[0])
    check_number("tol", tol, above=0)
    check_integer("max_iter", max_iter)
    u = u / u.max()
    w = np.full(A.shape[0], A.shape[1] / A.shape[0])
    for _ in range(max_iter):
        G = gram(A, np.where(w > 0, u**2 / np.where(w > 0, w, 1.0), 0.0))
        scale = 1 / np.sqrt(np.where(np.diag(G) > 0, np.diag(G), 1.0))[:, None]  # of columns: units change no weight
        values, vectors = np.linalg.eigh(G * scale * scale.T)
        kept = values > RANK * values[-1]
        before, w = w, u * row_norms(A @ (scale * vectors[:, kept] / np.sqrt(values[kept])))
        if (np.abs(w - before) <= tol * w).all():
            break
    return w


class LewisCoreset(SizedSelector):
    """Importance-sampling coreset by l1 Lewis weights (Mai, Musco and Rao, NeurIPS 2021), for SVM and logistic models.

    Half of the probability goes by the Lewis weights of the rows ``[x, 1]``, half by weight, for the part of a loss
    that does not grow with the margin. As a sign changes no Lewis weight, no labels are needed: one coreset serves the
    hinge and the logistic loss, and any labels of the same rows.

    Parameters
    ----------
    size : number of draws m, with repetition; a row drawn k times comes once, with k times the weight
    random_state : int, Generator or None

    Attributes
    ----------
    indices_ : shape (at most m,), ascending
    weights_ : shape (at most m,), unbiased: their expected sum is the total sample_weight

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> X_small, y_small, w = LewisCoreset(100, random_state=0).fit(X).take(X, y)
    >>> bool(LogisticRegression().fit(X_small, y_small, sample_weight=w).score(X, y) > 0.9)
    True
    """

    _takes_sparse = True
    _repeats = True
    _ranks = False

    def _select(self, X, y, sample_weight, rng):
        present = np.flatnonzero(sample_weight)
        u = sample_weight[present]
        with one_blas_thread():
            A = with_ones(centred(X[present], u)[0])  # has the same Lewis weights; far from the origin digits would go
            w = lewis_weights(A, u, tol=1e-2)  # the estimate is unbiased whatever the tolerance
        indices, weights = multinomial_draw(0.5 * w / w.sum() + 0.5 * u / u.sum(), u, self.size, rng=rng)
        return present[indices], weights
