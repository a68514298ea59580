"""Which numbers decide the claims of Figure 1."""

from handful_papers.claims import Evidence
from handful_papers.svm.comparisons import SETS, geometric_mean, ratios

# The number of clusters is searched, as in the authors' code.
ARM = "svm searched"
# Where the paper sees an order of magnitude.
TENFOLD = ("HTRU", "Pathological", "w8a")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    facts = {"data_sets": len(SETS & set(run.rows.dataset))}
    small = ratios(
        rows[rows.dataset.isin(TENFOLD)],
        ARM,
        sizes=lambda sizes: sizes[: max(1, len(sizes) // 2)],
    )
    return {
        "svm-fig01-everywhere-paper": Evidence(ratios(rows, ARM), facts=facts),
        "svm-fig01-variance-paper": Evidence(_spreads(rows, ARM), facts=facts),
        "svm-fig01-tenfold-paper": _over_sizes(small),
    }


def _over_sizes(settings):
    """By data set, the geometric mean over its sizes."""
    by_set = {}
    for (dataset, size), values in settings.items():
        by_set.setdefault(dataset, {})[size] = values
    return {dataset: geometric_mean(of_sizes) for dataset, of_sizes in by_set.items()}


def _spreads(rows, method):
    """By data set, how many times as much the error with uniform sampling varies, on average over
    the sizes."""
    each = {
        label: ratios(part, method, spread=True)
        for label, part in rows.groupby("dataset", sort=False)
    }
    return {label: geometric_mean(settings) for label, settings in each.items()}
