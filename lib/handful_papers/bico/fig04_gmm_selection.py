"""Which numbers decide the claims of Figure 4."""

# errors up to which they count as accurate: standard deviations, share of the norm
MEANS = 0.1
COVARIANCES = 0.25


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = (
        run.rows[run.rows.method == "bico"]
        .drop(columns="method")
        .set_index(["size", "law", "seed"])
        .sort_index()
    )
    # share of the error that is left
    at = rows.loc[30]
    left = rows.loc[25] / rows.loc[10]
    components = {"means": at.mean_error / MEANS, "covariances": at.covariance_error / COVARIANCES}
    first = {
        "covariances": left.mean_error / left.covariance_error,
        "weights": left.mean_error / left.weight_error,
    }
    run.facts.update(data_laws=run.rows["law"].nunique())
    return {
        "bico-fig04-thirty-paper": _by_law({"": 100 * at.error}),
        "bico-fig04-thirty-components-paper": {
            name: errors.groupby("seed").mean().to_numpy() for name, errors in components.items()
        },
        "bico-fig04-modes-first-paper": _by_law(first),
    }


def _by_law(values):
    """Name -> Series over (law, seed), as name and law -> array over seeds."""
    return {
        (law, name) if name else law: group.to_numpy()
        for name, series in values.items()
        for law, group in series.groupby("law")
    }
