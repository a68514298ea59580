"""Which numbers decide the claims on points for any trainer, our own."""

import numpy as np

from handful_papers.claims import Evidence
from handful_papers.own.trainers import TRAINERS, relative_loss

PLAIN = ("RBF", "random trees", "fitted trees")  # proxies whose points weigh by class
WEIGHED = ("boosting", "forest", "network")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    unseen = run.parameters["unseen"]
    ratios = relative_loss(run.rows[run.rows.part == "sizes"])
    found = {}
    for trainer in TRAINERS:
        mine = ratios[ratios.trainer == trainer].groupby("dataset", sort=False).ratio
        settings = {dataset: values.to_numpy() for dataset, values in mine}
        facts = {"sets": len(settings)}
        found[f"own-trainer-{trainer}-safe"] = settings
        found[f"own-trainer-{trainer}-better"] = Evidence(settings, facts=facts)
    means = ratios.assign(log=np.log(ratios.ratio)).groupby(["dataset", "seed"]).log.mean()
    aside = {dataset: np.exp(means[dataset].to_numpy()) for dataset in unseen}
    found["own-trainer-unseen"] = Evidence(aside, lacks="" if unseen else "no data set was kept aside")
    found["own-trainer-weights"] = _gains(run.rows[run.rows.part == "proxies"])
    return found


def _gains(proxies):
    if proxies.empty:
        return Evidence(lacks="needs all proxies, of which the run has none")
    chosen = proxies[proxies.method.isin(PLAIN) & proxies.trainer.isin(WEIGHED)]
    logs = chosen.assign(log=np.log(chosen.loss)).groupby(["dataset", "seed", "weights"]).log.mean().unstack()
    gains = np.exp(logs["by class"] - logs["equal"])
    return {d: gains[d].to_numpy() for d in gains.index.unique("dataset")}
