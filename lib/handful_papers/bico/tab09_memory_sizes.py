"""Which numbers decide the claims of Table 9."""

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence, paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows, ["setting", "size", "method"])
    [about] = run.parameters["streams"].values()
    facts, found = {"data": about["data"], "sizes": best["size"].nunique()}, {}
    for setting, other in (("CL", "uniform"), ("Streaming", "reservoir")):
        mine = best[best.setting == setting]
        gaps = paired_differences(mine, a="bico", b=other, value="accuracy", by="size")
        by_size = {size: gap for (_, size), gap in gaps.items()}
        found[f"bico-tab09-above-{setting.lower()}"] = Evidence(gaps, facts=facts)
        gain = by_size[min(by_size)] - by_size[max(by_size)]
        found[f"bico-tab09-small-memories-{setting.lower()}"] = Evidence({"": gain}, facts=facts)
    return found
