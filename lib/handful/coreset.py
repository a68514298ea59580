"""Coresets: weighted rows of a data set, and the selectors that choose them."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from handful.blocks import Blocks, as_blocks, uniform_rows
from handful.checks import (
    MAX_SEED,
    as_generator,
    check_coreset,
    check_magnitude,
    check_sample_weight,
    check_size,
    checked_shape,
    validate_data,
    without_absent,
)
from handful.lazy import module_with_torch
from handful.linalg import one_blas_thread
from handful.options import Count, Options, all_or_nothing, check_options
from handful.parts import choose, class_totals, of_one_class, reduced
from handful.rows import exceeds_memory, is_blocks, is_dask, is_files, joined, physical_memory
from handful.scales import warn_of_scales
from handful.tables import take_rows
from handful.types import Seed, Table

# the fewest rows of a block for each row that is chosen from it
PER_ROW = 4
# times `size` rows are drawn from a block that holds one class, as any of them may matter
OF_ONE_CLASS = 10
# of a block that is joined from smaller ones: 1 GiB of float64
MOST_ENTRIES = 1 << 27


@dataclass(frozen=True)
class Coreset:
    """A weighted subset of a data set.

    Attributes
    ----------
    indices : int array, shape (m,); rows of the data set, in the order in which they were chosen
    weights : float array, shape (m,), to train with: they add up to about the number of rows of the
        data set (or to the sum of its ``sample_weight``). Those of rows drawn at random also
        estimate any other sum over the data set without bias; those of rows that were chosen do
        not, such as the shares of the classes

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
            given = [a for a in arrays if a is not None]
            rows = as_blocks(X, *given).take(self.indices)
            return [rows.X, *([rows.y] if arrays or rows.y is not None else []), self.weights]
        return [*(_rows_of(a, self.indices) for a in (X, *arrays)), self.weights]

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
    `sample_weight` a float64 array of length n (ones where the caller gave none) and `rng` a
    `numpy.random.Generator`. Rows of weight zero count as absent: they must not be selected.
    """

    # `fit` refuses y=None
    _needs_y = False
    _takes_sparse = False
    # others are converted to the first
    _dtypes: ClassVar[tuple[type, ...]] = (np.float64, np.float32)
    # draws with repetition: `size` may exceed the number of rows
    _repeats = False
    # looks at the values of X; else words, categories and missing values pass, and X comes as it is
    _reads = True
    # looks at y where it is given; else labels may be missing, or several a row, and are not handed
    # on
    _reads_y = True
    # rows whose weights estimate every sum: each block draws its share of `size`; a class may get
    # none
    _draws = False
    # what is chosen depends on the units of the columns: on distances or on a penalty
    _by_scale = False
    # it chooses from a part of the data, where a class that gets no row is no loss yet
    _of_a_part = False
    # the fewest rows of a block for each column
    _rows_per_column = 4
    # a smaller `size` is chosen from a sample: see `_select_blocks`
    _size_per_column: ClassVar[float] = 0
    # the first k rows chosen are a coreset of k; False if rows come in another order, such as
    # ascending
    _ranks = True
    # y holds classes, which `_check_targets` sees together with those of other parts of the data
    _classifies = False

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
        # of an earlier fit
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        too_large = exceeds_memory(X)
        if too_large and self._reads:
            warnings.warn(
                f"the numbers of X, shape {X.shape}, exceed half of the "
                f"{physical_memory() / 2**30:.3g} GiB of memory: "
                "rows are chosen in blocks, as fit(Blocks(X, y)) does without this warning.",
                stacklevel=4,
            )
        if is_blocks(X, y, sample_weight) and (self._reads or not too_large):
            return self._fit_blocks(as_blocks(X, y, sample_weight))
        return self._fit_rows(X, y, sample_weight, **options)

    def _fit_rows(self, X, y, sample_weight, **options):
        given = y
        X, y, sample_weight = self._check_input(X, y, sample_weight)
        self.n_samples_fit_ = X.shape[0]
        if self._by_scale and not self._of_a_part:
            name = type(self).__name__
            way_out = f"Scale them first: {name}(...).fit(StandardScaler().fit_transform(X), ...)."
            warn_of_scales(X, name, way_out, stacklevel=5)
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
        return self

    def _tell_lost(self, totals, drawn, *, stacklevel=6):
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
        warnings.warn(
            f"{type(self).__name__} drew no row of class {', '.join(named)}{more}: a draw without "
            "bias may miss a rare "
            "class, and a classifier trained on its rows does not know it. StratifiedCoreset, "
            "BilevelCoreset and "
            "MatchedCoreset keep each class.",
            stacklevel=stacklevel,
        )

    def _fit_blocks(self, blocks):
        blocks = blocks.at_least(self._rows_per_block(blocks))
        if len(blocks) == 1:
            block = next(iter(blocks))
            return self._fit_rows(block.X, block.y, block.weight)
        with one_blas_thread():
            self.indices_, self.weights_ = self._select_blocks(
                blocks, as_generator(self.random_state)
            )
        self.n_samples_fit_ = blocks.n
        if blocks.like is None:
            self.n_features_in_ = blocks.d
        else:
            # the number and the names of the features
            validate_data(self, blocks.like, skip_check_array=True)
        return self

    def _select_blocks(self, blocks, rng):
        """As `_select`, of rows in blocks: `size` rows of each, and `size` of all that were chosen;
        weights multiply.

        The rows chosen from a block stand for it by their weights, so the second choice is among
        rows that stand for the whole. Draws need no second choice: each block draws its share of
        `size` (`_draws`).

        The rows chosen from a block that determine no model, because they are fewer than the
        columns, are no data to choose from again. A selector that needs a model says so by
        `_size_per_column`, and gets a uniform sample of all rows that is as large as the largest
        block.
        """
        chooser = clone(self._in_a_block())
        seed = int(rng.integers(MAX_SEED))
        if self._draws:
            _, mass, totals = zip(*blocks.map(_census))
            mass = np.array(mass)
            if not mass.any():
                raise ValueError("sample_weight is zero for all rows: nothing to select from.")
            due = self.size * mass / mass.sum()
            # next to what is due, on average that
            drawn = np.diff(np.floor(np.cumsum(due) + rng.random()), prepend=0)
            own = [(int(k), k / share) if k else None for k, share in zip(drawn, due)]
            union = joined(blocks.map(_share_of_block, chooser, seed, own=own))
            self._tell_lost(united(totals), class_totals(union.y, union.weight), stacklevel=7)
            return union.ids, union.weight
        if self.size < self._size_per_column * blocks.d:
            union = uniform_rows(blocks, max(blocks.lengths), rng)
            self._fit_rows(union.X, union.y, union.weight)
            return union.ids[self.indices_], self.weights_
        n_present, chosen = zip(*blocks.map(_chosen_of_block, chooser, seed))
        check_size(self.size, sum(n_present), blocks.n, repeats=self._repeats)
        union = joined([block for block in chosen if len(block)])
        # fewer than wanted, where optimised weights are zero
        if len(union) <= self.size:
            return union.ids, union.weight
        self._fit_blocks(Blocks(union.X, union.y, union.weight))
        return union.ids[self.indices_], self.weights_

    def _rows_per_block(self, blocks):
        wanted = max(PER_ROW * self.size, self._rows_per_column * blocks.d)
        most = max(1, blocks.n * MOST_ENTRIES // max(1, blocks.n_entries))
        if most < wanted < blocks.n:
            warnings.warn(
                f"blocks hold {most:,} rows, fewer than the {wanted:,} that a choice of "
                f"size={self.size} of "
                f"{blocks.d:,} columns wants, as more would need over a gigabyte; lower size, or "
                "give fewer columns.",
                stacklevel=4,
            )
        return min(wanted, most)

    def _in_a_block(self):
        """The selector that chooses from each block."""
        return self

    def _check_input(self, X, y, sample_weight):
        X, y = self._check_X_y(X, y)
        if self._reads:
            check_magnitude(X.data if sparse.issparse(X) else X, "X", X.dtype)
        sample_weight = check_sample_weight(sample_weight, X.shape[0])
        check_size(
            self.size, int(np.count_nonzero(sample_weight)), X.shape[0], repeats=self._repeats
        )
        return X, without_absent(y, sample_weight), sample_weight

    def _check_part(self, X, y):
        """X and y, checked as `fit` checks them, of rows that are a part of the data only, such as
        a chunk of a stream.

        Options are checked, too: `size` is that of a part. What needs all rows, such as a second
        class, does not count.
        """
        check_options(self)
        X, y = self._check_X_y(X, y)
        if self._reads:
            check_magnitude(X.data if sparse.issparse(X) else X, "X", X.dtype)
        return X, y

    def _check_targets(self, y, dtype):
        """ValueError for targets that `_select` refuses beside rows of a dtype; of one class they
        are never asked."""

    def _in_a_stream(self):
        """The selector that chooses from the parts of a stream, whose classes nobody can count
        beforehand."""
        return self

    def _check_X_y(self, X, y, *, reset=True):
        # Without `reset` the number and the names of the features must be those of the fit.
        options = dict(
            accept_sparse="csr" if self._takes_sparse else False,
            dtype=list(self._dtypes),
            reset=reset,
        )
        if y is None and self._needs_y:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: "
                "it selects the points on which a model of y can be trained."
            )
        labels = y if self._reads_y else None
        if not self._reads:
            labels = None if labels is None else validate_data(self, y=labels)
            X = checked_shape(X)
            if len(X.shape) == 2:
                # the number and the names of the features
                validate_data(self, X, skip_check_array=True)
        elif labels is None:
            X = validate_data(self, X, **options)
        else:
            X, labels = validate_data(self, X, labels, **options)
        check_consistent_length(X, y)
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
        for a in [] if is_blocks(X, *arrays) else [a for a in (X, *arrays) if a is not None]:
            n = (
                a.shape[0]
                if hasattr(a, "shape")
                else len(a)
                if hasattr(a, "__len__")
                else self.n_samples_fit_
            )
            if n != self.n_samples_fit_:
                raise ValueError(
                    f"fit saw {self.n_samples_fit_} rows, but got {n} rows: take from the data it "
                    "was fitted on."
                )
        return coreset.take(X, *arrays)

    def subset(self, dataset: Any) -> Any:
        """Shorthand for ``self.coreset_.subset(dataset)``."""
        return self.coreset_.subset(dataset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.string = tags.input_tags.categorical = (
            tags.input_tags.allow_nan
        ) = not self._reads
        tags.target_tags.required = self._needs_y
        tags.target_tags.multi_output = not self._reads_y
        return tags


class SizedSelector(Selector):
    """Base of the selectors whose first argument is the size, the rest of their options being given
    by name."""

    size: Count = 100
    _: KW_ONLY
    random_state: Seed = None


def _census(block):
    # Rows that count, their weight, and that of each class.
    return (
        np.count_nonzero(block.weight),
        float(block.weight.sum()),
        class_totals(block.y, block.weight),
    )


def united(totals):
    """`class_totals` of several parts, joined; None if one of them has no classes."""
    if any(one is None for one in totals):
        return None
    out: dict = {}
    for one in totals:
        for label, mass in one.items():
            out[label] = out.get(label, 0.0) + mass
    return out


def _share_of_block(block, selector, seed, own):
    size, scale = own
    rng = np.random.default_rng([seed, int(block.ids[0])])
    block = block.of_positive_weight()
    # A selector of its own: the threads of dask share the one that is given.
    selector = clone(selector).set_params(size=size, random_state=rng)
    chosen, weights = choose(selector, block.X, block.y, block.weight, rng)
    return replace(block.take(chosen), weight=weights * scale)


def _chosen_of_block(block, selector, seed):
    block = block.of_positive_weight()
    size = selector.size
    n_present = len(block)
    if hasattr(selector, "select_one_class") and of_one_class(block.y, None):
        size *= OF_ONE_CLASS
    if n_present > size:
        block = reduced([block], selector, size, np.random.default_rng([seed, int(block.ids[0])]))
        # optimised weights may be 0
        block = block.of_positive_weight()
    return n_present, block
