"""Which numbers decide the claims of Figure 2."""

from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    of = {method: rows.set_index("seed").sort_index() for method, rows in run.rows.groupby("method")}
    n_classes = len(run.parameters["frames"])

    def share(cases):
        return Evidence({"": cases.to_numpy(int)}, shown=100.0 * float(cases.mean()))

    return {
        "bico-fig02-reservoir-misses": share(of["reservoir"].classes < n_classes),
        "bico-fig02-every-class": share(of["bico"].classes == n_classes),
        "bico-fig02-more-classes": (of["bico"].classes - of["reservoir"].classes).to_numpy(),
        "bico-fig02-diverse": (of["bico"].scenes - of["reservoir"].scenes).to_numpy(),
        "bico-fig02-beside-cbrs": (of["bico"].classes - of["cbrs"].classes).to_numpy(),
    }
