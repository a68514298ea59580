"""Which numbers decide the claims of Table 1."""

from handful_papers.svm.comparisons import shown_ratio


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    wide = run.rows.pivot(index=["dataset", "seed"], columns="method", values="t")
    found = {}
    for arm in ("tight", "searched"):
        by_set = (wide["svm paper"] / wide[f"svm {arm}"]).groupby(level="dataset")
        found[f"svm-tab01-{arm}-smaller"] = shown_ratio({d: values.to_numpy() for d, values in by_set}, pick=min)
    return found
