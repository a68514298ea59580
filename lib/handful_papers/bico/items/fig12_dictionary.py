"""Which numbers decide the claims of Figure 12."""

import numpy as np

from handful_papers.claims import Evidence

BASELINES = {"random": "random measurements", "approximate": "approximate greedy"}
LEVEL = 0.3  # of the signals' energy: the error that a number of measurements is needed for
PANEL = ["task", "recovery"]


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows, given = run.rows, run.parameters
    facts = {"atoms": given["n_atoms"], "images": given["n_images"], "largest_size": int(rows["size"].max())}
    facts["generator_epochs"] = given.get("n_epochs", given.get("epochs"))  # older records say epochs
    found = {}
    for (task, recovery), panel in rows.groupby(PANEL):
        settings = {name: _ratios(panel, "bico", name).to_numpy() for name in BASELINES.values()}
        found[f"bico-fig12-{task.split(', ')[-1]}-{recovery}".lower()] = Evidence(settings, facts=facts)
    arrived = _sizes_over_random(rows)
    lacks = "" if arrived else f"BiCo comes nowhere to an error of {LEVEL:.0%} of the signals' energy"
    found["bico-fig12-compression"] = Evidence(arrived, facts=facts, lacks=lacks)
    for key, name in BASELINES.items():
        ratios = _ratios(rows, "bico quadratic", name).groupby(PANEL)
        found[f"bico-fig12-below-{key}-ours"] = {panel: values.to_numpy() for panel, values in ratios}
    return found


def _ratios(rows, method, baseline):
    """Error of a method over a baseline's, geometric mean over the sizes: (task, recovery, seed) -> ratio."""
    wide = rows.pivot_table(index=[*PANEL, "seed", "size"], columns="method", values="error")
    return np.exp(np.log(wide[method] / wide[baseline]).groupby([*PANEL, "seed"]).mean())


def _sizes_over_random(rows):
    """Smallest size with an error of at most `LEVEL`, over the one at random: panel -> ratios."""
    low = rows[rows.error <= LEVEL * rows.energy].groupby([*PANEL, "seed", "method"])["size"].min().unstack()
    low = low.reindex(columns=["bico", BASELINES["random"]]).dropna(subset="bico")
    ratios = low["bico"] / low[BASELINES["random"]].fillna(rows["size"].max())
    return {panel: values.to_numpy() for panel, values in ratios.groupby(PANEL) if len(values) > 1}
