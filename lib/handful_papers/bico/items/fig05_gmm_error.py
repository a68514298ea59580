"""Which numbers decide the claims of Figure 5."""

import numpy as np

from handful_papers.bico.gmm import times_better
from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    found = {}
    for key, method in [("paper", "bico"), ("ours", "bico quadratic")]:
        ratios = {baseline: times_better(run.rows, method, baseline) for baseline in ("uniform", "sensitivity")}
        order = {baseline: np.exp(np.log(ratio).mean(axis=1)).to_numpy() for baseline, ratio in ratios.items()}
        found[f"bico-fig05-order-{key}"] = Evidence(order, shown=_least(order), facts={"data_laws": 1})
        below = {(b, m): ratio[m].to_numpy() for b, ratio in ratios.items() for m in ratio}
        found[f"bico-fig05-below-{key}"] = Evidence(below, shown=_least(below))
    return found


def _least(settings):
    """The least geometric mean over the seeds."""
    return min(float(np.exp(np.log(values).mean())) for values in settings.values())
