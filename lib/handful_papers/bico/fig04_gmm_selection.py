"""Which numbers decide the claims of Figure 4."""

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
        "means": (at.mean_error / MEANS).groupby("seed").mean().to_numpy(),
        "covariances": (at.covariance_error / COVARIANCES).groupby("seed").mean().to_numpy(),
    }
    first = {
        "covariances": left.mean_error / left.covariance_error,
        "weights": left.mean_error / left.weight_error,
    }
    run.facts.update(data_laws=run.rows["law"].nunique())
    return {
        "bico-fig04-thirty-paper": _by_law({"": 100 * at.error}),
        "bico-fig04-thirty-components-paper": components,
        "bico-fig04-modes-first-paper": _by_law(first),
    }


def _by_law(values):
    """Name -> Series over (law, seed), as name and law -> array over seeds."""
    found = {}
    for name, series in values.items():
        for law, group in series.groupby("law"):
            found[(law, name) if name else law] = group.to_numpy()
    return found
