"""Which numbers decide the claims of Table 7."""

from handful_papers.claims import Evidence, paired_differences

LEADS = {  # claim -> what is compared
    "mixmatch-above-supervised": ("mixmatch", ["supervised", "supervised augmented"]),
    "augmentation-helps": ("supervised augmented", ["supervised"]),
}


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    facts, found = {"data": run.parameters["dataset"]}, {}
    for claim, (a, others) in LEADS.items():
        leads = paired_differences(run.rows, a=a, b=others, value="accuracy", by="labels")
        found[f"bico-tab07-{claim}"] = Evidence(leads, facts=facts)
    return found
