"""Which numbers decide the claims of Figure 2."""

from handful_papers.claims import Evidence
from handful_papers.svm.comparisons import SETS, WITHOUT_SVC, svc_overheads


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    full = run.rows[run.rows["size"].isna()]
    rows = run.rows.dropna(subset=["size"])
    return {
        "svm-fig02-time-svc": _times(rows, full, "SVC", "train_svc"),
        "svm-fig02-overhead": svc_overheads(rows, "svm paper"),
    }


def _times(rows, full, solver, trainer):
    """Training on all points over Algorithm 1 and training on its coreset, wherever both were
    run."""
    if trainer not in rows:
        return WITHOUT_SVC
    all_points = full[full.method == solver].set_index("dataset").seconds
    known = (SETS - {"Pathological"}) & set(all_points.index)
    of_paper = rows[(rows.method == "svm paper") & rows.dataset.isin(known)]
    mine = of_paper.dropna(subset=[trainer])
    seconds = mine.dataset.map(all_points).astype(float)
    mine = mine.assign(ratio=seconds / (mine["select"] + mine[trainer]))
    groups = mine.groupby(["dataset", "size"], sort=False)
    settings = {}
    for (name, m), part in groups:
        settings[name, int(m)] = part.ratio.to_numpy()
    return Evidence(settings, facts={"sets_with_svc": mine.dataset.nunique()})
