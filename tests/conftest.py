"""What all tests share: few threads, no deadlines, and an order in which quick failures show
first."""

import os
import random
import sys

# Before numpy is imported: many threads on tiny arrays only wait for each other.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# two, so that tests can compare one thread with two
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The first example may compile with numba, and the machine may be busy: time says nothing. What was
# found must be found again; `make fuzz` draws anew.
settings.register_profile(
    "handful",
    deadline=None,
    max_examples=50,
    derandomize="HANDFUL_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("handful")

FIRST = ["test_project", "test_notebooks", "test_site", "test_machinery"]


def pytest_collection_modifyitems(items):
    """The project's own rules first, then whole notebooks, which are the longest, then the rest by
    name.

    Of two processes one begins with the notebooks, the other in the middle of the rest; the one
    that is done first takes over from the end of the other, so that what is last are short tests.
    """
    # scikit-learn skips its check of array namespaces unless the process began with
    # SCIPY_ARRAY_API; none is promised.
    items[:] = [item for item in items if "check_array_api" not in item.name]
    items.sort(
        key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST)
    )


def pytest_runtest_setup():
    """The same global random states for each test, whichever tests its worker ran before: a failure
    can be repeated."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (the global state is meant)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
