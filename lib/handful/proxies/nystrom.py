"""Nystrom features (Section 3.5.2): kernel matrices in blocks of rows, kept on disk where asked."""

import pickle
from dataclasses import KW_ONLY
from typing import Annotated, Any

import joblib
import numpy as np
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from handful.blocks import by_blocks
from handful.checks import as_generator, check_in_memory, validate_data
from handful.code_hash import code_hash
from handful.options import Count, Options, all_or_nothing, check_options, number
from handful.proxies.kernels import DTYPES, Kernel, flattened
from handful.running import Bar
from handful.types import Seed

# rows of the kernel matrix that are computed, and kept on disk, at a time
BLOCK = 512


class Nystrom(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Options):
    """Features whose inner products approximate a kernel: ``K[:, Q] K[Q, Q]^+ K[Q, :]`` for random
    landmarks Q.

    Section 3.5.2 of Borsos et al. (2024): ``z(x) = D^(-1/2) U^T k(x, Q)`` with the
    eigendecomposition ``U D U^T`` of the landmarks' kernel matrix. Columns come in the order of
    falling eigenvalues; those whose eigenvalue counts as zero are left out. Rows of any origin
    (augmented copies, a test set) are transformed like any other.

    Parameters
    ----------
    kernel : Kernel or callable
        `RBF`, `NTK`, `CNTK`, or any callable that gives the matrix of all pairs of rows, shape
        (n, m), such as `sklearn.metrics.pairwise.polynomial_kernel`.
    n_landmarks : int, default=512
        Rows drawn uniformly without repetition; all rows where there are fewer. The paper: 512
        for continual learning, 2048 for CIFAR-10 and active learning.
    rtol : float or None, default=None
        A share below 1: eigenvalues up to `rtol` times the largest count as zero. By default ten
        times the kernel's precision.
    cache : path or None, default=None
        Folder (created where missing) in which `joblib.Memory` keeps the kernel matrix by
        blocks of rows: the same rows, landmarks and kernel are computed once, and an
        interrupted run goes on where it was. None keeps nothing.
    verbose : bool, default=False
        Whether to show a progress bar from the start, not only after 30 seconds.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the landmarks.

    Attributes
    ----------
    kernel_ : the kernel of the fit
    landmark_indices_ : int array, shape (q,), rows of the X of `fit`
    landmarks_ : array, shape (q, d)
    eigenvalues_ : float64 array, shape (r,), the kept ones, falling; r is the number of features
    projection_ : array, shape (q, r), ``U D^(-1/2)``

    Examples
    --------
    >>> import numpy as np
    >>> from handful.proxies import RBF, Nystrom
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> Z = Nystrom(RBF(0.1), n_landmarks=100, random_state=0).fit_transform(X)
    >>> bool(np.allclose(Z @ Z.T, RBF(0.1)(X), atol=1e-3))
    True
    """

    kernel: Any
    _: KW_ONLY
    n_landmarks: Count = 512
    rtol: Annotated[float, number(least=0, below=1)] | None = None
    cache: Any = None
    verbose: bool = False
    random_state: Seed = None

    @all_or_nothing
    def fit(self, X, y=None):
        """Draw the landmarks from the rows of `X` and decompose their kernel matrix.

        Raises
        ------
        TypeError
            if `kernel` cannot be called with two arrays of rows
        ValueError
            if the landmarks' kernel matrix is zero, or not symmetric and positive semi-definite up
            to rounding.
        """
        check_in_memory("Nystrom", X)
        check_options(self)
        X = self._rows(X, reset=True)
        q = min(self.n_landmarks, len(X))
        self.landmark_indices_ = as_generator(self.random_state).choice(
            len(X), size=q, replace=False
        )
        self.landmarks_ = X[self.landmark_indices_]
        self.kernel_ = clone(self.kernel) if isinstance(self.kernel, Kernel) else self.kernel
        gram = np.concatenate([block for _, block in self._kernel_blocks(self.landmarks_)])
        self.eigenvalues_, vectors = _decompose(gram, self.kernel, self.rtol)
        self.projection_ = (vectors / np.sqrt(self.eigenvalues_)).astype(gram.dtype)
        self._n_features_out = len(self.eigenvalues_)
        return self

    @by_blocks
    def transform(self, X):
        """The features of each row of `X`, shape (n, r), in the kernel's dtype."""
        check_is_fitted(self, "projection_")
        X = self._rows(X, reset=False)
        Z = np.empty((len(X), self.projection_.shape[1]), dtype=self.projection_.dtype)
        for rows, block in self._kernel_blocks(X):
            np.matmul(block, self.projection_, out=Z[rows], casting="same_kind")
        return Z

    def _kernel_blocks(self, X):
        return kernel_blocks(
            self.kernel_, X, self.landmarks_, cache=self.cache, verbose=self.verbose
        )

    def _rows(self, X, *, reset):
        return validate_data(self, flattened(X), dtype=DTYPES, reset=reset)


def _decompose(gram, kernel, rtol):
    """Eigenvalues of a kernel matrix that do not count as zero, falling, and their eigenvectors."""
    precision = float(np.finfo(gram.dtype).eps)
    gram = gram.astype(np.float64)
    size = np.abs(gram).max()
    asymmetry = np.abs(gram - gram.T).max()
    if size == 0:
        raise ValueError(
            f"{kernel} is 0 for all landmarks, so it has no features: scale X, which is zero or "
            "tiny."
        )
    if asymmetry > 100 * precision * size:
        raise ValueError(
            f"{kernel} is not symmetric: k(x, y) and k(y, x) differ by {asymmetry:.3g} where the "
            "largest value is "
            f"{size:.3g}."
        )
    values, vectors = eigh((gram + gram.T) / 2)
    values = values[::-1]
    vectors = vectors[:, ::-1]
    if values[0] <= 0 or values[-1] < -10 * precision * len(values) * values[0]:
        raise ValueError(
            f"{kernel} is not positive semi-definite on {len(values)} landmarks: the eigenvalues "
            "of its matrix lie "
            f"between {values[-1]:.3g} and {values[0]:.3g}. Choose another kernel (a polynomial "
            "one with coef0 of at "
            "least 0, an RBF, an NTK), or scale the data."
        )
    kept = values > (10 * precision if rtol is None else rtol) * values[0]
    return values[kept], vectors[:, kept]


def kernel_blocks(kernel, X, Y, *, cache=None, verbose=False):
    """Pairs (slice of rows of X, their kernel with all of Y), one block of rows after the other.

    Raises
    ------
    TypeError
        if the kernel is a class, or cannot be called
    ValueError
        if the kernel gives a matrix of another shape or values that are not finite, or there is a
        cache but the kernel, say a lambda, cannot be pickled.
    """
    if isinstance(kernel, type) or not callable(kernel):
        raise TypeError(
            "kernel must be one such as RBF() (an instance, not the class), or a function of two "
            "arrays of "
            f"rows, got kernel={kernel!r}."
        )
    block_of = joblib.Memory(cache, verbose=0).cache(_block)
    with Bar(total=len(X), desc="kernel", unit="row", verbose=verbose) as bar:
        for start in range(0, len(X), BLOCK):
            rows = slice(start, min(start + BLOCK, len(X)))
            try:
                code = code_hash(kernel) if cache else None
                block = block_of(kernel, X[rows], Y, code)
            except pickle.PicklingError as error:
                raise ValueError(
                    f"{kernel} cannot be told from other kernels, so its values cannot be kept in "
                    "a cache: give RBF() "
                    "or a function of a module, for example, or cache=None."
                ) from error
            yield rows, block
            bar.update(rows.stop - rows.start)


def _block(kernel, X, Y, code):
    # `code` tells joblib, which goes by names, that a kernel of the same name is another one.
    block = np.asarray(kernel(X, Y))
    if block.shape != (len(X), len(Y)):
        raise ValueError(
            f"{kernel} must give a matrix of shape ({len(X)}, {len(Y)}), one value a pair of rows, "
            f"got {block.shape}."
        )
    # a Kernel has looked itself
    if not (isinstance(kernel, Kernel) or np.isfinite(block).all()):
        raise ValueError(f"{kernel} gave values that are not finite for rows of X: scale the data.")
    return block
