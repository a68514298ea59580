"""Data sets by name: checked files, the sets that ship with scikit-learn, and generators."""

from handful.data.loaders import load
from handful.lazy import lazy_names

__all__ = ["load"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {},
    moved={
        "Dataset": "handful.data.dataset.Dataset",
        "MissingDataError": "handful.data.files.MissingDataError",
        "data_folder": "handful.data.files.data_folder",
        "split": "handful.data.dataset.split",
        "standardise": "handful.data.dataset.standardise",
    },
)
