"""Which numbers decide the claims of Table 7."""

from handful_papers.effects import paired_differences

# claim -> what is compared
LEADS = {
    "mixmatch-above-supervised": ("mixmatch", ["supervised", "supervised augmented"]),
    "augmentation-helps": ("supervised augmented", ["supervised"]),
}


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data=run.parameters["dataset"])
    found = {}
    for claim, (a, others) in LEADS.items():
        found[f"bico-tab07-{claim}"] = paired_differences(
            run.rows, a=a, b=others, value="accuracy", by="labels"
        )
    return found
