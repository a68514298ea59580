"""Coresets of torch data sets."""

from handful.coreset import Coreset

try:
    import torch
    from torch.utils.data import Subset
except ImportError as error:
    raise ImportError("the subset of a torch data set needs torch: pip install torch.") from error


class WeightedSubset(Subset):
    """A `torch.utils.data.Subset` whose items carry their weight as a last element.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset; an item that is no tuple becomes ``(item, weight)``
    indices : int array, shape (m,)
    weights : float array, shape (m,), yielded as 0-d float32 tensors

    Raises
    ------
    ValueError
        for an index outside the data set (the coreset was chosen from another one), and as `Coreset`
    """

    def __init__(self, dataset, indices, weights):
        coreset = Coreset(indices, weights)
        if len(coreset) and coreset.indices.max() >= len(dataset):
            raise ValueError(
                f"the coreset holds row {coreset.indices.max()}, but the data set has {len(dataset)} items."
            )
        super().__init__(dataset, coreset.indices.tolist())
        self.weights = torch.as_tensor(coreset.weights, dtype=torch.float32)

    def __getitem__(self, position):
        if isinstance(position, (list, slice)):
            raise TypeError("index a weighted subset with one integer; let a DataLoader make the batches.")
        item = super().__getitem__(position)
        return (*(item if isinstance(item, tuple) else (item,)), self.weights[position])

    def __getitems__(self, positions):
        return [self[position] for position in positions]
