"""Data sets by name: checked files, the sets that ship with scikit-learn, and generators."""

from handful.data.dataset import Dataset, split, standardise
from handful.data.files import MissingDataError, data_folder
from handful.data.loaders import load

__all__ = ["Dataset", "MissingDataError", "data_folder", "load", "split", "standardise"]
