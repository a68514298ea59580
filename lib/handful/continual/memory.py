"""`ReplayBuffer`: a memory of past tasks, an equal part of it for each."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, clone

from handful.checks import as_generator, check_integer, check_sample_weight
from handful.coreset import Coreset, check_selector, choose


@dataclass(frozen=True)
class Memory:
    """The rows that one task left, in the order in which a smaller memory would keep them.

    Attributes
    ----------
    X : rows, array or torch tensor, shape (m, ...)
    y : their labels, shape (m,), or None
    indices : int array, shape (m,); positions in the task's data
    """

    X: object
    y: object
    indices: np.ndarray

    def __len__(self):
        return len(self.indices)

    def first(self, size):
        """The first `size` rows."""
        y = None if self.y is None else self.y[:size]
        return Memory(self.X[:size], y, self.indices[:size])


class ReplayBuffer(BaseEstimator):
    """A memory of `size` rows, shared equally among the tasks seen so far (Borsos et al. 2024, Section 4.1).

    After task t every older task keeps its first ``size // t`` rows, and a selector chooses as many of the new one.
    Greedy selectors put the most important rows first, so that the first k of a selection are the selection of k; where
    a selector's order says nothing, the rows are shuffled once, so that the first k are a random part of them.

    Parameters
    ----------
    selector : Selector, such as `BilevelCoreset`; its own `size` and `random_state` are not used. A `Network` with a
        `checkpoint` is for a single fit, so not for the selections of several tasks
    size : int, rows of the whole memory
    random_state : None, int or Generator

    Attributes
    ----------
    memories_ : list of Memory, one a task, the oldest first

    Examples
    --------
    In a training loop, with the loss of section 4.1, ``mean loss of the minibatch + beta * sum over old tasks of
    their mean losses``:

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

    def __init__(self, selector, size=100, *, random_state=None):
        self.selector = selector
        self.size = size
        self.random_state = random_state

    def __len__(self):
        return sum(map(len, getattr(self, "memories_", ())))

    def add(self, X, y=None, *, view=None, sample_weight=None):
        """Summarise a task that was learned, and make room for it.

        Parameters
        ----------
        X : array or torch tensor, shape (n, ...), the rows to keep; a task of fewer rows than its share is kept whole,
            but for rows of weight zero
        y : labels, shape (n,), or soft ones, shape (n, classes), for selectors that take them; None for selectors and
            losses that need none
        view : array, shape (n, d), what the selector looks at instead of `X`: embeddings, gradients, proxy features
            (see `handful.continual.views`); by default the rows of `X` as vectors
        sample_weight : shape (n,), how often each row counts for the selector

        Returns
        -------
        self

        Raises
        ------
        ValueError
            if there are now more tasks than rows in the memory, `view` has another length, the rows or labels are not
            of the kind, shape and dtype that the memory holds, or the selector refuses the data.
        TypeError
            if `selector` is no selector, or `view` no array.
        """
        memories = getattr(self, "memories_", [])
        check_selector(self.selector)
        check_integer("size", self.size)
        n_tasks = len(memories) + 1
        share = self.size // n_tasks
        if share < 1:
            raise ValueError(f"a memory of size={self.size} holds no row of each of {n_tasks} tasks: use a larger one.")
        if len(X) == 0:
            raise ValueError("the task has no rows: there is nothing to remember of it.")
        _check_labels(y, len(X))
        if memories:
            _check_alike(memories[0], X, y)
        view = _numpy(X).reshape(len(X), -1) if view is None else check_view(view, len(X))
        size = min(share, np.count_nonzero(check_sample_weight(sample_weight, len(X))))
        if not hasattr(self, "rng_"):
            self.rng_ = as_generator(self.random_state)
        selector = clone(self.selector).set_params(size=size, random_state=self.rng_)
        try:
            indices, _ = choose(selector, view, None if y is None else _numpy(y), sample_weight, self.rng_)
        except ValueError as error:
            if f"size={share}" not in str(error):
                raise
            why = f"the share of each of {n_tasks} tasks in a memory of {self.size} rows is {self.size} // {n_tasks}"
            raise ValueError(f"{error} That size is not the selector's own: {why} = {share}.") from error
        if not getattr(selector, "_ranks", False):
            indices = self.rng_.permutation(indices)
        new = remember(X, y, np.asarray(indices))
        self.memories_ = [*(m.first(share) for m in memories), new]
        return self

    def rows(self):
        """All rows of the memory with weights under which each task counts as one: ``(X, y, weights)``.

        Returns
        -------
        X, y : what `add` was given, the oldest task first (y None without labels)
        weights : shape (m,), ``1 / rows`` of the row's own task, so that their product with the losses is the sum over
            tasks of the mean loss; a float32 tensor where X is a tensor

        Raises
        ------
        ValueError
            before the first task.
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


def remember(X, y, indices):
    """The `Memory` of some rows of a task; y may be None."""
    chosen = Coreset(indices, np.ones(len(indices)))
    kept, labels, _ = chosen.take(X, y)
    return Memory(*(a.to_numpy() if hasattr(a, "iloc") else a for a in (kept, labels)), indices)


def check_view(view, n):
    """The view of `n` rows that a selector looks at, as an array.

    Raises
    ------
    TypeError
        for the `Views` of a network, which hold several
    ValueError
        for another number of rows
    """
    if hasattr(view, "embeddings"):
        raise TypeError(f"view must be an array, got {type(view).__name__}: give its .embeddings or .gradients.")
    view = _numpy(view)
    if view.shape[:1] != (n,):
        got = len(view) if view.ndim else f"shape {view.shape}"
        raise ValueError(f"view must have a row for each of the {n} rows of X, got {got}.")
    return view


def _check_labels(y, n):
    shape = (n,) if y is None else tuple(np.shape(y))
    if shape[:1] != (n,) or len(shape) > 2 or shape[1:] == (1,):
        raise ValueError(f"y must have shape ({n},), one label a row, or ({n}, classes) if they are soft, got {shape}.")


def _check_alike(held, X, y):
    # What `rows` could not put together is refused before it is taken.
    if (y is None) != (held.y is None):
        raise ValueError(f"the memory holds rows {'without' if held.y is None else 'with'} labels: give y alike.")
    for name, before, given in (("X", held.X, X), ("y", held.y, y)):
        if given is None:
            continue
        if hasattr(given, "new_tensor") != hasattr(before, "new_tensor"):
            raise ValueError(f"{name} must be a torch tensor for every task, or an array for every task.")
        shape, shape_before = tuple(np.shape(given)[1:]), tuple(before.shape[1:])
        if shape != shape_before:
            raise ValueError(f"the rows of {name} must have shape {shape_before} as those of the memory, got {shape}.")
        if hasattr(given, "new_tensor") and given.device != before.device:
            raise ValueError(f"{name} must be on {before.device} as that of the memory, got {given.device}.")
    dtypes = [X.dtype if hasattr(X, "new_tensor") else np.asarray(X).dtype, held.X.dtype]
    if dtypes[0] != dtypes[1]:
        raise ValueError(f"X must hold {dtypes[1]} as the memory does, got {dtypes[0]}: convert it.")
    if y is not None and not hasattr(y, "new_tensor"):
        kinds = [np.asarray(labels).dtype.kind in "OUS" for labels in (held.y, y)]
        if kinds[0] != kinds[1]:
            raise ValueError("y must hold words for every task, or numbers for every task.")


def _numpy(array):
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def _concatenate(parts):
    if hasattr(parts[0], "new_tensor"):
        import torch

        return torch.cat(parts)
    return np.concatenate(parts)
