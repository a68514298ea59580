"""Which numbers decide the claim of Table 1."""

from handful_papers.svm.comparisons import shown_ratio


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    wide = run.rows.pivot(index=["dataset", "seed"], columns="method", values="t")
    by_set = (wide["svm paper"] / wide["svm tight"]).groupby(level="dataset")
    return {"svm-tab01-tight-smaller": shown_ratio({d: values.to_numpy() for d, values in by_set}, pick=min)}
