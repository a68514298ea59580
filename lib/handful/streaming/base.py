"""`StreamMemory`: what merge and reduce and the reservoirs share: checks of the input, and the rows they hold."""

from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from handful.blocks import is_blocks
from handful.checks import as_generator, check_integer, check_sample_weight
from handful.coreset import Coreset, check_selector, reduced
from handful.streaming.files import read_nodes, write_nodes
from handful.types import Block, Table

FIXED = ("size", "leaf_size", "n_slots", "window")  # options that cannot change between the chunks of a stream

# What the first chunk of a stream decides for the later ones, and the error for a chunk that differs.
FORMS = {
    "rows": "X is {now}, but the stream began with {before} rows; give every chunk in the same form.",
    "y": "y must be given with every chunk of a stream, or with none.",
    "labels": "y holds {now}, but the stream began with {before}: they would be taken for further classes.",
}


class StreamMemory(BaseEstimator):
    """Base class: checks each chunk of a stream, and gives the weighted rows that a subclass holds.

    A subclass implements ``_coreset_rows() -> Block``. The attributes that it learns are replaced, never changed in
    place, so that an error in the middle of a chunk can restore the old ones.
    """

    def rows(self) -> Any:
        """The coreset with its rows: ``(X, y, weights)``.

        Returns
        -------
        X : array or CSR matrix, shape (m, d), also where the chunks were frames: their columns in the order of
            `feature_names_in_`
        y : array, shape (m,), or None if the stream has no labels
        weights : float array, shape (m,)

        Raises
        ------
        ValueError
            before the first row, and where `size` or another option of the stream has changed since it began
        """
        node = self._coreset_rows()
        return node.X, node.y, node.weights

    @property
    def coreset_(self) -> Any:
        """The `Coreset` of everything so far; its indices are positions in the stream."""
        node = self._coreset_rows()
        return Coreset(node.ids, node.weights)

    @property
    def indices_(self) -> Any:
        return self._coreset_rows().ids

    @property
    def weights_(self) -> Any:
        return self._coreset_rows().weights

    def take(self, X: Table, *arrays: Any) -> list:
        """Shorthand for ``self.coreset_.take(X, *arrays)``, for arrays of the whole stream; `rows` needs no arrays.

        Raises
        ------
        ValueError
            for an array that is shorter than the stream so far, and before the first row
        """
        coreset = self.coreset_
        n = min((_n_rows(a) for a in (X, *arrays) if a is not None and not is_blocks(a)), default=self.n_seen_)
        if n < self.n_seen_:
            raise ValueError(
                f"take needs the whole stream, {self.n_seen_} rows so far, got {n}; "
                "rows() gives the rows held, their labels and their weights."
            )
        return coreset.take(X, *arrays)

    def subset(self, dataset: Any) -> Any:
        """Shorthand for ``self.coreset_.subset(dataset)``, for a data set that holds the whole stream."""
        return self.coreset_.subset(dataset)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "seed_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if isinstance(getattr(self, "selector", None), BaseEstimator):
            inner = get_tags(self.selector)
            tags.input_tags.sparse, tags.target_tags = inner.input_tags.sparse, inner.target_tags
            tags.estimator_type, tags.classifier_tags = inner.estimator_type, inner.classifier_tags
        return tags

    # --- for subclasses

    def _write(self, path, nodes, **more):
        """Save a tree: see `MergeReduce.save`."""
        self._check_begun()
        names = getattr(self, "feature_names_in_", None)
        state = dict(
            kind=type(self).__name__,
            selector=repr(self.selector),
            options=self._began_with,
            seed=self.seed_,
            n_seen=self.n_seen_,
            n_reductions=self.n_reductions_,
            n_features=self.n_features_in_,
            names=None if names is None else list(names),
            forms=self._forms,
        )
        return write_nodes(path, nodes, state | more)

    @classmethod
    def _read(cls, path, selector):
        """A tree as `_write` saved it, without its nodes, which come second, and then the rest of the state."""
        nodes, state = read_nodes(path)
        for name, now in (("kind", cls.__name__), ("selector", repr(selector))):
            if state[name] != now:
                raise ValueError(f"{path} was saved with the {name} {state[name]}, got {now}.")
        tree = cls(selector, **state["options"])
        tree._start()
        tree.seed_, tree.n_seen_, tree.n_reductions_ = state["seed"], state["n_seen"], state["n_reductions"]
        tree.n_features_in_, tree._forms = state["n_features"], state["forms"]
        if state["names"] is not None:
            tree.feature_names_in_ = np.array(state["names"], dtype=object)
        return tree, nodes, state

    def _forget(self, X, sample_weight=None):
        """Begin anew with the data of a `fit`, which must have a row that counts; a later chunk need not."""
        self._begin_anew()
        if is_blocks(X, sample_weight):
            return
        if _n_rows(X) == 0:
            raise ValueError("fit needs at least 1 row, got 0; partial_fit takes chunks without rows.")
        if sample_weight is not None and not np.asarray(sample_weight).any():
            raise ValueError("sample_weight is zero for all rows; partial_fit takes chunks in which no row counts.")

    def _begin_anew(self):
        for name in ("seed_", "n_features_in_"):
            if hasattr(self, name):
                delattr(self, name)

    def _start(self):
        self._began_with = self._fixed()
        for name, value in self._began_with.items():
            if name not in ("n_slots", "window") or value is not None:
                check_integer(name, value)
        self.seed_ = int(as_generator(self.random_state).integers(2**32))
        self.n_seen_ = self.n_reductions_ = 0
        self._forms = {}

    def _fixed(self):
        return {name: getattr(self, name) for name in FIXED if hasattr(self, name)}

    def _check_begun(self):
        check_is_fitted(self, "seed_")
        for name, value in self._fixed().items():
            if value != self._began_with[name]:
                raise ValueError(
                    f"{name} cannot change once a stream has begun: it began with {name}={self._began_with[name]!r}, "
                    f"got {name}={value!r}; fit begins a new stream."
                )

    @contextmanager
    def _all_or_nothing(self, errors=Exception):
        """Restore all attributes if the block raises one of `errors`."""
        before = dict(vars(self))
        try:
            yield
        except errors:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _open(self, X, y, sample_weight):
        """Begin a stream, or go on with it; returns the chunk, all of it checked but the values of X."""
        if not hasattr(self, "seed_"):
            self._start()
        self._check_begun()
        if hasattr(self, "selector"):
            check_selector(self.selector)
            if y is None and getattr(self.selector, "_needs_y", False):
                raise ValueError(
                    f"{type(self.selector).__name__} requires y to be passed, but the target y is None: "
                    "give the labels of every chunk."
                )
        X = X.tocsr() if sparse.issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
        if len(X.shape) != 2:
            raise ValueError(f"X must be 2-d, rows and features, got shape {X.shape}.")
        if X.shape[1] == 0:
            raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        validate_data(self, X, reset=not hasattr(self, "n_features_in_"), skip_check_array=True)  # names and width
        self._check_form("rows", "sparse" if sparse.issparse(X) else "dense")
        return X, self._check_labels(y, X.shape[0]), self._check_weights(sample_weight, X.shape[0])

    def _check_form(self, what, now):
        before = self._forms.get(what, now)
        if now != before:
            raise ValueError(FORMS[what].format(now=now, before=before))
        self._forms = {**self._forms, what: now}

    def _check_labels(self, y, n):
        self._check_form("y", y is not None)
        if y is None:
            return None
        y = np.asarray(y)
        if y.shape != (n,):
            raise ValueError(f"y must have shape ({n},), one label a row, got {y.shape}.")
        if y.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: y must hold labels, got {y.dtype}.")
        if n:
            assert_all_finite(y, input_name="y")
            self._check_form("labels", "words" if y.dtype.kind in "OUS" else "numbers")
        return y

    def _check_weights(self, sample_weight, n):
        if sample_weight is None:
            return None
        sample_weight = np.asarray(sample_weight)
        # A part of a stream, unlike a whole data set, may have no row that counts.
        absent = sample_weight.shape == (n,) and not sample_weight.any()
        return np.zeros(n) if absent else check_sample_weight(sample_weight, n)

    def _chunk_rows(self, X, y, sample_weight):
        """Rows of an open chunk as a Block with ids from `n_seen_` on, once their values are checked."""
        X = X if sparse.issparse(X) else np.array(X)  # copies: no view of a file, or of what the caller may change
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported: X must hold real numbers.")
        if X.dtype.kind not in "fiub":
            X = X.astype(np.float64)
        if not np.isfinite(X.data if sparse.issparse(X) else X).all():
            raise ValueError("X contains NaN or infinity: every value of a stream must be finite.")
        n = X.shape[0]
        weights = np.ones(n) if sample_weight is None else np.array(sample_weight)
        return Block(X, None if y is None else np.array(y), weights, self.n_seen_ + np.arange(n))

    def _reduce(self, nodes, level, index):
        if sum(map(len, nodes)) > self.size:
            self.n_reductions_ += 1
        return reduced(nodes, self.selector, self.size, np.random.default_rng([self.seed_, level, index]))


def _n_rows(X):
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return shape[0] if shape else None
