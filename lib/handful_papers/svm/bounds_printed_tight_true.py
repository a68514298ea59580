"""Which numbers decide the claims on bounds."""

import numpy as np

from handful_papers.claims import Evidence
from handful_papers.svm.comparisons import shown_ratio

TEN = 10  # instances whose mean is one value: a record with each of them would be long


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    wide = rows[rows.source == "random"].pivot(index=["seed", "point"], columns="bound", values="value")
    logs = np.log(wide["printed (4/9)"] / wide["tight"])
    ratio = np.exp(logs.groupby(logs.index.get_level_values("seed") // TEN).mean())
    return {
        "svm-bounds-code": _over_truth(rows[rows.bound == "code (2/3)"]),
        "svm-bounds-printed": _over_truth(rows[rows.bound == "printed (4/9)"]),
        "svm-bounds-tight": _over_truth(rows[rows.bound == "tight"]),
        "svm-bounds-tighter": shown_ratio({"random": ratio.to_numpy()}),
    }


def _over_truth(rows):
    smallest = rows.groupby("source", sort=False).ratio.min()
    return Evidence(smallest.to_dict(), shown=float(smallest.min()))
