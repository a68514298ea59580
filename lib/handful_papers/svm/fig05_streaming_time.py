"""Which numbers decide the claims of Figure 5."""

from handful_papers.svm.comparisons import svc_overheads


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    return {"svm-fig05-overhead-paper": svc_overheads(run.rows, "svm paper")}
