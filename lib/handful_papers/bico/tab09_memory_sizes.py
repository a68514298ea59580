"""Which numbers decide the claims of Table 9."""

from handful_papers.bico import continual_tables as tables
from handful_papers.effects import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows, ["setting", "size", "method"])
    [about] = run.parameters["streams"].values()
    trained = min(run.parameters["n_epochs"] / tables.N_EPOCHS, tables.share_of_steps(run))
    run.facts.update(data=about["data"], sizes=best["size"].nunique())
    run.facts.update(share_of_the_training=trained)
    gains = {}
    for setting, other in (("CL", "uniform"), ("Streaming", "reservoir")):
        mine = best[best.setting == setting]
        leads = paired_differences(
            mine,
            a="bico",
            b=other,
            value="accuracy",
            by="size",
        )
        by_size = {size: gap for (_, size), gap in leads.items()}
        gains[setting] = by_size[min(by_size)] - by_size[max(by_size)]
    return {"bico-tab09-small-memories": gains}
