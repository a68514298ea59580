"""Which numbers decide the claims of Figure 5."""

from handful_papers.svm.comparisons import overheads, shown_ratio, svc_overheads


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    arms = {"exact": "svm paper", "tight": "svm tight", "mixture": "svm mixture"}
    found = {f"svm-fig05-overhead-{key}": shown_ratio(overheads(run.rows, arm)) for key, arm in arms.items()}
    return {"svm-fig05-overhead-paper": svc_overheads(run.rows, "svm paper")} | found
