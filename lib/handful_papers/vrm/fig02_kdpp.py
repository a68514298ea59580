"""Which numbers decide the claims of Figure 2 (right)."""

from handful_papers.vrm.regression import LEAN, speed_ups


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(epochs=run.parameters["epochs"])
    found = speed_ups(run.rows)
    vrm = found.loc["vrm"]
    lean = found.loc[LEAN]
    # A run that never comes down counts as if its last step did.
    gain = vrm.in_steps.where(vrm.in_steps > 0, 1.0)
    return {
        "vrm-fig02-kdpp-iterations": {"": gain},
        "vrm-fig02-kdpp-time": {"": gain * lean.microseconds / vrm.microseconds},
    }
