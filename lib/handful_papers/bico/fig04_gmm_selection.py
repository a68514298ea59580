"""Which numbers decide the claims of Figure 4."""

from handful_papers.claims import Evidence

MEANS, COVARIANCES = 0.1, 0.25  # errors up to which they count as accurate: standard deviations, share of the norm


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows.set_index(["method", "size", "law", "seed"]).sort_index()
    facts = {"data_laws": run.rows["law"].nunique()}
    found = {}
    for key, method in [("paper", "bico"), ("ours", "bico quadratic")]:
        own = rows.loc[method]
        at = own.loc[30]
        components = {"means": at.mean_error / MEANS, "covariances": at.covariance_error / COVARIANCES}
        left = own.loc[25] / own.loc[10]  # share of the error that is left
        first = {
            "covariances": left.mean_error / left.covariance_error,
            "weights": left.mean_error / left.weight_error,
        }
        found[f"bico-fig04-thirty-{key}"] = Evidence(_by_law({"": 100 * at.error}), facts=facts)
        found[f"bico-fig04-thirty-components-{key}"] = Evidence(_by_law(components), facts=facts)
        found[f"bico-fig04-modes-first-{key}"] = Evidence(_by_law(first), facts=facts)
    over = (rows.loc["bico quadratic", 30] / rows.loc["uniform", 30]).abs()
    names = {"likelihood": "error", "means": "mean_error", "covariances": "covariance_error"}
    closer = _by_law({name: over[column] for name, column in names.items()})
    return found | {"bico-fig04-closer-ours": closer}


def _by_law(values):
    """Name -> Series over (law, seed), as name and law -> array over seeds."""
    return {
        (law, name) if name else law: group.to_numpy()
        for name, series in values.items()
        for law, group in series.groupby("law")
    }
