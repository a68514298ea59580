"""Data sets by name: checked files, the sets that ship with scikit-learn, and generators."""

from handful.data.dataset import Dataset, level, split, standardise, zero_one
from handful.data.loaders import Status, Verified, fetch, fingerprint, load, status, verify
from handful.data.store import BadFileError, MissingDataError, data_folder

__all__ = [
    "BadFileError",
    "Dataset",
    "MissingDataError",
    "Status",
    "Verified",
    "data_folder",
    "fetch",
    "fingerprint",
    "level",
    "load",
    "split",
    "standardise",
    "status",
    "verify",
    "zero_one",
]
