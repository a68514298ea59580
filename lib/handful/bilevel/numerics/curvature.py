"""The curvature of the outer loss along the steps of many candidates, by whichever way is cheaper."""

import numpy as np
from scipy import sparse

BLOCK = 32  # candidates at a time, so that their logits on the sample stay in the cache
KEPT = 2048  # rows whose products with the sample are kept: what of 512 candidates comes back is among the last of them
NEWCOMERS = 0.3  # share of the candidates whose products are not
# Seconds of the kinds of work in units of a multiplication and addition within a product of dense float64 matrices.
PASS, OVERLAP = 12.0, 20.0  # one entry of the logits, read and squared; one of a product of sparse matrices


class OuterCurvature:
    """Second derivative of the outer loss along steps ``H^-1 a_k``, on a sample of S rows.

    By features, the Hessian of the outer loss is formed, d x d. By rows, the sample's logits move by ``X_S H^-1 a_k``:
    in the span of the chosen rows these are products of coordinates, and outside of it they are ``X_S x_k / l2``, whose
    products are kept while a row stays a candidate.

    Parameters
    ----------
    X : rows of the sample, shape (S, d), an array or a CSR matrix
    share : their weights, shape (S,), adding up to 1
    intercept : 1, or 0 for a model without
    """

    def __init__(self, X, share, intercept):
        self.X, self.share, self._intercept = X, share, intercept
        self._dense = self._overlap = self._products = None
        self.forget()

    def forget(self):
        """The design has been built anew."""
        self._coordinates, self._rank = np.zeros((self.X.shape[0], 16), order="F"), 0

    def by_rows(self, design, k):
        """Whether k candidates cost less by rows than by features."""
        S, d = self.X.shape
        p = design.A.shape[1]
        by_features = S * d**2 / 16 * self.X.dtype.itemsize + k * d**2
        by_rows = k * S * (p + PASS)
        if design.in_span:
            by_features += k * d * p
            by_rows += NEWCOMERS * k * S * (OVERLAP * self._shared_words() if sparse.issparse(self.X) else d)
        return by_rows < by_features

    def _shared_words(self):
        # features that are not zero in both of two rows of the sample, on average
        if self._overlap is None:
            S, d = self.X.shape
            self._overlap = float(np.sum((np.bincount(self.X.indices, minlength=d) / S) ** 2))
        return self._overlap

    def hessian(self, h):
        """Hessian of the outer loss, shape (d + 1, d + 1), for second derivatives h, shape (S,), of the row losses."""
        if self._dense is None:  # column-major, so that scaling it and its Gram matrix run along memory
            X = self.X.toarray() if sparse.issparse(self.X) else self.X
            self._dense = np.empty((X.shape[0], X.shape[1] + 1), dtype=X.dtype, order="F")
            self._dense[:, 0], self._dense[:, 1:] = self._intercept, X
        scaled = self._dense * np.sqrt(h * self.share).astype(self._dense.dtype)[:, None]
        return (scaled.T @ scaled).astype(np.float64)

    def hessian_within(self, design, h):
        """As `hessian`, in the coordinates of a design, shape (p, p)."""
        if not design.in_span:
            return self.hessian(h)
        rows = self.sample(design)
        return rows.T @ (rows * (h * self.share)[:, None])

    def sample(self, design):
        """Coordinates of the sample's rows, shape (S, p)."""
        if not design.in_span:
            return design.coordinates(self.X)
        if self._rank < design.span.rank:
            new = design.span.inside(self.X, self._coordinates[:, 1 : self._rank + 1])
            room = self._coordinates.shape[1]
            if design.span.rank >= room:
                wider = np.zeros((len(new), 2 * design.span.rank), order="F")
                wider[:, :room] = self._coordinates
                self._coordinates = wider
            self._coordinates[:, 0] = self._intercept
            self._coordinates[:, self._rank + 1 : design.span.rank + 1] = new
            self._rank = design.span.rank
        return self._coordinates[:, : self._rank + 1]

    def along(self, h, design, candidates, X, inside, solved, q, l2):
        """Quadratic forms of the outer Hessian G on the steps ``v_k = H^-1 a_k`` and on q.

        Parameters
        ----------
        h : second derivatives of the sample's losses by their logits, shape (S,)
        design : Design
        candidates : rows, ascending, shape (k,)
        X : their features, shape (k, d); inside : their coordinates, shape (k, p)
        solved : ``H^-1`` times these within the span, shape (k, p)
        q : shape (p,)
        l2 : Hessian outside of the span

        Returns
        -------
        ``v_k' G v_k`` and ``v_k' G q``, both of shape (k,), and ``q' G q``
        """
        if self.by_rows(design, len(candidates)):
            return self._by_rows(h * self.share, design, candidates, X, inside, solved, q, l2)
        G = self.hessian(h)
        if design.in_span:
            rows = np.vstack([inside[:, 0], X.toarray().T if sparse.issparse(X) else X.T])
            solved = design.with_outside(solved.T, inside.T, rows, l2).T
            q = design.to_data(q)
        images, image = solved @ G, G @ q
        return np.einsum("kp,kp->k", images, solved), solved @ image, q @ image

    def _by_rows(self, curvature, design, candidates, X, inside, solved, q, l2):
        rows, unit = self.sample(design), 1.0
        if design.in_span:
            unit = l2  # of the logits below, so that products need not be divided
            solved = l2 * solved
            solved[:, 1:] -= inside[:, 1:]
            if self._products is None or len(candidates) > self._products.room:
                self._products = RowProducts(self.X, max(KEPT, len(candidates)))
            products, places = self._products.of(candidates, X)
        moved = rows @ q
        pull = curvature * moved
        square, cross = np.empty(len(solved)), np.empty(len(solved))
        for lo in range(0, len(solved), BLOCK):
            block = slice(lo, lo + BLOCK)
            logits = solved[block] @ rows.T
            if design.in_span:
                logits += products[places[block]]
            cross[block] = logits @ pull
            square[block] = np.square(logits, out=logits) @ curvature
        return square / unit**2, cross / unit, moved @ pull


class RowProducts:
    """Products of some rows with each of a fixed sample, of which the latest are kept.

    Parameters
    ----------
    sample : array or CSR matrix, shape (S, d)
    room : int, rows whose products are kept
    """

    def __init__(self, sample, room):
        self.room = room
        self._columns = sample.T.tocsr() if sparse.issparse(sample) else sample.T
        self._kept, self._used = np.empty((room, sample.shape[0])), np.full(room, -1)
        self._rows, self._clock = np.full(room, -1), 0

    def of(self, rows, X):
        """Products of some rows, with the features X, shape (k, d).

        Returns
        -------
        products : shape (room, S); they are overwritten by later calls
        places : int array, shape (k,), of the rows among them
        """
        order = np.argsort(self._rows)
        places = order[np.minimum(np.searchsorted(self._rows, rows, sorter=order), len(order) - 1)]
        new = self._rows[places] != rows
        self._clock += 1
        self._used[places[~new]] = self._clock
        count = int(new.sum())
        if count:
            oldest = np.argpartition(self._used, count - 1)[:count]
            fresh = X[new] @ self._columns
            self._kept[oldest] = fresh.toarray() if sparse.issparse(fresh) else fresh
            self._rows[oldest], self._used[oldest], places[new] = rows[new], self._clock, oldest
        return self._kept, places
