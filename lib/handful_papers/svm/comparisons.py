"""Ratios of means over trials, for figures and verdicts."""

import numpy as np

from handful_papers.claims import Evidence

# The paper's data sets; w8a holds its W1.
SETS = {"HTRU", "Credit", "Pathological", "Skin", "Cod-rna", "w8a"}
# The gap to which samples are trained: below it, errors do not differ.
FLOOR = 1e-6


def trials(datasets, n_trials, fewer, *, first):
    """Every data set with each of its trials, as settings of a sweep.

    Parameters
    ----------
    datasets : list of str
    n_trials : int
    fewer : dict, data set -> int, a smaller number of trials
    first : int, the seed of the first trial
    """
    settings = []
    for name in datasets:
        n_own = min(n_trials, fewer.get(name, n_trials))
        for seed in range(first, first + n_own):
            settings.append({"dataset": name, "seed": seed})
    return settings


def error_ratios(rows):
    """Mean error of uniform sampling over that of each arm.

    Parameters
    ----------
    rows : pandas.DataFrame of `offline_errors` or `streaming_runs`

    Returns
    -------
    pandas.DataFrame indexed by (dataset, size), a column for each arm but uniform
    """
    by_cell = rows.groupby(["dataset", "size", "method"], sort=False)
    means = by_cell.error.mean().unstack()
    arms = [arm for arm in rows.method.unique() if arm != "uniform"]
    return means[arms].rdiv(means["uniform"], axis=0)


def jackknifed_ratio(a, b):
    """One value a trial, whose geometric mean stands for mean(a) / mean(b) and whose scatter for
    its error.

    They are the exponentials of the jackknife's pseudo-values of log(mean(a) / mean(b)) (Tukey
    1958), so that a rule for ratios tests the ratio of two means, which the paper shows, and not
    the mean ratio of single trials.

    Parameters
    ----------
    a, b : float arrays, one value a trial, paired; values below `FLOOR` are raised to it

    Returns
    -------
    float array, as long as they
    """
    a = np.maximum(a, FLOOR)
    b = np.maximum(b, FLOOR)
    n = len(a)
    whole = np.log(np.mean(a) / np.mean(b))
    if n < 2:
        return np.exp([whole])
    without_one = np.log((a.sum() - a) / (b.sum() - b))
    return np.exp(n * whole - (n - 1) * without_one)


def ratios(rows, arm, *, spread=False, sizes=None):
    """`jackknifed_ratio` of uniform sampling over an arm in every setting.

    Parameters
    ----------
    rows : pandas.DataFrame with dataset, method, size, seed and error
    arm : str, a method
    spread : compare the mean absolute deviations from the median (the scatter between trials), not
        the means
    sizes : function of the ascending sizes of a data set, giving those to take; default: all

    Returns
    -------
    dict : (dataset, size) -> float array, one value a seed
    """
    found = {}
    for dataset, part in rows.groupby("dataset", sort=False):
        every = sorted(part["size"].unique())
        for size in every if sizes is None else sizes(every):
            of_size = part[part["size"] == size]
            wide = of_size.pivot(index="seed", columns="method", values="error")
            if spread:
                wide = (wide - wide.median()).abs()
            uniform = wide["uniform"].to_numpy()
            found[dataset, int(size)] = jackknifed_ratio(uniform, wide[arm].to_numpy())
    return found


def geometric_mean(settings):
    """Seed by seed, the geometric mean over settings of as many seeds each."""
    logs = [np.log(values) for values in settings.values()]
    return np.exp(np.mean(logs, axis=0))


def overheads(rows, arm, *, trainer="train"):
    """CPU time of an arm over that of uniform sampling, to select and to train.

    Parameters
    ----------
    rows : pandas.DataFrame of `offline_times` or `streaming_runs`
    trainer : column with the seconds of training; data sets without them are left out

    Returns
    -------
    dict : dataset -> float array, one value a seed, the geometric mean over the sizes
    """
    rows = rows.dropna(subset=[trainer])
    timed = rows.assign(total=rows["select"] + rows[trainer])
    wide = timed.pivot(
        index=["dataset", "size", "seed"],
        columns="method",
        values="total",
    )
    logs = np.log(wide[arm] / wide["uniform"])
    by_seed = np.exp(logs.groupby(level=["dataset", "seed"], sort=False).mean())
    by_set = by_seed.groupby(level="dataset", sort=False)
    return {dataset: ratios.to_numpy() for dataset, ratios in by_set}


def svc_overheads(rows, arm):
    """Evidence of `overheads` with the paper's solver, and on how many of the paper's sets it
    was run."""
    found = overheads(rows, arm, trainer="train_svc")
    return Evidence(found, facts={"sets_with_svc": len(SETS & set(found))})
