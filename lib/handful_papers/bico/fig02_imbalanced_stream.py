"""Which numbers decide the claims of Figure 2."""


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    wide = run.rows.pivot(
        index="seed",
        columns="method",
        values=["classes", "scenes"],
    )
    classes = wide["classes"]
    scenes = wide["scenes"]
    return {
        "bico-fig02-more-classes": (classes["bico"] - classes["reservoir"]).to_numpy(),
        "bico-fig02-diverse": (scenes["bico"] - scenes["reservoir"]).to_numpy(),
    }
