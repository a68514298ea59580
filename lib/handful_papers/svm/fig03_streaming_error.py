"""Which numbers decide the claims of Figure 3."""

from handful_papers.svm.comparisons import SETS, ratios, shown_ratio


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data_sets=len(SETS & set(run.rows.dataset)))
    return {"svm-fig03-everywhere-paper": shown_ratio(ratios(run.rows, "svm paper"))}
