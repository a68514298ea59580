"""Which numbers decide the claims on bounds."""

from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    return {
        "svm-bounds-code": _over_truth(rows[rows.bound == "code (2/3)"]),
        "svm-bounds-tight": _over_truth(rows[rows.bound == "tight"]),
    }


def _over_truth(rows):
    smallest = rows.groupby("source", sort=False).ratio.min()
    return Evidence(smallest.to_dict(), shown=float(smallest.min()))
