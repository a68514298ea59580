"""What is run for Figure 2, and which numbers decide its claims."""

from handful_papers.claims import Evidence
from handful_papers.svm.comparisons import SETS, svc_overheads


def solvers_on_all_points(rows, datasets, labels, stop_at):
    """Every data set with each solver that trains on all of its points, as settings of
    `full_times`.

    The paper's solver is stopped at `stop_at` times what Algorithm 1 and training on its coreset
    take, on average over trials, at the size at which they take longest.

    Parameters
    ----------
    rows : pandas.DataFrame of `offline_times`
    datasets, labels : lists of str, the registry's names and those in `rows`
    stop_at : float
    """
    coreset = rows[rows.method == "svm paper"]
    seconds = coreset["select"] + coreset["train_svc"]
    by_size = seconds.groupby([coreset["dataset"], coreset["size"]]).mean()
    longest = by_size.groupby(level="dataset").max()
    settings = []
    for name, label in zip(datasets, labels):
        settings.append({"dataset": name, "solver": "LinearSVM"})
        settings.append({"dataset": name, "solver": "LinearSVC"})
        limit = round(float(stop_at * longest[label]), 3)
        settings.append({"dataset": name, "solver": "SVC", "limit": limit})
    return settings


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    full = run.rows[run.rows["size"].isna()]
    rows = run.rows.dropna(subset=["size"])
    return {
        "svm-fig02-time-svc": _times(rows, full),
        "svm-fig02-overhead": svc_overheads(rows, "svm paper"),
    }


def _times(rows, full):
    """Training on all points by SVC, until its end or its stop, over Algorithm 1 and training on
    its coreset."""
    all_points = full[full.method == "SVC"].set_index("dataset").seconds
    known = (SETS - {"Pathological"}) & set(all_points.index)
    of_paper = rows[(rows.method == "svm paper") & rows.dataset.isin(known)]
    mine = of_paper.dropna(subset=["train_svc"])
    seconds = mine.dataset.map(all_points).astype(float)
    mine = mine.assign(ratio=seconds / (mine["select"] + mine["train_svc"]))
    groups = mine.groupby(["dataset", "size"], sort=False)
    settings = {}
    for (name, m), part in groups:
        settings[name, int(m)] = part.ratio.to_numpy()
    return Evidence(settings, facts={"sets_with_svc": mine.dataset.nunique()})
