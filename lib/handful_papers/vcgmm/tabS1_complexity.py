"""Which numbers decide the claims of Table S.1 and Figure S.1."""

import pandas as pd

from handful_papers.claims import Evidence
from handful_papers.vcgmm.scaling import AXES, STATED, exponents, long_form

# A coreset takes a distance a row by definition, so that it is not among them.
PARTS = ("vc-GMM iteration", "LWCS iteration", "seeding")
MEMORY = "vc-GMM memory"
# Rows are float32.
VALUE_BYTES = 4


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = long_form(run.rows)
    fitted = pd.DataFrame(exponents(rows))
    settings = {}
    for part in PARTS:
        stated = {axis: STATED[part, axis] for axis in AXES if (part, axis) in STATED}
        # The number of distances does not depend on the dimensions.
        stated.pop("dimensions", None)
        off = _off(fitted, part, "distances", stated)
        settings |= {(part, axis): values for axis, values in off.settings.items()}
    found = {"vcgmm-tabS1-distances": settings}
    found["vcgmm-tabS1-memory"] = _memory(rows)
    return found


def _memory(rows):
    """Exponents of memory over the sum of the stated terms at the same sizes, by axis.

    The table counts the data set of no method, so that the copy of the rows that a fit holds is
    taken off.
    """
    mine = rows[(rows.part == MEMORY) & (rows.quantity == "bytes")]
    n, C, G, d = (mine[axis] for axis in AXES)
    stated = C * d + n * G**2 + C * G + n
    beside_rows = mine.value - VALUE_BYTES * n * d
    fitted = pd.DataFrame(exponents(mine.assign(value=beside_rows / stated)))
    return _off(fitted, MEMORY, "bytes", dict.fromkeys(AXES, 0))


def _off(fitted, part, quantity, stated):
    """Measured exponents less the stated ones, by axis."""
    mine = fitted[(fitted.part == part) & (fitted.quantity == quantity)]
    by_axis = mine.groupby("axis").exponent
    ours = {axis: by_axis.get_group(axis).to_numpy() for axis in stated}
    shown = ", ".join(f"{axis} {values.mean():.2f}" for axis, values in ours.items())
    off = {axis: values - stated[axis] for axis, values in ours.items()}
    return Evidence(off, shown=shown)
