"""Which numbers decide the claims on bounds."""

from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    of_code = run.rows[run.rows.bound == "code (2/3)"]
    smallest = of_code.groupby("source", sort=False).ratio.min()
    return {"svm-bounds-code": Evidence(smallest.to_dict(), shown=float(smallest.min()))}
