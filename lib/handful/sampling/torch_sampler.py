"""Adaptive sampling under a torch DataLoader: a torch `Sampler`, and a view that delivers
weights."""

import sys
from collections import deque

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset
from torch.utils.data import Sampler as TorchSampler

from handful.checks import check_integer
from handful.sampling.sampler import Sampler
from handful.sampling.state import Stateful


class AdaptiveBatchSampler(Stateful, TorchSampler):
    """The `batch_sampler` of a DataLoader that draws batches from one of handful's samplers.

    Yields lists of (index, importance weight); wrap the data set in `Weighted`, which knows what to
    do with the pairs. With worker processes the loader draws a few batches ahead, so give `update`
    the batch's indices and weights, as the example does.

    **Checkpoints.** ``state_dict()`` of this object, or of the sampler in it, is of the batches
    that the loop has been given: in the middle of an epoch, whatever workers have fetched ahead,
    the batch after these comes next, and the batches that were drawn ahead are delivered as they
    were drawn. `pickle` does the same. A loader that has a state itself, as torchdata's
    StatefulDataLoader, takes this one's into its own: save the loader's. To tell how far the loop
    is, the first `iter` of an epoch looks up the stack for the DataLoader that calls it; a loader
    of another kind has been given all batches that it asked for.

    Parameters
    ----------
    sampler : Sampler
        What draws the batches, such as a `MixtureSampler`; its batch size is the loader's.
    n_batches : int or None, default=None
        Batches an epoch; default: enough to draw n points.

    Attributes
    ----------
    batch_size : int, the sampler's
    drop_last : False, as all batches are of that size

    Raises
    ------
    TypeError
        if `sampler` is not one of handful's samplers; for options of torch's BatchSampler, with
        which trainers for several processes make batch samplers anew; where a DataLoader has it as
        `sampler`, or has no `Weighted` data
    ValueError
        if `n_batches` is no positive integer; where the data set of the DataLoader has another
        number of rows than the sampler

    Examples
    --------
    Train a classifier, drawing more often from the classes that have the loss::

        from handful.sampling import (
            AdaptiveBatchSampler,
            MixtureSampler,
            Weighted,
            group_components,
        )
        from torch.nn.functional import cross_entropy
        from torch.utils.data import DataLoader

        sampler = MixtureSampler(group_components(classes), batch_size=64)
        loader = DataLoader(Weighted(dataset), batch_sampler=AdaptiveBatchSampler(sampler))
        for epoch in range(10):
            for (x, y), indices, weights in loader:
                losses = cross_entropy(model(x), y, reduction="none")
                optimizer.zero_grad()
                (weights * losses).mean().backward()
                optimizer.step()
                sampler.update(losses, indices, weights)
    """

    drop_last = False

    _state = ("sampler", "_n_delivered")
    _same = ("n_batches",)

    def __init__(self, sampler, n_batches=None, **options) -> None:
        if options:
            raise TypeError(
                "AdaptiveBatchSampler takes a sampler of handful and n_batches, got "
                f"{', '.join(options)}: the batch "
                "size is that of its sampler. A trainer that makes batch samplers anew has to "
                "leave this one as it is: "
                "in Lightning Trainer(use_distributed_sampler=False)."
            )
        if not isinstance(sampler, Sampler):
            raise TypeError(
                f"sampler must be one of handful.sampling, such as MixtureSampler, got {sampler!r}."
            )
        if n_batches is None:
            n_batches = -(-sampler.n // sampler.batch_size)
        check_integer("n_batches", n_batches)
        self.sampler = sampler
        self.n_batches = int(n_batches)
        self._epoch = None
        self._first = 0

    def __getstate__(self):
        return {**vars(self), "_epoch": None, "_first": self._n_delivered}

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        callers = _owners_on_the_stack()
        if any(getattr(caller, "sampler", None) is self for caller in callers):
            raise TypeError(
                "AdaptiveBatchSampler draws batches: give the DataLoader batch_sampler=, not "
                "sampler=."
            )
        loader = next((caller for caller in callers if isinstance(caller, DataLoader)), None)
        in_loader = loader is not None and loader.batch_sampler is self
        if in_loader and not isinstance(loader.dataset, Weighted):
            raise TypeError(
                "an AdaptiveBatchSampler asks for items by (index, importance weight): give the "
                "DataLoader "
                f"Weighted(dataset), got {type(loader.dataset).__name__}."
            )
        if in_loader and len(loader.dataset) != self.sampler.n:
            raise ValueError(
                f"the sampler draws from {self.sampler.n} rows, and the data set of the DataLoader "
                f"has {len(loader.dataset)}: make the sampler for all of these."
            )
        # A loader with a state of its own asks for ours when it draws, and keeps it until the batch
        # is delivered.
        knows = loader is None or hasattr(loader, "state_dict")
        return _Epoch(self, 0 if knows else loader.num_workers * (loader.prefetch_factor or 0))

    @property
    def batch_size(self):
        """Points a batch: those of the sampler."""
        return self.sampler.batch_size

    @property
    def _n_delivered(self):
        # Batches of this epoch that were delivered; none after the last one.
        return (self._epoch.n_delivered() if self._epoch else self._first) % self.n_batches

    @_n_delivered.setter
    def _n_delivered(self, number):
        self._epoch = None
        self._first = number


class _Epoch:
    # The batches of an epoch, for a loader that asks for `ahead` of them before it delivers the
    # first, and then for one before it delivers each, also when there are no more. Of several
    # loaders the one that asked last has delivered last.

    def __init__(self, batches, ahead):
        self.batches = batches
        self.ahead = ahead
        self.first = batches._first
        self.n_asked = 0
        self.n_drawn = 0
        # Batches that it had delivered when one was drawn by hand.
        self.n_before = 0
        self.recent = deque(maxlen=ahead + 1)

    def __iter__(self):
        return self

    def __next__(self):
        sampler = self.batches.sampler
        # loaders make more iterators than they use
        if self.n_asked == 0:
            self.batches._first = 0
        if sampler._epoch is not self:
            sampler._last = sampler._delivered
            sampler._epoch = self
        self.batches._epoch = self
        self.n_asked += 1
        if self.first + self.n_drawn >= self.batches.n_batches:
            raise StopIteration
        drawn = sampler._drawn()
        self.n_drawn += 1
        self.recent.append(drawn)
        indices, weights = drawn[:2]
        return list(zip(indices.tolist(), weights.tolist()))

    def n_delivered(self):
        return self.first + self._n_here()

    def _n_here(self):
        # Batches that this epoch has delivered.
        return min(max(self.n_asked - self.ahead, 0), self.n_drawn)

    def waiting(self):
        return list(self.recent)[len(self.recent) - (self.n_drawn - self._n_here()) :]

    def delivered(self):
        # The batch before those that wait; None where all do, or one was drawn by hand since.
        n_here = self._n_here()
        return self.recent[n_here - self.n_drawn - 1] if n_here > self.n_before else None

    def drawn_by_hand(self):
        self.n_before = self._n_here()


def _owners_on_the_stack():
    # The loaders and torch's batch samplers whose methods are being run, the innermost first.
    owners = []
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, (DataLoader, BatchSampler)):
            owners.append(owner)
        frame = frame.f_back
    return owners


class Weighted(Dataset):
    """A view of `dataset` for an `AdaptiveBatchSampler`: items are (item, index, importance
    weight).

    So where items are pairs, ``for (X, y), indices, weights in DataLoader(Weighted(dataset),
    batch_sampler=batches)``.

    Parameters
    ----------
    dataset : map-style data set of torch
        The rows to train on; its items are delivered as they are.

    Raises
    ------
    TypeError
        when an item is asked for by its index alone, as a DataLoader without an
        `AdaptiveBatchSampler` does
    """

    def __init__(self, dataset) -> None:
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, draw):
        if not isinstance(draw, tuple):
            raise TypeError(
                f"an item of Weighted is asked for by (index, importance weight), got {draw!r}: "
                "give the DataLoader "
                "batch_sampler=AdaptiveBatchSampler(sampler)."
            )
        index, weight = draw
        return self.dataset[index], index, torch.tensor(weight, dtype=torch.float32)
