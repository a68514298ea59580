"""Which numbers decide the claims of Figure 3."""

from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences

N_CLASSES = 10


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows.assign(percent=run.rows.share.round().astype(int))
    # the batch whose share of the rows is nearest to the paper's
    smallest = int(rows.batch_size.min())
    rows = rows[rows.batch_size.isna() | (rows.batch_size == smallest)]
    n = int(rows.loc[rows.method == "full", "size"].max())
    coefficients = N_CLASSES * (run.parameters["n_landmarks"] + 1)
    facts = {
        "rows_for_each_coefficient": n / coefficients,
        "batches_in_a_quarter": n // (4 * smallest),
    }
    found = {
        "bico-fig03-batches-agree": _lead(rows, "bico batches", "bico", rows.percent >= 25),
        "bico-fig03-elimination-uniform": _lead(
            rows, "uniform", "bico elimination", rows.percent < 90
        ),
        "bico-fig03-weighted-8": _over_full(rows, ["bico regularised"], rows.percent == 8),
        "bico-fig03-below-full": _over_full(
            rows, ["bico", "bico batches"], rows.percent.between(33, 90)
        ),
    }
    lacks = "the run has no coreset of this size by this method"
    return {
        id: Evidence(values, facts=facts, lacks="" if values else lacks)
        for id, values in found.items()
    }


def _lead(rows, a, b, sizes):
    return paired_differences(
        rows[sizes],
        a=a,
        b=b,
        value="test_accuracy",
        by="percent",
    )


def _over_full(rows, methods, sizes):
    """Accuracy of methods minus that of all rows: (method, size) -> points, one a seed."""
    full = rows[rows.method == "full"].set_index("seed").test_accuracy
    mine = rows[sizes & rows.method.isin(methods)].set_index("seed")
    gaps = mine.test_accuracy - full.reindex(mine.index)
    return {setting: gap.to_numpy() for setting, gap in gaps.groupby([mine.method, mine.percent])}
