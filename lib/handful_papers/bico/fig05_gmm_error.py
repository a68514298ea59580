"""Which numbers decide the claims of Figure 5."""

import numpy as np

from handful_papers.bico.gmm import times_better


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data_laws=run.rows["law"].nunique())
    order = {}
    for baseline in ("uniform", "sensitivity"):
        for law, ratios in times_better(run.rows, "bico", baseline).groupby("law"):
            over_sizes = np.log(ratios).mean(axis=1)
            order[law, baseline] = np.exp(over_sizes).to_numpy()
    return {"bico-fig05-order-paper": order}
