"""Which numbers decide the claims of Figure 3."""

from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences

N_CLASSES = 10


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows.assign(percent=run.rows.share.round().astype(int))
    # Its share of the rows is nearest to that of the paper's batch.
    smallest = int(rows.batch_size.min())
    rows = rows[rows.batch_size.isna() | (rows.batch_size == smallest)]
    n = int(rows.loc[rows.method == "full", "size"].max())
    coefficients = N_CLASSES * (run.parameters["n_landmarks"] + 1)
    facts = {
        "rows_for_each_coefficient": n / coefficients,
        "batches_in_a_quarter": n // (4 * smallest),
    }
    few = rows[rows.percent < 90]
    middle = rows[rows.percent.between(33, 90)]
    found = {
        "bico-fig03-batches-agree": _lead(rows[rows.percent >= 25], "bico batches", "bico"),
        "bico-fig03-elimination-uniform": _lead(few, "uniform", "bico elimination"),
        "bico-fig03-weighted-8": _over_full(rows, rows[rows.percent == 8], ["bico regularised"]),
        "bico-fig03-below-full": _over_full(rows, middle, ["bico", "bico batches"]),
    }
    lacks = "the run has no coreset of this size by this method"
    return {
        claim: Evidence(values, facts=facts, lacks="" if values else lacks)
        for claim, values in found.items()
    }


def _lead(rows, a, b):
    return paired_differences(
        rows,
        a=a,
        b=b,
        value="test_accuracy",
        by="percent",
    )


def _over_full(rows, of_sizes, methods):
    """Accuracy of methods at some sizes minus that of all rows: (method, size) -> points, one a
    seed."""
    full = rows[rows.method == "full"].set_index("seed").test_accuracy
    mine = of_sizes[of_sizes.method.isin(methods)].set_index("seed")
    gaps = mine.test_accuracy - full.reindex(mine.index)
    by_setting = gaps.groupby([mine.method, mine.percent])
    return {setting: gap.to_numpy() for setting, gap in by_setting}
