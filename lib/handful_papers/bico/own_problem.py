"""Which numbers decide the claims about a problem of one's own."""

from handful_papers.claims import paired_differences

LEAST = 1e-4  # nats: an excess loss below it counts as this much


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows, baselines = run.rows, ["uniform", "kmeans++"]
    gaps = paired_differences(rows, a="bico quadratic", b=baselines, value="excess", by="size", higher_is_better=False)
    largest = rows[rows["size"] == rows["size"].max()].pivot(index="seed", columns="method", values="excess")
    ratio = largest["uniform"] / largest["bico weighted quadratic"].clip(lower=LEAST)
    return {"bico-own-above": gaps, "bico-own-weighted": ratio.to_numpy()}
