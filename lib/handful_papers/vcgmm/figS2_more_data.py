"""Which numbers decide the claims of Figure S.2."""

import numpy as np

from handful_papers.claims import Evidence
from handful_papers.vcgmm.tables import same_error_ratios


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    passed = {}
    for dataset in run.rows.dataset.unique():
        ratios = same_error_ratios(run.rows, dataset, other="kmeans++", cost="distances")
        if not np.isnan(ratios).any():
            passed[dataset] = ratios
    facts = dict(clusters=int(run.rows.clusters.min()))
    lacks = "" if passed else "no data set with coresets around an error of 10 %"
    return {"vcgmm-figS2-distances": Evidence(passed, facts=facts, lacks=lacks)}
