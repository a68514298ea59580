"""`ReplayBuffer`: a memory of past tasks in which each has an equal part."""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from handful.checks import accepts_of, as_generator, check_in_memory, check_sample_weight
from handful.forms import check_form, kind_of_labels, names_of_labels, type_of
from handful.options import Count, Options, check_options, restored
from handful.parts import check_selector, choose
from handful.tables import (
    as_array,
    canonical,
    is_table,
    missing,
    names_of,
    readable,
    row_array,
    take_rows,
)
from handful.types import Seed


@dataclass(frozen=True)
class Memory:
    """The rows that are kept of one task, the most important ones first.

    Attributes
    ----------
    X : array or torch tensor, shape (m, ...), the rows
    y : array or torch tensor, shape (m,) or (m, classes), their labels, or None
    indices : int array, shape (m,); positions in the task's data
    """

    X: object
    y: object
    indices: np.ndarray

    def __len__(self):
        return len(self.indices)

    def first(self, size):
        """The `Memory` of the first `size` rows, copied: a view would keep all rows alive, and be
        pickled with them."""
        if size >= len(self):
            return self
        rows = np.arange(size)
        return Memory(take_rows(self.X, rows), take_rows(self.y, rows), self.indices[rows])


class ReplayBuffer(Options):
    """A memory of `size` rows, shared equally among the tasks seen so far (Borsos et al. 2024,
    Section 4.1).

    After task t each older task keeps its first ``size // t`` rows, and a selector chooses as many
    of the new task. The first k rows that a greedy selector chooses are those that it would choose
    if asked for k. The rows of a selector whose order has no meaning are shuffled once, so that the
    first k are a random part of them.

    Parameters
    ----------
    selector : Selector
        What chooses the rows, such as `BilevelCoreset`. Its own `size` and `random_state` are
        not used.
    size : int, default=100
        Rows of the whole memory.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.

    Attributes
    ----------
    memories_ : list of Memory, one for each task, that of the first task first

    Examples
    --------
    In a training loop with the loss of Section 4.1: the mean loss of the minibatch, plus beta times
    the sum, over the old tasks, of their mean losses:

    >>> import torch
    >>> from handful import KCenter
    >>> from torch.nn.functional import cross_entropy
    >>> tasks = [(torch.randn(200, 2) + 3 * t, torch.randint(2, (200,))) for t in range(3)]
    >>> model = torch.nn.Linear(2, 2)
    >>> optimiser = torch.optim.Adam(model.parameters())
    >>> memory = ReplayBuffer(KCenter(), size=30, random_state=0)
    >>> for X, y in tasks:
    ...     for step in range(10):
    ...         loss = cross_entropy(model(X), y)
    ...         if len(memory):
    ...             X_old, y_old, w = memory.rows()
    ...             loss = loss + 0.1 * w @ cross_entropy(model(X_old), y_old, reduction="none")
    ...         optimiser.zero_grad()
    ...         loss.backward()
    ...         _ = optimiser.step()
    ...     memory = memory.add(X, y)
    >>> [len(m) for m in memory.memories_]
    [10, 10, 10]
    """

    selector: Any
    size: Count = 100
    _: KW_ONLY
    random_state: Seed = None

    def __len__(self):
        return sum(map(len, getattr(self, "memories_", ())))

    def add(self, X, y=None, *, view=None, sample_weight=None):
        """Keep some rows of a task that was learned, and fewer of the older tasks.

        An error, and Ctrl-C, leaves the memory as it was: the next task gives what it would have
        given.

        Parameters
        ----------
        X : array or torch tensor, shape (n, ...), the rows of the task; or a list of texts or
            images, which is kept as an array of objects. If fewer rows than the share of a task
            have a positive weight, all of these are kept
        y : labels, shape (n,), or soft labels, shape (n, classes), if the selector takes them; None
            if it needs none
        view : array, shape (n, d), from which the selector chooses instead of `X`, such as
            embeddings or gradients (see `handful.continual.network_views`) or features of a proxy;
            None: the rows of `X` as vectors
        sample_weight : shape (n,), how often each row counts for the selector

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for more tasks than rows in the memory, a `view` of another length, rows of another
            kind, shape or dtype than those held, labels of another kind (words, numbers), shape or
            names of columns, and data that the selector refuses
        TypeError
            if `selector` is no selector, `view` no array, or `X` sparse or without rows, such as a
            `torch.utils.data.Dataset`
        """
        with restored(self, BaseException):
            return self._add(X, y, view, sample_weight)

    def _add(self, X, y, view, sample_weight):
        memories = getattr(self, "memories_", [])
        check_selector(self.selector)
        check_options(self)
        check_in_memory("ReplayBuffer", X, y, view, sample_weight)
        X = _checked_rows(X)
        y = _label_array(y)
        n_tasks = len(memories) + 1
        share = self.size // n_tasks
        if share < 1:
            raise ValueError(
                f"a memory of size={self.size} holds no row of each of {n_tasks} tasks: use a "
                "larger one."
            )
        if len(X) == 0:
            raise ValueError("the task has no rows: there is nothing to remember of it.")
        _check_labels(y, len(X))
        columns = names_of(X) or None
        label_names = names_of_labels(y)
        if memories:
            held = _form(memories[0].X, memories[0].y, self._columns, self._label_names)
            form = _form(X, y, columns, label_names)
            check_form(held, form, "the task", "the memory")
        if view is None:
            is_frame = columns is not None and accepts_of(self.selector).frames
            view = X if is_frame else as_array(X).reshape(len(X), -1)
        else:
            view = _check_view(view, len(X))
        if not hasattr(self, "rng_"):
            self.rng_ = as_generator(self.random_state)
        indices = self._chosen(view, y, sample_weight, share, n_tasks)
        shortened = [memory.first(share) for memory in memories]
        newest = Memory(_kept(X, indices), _kept(y, indices), np.asarray(indices))
        self.memories_ = [*shortened, newest]
        self._columns = columns
        self._label_names = label_names
        return self

    def _chosen(self, view, y, sample_weight, share, n_tasks):
        # Places of the rows of a task that are remembered, the first the longest.
        n_present = np.count_nonzero(check_sample_weight(sample_weight, view.shape[0]))
        size = min(share, n_present)
        selector = clone(self.selector).set_params(size=size, random_state=self.rng_)
        try:
            indices, _ = choose(selector, view, readable(y), sample_weight, self.rng_)
        except ValueError as error:
            if f"size={share}" not in str(error):
                raise
            why = (
                f"the share of each of {n_tasks} tasks in a memory of {self.size} rows is "
                f"{self.size} // {n_tasks}"
            )
            raise ValueError(
                f"{error} That size is not the selector's own: {why} = {share}."
            ) from error
        if not getattr(selector, "_ranks", False):
            indices = self.rng_.permutation(indices)
        return indices

    def rows(self):
        """All rows of the memory, with weights under which every task counts as one: ``(X, y,
        weights)``.

        Returns
        -------
        X, y : rows and labels of the first task, then of the second, and so on; `y` is None without
            labels
        weights : shape (m,), 1 over the number of rows held of the row's task: ``weights @ losses``
            is the sum over the tasks of their mean losses; a float32 tensor if X is a tensor

        Raises
        ------
        ValueError
            before the first task
        """
        parts = getattr(self, "memories_", ())
        if not parts:
            raise ValueError("the memory is empty: add a task first.")
        weights = np.concatenate([np.full(len(m), 1.0 / len(m)) for m in parts])
        y = None if parts[0].y is None else _concatenate([m.y for m in parts])
        X = _concatenate([m.X for m in parts])
        if hasattr(X, "new_tensor"):
            import torch

            weights = torch.as_tensor(weights, dtype=torch.float32, device=X.device)
        return X, y, weights


def _checked_rows(X):
    if sparse.issparse(X):
        raise TypeError(
            "X must be an array or a torch tensor, got a sparse matrix: use X.toarray()."
        )
    if isinstance(X, list | tuple):
        return X if is_table(X) else row_array(X)
    # A column of arrow has no shape.
    shape = getattr(X, "shape", None)
    has_rows = hasattr(X, "__array__") if shape is None else len(shape) > 0
    if not has_rows:
        got = type(X).__name__ if shape is None else f"{type(X).__name__} of shape ()"
        raise TypeError(
            f"X must hold rows, as an array, a torch tensor, a frame or a list does, got {got}"
            f"{_way_out(X)}."
        )
    return _shown(X)


def _way_out(X):
    # What makes tensors of a torch Dataset.
    is_dataset = any(base.__module__.startswith("torch.utils.data") for base in type(X).__mro__)
    if not is_dataset:
        return ""
    return (
        ": X, y = next(iter(DataLoader(dataset, batch_size=len(dataset)))) has its rows as tensors"
    )


def _label_array(y):
    # numpy would make a word of a label that is missing among words
    if not isinstance(y, list | tuple):
        return _shown(y)
    return np.asarray(y, dtype=object) if missing(y).any() else np.asarray(y)


def _shown(values):
    # What a masked array hides is missing, and its mask would be lost where tasks are joined.
    return as_array(values) if isinstance(values, np.ma.MaskedArray) else values


def _kept(array, indices):
    rows = None if array is None else take_rows(array, indices)
    if hasattr(rows, "detach"):
        return rows.detach()
    return _own(rows.to_numpy() if hasattr(rows, "iloc") else rows)


def _own(rows):
    # Things such as images are copied, too, so that whoever changes them does not change these.
    return deepcopy(rows) if as_array(rows).dtype.kind == "O" else rows


def _check_view(view, n):
    if hasattr(view, "embeddings"):
        raise TypeError(
            f"view must be an array, got {type(view).__name__}: give its .embeddings or .gradients."
        )
    view = canonical(view) if sparse.issparse(view) else as_array(view)
    if view.shape[:1] != (n,):
        got = view.shape[0] if view.ndim else f"shape {view.shape}"
        raise ValueError(f"view must have a row for each of the {n} rows of X, got {got}.")
    return view


def _check_labels(y, n):
    shape = (n,) if y is None else tuple(np.shape(y))
    if shape[:1] != (n,) or len(shape) > 2 or shape[1:] == (1,):
        raise ValueError(
            f"y must have shape ({n},), one label a row, or ({n}, classes) if they are soft, got "
            f"{shape}."
        )


def _form(X, y, columns, label_names):
    # What must not differ between tasks whose rows are joined, in words; `columns` and
    # `label_names` are the names of the columns of frames.
    X, y = (a if a is None or hasattr(a, "new_tensor") else np.asarray(a) for a in (X, y))
    kind = "numbers" if y is None or hasattr(y, "new_tensor") else kind_of_labels(y)
    return {
        "X": f"X: {_about(X)}, {type_of(X)}",
        "columns": "no names of columns" if columns is None else f"columns {list(columns)}",
        "y": "no labels" if y is None else f"y: {_about(y)}, {kind}",
        "names": f"y of columns {label_names}" if label_names else "no names of columns of y",
    }


def _about(rows):
    return f"{type(rows).__name__} of rows of shape {tuple(rows.shape[1:])} on {rows.device}"


def _concatenate(parts):
    if hasattr(parts[0], "new_tensor"):
        import torch

        return torch.cat(parts)
    return _own(np.concatenate(parts))
