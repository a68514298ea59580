"""Which numbers decide the claims of Figure 5."""

import numpy as np
from scipy.stats import gmean

from handful_papers.bico.gmm import times_better


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data_laws=run.rows["law"].nunique())
    order = {}
    for baseline in ("uniform", "sensitivity"):
        for law, ratios in times_better(run.rows, "bico", baseline).groupby("law"):
            over_sizes = np.exp(np.log(ratios).mean(axis=1)).to_numpy()
            order.setdefault(law, {})[baseline] = over_sizes
    nearest = {}
    for law, ratios in order.items():
        baseline = min(ratios, key=lambda name: gmean(ratios[name]))
        nearest[law, baseline] = ratios[baseline]
    return {"bico-fig05-order-paper": nearest}
