"""The base class of all samplers of points (batches, importance weights, feedback) and the uniform
sampler."""

from typing import Any, ClassVar

import numpy as np

from handful.checks import as_generator, check_in_memory
from handful.options import Count, check_options, explained
from handful.sampling.state import Stateful
from handful.tables import as_array
from handful.types import Seed, Table

LARGEST_LOSS = 1e140


class Sampler(Stateful):
    """Draws batches of points with replacement and learns, where it can, from the losses they gave.

    ``sample() -> (indices, weights)``
        `indices`, int array of shape (b,), drawn from q; `weights`, shape (b,), are 1/(n q(i)):
        their mean is about one and ``(weights * losses).mean()`` estimates the mean loss over all n
        points without bias.
    ``update(losses)``
        the feedback for the batch drawn last, shape (b,): the loss, or better the gradient norm, of
        each of its points. With `indices` and `weights` it may answer any earlier batch.
    ``state_dict()``, ``load_state_dict(state)``
        what `torch.save` takes and `torch.load` reads by default; for a sampler that is made like
        this one.

    A sampler that was pickled, or whose state was loaded, goes on as if nothing had been: with the
    batch after the last one that a DataLoader has handed over, however many its workers have
    fetched ahead (`AdaptiveBatchSampler`).

    A subclass implements `_draw() -> (indices, weights, ...)`, where what follows is for itself,
    and, if it learns, `_learn(drawn, losses)` from such a tuple and `_drawn_earlier(indices,
    weights)`, which makes one of an earlier batch. It annotates the types of its own options
    (`handful.options`), sets these before it calls `__init__`, and adds to `_state` what changes.

    Parameters
    ----------
    n : int, number of points
    batch_size : int, b
    random_state : int, Generator, RandomState or None
    """

    n: Count
    batch_size: Count

    _state: ClassVar[tuple[str, ...]] = ("rng", "_delivered", "_waiting")
    _same: ClassVar[tuple[str, ...]] = ("n", "batch_size")

    def __init__(self, n: int, *, batch_size: int, random_state: Seed) -> None:
        self.n = n
        self.batch_size = batch_size
        check_options(self)
        if batch_size > n:
            raise ValueError(
                f"batch_size must be at most the number of points, got batch_size={batch_size} for "
                f"n={n}."
            )
        self.n = int(n)
        self.batch_size = int(batch_size)
        self.rng = as_generator(random_state)
        self._last: Any = None
        self._next: list = []
        self._epoch: Any = None

    def __getstate__(self):
        here = {**vars(self), "_epoch": None}
        here.update(_last=self._delivered, _next=self._waiting)
        return here

    def __iter__(self):
        raise TypeError(
            f"{type(self).__name__} is no sampler of torch: give a DataLoader "
            "batch_sampler=AdaptiveBatchSampler(sampler), and the data set as Weighted(dataset)."
        )

    @property
    def _waiting(self):
        # Batches that were drawn, but not delivered: by a loader that fetches ahead, before or
        # after a state was taken.
        return [*(self._epoch.waiting() if self._epoch else []), *self._next]

    @_waiting.setter
    def _waiting(self, batches):
        self._epoch = None
        self._next = batches

    @property
    def _delivered(self):
        # The batch that was delivered last, by a loader or by hand, which `update` answers.
        by_loader = self._epoch.delivered() if self._epoch else None
        return self._last if by_loader is None else by_loader

    @_delivered.setter
    def _delivered(self, drawn):
        self._last = drawn

    def _draw(self) -> Any:
        raise NotImplementedError

    def _drawn_earlier(self, indices: Any, weights: Any) -> Any:
        return indices, weights

    def _learn(self, drawn: Any, losses: np.ndarray) -> None:
        pass

    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw a batch: `(indices, weights)`, both of shape (batch_size,)."""
        self._last = self._drawn()
        if self._epoch:
            self._epoch.drawn_by_hand()
        indices, weights = self._last[:2]
        # the caller's to change, while `update` still needs what was drawn
        return indices.copy(), weights.copy()

    def _drawn(self):
        # The next batch, as `_draw` gives it.
        return self._next.pop(0) if self._next else self._draw()

    def update(self, losses: Table, indices: Any = None, weights: Any = None) -> None:
        """Take the feedback for one batch.

        Parameters
        ----------
        losses : array or torch tensor, shape (b,), finite and not negative; what is to have a small
            variance under the weights: the loss, or the norm of the point's gradient
        indices, weights : what `sample` gave for that batch; needed only when it is not the latest
            one

        Raises
        ------
        ValueError
            for negative or non-finite losses, wrong lengths, and weights without indices
        RuntimeError
            when nothing has been drawn yet
        """
        losses = as_vector(losses)
        answered = self._delivered
        if indices is None:
            if weights is not None:
                raise ValueError(
                    "weights go with the indices of an earlier batch: update(losses, indices, "
                    "weights)."
                )
            if answered is None:
                raise RuntimeError(
                    "update() takes the losses of a drawn batch: call sample() first."
                )
            expected = self.batch_size
        else:
            indices = as_vector(indices, None)
            weights = as_vector(weights)
            if indices.dtype.kind not in "iu":
                raise ValueError(
                    f"indices must be integers, got {indices.dtype}: update(losses, indices, "
                    "weights)."
                )
            indices = indices.astype(np.int64)
            expected = len(indices)
            if (
                expected == 0
                or indices.min() < 0
                or indices.max() >= self.n
                or len(weights) != expected
            ):
                raise ValueError(
                    f"an earlier batch needs indices in 0..{self.n - 1} and as many weights."
                )
            if not (np.isfinite(weights) & (weights > 0)).all():
                raise ValueError("weights must be finite and positive, as sample() gave them.")
        if losses.shape != (expected,):
            raise ValueError(
                f"losses must have shape ({expected},), one a drawn point, got {losses.shape}."
            )
        check_losses(losses)
        self._learn(answered if indices is None else self._drawn_earlier(indices, weights), losses)


def as_vector(values, dtype=np.float64):
    """An array or torch tensor of real numbers as a contiguous array; TypeError for complex
    ones."""
    check_in_memory("update", values)
    values = as_array(values)
    if np.iscomplexobj(values):
        raise TypeError("losses, errors and weights must be real, got complex numbers.")
    return np.ascontiguousarray(values, dtype=dtype)


def check_losses(losses):
    """ValueError unless `losses` are not negative and below `LARGEST_LOSS`."""
    good = (losses >= 0) & (losses < LARGEST_LOSS)
    if not good.all():
        bad = int(np.argmin(good))
        raise ValueError(
            f"losses must be finite, not negative and below {LARGEST_LOSS:.0e}, as their squares "
            "are added up; got "
            f"{losses[bad]} at position {bad}."
        )


class UniformSampler(Sampler):
    """Draws points uniformly, all with weight one: the yardstick for the other samplers.

    Parameters
    ----------
    n : int
        Number of points.
    batch_size : int, default=100
        Points a batch.
    random_state : int, Generator, RandomState or None, default=None
        Seeds all that is drawn; None draws anew each time.
    """

    @explained
    def __init__(self, n: int, *, batch_size: int = 100, random_state: Seed = None) -> None:
        super().__init__(n, batch_size=batch_size, random_state=random_state)

    def _draw(self):
        return self.rng.integers(self.n, size=self.batch_size), np.ones(self.batch_size)
