"""Which numbers decide the claims on optima, our own."""

from handful_papers.vcgmm.arms import ASSIGNMENTS, OURS
from handful_papers.vcgmm.mixtures import against_best_by_seed
from handful_papers.verdicts import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    references = [name for name in run.parameters["references"] if name in set(run.rows.method)]
    rows = against_best_by_seed(run.rows.assign(setting=run.rows.setting.fillna("")), references)
    found = {}
    for method in ASSIGNMENTS:
        whole = rows[(rows.method == method) & (rows.setting == "")].groupby("dataset", sort=False)
        found[f"vcgmm-own-error-{method.split()[1]}"] = {d: mine.ratio.to_numpy() for d, mine in whole}
        found[f"vcgmm-own-time-{method.split()[1]}"] = {d: mine.time_ratio.to_numpy() for d, mine in whole}
    sizes = rows[rows["size"] == 2 ** run.parameters["log_size"]]
    moves = paired_differences(sizes, a=OURS, b="vcgmm", value="ratio", by="dataset", higher_is_better=False)
    return found | {"vcgmm-own-moves": {setting: 100 * values for setting, values in moves.items()}}
