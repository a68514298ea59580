"""Adaptive sampling under a torch DataLoader: a torch `Sampler`, and a view that delivers weights."""

import torch
from torch.utils.data import Dataset
from torch.utils.data import Sampler as TorchSampler

from handful.checks import check_integer
from handful.sampling.base import Sampler


class AdaptiveBatchSampler(TorchSampler):
    """The `batch_sampler` of a DataLoader that draws batches from one of handful's samplers.

    Yields lists of (index, importance weight); wrap the data set in `Weighted`, which knows what to do with the pairs:
    another takes a pair for the name of a row, and ends in an IndexError or a KeyError. With worker processes the
    loader draws a few batches ahead, so give `update` the batch's indices and weights, as the example does.

    Parameters
    ----------
    sampler : UniformSampler, MixtureSampler, BanditSampler, ...; its batch size is the loader's
    n_batches : int, batches an epoch; default: enough to draw n points

    Raises
    ------
    TypeError
        if `sampler` is not one of handful's samplers
    ValueError
        if `n_batches` is no positive integer

    Examples
    --------
    Train a classifier, drawing more often from the classes that have the loss::

        from handful.sampling import AdaptiveBatchSampler, MixtureSampler, Weighted, group_components

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

    def __init__(self, sampler, n_batches=None) -> None:
        if not isinstance(sampler, Sampler):
            raise TypeError(f"sampler must be one of handful.sampling, such as MixtureSampler, got {sampler!r}.")
        if n_batches is None:
            n_batches = -(-sampler.n // sampler.batch_size)
        check_integer("n_batches", n_batches)
        self.sampler = sampler
        self.n_batches = n_batches

    def __len__(self):
        return self.n_batches

    def __iter__(self):
        for _ in range(self.n_batches):
            indices, weights = self.sampler.sample()
            yield list(zip(indices.tolist(), weights.tolist()))


class Weighted(Dataset):
    """A view of `dataset` for an `AdaptiveBatchSampler`: items are (item, index, importance weight).

    So where items are pairs, ``for (X, y), indices, weights in DataLoader(Weighted(dataset), batch_sampler=batches)``.

    Parameters
    ----------
    dataset : a map-style data set; its items are delivered as they are

    Raises
    ------
    TypeError
        when an item is asked for by its index alone, as a DataLoader without an `AdaptiveBatchSampler` does
    """

    def __init__(self, dataset) -> None:
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, draw):
        if not isinstance(draw, tuple):
            raise TypeError(
                f"an item of Weighted is asked for by (index, importance weight), got {draw!r}: give the DataLoader "
                "batch_sampler=AdaptiveBatchSampler(sampler)."
            )
        index, weight = draw
        return self.dataset[index], index, torch.tensor(weight, dtype=torch.float32)
