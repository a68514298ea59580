"""Which numbers decide the claims on bounds."""

from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    smallest = run.rows[run.rows.bound == "code (2/3)"].groupby("source", sort=False).ratio.min()
    return {"svm-bounds-code": Evidence(smallest.to_dict(), shown=float(smallest.min()))}
