"""Which numbers decide the claims of Figure 4."""

from handful_papers.claims import Evidence
from handful_papers.vrm.replay import COMPONENTS, early_weights


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    total = run.rows.groupby(["method", "seed"]).reward.mean().unstack("method")
    favourite = early_weights(run.rows).idxmax()
    facts = dict(episodes=int(run.rows.episode.max()))

    def lead(method, *others):
        return Evidence({other: total[method] - total[other] for other in others if other != method}, facts=facts)

    return {
        "vrm-fig04-finds-best": lead(favourite, *COMPONENTS),
        "vrm-fig04-loses-nothing": lead("vrm", *COMPONENTS),
        "vrm-fig04-uniform": lead("vrm", "uniform"),
        "vrm-fig04-control": lead("vrm", "equal mixture"),
    }
