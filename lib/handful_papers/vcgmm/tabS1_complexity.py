"""Which numbers decide the claims of Table S.1 and Figure S.1."""

import pandas as pd

from handful_papers.claims import Evidence
from handful_papers.vcgmm.scaling import AXES, STATED, exponents, long_form

# a coreset takes a distance a row by definition
PARTS = ("vc-GMM iteration", "LWCS iteration", "seeding")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = long_form(run.rows)
    fitted = pd.DataFrame(exponents(rows))
    settings = {}
    for part in PARTS:
        axes = [
            axis
            for axis in AXES
            if (part, axis) in STATED and axis != "dimensions"
            # in which distances are alike
        ]
        off = _off(fitted, part, "distances", {axis: STATED[part, axis] for axis in axes})
        settings |= {(part, axis): values for axis, values in off.settings.items()}
    found = {"vcgmm-tabS1-distances": settings}
    memory = dict(points=1, clusters=0, neighbors=2)
    found["vcgmm-tabS1-memory"] = _off(fitted, "vc-GMM memory", "bytes", memory)
    return found | {"vcgmm-figS1-search-sets": _search_sets(rows, **run.parameters["base"])}


def _off(fitted, part, quantity, stated):
    """Measured exponents less the stated ones, by axis."""
    mine = fitted[(fitted.part == part) & (fitted.quantity == quantity)].groupby("axis").exponent
    ours = {axis: mine.get_group(axis).to_numpy() for axis in stated}
    shown = ", ".join(f"{axis} {values.mean():.2f}" for axis, values in ours.items())
    return Evidence({axis: values - stated[axis] for axis, values in ours.items()}, shown=shown)


def _search_sets(rows, points, clusters, neighbors, dimensions):
    mine = rows[
        (rows.axis == "points") & (rows.points == points) & (rows.part == "vc-GMM iteration")
    ]
    met = mine[mine.quantity == "distances"].groupby("seed").value.mean() / points
    settings = {"over G²": met / neighbors**2, "over a tenth of C": met / (clusters / 10)}
    return Evidence(
        settings, shown=f"{met.mean():.1f} of {clusters:,} clusters, G² = {neighbors**2}"
    )
