"""Which numbers decide the claims of Figure 6."""

import pandas as pd

from handful_papers.bico.binary_logistic import choose_sensitivity
from handful_papers.claims import Evidence
from handful_papers.verdicts import paired_differences

BASELINES = ["uniform", "kmeans++", "sensitivity"]
TWO_PERCENT = 2.0


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = choose_sensitivity(run.rows, "test_accuracy")  # as the paper: the constants that test best
    honest = choose_sensitivity(run.rows, "train_loss")
    within = run.parameters["within"]
    return {
        "bico-fig06-weighted-2pct": _at_two_percent(rows, "bico weighted"),
        "bico-fig06-binary-twice": _sizes_over(rows, "bico", "bico weighted", within),
        "bico-fig06-above-binary": _lead(rows, "bico"),
        "bico-fig06-above-weighted": _lead(rows, "bico weighted"),
        "bico-fig06-seconds": _seconds(rows),
        "bico-fig06-weighted-150x": _slower(rows),
        "bico-fig06-weighted-2pct-ours": _at_two_percent(rows, "bico weighted quadratic"),
        "bico-fig06-above-weighted-honest": _lead(honest, "bico weighted"),
        "bico-fig06-above-quadratic-ours": _lead(rows, "bico quadratic"),
        "bico-fig06-above-weighted-ours": _lead(rows, "bico weighted quadratic"),
    }


def _gaps(rows, method):
    """Accuracy of a method minus that of all rows: (dataset, size, seed) -> points."""
    full = rows[rows.method == "full"].set_index(["dataset", "seed"]).test_accuracy
    mine = rows[rows.method == method].set_index(["dataset", "size", "seed"]).test_accuracy
    return mine - full.reindex(pd.MultiIndex.from_tuples([(d, s) for d, _, s in mine.index])).to_numpy()


def _sizes_below(rows):
    """Largest size up to 2 % of the data, by data set; NaN where even the smallest is more."""
    n = rows[rows.method == "full"].groupby("dataset")["size"].max()
    sizes = sorted(rows.loc[rows.method == "bico", "size"].unique())
    return n.map(lambda n: max((m for m in sizes if m < TWO_PERCENT / 100 * n), default=None))


def _at_two_percent(rows, method):
    gaps, sizes = _gaps(rows, method), _sizes_below(rows)
    settings = {d: gaps[d][m].to_numpy() for d, m in sizes.dropna().items()}
    return Evidence(settings, facts={"sizes_up_to_2_percent": int(sizes.notna().all())})


def _sizes_over(rows, method, other, within):
    """Seed by seed, the first size of one method over that of another, on average over the data sets."""
    facts = {"sizes_up_to_2_percent": int(_sizes_below(rows).notna().all())}
    reached = {}
    for key in (method, other):
        gaps = _gaps(rows, key).groupby(level=["dataset", "size"]).mean()
        reached[key] = gaps[gaps >= -within].reset_index().groupby("dataset")["size"].min()
    if never := sorted(set(rows.dataset) - set(reached[method].index) | set(rows.dataset) - set(reached[other].index)):
        largest = rows.loc[rows.method == method, "size"].max()
        return Evidence(facts=facts, lacks=f"not reached on {', '.join(never)} with {largest} points")
    firsts = {}
    for key in (method, other):
        gaps = _gaps(rows, key).reset_index()
        arrived = gaps[gaps.test_accuracy >= -within].groupby(["dataset", "seed"])["size"].min()
        firsts[key] = arrived.reindex(gaps.groupby(["dataset", "seed"])["size"].max().index)
    ratios = (firsts[method] / firsts[other]).groupby(level="seed").mean()
    return Evidence({"": ratios.dropna().to_numpy()}, facts=facts)


def _lead(rows, method):
    rows = rows[rows.method != "full"]
    return paired_differences(rows, a=method, b=BASELINES, value="test_accuracy", by=["dataset", "size"])


def _seconds_of(rows, method):
    mine = rows[rows.method == method].dropna(subset="seconds")
    return mine[mine["size"] == mine["size"].max()].set_index(["dataset", "seed"]).seconds


def _facts(rows):
    n = rows[rows.method == "full"]["size"].min()
    return {"largest_size": int(rows.loc[rows.method == "bico", "size"].max()), "rows": int(n)}


def _seconds(rows):
    return Evidence({"": _seconds_of(rows, "bico").groupby(level="seed").mean().to_numpy()}, facts=_facts(rows))


def _slower(rows):
    ratio = _seconds_of(rows, "bico weighted") / _seconds_of(rows, "bico")
    settings = {d: group.to_numpy() for d, group in ratio.groupby(level="dataset")}
    return Evidence(settings, facts=_facts(rows))
