"""Which numbers decide the claims of Figure 2 (right)."""

from handful_papers.vrm.regression import LEAN, speed_ups

# The uniform samplers that the paper may have timed.
SAMPLERS = {"a lean sampler of rows": LEAN, "uniform sets": "uniform"}


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(epochs=run.parameters["epochs"])
    found = speed_ups(run.rows)
    vrm = found.loc["vrm"]
    # A run that never comes down counts as if its last step did.
    gain = vrm.in_steps.where(vrm.in_steps > 0, 1.0)
    return {
        "vrm-fig02-kdpp-iterations": {"": gain},
        "vrm-fig02-kdpp-time": {
            title: gain * found.loc[sampler].microseconds / vrm.microseconds
            for title, sampler in SAMPLERS.items()
        },
    }
