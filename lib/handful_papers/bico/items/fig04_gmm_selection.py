"""Which numbers decide the claims of Figure 4."""

from handful_papers.claims import Evidence

MEANS, COVARIANCES = 0.1, 0.25  # errors up to which they count as accurate: standard deviations, share of the norm


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows.set_index(["method", "size", "seed"]).sort_index()
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
        found[f"bico-fig04-thirty-{key}"] = _of_one_law({"": 100 * at.error})
        found[f"bico-fig04-thirty-components-{key}"] = _of_one_law(components)
        found[f"bico-fig04-modes-first-{key}"] = _of_one_law(first)
    over = (rows.loc["bico quadratic", 30] / rows.loc["uniform", 30]).abs()
    names = {"likelihood": "error", "means": "mean_error", "covariances": "covariance_error"}
    return found | {"bico-fig04-closer-ours": {name: over[column].to_numpy() for name, column in names.items()}}


def _of_one_law(settings):
    return Evidence({key: values.to_numpy() for key, values in settings.items()}, facts={"data_laws": 1})
