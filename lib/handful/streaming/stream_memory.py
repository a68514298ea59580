"""`StreamMemory`: what merge and reduce and the reservoirs share: checks of the input, and the rows
they hold."""

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.validation import check_is_fitted

from handful.blocks import as_blocks
from handful.checks import (
    accepts_of,
    as_generator,
    check_has_y,
    check_sample_weight,
    checked_shape,
    is_blocks,
    validate_data,
)
from handful.coreset import Coreset, Selector
from handful.forms import check_form, check_kind, form_of, names_of_labels
from handful.options import Options, check_options, restored
from handful.parts import check_part, check_selector, reduced
from handful.rows import Rows
from handful.running import warn
from handful.tables import as_array, frame_like, is_numeric, n_rows_of, names_of
from handful.types import Table

# These options cannot change between the chunks of a stream.
FIXED = ("size", "leaf_size", "n_slots", "n_held")


class StreamMemory(Options):
    """Base class: checks each chunk of a stream, and gives the weighted rows that a subclass holds.

    A subclass implements ``_chosen() -> Rows or None`` and ``_take_in(X, y, sample_weight)``. The
    attributes that it learns are replaced, never changed in place, so that an error in the middle
    of a chunk can restore the old ones. A stream that was pickled goes on as if it had never
    stopped.
    """

    # These exceptions leave a stream as it was before the chunk.
    _undone_by: ClassVar[type[BaseException]] = Exception

    def fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Begin a new stream with these rows, of which at least one must count: see
        `partial_fit`."""
        with restored(self):
            for name in ("seed_", "n_features_in_"):
                self.__dict__.pop(name, None)
            self._go_on(X, y, sample_weight)
            if not self.n_seen_:
                raise ValueError(
                    "fit needs at least 1 row, got 0; partial_fit takes chunks without rows."
                )
            if sample_weight is not None and not as_array(sample_weight).any():
                raise ValueError(
                    "sample_weight is zero for all rows; partial_fit takes chunks in which no row "
                    "counts."
                )
        return self

    def partial_fit(self, X: Table, y: Table = None, sample_weight: Table = None) -> Self:
        """Take in the next rows of the stream, any number of them, also none.

        An error leaves everything as it was before the call: the next rows give what they would
        have given. What the selector's `fit` would refuse of all rows so far is refused here, when
        it comes, however few rows it has.

        Parameters
        ----------
        X : array, data frame or CSR matrix, shape (n, d), or texts or images where nothing reads
            them; a memory-mapped array is read leaf by leaf; files and dask data, as in
            `handful.blocks.Blocks`, one block after the other
        y : shape (n,), or None throughout
        sample_weight : shape (n,), non-negative; rows of weight 0 are counted, not kept

        Returns
        -------
        self

        Raises
        ------
        TypeError
            if `selector` is no selector (its class is not one), or takes no `sample_weight`, such
            as a `Reservoir`
        ValueError
            for rows that are not finite real numbers, or differ from those before in their number
            of columns, column names or form (dense, sparse); for several labels a row whose columns
            have other names, or another order, than those before; for a `y` or `sample_weight` that
            does not fit, labels that the selector cannot have beside those before, such as a third
            class of an SVM, and no `y` where it needs one; for a size that is out of range or has
            changed since the stream began; and by the selector
        """
        return self._go_on(X, y, sample_weight)

    def rows(self) -> tuple[Any, Any, np.ndarray]:
        """The coreset with its rows: ``(X, y, weights)``.

        Returns
        -------
        X : array or CSR matrix, shape (m, d), also where the chunks were frames: their columns in
            the order of `feature_names_in_`
        y : array, shape (m,), or None if the stream has no labels
        weights : float array, shape (m,)

        Raises
        ------
        ValueError
            before the first row, and where `size` or another option of the stream has changed since
            it began
        """
        node = self._coreset_rows()
        # copies, as the stream goes on with what it holds
        y = None if node.y is None else node.y.copy()
        return node.X.copy(), y, node.weight.copy()

    @property
    def coreset_(self) -> Any:
        """The `Coreset` of everything so far; its indices are positions in the stream."""
        node = self._coreset_rows()
        return Coreset(node.ids, node.weight)

    @property
    def indices_(self) -> Any:
        return self._coreset_rows().ids.copy()

    @property
    def weights_(self) -> Any:
        return self._coreset_rows().weight.copy()

    def take(self, X: Table, *arrays: Any) -> list[Any]:
        """Shorthand for ``self.coreset_.take(X, *arrays)``, for arrays of the whole stream; `rows`
        needs no arrays.

        Raises
        ------
        ValueError
            for an array that is shorter than the stream so far, and before the first row
        """
        coreset = self.coreset_
        lengths = [n_rows_of(a) for a in (X, *arrays) if a is not None and not is_blocks(a)]
        n = min((length for length in lengths if length is not None), default=self.n_seen_)
        if n < self.n_seen_:
            raise ValueError(
                f"take needs the whole stream, {self.n_seen_} rows so far, got {n}; "
                "rows() gives the rows held, their labels and their weights."
            )
        return coreset.take(X, *arrays)

    def subset(self, dataset: Any) -> Any:
        """Shorthand for ``self.coreset_.subset(dataset)``, for a data set that holds the whole
        stream."""
        return self.coreset_.subset(dataset)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "seed_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = tags.input_tags.categorical = self._accepts.frames
        if isinstance(getattr(self, "selector", None), BaseEstimator):
            inner = get_tags(self.selector)
            tags.input_tags.sparse = inner.input_tags.sparse
            tags.target_tags = inner.target_tags
            tags.estimator_type = inner.estimator_type
            tags.classifier_tags = inner.classifier_tags
        return tags

    # --- for subclasses

    @property
    def _accepts(self):
        return accepts_of(self.selector)

    def _go_on(self, X, y, sample_weight):
        with restored(self, self._undone_by):
            if is_blocks(X, y, sample_weight):
                for block in as_blocks(X, y, sample_weight):
                    self._take_in(block.X, block.y, block.weight)
            else:
                self._take_in(X, y, sample_weight)
        return self

    def _coreset_rows(self):
        self._check_begun()
        # The coreset is kept until the next chunk.
        self._top = self._chosen() if self._top is None else self._top
        if self._top is None:
            raise ValueError(
                "the stream has had no row of positive weight so far: there is no coreset yet."
            )
        lost = [] if self._classes is None else np.setdiff1d(self._classes, self._top.y).tolist()
        if lost:
            warn(
                f"no row of class {', '.join(map(repr, lost[:3]))} is left of the stream, of "
                f"{len(self._classes)} "
                "classes: a classifier trained on its rows does not know it. A larger size keeps "
                "more, and "
                "StratifiedCoreset a row of each class where size allows.",
            )
        return self._top

    def _start(self):
        check_options(self)
        if hasattr(self, "selector"):
            check_selector(self.selector)
        self._began_with = self._fixed()
        self.seed_ = int(as_generator(self.random_state).integers(2**32))
        self.n_seen_ = self.n_reductions_ = 0
        self._form = self._top = self._classes = self._frame = None
        self._mass = 0.0

    def _fixed(self):
        return {name: getattr(self, name) for name in FIXED if hasattr(self, name)}

    def _check_begun(self):
        check_is_fitted(self, "seed_")
        for name, value in self._fixed().items():
            if value != self._began_with[name]:
                raise ValueError(
                    f"{name} cannot change once a stream has begun: it began with "
                    f"{name}={self._began_with[name]!r}, "
                    f"got {name}={value!r}; fit begins a new stream."
                )

    def _open(self, X, y, sample_weight):
        """Begin a stream, or go on with it; returns the chunk, checked."""
        if not hasattr(self, "seed_"):
            self._start()
        self._check_begun()
        self._top = None
        # an array has none
        label_names = names_of_labels(y)
        X, y = self._checked_rows(X, y)
        if X.shape[0]:
            self._check_form(X, y, label_names)
        sample_weight = _checked_weight(sample_weight, X.shape[0])
        self._add_mass(X.shape[0], sample_weight)
        if X.shape[0] and hasattr(self, "selector"):
            self._classes = check_part(
                self._chooser(), self.size, X, y, sample_weight, self._classes
            )
        return X, y, sample_weight

    def _checked_rows(self, X, y):
        """X as an array or CSR matrix, and y as an array, both of what the stream accepts."""
        check_has_y(self, y)
        first = not hasattr(self, "n_features_in_")
        if self._form is None and names_of(X) and self._accepts.frames:
            # without rows
            self._frame = X[:0]
        if isinstance(X, list | tuple) and not X:
            # says nothing of the form of rows
            X = np.empty((0, 1))
        elif not self._accepts.frames or is_numeric(X):
            X, y = self._checked_numbers(X, y, first)
        else:
            if y is not None and self._accepts.reads_y:
                y = validate_data(self, y=y)
            X = checked_shape(X, ensure_min_samples=0)
            if len(X.shape) == 2:
                validate_data(self, X, reset=first, skip_check_array=True)
            X = np.asarray(X)
        check_consistent_length(X, y)
        as_it_is = y is None or sparse.issparse(y)
        return X, y if as_it_is else as_array(y)

    def _checked_numbers(self, X, y, first):
        rules = dict(reset=first, accept_sparse="csr", ensure_min_samples=0)
        if y is not None and self._accepts.reads_y:
            X, y = validate_data(self, X, y, **rules)
        else:
            X = validate_data(self, X, **rules)
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold real numbers, got dtype {X.dtype}.")
        return X, y

    def _check_form(self, X, y, label_names):
        """ValueError where a chunk is not in the form of those before."""
        if y is not None and self._accepts.reads_y:
            check_kind(y)
        kind = "numbers in X" if X.dtype.kind in "biuf" else "words in X"
        form = form_of(X, y, label_names) | {"kind": kind}
        check_form(self._form or form, form, "the chunk", "the stream so far")
        self._form = form

    def _add_mass(self, n, sample_weight):
        with np.errstate(over="ignore"):
            self._mass += n if sample_weight is None else float(sample_weight.sum())
        if not self._mass < np.inf:
            raise ValueError(
                "sample_weight must have a finite sum over the whole stream, got inf: scale the "
                "weights."
            )

    def _chooser(self):
        return (
            self.selector._in_a_stream() if isinstance(self.selector, Selector) else self.selector
        )

    def _chunk_rows(self, X, y, sample_weight):
        """Rows of an open chunk as Rows with ids from `n_seen_` on: copies, which the caller
        cannot change."""
        X, y, sample_weight = (
            a if a is None or sparse.issparse(a) else np.array(a) for a in (X, y, sample_weight)
        )
        n = X.shape[0]
        return Rows(
            X,
            y,
            np.ones(n) if sample_weight is None else sample_weight,
            self.n_seen_ + np.arange(n),
        )

    def _reduce(self, nodes, level, index):
        if sum(map(len, nodes)) > self.size:
            self.n_reductions_ += 1
        rng = np.random.default_rng([self.seed_, level, index])
        # What takes words and categories may ask for columns by their names.
        seen_as = None if self._frame is None else partial(frame_like, self._frame)
        return reduced(nodes, self._chooser(), self.size, rng, seen_as)


def _checked_weight(sample_weight, n):
    # A part of a stream, unlike a whole data set, may have no row that counts.
    if sample_weight is None:
        return None
    sample_weight = as_array(sample_weight)
    none_counts = sample_weight.shape == (n,) and not sample_weight.any()
    return sample_weight if none_counts else check_sample_weight(sample_weight, n)
