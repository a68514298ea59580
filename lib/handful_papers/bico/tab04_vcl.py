"""Which numbers decide the claims of Table 4."""

from handful_papers.effects import paired_differences

# Of a task, in the paper.
N_EPOCHS = 100


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    averages = run.rows.groupby(["stream", "method", "seed"], as_index=False).accuracy.mean()
    data = {about["data"] for about in run.parameters["streams"].values()}
    run.facts.update(data=", ".join(sorted(data)), n_kept=run.parameters["n_kept"])
    run.facts.update(share_of_the_training=run.parameters["n_epochs"] / N_EPOCHS)
    others = ["uniform", "kcenter"]
    gaps = paired_differences(
        averages,
        a="bico",
        b=others,
        value="accuracy",
        by="stream",
    )
    return {"bico-tab04-above": gaps}
