"""Which numbers decide the claims of Figure 1."""

from handful_papers.svm.comparisons import SETS, geometric_mean, ratios, shown_ratio


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows, found = run.rows, {}
    of = {label: rows[rows.dataset == label] for label in SETS}
    facts = {"data_sets": sum(len(part) > 0 for part in of.values())}
    for arm in ("paper", "searched", "tight", "mixture"):
        method = f"svm {arm}"
        found[f"svm-fig01-everywhere-{arm}"] = shown_ratio(ratios(rows, method), facts=facts)
        found[f"svm-fig01-variance-{arm}"] = shown_ratio(_spreads(rows, method), pick=min, facts=facts)
        for label in ("HTRU", "Pathological", "W1"):
            found[f"svm-fig01-tenfold-{label.lower()}-{arm}"] = shown_ratio(
                ratios(of[label], method, sizes=lambda sizes: sizes[: max(1, len(sizes) // 2)]), pick=min
            )
    for label, part in of.items():
        middle = ratios(part, "svm mixture", sizes=lambda sizes: [sizes[len(sizes) // 2]])
        found[f"svm-fig01-middle-{label.lower()}"] = shown_ratio(middle)
    return found


def _spreads(rows, method):
    """By data set, how many times as much the error with uniform sampling varies, on average over the sizes."""
    each = {label: ratios(part, method, spread=True) for label, part in rows.groupby("dataset", sort=False)}
    return {label: geometric_mean(settings) for label, settings in each.items()}
