"""Which numbers decide the claims of Figure 4."""

import numpy as np
from scipy.stats import gmean

# Errors up to which they count as accurate: in standard deviations, and as a share of the norm.
MEANS = 0.1
COVARIANCES = 0.25


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    bico = run.rows[run.rows.method == "bico"].drop(columns="method")
    rows = bico.set_index(["size", "law", "seed"]).sort_index()
    at = rows.loc[30]
    # The share of the error at 10 that is left at 25.
    left = rows.loc[25] / rows.loc[10]
    components = {
        "means": _by_law(at.mean_error / MEANS),
        "covariances": _by_law(at.covariance_error / COVARIANCES),
    }
    first = {
        "covariances": _by_law(left.mean_error / left.covariance_error),
        "weights": _by_law(left.mean_error / left.weight_error),
    }
    run.facts.update(data_laws=run.rows["law"].nunique())
    return {
        "bico-fig04-thirty-paper": _by_law(100 * at.error),
        "bico-fig04-thirty-components-paper": _larger(components, np.mean),
        "bico-fig04-modes-first-paper": _larger(first, gmean),
    }


def _by_law(series):
    """Law of the data -> values over seeds."""
    return {law: group.to_numpy() for law, group in series.groupby("law")}


def _larger(parts, mean):
    """Law of the data -> the values of the part whose mean is the larger one, under its name."""
    found = {}
    for law in next(iter(parts.values())):
        name = max(parts, key=lambda part: mean(parts[part][law]))
        found[law, name] = parts[name][law]
    return found
