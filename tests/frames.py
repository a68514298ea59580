"""The same table, as each library of frames holds it."""

import pytest

LIBRARIES = ["pandas", "polars", "pyarrow"]


def frame_of(library, frame):
    """A frame of pandas as one of `LIBRARIES` holds it; skips the test where that is missing."""
    if library == "pandas":
        return frame
    module = pytest.importorskip(library)
    return module.from_pandas(frame) if library == "polars" else module.Table.from_pandas(frame)
