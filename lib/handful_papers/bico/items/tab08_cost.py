"""Which numbers decide the claims of Table 8."""

import numpy as np

from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows[run.rows.times.isna()]
    seconds = rows.set_index(["operation", "size", "network", "repeat"]).seconds.sort_index()
    sizes = run.parameters["sizes"]
    facts = {k: run.parameters[k] for k in ("n", "n_landmarks", "network")} | {f"size_{m}": 1 for m in sizes}

    def of(operation, size, network):
        return seconds[operation, size, network].to_numpy()

    features = [of("features", run.parameters["n_landmarks"], network) for network in ("deep", "SCNN")]
    small, large = (of("coreset", size, "SCNN") for size in sizes)
    parts = run.rows[run.rows.times.notna()]
    gradient = (parts.seconds * parts.times).groupby(parts.repeat).sum().to_numpy()
    return {
        "bico-tab08-independent": {m: of("coreset", m, "deep") / of("coreset", m, "SCNN") for m in sizes},
        "bico-tab08-coreset-100": Evidence({sizes[0]: small}, facts=facts),
        "bico-tab08-coreset-400": Evidence({sizes[1]: large}, facts=facts),
        "bico-tab08-growth": large / small,
        "bico-tab08-kernel": features[0] / features[1],
        "bico-tab08-network": Evidence({"": gradient / np.median(of("coreset", sizes[0], "deep"))}, facts=facts),
    }
