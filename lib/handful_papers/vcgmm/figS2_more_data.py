"""Which numbers decide the claims of Figure S.2."""

import numpy as np

from handful_papers.claims import Evidence, paired_differences
from handful_papers.vcgmm.tables import same_error_ratios


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    curves = run.rows[run.rows.method.isin(["lwcs", "vcgmm"])]
    return {
        "vcgmm-figS2-time-to-lwcs-error": _around_target(run.rows, other="lwcs"),
        "vcgmm-figS2-distances": _around_target(run.rows, other="kmeans++", cost="distances"),
        "vcgmm-figS2-error-below-lwcs": paired_differences(
            curves, a="vcgmm", b="lwcs", value="eta", by=["dataset", "size"], higher_is_better=False
        ),
    }


def _around_target(rows, **options):
    found = {d: same_error_ratios(rows, d, **options) for d in rows.dataset.unique()}
    passed = {d: ratios for d, ratios in found.items() if not np.isnan(ratios).any()}
    facts = dict(clusters=int(rows.clusters.min()))
    lacks = "" if passed else "no data set with coresets around an error of 10 %"
    return Evidence(passed, facts=facts, lacks=lacks)
