"""Coresets of torch data sets."""

from collections.abc import Mapping

import torch
from torch.utils.data import Subset

from handful.checks import check_coreset


class WeightedSubset(Subset):
    """A `torch.utils.data.Subset` whose items carry their weight.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset; an item that is a dictionary, as those of Hugging Face are,
        gets an entry "weight", a tuple a last element, and any other item becomes ``(item,
        weight)``
    indices : int array, shape (m,)
    weights : float array, shape (m,), yielded as 0-d float32 tensors

    Raises
    ------
    ValueError
        for an index outside the data set (the coreset was chosen from another one), where a
        dictionary has an entry "weight" already, and as `Coreset`
    """

    def __init__(self, dataset, indices, weights):
        indices, weights = check_coreset(indices, weights)
        if len(indices) and indices.max() >= len(dataset):
            raise ValueError(
                f"the coreset holds row {indices.max()}, but the data set has {len(dataset)} items."
            )
        super().__init__(dataset, indices.tolist())
        self.weights = torch.as_tensor(weights, dtype=torch.float32)

    def __getitem__(self, position):
        if isinstance(position, (list, slice)):
            raise TypeError(
                "index a weighted subset with one integer; let a DataLoader make the batches."
            )
        item = super().__getitem__(position)
        if isinstance(item, Mapping):
            if "weight" in item:
                raise ValueError(
                    "the items have an entry 'weight' already: rename it, so that it is not "
                    "overwritten."
                )
            return {**item, "weight": self.weights[position]}
        return (*(item if isinstance(item, tuple) else (item,)), self.weights[position])

    def __getitems__(self, positions):
        return [self[position] for position in positions]
