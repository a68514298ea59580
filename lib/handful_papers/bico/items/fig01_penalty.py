"""Which numbers decide the claims of Figure 1."""

import numpy as np

from handful_papers.bico.penalty import smallest_falls
from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    falls = smallest_falls(run.parameters["n_directions"], 50, rng=np.random.default_rng(0))
    last = run.rows[run.rows.level == run.parameters["share"]]
    left = last.pivot(index="seed", columns="method", values="positive")
    return {
        "bico-fig01-falls-to-edges": Evidence({"": falls}, shown=float(falls.min())),
        "bico-fig01-sparsity": (left["no penalty"] / left["penalty"]).to_numpy(),
    }
