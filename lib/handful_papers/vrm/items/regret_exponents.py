"""Which numbers decide the claims on measured regret."""

import numpy as np

from handful_papers.claims import Evidence
from handful_papers.vrm.regret import exponents_by_seed, theorem_4_bound


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    fits, found = exponents_by_seed(run.rows), {}
    for feedback in ("full", "bandit"):
        for settings, ending in (("theorem", ""), ("default", "-default")):
            mine = fits[feedback, settings]
            found[f"vrm-regret-{feedback}{ending}"] = {a: group.to_numpy() for a, group in mine.groupby("adversary")}
    full = run.rows[(run.rows.feedback == "full") & (run.rows.settings == "theorem")]
    shares = np.array([r.regret / theorem_4_bound(4, r.horizon) for r in full.itertuples()])
    return found | {"vrm-regret-bound": Evidence({"full information": 1 - shares}, shown=float(1 - shares.max()))}
