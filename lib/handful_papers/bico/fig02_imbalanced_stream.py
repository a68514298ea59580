"""Which numbers decide the claims of Figure 2."""


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    of = {
        method: rows.set_index("seed").sort_index() for method, rows in run.rows.groupby("method")
    }
    return {
        "bico-fig02-more-classes": (of["bico"].classes - of["reservoir"].classes).to_numpy(),
        "bico-fig02-diverse": (of["bico"].scenes - of["reservoir"].scenes).to_numpy(),
    }
