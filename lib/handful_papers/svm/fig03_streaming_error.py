"""Which numbers decide the claims of Figure 3."""

from handful_papers.svm.comparisons import SETS, geometric_mean, ratios, shown_ratio


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    facts, found = {"data_sets": len(SETS & set(run.rows.dataset))}, {}
    for arm in ("paper", "tight", "mixture"):
        settings = ratios(run.rows, f"svm {arm}")
        found[f"svm-fig03-everywhere-{arm}"] = shown_ratio(settings, facts=facts)
        found[f"svm-fig03-ratio-{arm}"] = shown_ratio({"average": geometric_mean(settings)})
    return found
