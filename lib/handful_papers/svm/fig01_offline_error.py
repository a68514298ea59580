"""Which numbers decide the claims of Figure 1."""

from handful_papers.svm.comparisons import SETS, geometric_mean, ratios, shown_ratio

# Where the paper sees an order of magnitude.
TENFOLD = ("HTRU", "Pathological", "w8a")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    facts = {"data_sets": len(SETS & set(run.rows.dataset))}
    small = ratios(
        rows[rows.dataset.isin(TENFOLD)],
        "svm paper",
        sizes=lambda sizes: sizes[: max(1, len(sizes) // 2)],
    )
    return {
        "svm-fig01-everywhere-paper": shown_ratio(ratios(rows, "svm paper"), facts=facts),
        "svm-fig01-variance-paper": shown_ratio(_spreads(rows, "svm paper"), facts=facts),
        "svm-fig01-tenfold-paper": shown_ratio(small),
    }


def _spreads(rows, method):
    """By data set, how many times as much the error with uniform sampling varies, on average over
    the sizes."""
    each = {
        label: ratios(part, method, spread=True)
        for label, part in rows.groupby("dataset", sort=False)
    }
    return {label: geometric_mean(settings) for label, settings in each.items()}
