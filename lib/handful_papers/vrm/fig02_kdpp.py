"""Which numbers decide the claims of Figure 2 (right)."""

from handful_papers.claims import Evidence
from handful_papers.vrm.regression import speed_ups


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    gains = speed_ups(run.rows)
    facts = dict(epochs=run.parameters["epochs"])
    vrm = gains.loc["vrm"]
    return {
        "vrm-fig02-kdpp-iterations": Evidence({"": vrm.in_steps}, facts=facts),
        "vrm-fig02-kdpp-time": Evidence({"": vrm.in_time_lean}, facts=facts),
        "vrm-fig02-kdpp-unbiased": Evidence({"": gains.loc["vrm, no truncation"].in_steps}, facts=facts),
        "vrm-fig02-kdpp-control": Evidence({"": vrm.in_steps / gains.loc["equal mixture"].in_steps}, facts=facts),
    }
