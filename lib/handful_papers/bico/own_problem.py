"""Which numbers decide the claim about a problem of one's own."""

from handful_papers.effects import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    baselines = ["uniform", "kmeans++"]
    gaps = paired_differences(
        rows, a="bico quadratic", b=baselines, value="excess", by="size", higher_is_better=False
    )
    return {"bico-own-above": gaps}
