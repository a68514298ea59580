"""Coresets: weighted rows of a data set, and the selectors that choose them."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from handful.blocks import Blocks, as_blocks, known_length
from handful.checks import (
    Accepts,
    as_generator,
    check_classes,
    check_coreset,
    check_has_y,
    check_magnitude,
    check_sample_weight,
    check_size,
    checked_shape,
    counted_rows,
    is_blocks,
    validate_data,
)
from handful.lazy import module_with_torch
from handful.options import Count, Options, all_or_nothing, check_options
from handful.parts import class_totals
from handful.plans import ChooseAgain, Plan
from handful.running import one_blas_thread, physical_memory, warn
from handful.scales import warn_of_scales
from handful.tables import exceeds_memory, is_dask, is_files, take_rows
from handful.types import Seed, Table


@dataclass(frozen=True)
class Coreset:
    """A weighted subset of a data set.

    Parameters
    ----------
    indices : array of int, shape (m,)
        Rows of the data set, in the order in which they were chosen.
    weights : array of float, shape (m,)
        To train with: they add up to about the number of rows of the data set (or to the sum of its
        ``sample_weight``). Those of rows drawn at random also estimate any other sum over the data
        set without bias; those of rows that were chosen do not, such as the shares of the classes.

    Raises
    ------
    ValueError
        for indices and weights of different length, negative or fractional indices, and weights
        that are negative or not finite
    """

    indices: np.ndarray
    weights: np.ndarray

    def __post_init__(self):
        indices, weights = check_coreset(self.indices, self.weights)
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "weights", weights)

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, X: Table, *arrays: Any) -> list[Any]:
        """Rows of `X` and of each further array, and the weights.

        Parameters
        ----------
        X, *arrays : arrays, data frames (pandas, polars, arrow), sparse matrices, torch tensors,
            lists or dask data of the data set's length; None stays None. `Blocks`, files and a dask
            bag stand for all of `X`, `y` and `sample_weight`, as in `fit`

        Returns
        -------
        list : the rows of each argument, in the order of the call, then the weights, shape (m,).
            Rows of files and dask data are numpy arrays or pandas frames; those of a list are a
            list, or an array if it holds numbers or rows of one length

        Raises
        ------
        ValueError
            for an argument that is shorter than the data set that the coreset was chosen from
        """
        if isinstance(X, Blocks) or is_files(X) or type(X).__module__.startswith("dask.bag"):
            rows = as_blocks(X, *arrays).take(self.indices)
            own = [rows.weight] if arrays[1:] and arrays[1] is not None else arrays[1:]
            labels = [rows.y] if arrays or rows.y is not None else []
            return [rows.X, *labels, *own, self.weights.copy()]
        return [*(_rows_of(a, self.indices) for a in (X, *arrays)), self.weights.copy()]

    def subset(self, dataset: Any) -> Any:
        """The coreset of a `torch.utils.data.Dataset`, as a `torch.utils.data.Subset` that yields
        weights.

        Items are those of `dataset` with the point's weight (a 0-d float32 tensor) appended; to a
        dictionary, as the items of Hugging Face's data sets are, as its entry "weight".
        """
        torch_data = module_with_torch("handful.torch_data", "the subset of a torch data set")
        return torch_data.WeightedSubset(dataset, self.indices, self.weights)


def _rows_of(array, indices):
    return Blocks(array).take(indices).X if is_dask(array) else take_rows(array, indices)


class Selector(Options):
    """Base class: checks the input once, then asks the subclass's `_select` for a coreset.

    A subclass declares its hyper-parameters as fields (`handful.options.Options`), `size` and
    `random_state` among them, and implements

    ``_select(X, y, sample_weight, rng) -> (indices, weights)``

    where `X` is a checked 2-d array or CSR matrix of finite floats, `y` a 1-d array or None,
    `sample_weight` a positive float64 array of length n (ones where the caller gave none) and `rng`
    a `numpy.random.Generator`. Rows of weight zero are absent: they are left out before.
    """

    # This is what the input may be.
    _accepts = Accepts()
    # So it chooses from rows in blocks.
    _plan: ClassVar[Plan] = ChooseAgain()
    # It draws with repetition, so `size` may exceed the number of rows.
    _repeats = False
    # It draws rows whose weights estimate every sum, so that a class may get none.
    _draws = False
    # What is chosen depends on the units of the columns, by distances or by a penalty.
    _by_scale = False
    # The first k rows chosen are a coreset of k; False if rows come in another order, such as
    # ascending.
    _ranks = True
    # It chooses from a part of the data, where a class that gets no row is no loss yet.
    _of_a_part = False
    # It has results for each row, so that its `_select` gets those of weight zero, too.
    _sees_absent = False

    def fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Choose the coreset.

        Parameters
        ----------
        X : array, data frame or CSR matrix (where `sparse` input is supported), shape (n, d).
            Selectors that never read X take anything else with rows, too: texts, images. Files,
            dask data, `handful.blocks.Blocks` and, with a warning, what exceeds half of the memory
            are chosen from block by block (see docs/distributed.md)
        y : labels or targets, shape (n,). Selectors that do not look at them need none, and take
            any: several a row, and missing ones
        sample_weight : shape (n,), non-negative; how often each row counts

        Returns
        -------
        self, with `indices_` (m,), `weights_` (m,), `coreset_`, and `n_samples_fit_`, the number of
        rows

        Raises
        ------
        ValueError
            for non-finite or huge values, wrong lengths, negative or all-zero weights, a size
            outside 1..n and empty input; the message names the thing, the limit and what it got.
        """
        return self._fit(X, y, sample_weight)

    @all_or_nothing
    def _fit(self, X, y, sample_weight, **options):
        # `options` are those of a subclass's `fit`, for its `_select`.
        check_options(self)
        # What an earlier fit learned goes.
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        too_large = exceeds_memory(X)
        if too_large and self._accepts.values:
            warn(
                f"the numbers of X, shape {X.shape}, exceed half of the "
                f"{physical_memory() / 2**30:.3g} GiB of memory: "
                "rows are chosen in blocks, as fit(Blocks(X, y)) does without this warning.",
            )
        if is_blocks(X, y, sample_weight) and (self._accepts.values or not too_large):
            return self._fit_blocks(as_blocks(X, y, sample_weight))
        return self._fit_rows(X, y, sample_weight, **options)

    def _fit_rows(self, X, y, sample_weight, **options):
        present = None if self._sees_absent else counted_rows(X, sample_weight)
        if present is None:
            self._choose(X, y, sample_weight, options)
            return self
        n = len(sample_weight)
        check_consistent_length(X, y)
        check_size(self.size, len(present), n, repeats=self._repeats)
        try:
            self._choose(*(take_rows(a, present) for a in (X, y, sample_weight)), options)
        except ValueError as error:
            if " row " not in str(error):
                raise
            raise ValueError(
                f"{error} (Rows are counted without the {n - len(present)} of weight zero.)"
            ) from error
        finally:
            # also what was found until Ctrl-C
            if hasattr(self, "indices_"):
                self.indices_ = present[self.indices_]
                self.n_samples_fit_ = n
        return self

    def _choose(self, X, y, sample_weight, options):
        given = y
        X, y, sample_weight = self._check_input(X, y, sample_weight)
        self.n_samples_fit_ = X.shape[0]
        if self._by_scale and not self._of_a_part:
            name = type(self).__name__
            way_out = f"Scale them first: {name}(...).fit(StandardScaler().fit_transform(X), ...)."
            warn_of_scales(X if sample_weight.all() else X[sample_weight > 0], name, way_out)
        with one_blas_thread():
            indices, weights = self._select(
                X, y, sample_weight, as_generator(self.random_state), **options
            )
        self.indices_ = np.asarray(indices, dtype=np.intp)
        self.weights_ = np.asarray(weights, dtype=np.float64)
        if self._draws and not self._of_a_part:
            self._tell_lost(
                class_totals(given, sample_weight),
                class_totals(take_rows(given, self.indices_), self.weights_),
            )

    def _tell_lost(self, totals, drawn):
        """A UserWarning where a class has no row among those drawn; `class_totals` of all rows, and
        of these."""
        lost = (
            sorted(set(totals or ()) - set(drawn or ()), key=totals.get, reverse=True)
            if totals
            else []
        )
        if not lost or len(totals) > self.size:
            return
        mass = sum(totals.values())
        named = [f"{label!r} ({100 * totals[label] / mass:.2g} % of all)" for label in lost[:3]]
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        warn(
            f"{type(self).__name__} drew no row of class {', '.join(named)}{more}: a draw without "
            "bias may miss a rare class, and a classifier trained on its rows does not know it. "
            "StratifiedCoreset and BilevelCoreset keep each class.",
        )

    def _fit_blocks(self, blocks):
        blocks = blocks.at_least(self._plan.rows_per_block(self, blocks))
        if len(blocks) == 1:
            block = next(iter(blocks))
            return self._fit_rows(block.X, block.y, block.weight)
        with one_blas_thread():
            rng = as_generator(self.random_state)
            self.indices_, self.weights_ = self._plan.select(self, blocks, rng)
        self.n_samples_fit_ = blocks.n
        if blocks.like is None:
            self.n_features_in_ = blocks.d
        else:
            # This notes the number and the names of the features.
            validate_data(self, blocks.like, skip_check_array=True)
        return self

    def _select_one_class(self, X, sample_weight, rng):
        """As `_select`, of rows of one class, where y must hold two: a part of a stream may not.

        The rows are checked; `size` of them or more count. One class alone has no boundary to be
        wrong about, so every row is as good: rows are drawn by weight, and all count alike.
        """
        share = sample_weight / sample_weight.sum()
        chosen = rng.choice(len(share), self.size, replace=False, p=share)
        return chosen, np.full(self.size, sample_weight.sum() / self.size)

    def _check_input(self, X, y, sample_weight):
        X, y = self._check_X_y(X, y)
        if self._accepts.values:
            check_magnitude(X.data if sparse.issparse(X) else X, "X", X.dtype)
        sample_weight = check_sample_weight(sample_weight, X.shape[0])
        check_size(
            self.size, int(np.count_nonzero(sample_weight)), X.shape[0], repeats=self._repeats
        )
        return X, y, sample_weight

    def _check_part(self, X, y):
        """X and y, checked as `fit` checks them, of rows that are a part of the data only, such as
        a chunk of a stream.

        Options are checked, too: `size` is that of a part. What needs all rows, such as a second
        class, does not count.
        """
        check_options(self)
        X, y = self._check_X_y(X, y)
        if self._accepts.values:
            check_magnitude(X.data if sparse.issparse(X) else X, "X", X.dtype)
        return X, y

    def _check_targets(self, y):
        """ValueError for targets that `_select` refuses beside rows of a dtype; of one class they
        are never asked."""

    def _in_a_stream(self):
        """The selector that chooses from the parts of a stream, whose classes nobody can count
        beforehand."""
        return self

    def _check_X_y(self, X, y, *, reset=True):
        # Without `reset` the number and the names of the features must be those of the fit.
        options = dict(
            accept_sparse="csr" if self._accepts.sparse else False,
            dtype=list(self._accepts.dtypes),
            reset=reset,
        )
        if reset:
            check_has_y(self, y)
        else:
            check_has_y(self, y, "fit takes a y, and these rows need theirs as well")
        labels = y if self._accepts.reads_y else None
        if not self._accepts.values:
            labels = None if labels is None else validate_data(self, y=labels)
            X = checked_shape(X)
            if len(X.shape) == 2:
                # This notes the number and the names of the features.
                validate_data(self, X, skip_check_array=True)
        elif labels is None:
            X = validate_data(self, X, **options)
        else:
            X, labels = validate_data(self, X, labels, **options)
        check_consistent_length(X, y)
        if self._accepts.classes:
            check_classes(labels)
        return X, labels

    @property
    def coreset_(self) -> Any:
        """The fitted `Coreset`."""
        check_is_fitted(self, "indices_")
        return Coreset(self.indices_, self.weights_)

    def take(self, X: Table, *arrays: Any) -> list[Any]:
        """``self.coreset_.take(X, *arrays)``; ValueError for another number of rows than `fit` saw,
        if it is known."""
        coreset = self.coreset_
        # Beside files further arguments name files, or columns.
        for a in (X,) if is_files(X) else (X, *arrays):
            n = None if a is None else known_length(a)
            if n is not None:
                self._check_n_samples(n)
        return coreset.take(X, *arrays)

    def subset(self, dataset: Any) -> Any:
        """``self.coreset_.subset(dataset)``; ValueError for another number of items than `fit` saw
        rows."""
        coreset = self.coreset_
        self._check_n_samples(len(dataset))
        return coreset.subset(dataset)

    def _check_n_samples(self, n):
        if n != self.n_samples_fit_:
            raise ValueError(
                f"fit saw {self.n_samples_fit_} rows, but got {n} rows: take from the data it was "
                "fitted on."
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts.sparse
        tags.input_tags.string = tags.input_tags.categorical = (
            tags.input_tags.allow_nan
        ) = not self._accepts.values
        tags.target_tags.required = self._accepts.needs_y
        tags.target_tags.multi_output = not self._accepts.reads_y
        return tags


class SizedSelector(Selector):
    """Base of the selectors whose first argument is the size, the rest of their options being given
    by name."""

    size: Count = 100
    _: KW_ONLY
    random_state: Seed = None
