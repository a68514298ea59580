"""Types of the public interface."""

from typing import Any, TypeAlias

import numpy as np

# Rows, or a column of them: numpy arrays, frames, CSR matrices, torch tensors, files or dask data,
# as each class says.
Table: TypeAlias = Any
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
