"""Data sets by name: checked files, the sets that ship with scikit-learn, and generators."""

from handful.data.dataset import Dataset, split, standardise, zero_one
from handful.data.loaders import Status, fetch, load, status
from handful.data.store import BadFileError, MissingDataError, data_folder

__all__ = [
    "BadFileError",
    "Dataset",
    "MissingDataError",
    "Status",
    "data_folder",
    "fetch",
    "load",
    "split",
    "standardise",
    "status",
    "zero_one",
]
