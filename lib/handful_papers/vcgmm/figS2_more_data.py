"""Which numbers decide the claims of Figure S.2."""

import numpy as np

from handful_papers.claims import Evidence
from handful_papers.vcgmm.tables import same_error_ratios


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    ratios = {
        d: same_error_ratios(run.rows, d, other="kmeans++", cost="distances")
        for d in run.rows.dataset.unique()
    }
    passed = {d: values for d, values in ratios.items() if not np.isnan(values).any()}
    facts = dict(clusters=int(run.rows.clusters.min()))
    lacks = "" if passed else "no data set with coresets around an error of 10 %"
    return {"vcgmm-figS2-distances": Evidence(passed, facts=facts, lacks=lacks)}
