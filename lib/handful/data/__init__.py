"""Data sets by name: checked files, the sets that ship with scikit-learn, and generators."""

from handful.data.dataset import Dataset, split, standardise
from handful.data.files import BadFileError, MissingDataError, data_folder
from handful.data.loaders import load, status

__all__ = ["BadFileError", "Dataset", "MissingDataError", "data_folder", "load", "split", "standardise", "status"]
