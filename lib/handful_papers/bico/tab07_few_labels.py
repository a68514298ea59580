"""Which numbers decide the claims of Table 7."""

from handful_papers.effects import paired_differences

# Claim -> the method that leads, and those that it is compared with.
LEADS = {
    "mixmatch-above-supervised": ("mixmatch", ["supervised", "supervised augmented"]),
    "augmentation-helps": ("supervised augmented", ["supervised"]),
}


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data=run.parameters["dataset"])
    found = {}
    for claim, (a, others) in LEADS.items():
        leads = paired_differences(
            run.rows,
            a=a,
            b=others,
            value="accuracy",
            by="labels",
        )
        found[f"bico-tab07-{claim}"] = leads
    return found
