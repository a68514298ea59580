"""Which numbers decide the claims of Figure 2 (right)."""

from handful_papers.claims import Evidence
from handful_papers.vrm.regression import speed_ups


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    vrm, facts = speed_ups(run.rows).loc["vrm"], dict(epochs=run.parameters["epochs"])
    return {
        "vrm-fig02-kdpp-iterations": Evidence({"": vrm.in_steps}, facts=facts),
        "vrm-fig02-kdpp-time": Evidence({"": vrm.in_time_lean}, facts=facts),
    }
