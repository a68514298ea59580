"""Which numbers decide the claims of Figure 3."""

from handful_papers.claims import Evidence
from handful_papers.svm.comparisons import SETS, ratios


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data_sets=len(SETS & set(run.rows.dataset)))
    return {"svm-fig03-everywhere-paper": Evidence(ratios(run.rows, "svm paper"))}
