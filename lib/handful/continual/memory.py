"""`ReplayBuffer`: a memory of past tasks, an equal part of it for each."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, clone

from handful.checks import as_generator, check_integer
from handful.coreset import Coreset, choose


@dataclass(frozen=True)
class Memory:
    """The rows that one task left, in the order of selection.

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
    Selectors put the most important rows first, so that the first k of a greedy selection are the selection of k.

    Parameters
    ----------
    selector : Selector, such as `BilevelCoreset`; its own `size` and `random_state` are not used
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
        X : array or torch tensor, shape (n, ...), the rows to keep; a task of fewer rows than its share is kept whole
        y : labels, shape (n,); None for selectors and losses that need none
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
            of the kind that the memory holds, or the selector refuses the data.
        """
        memories = getattr(self, "memories_", [])
        check_integer("size", self.size)
        share = self.size // (len(memories) + 1)
        if share < 1:
            raise ValueError(
                f"a memory of size={self.size} holds no row of each of {len(memories) + 1} tasks: use a larger one."
            )
        if len(X) == 0:
            raise ValueError("the task has no rows: there is nothing to remember of it.")
        if memories:
            _check_alike(memories[0], X, y)
        if view is None:
            view = _numpy(X).reshape(len(X), -1)
        if len(view) != len(X):
            raise ValueError(f"view must have a row for each of the {len(X)} rows of X, got {len(view)}.")
        if not hasattr(self, "rng_"):
            self.rng_ = as_generator(self.random_state)
        selector = clone(self.selector).set_params(size=min(share, len(X)), random_state=self.rng_)
        labels = None if y is None else _numpy(y)
        indices, _ = choose(selector, _numpy(view), labels, sample_weight, self.rng_)
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


def _check_alike(held, X, y):
    # What `rows` could not put together is refused before it is taken.
    shape, before = tuple(np.shape(X)[1:]), tuple(held.X.shape[1:])
    if shape != before:
        raise ValueError(f"the rows of X must have shape {before} as those of the memory, got {shape}.")
    if (y is None) != (held.y is None):
        raise ValueError(f"the memory holds rows {'without' if held.y is None else 'with'} labels: give y alike.")
    if hasattr(X, "new_tensor") != hasattr(held.X, "new_tensor"):
        raise ValueError("X must be a torch tensor for every task, or an array for every task.")
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
