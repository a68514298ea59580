"""Which numbers decide the claim about labelling from nothing."""

from handful_papers.claims import Evidence
from handful_papers.verdicts import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    gaps = paired_differences(run.rows, a="bico", b="uniform", value="accuracy", by="labels")
    return {"bico-own-labelling": Evidence(gaps, facts={"data": run.parameters["dataset"]})}
