"""Which numbers decide the claims of Table S.1 and Figure S.1."""

import pandas as pd

from handful_papers.claims import Evidence
from handful_papers.vcgmm.scaling import AXES, STATED, exponents, long_form

# A coreset takes a distance a row by definition, so that it is not among them.
PARTS = ("vc-GMM iteration", "LWCS iteration", "seeding")


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
    memory = dict(points=1, clusters=0, neighbors=2)
    found["vcgmm-tabS1-memory"] = _off(fitted, "vc-GMM memory", "bytes", memory)
    return found


def _off(fitted, part, quantity, stated):
    """Measured exponents less the stated ones, by axis."""
    mine = fitted[(fitted.part == part) & (fitted.quantity == quantity)]
    by_axis = mine.groupby("axis").exponent
    ours = {axis: by_axis.get_group(axis).to_numpy() for axis in stated}
    shown = ", ".join(f"{axis} {values.mean():.2f}" for axis, values in ours.items())
    off = {axis: values - stated[axis] for axis, values in ours.items()}
    return Evidence(off, shown=shown)
