"""Which numbers decide the claims of Figure 2 (right)."""

from handful_papers.vrm.regression import speed_ups


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(epochs=run.parameters["epochs"])
    vrm = speed_ups(run.rows).loc["vrm"]
    return {"vrm-fig02-kdpp-iterations": {"": vrm.in_steps}, "vrm-fig02-kdpp-time": {"": vrm.in_time_lean}}
