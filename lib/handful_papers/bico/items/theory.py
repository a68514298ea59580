"""Which numbers decide the claims about the theory."""

import numpy as np

from handful_papers.bico.theory import rate_bound
from handful_papers.claims import Evidence

WITHIN = 4  # standard errors of a simulation that count as agreement
UNTOLD = "the run does not tell its constants"


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    values = {statement: rows for statement, rows in run.rows.groupby("statement")}
    found = {"bico-prop1": {f"problem {r.seed}": [r.value] for r in values["Proposition 1"].itertuples()}}
    for name in "568":
        z = values[f"Proposition {name}"].value.abs()
        found[f"bico-prop{name}"] = Evidence({"": (WITHIN - z).to_numpy()}, shown=float(z.max()))
    for id, name in [("bico-proposition7", "Proposition 7"), ("bico-proposition2-9", "Proposition 2 and 9")]:
        found[id] = _limit(values[name])
    found["bico-lemma10"] = _lemma_10(values["Lemma 10"], run.facts)
    gaps = {s.partition(": ")[2]: rows for s, rows in values.items() if s.startswith("Theorem 3")}
    found["bico-theorem3-printed"] = _rate(gaps, run.facts, scaled=False)
    found["bico-theorem3-rho"] = _rate(gaps, run.facts, scaled=True)
    for design in "AV":
        found[f"bico-design-{design.lower()}"] = values[f"{design}-design"].value.to_numpy()
    return found


def _limit(rows):
    """How the distance from the limit falls with n, and whether the simulations agree."""
    exponent = float(np.polyfit(np.log(rows.n), np.log(rows.value), 1)[0])
    z = ((rows.simulated - rows.value) / rows.standard_error).abs()
    settings = {"-0.9 minus the exponent": [-0.9 - exponent]}
    settings["4 minus the simulations' distance in standard errors"] = (WITHIN - z).to_numpy()
    return Evidence(settings, shown=exponent)


def _lemma_10(rows, facts):
    if "least_eigenvalue" not in facts:
        return Evidence(lacks=UNTOLD)
    settings = {"convex: least eigenvalue, share of the largest": [facts["least_eigenvalue"]]}
    settings["smooth: 1 minus the largest, share of the constant"] = (1 - rows.value).to_numpy()
    return Evidence(settings, shown=float(rows.value.max()))


def _rate(gaps, facts, *, scaled):
    """Gaps to the minimum as shares of the bound of Theorem 3, with the sum of weights rho where `scaled`."""
    if "smoothness" not in facts:
        return Evidence(lacks=UNTOLD)
    shares = {}
    for name, rows in gaps.items():
        rho = facts["weights_sum"][name] if scaled else 1.0
        first = rows.value[rows.t == 1].item()
        shares[name] = (rows.value / rate_bound(rows.t, first, facts["smoothness"][name], rho)).to_numpy()
    settings = {name: 1 - share for name, share in shares.items()}
    return Evidence(settings, shown=float(max(share.max() for share in shares.values())))
