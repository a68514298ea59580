"""Which numbers decide the claims of Figure 2 (left and middle)."""

from handful_papers.claims import Evidence
from handful_papers.vrm.regression import steps_to_accuracy


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    facts = dict(steps=int(run.rows.step.max()))
    first, kept = (steps_to_accuracy(run.rows, run.parameters["accuracy_level"], kept=kept) for kept in (False, True))
    weights = run.rows.dropna(subset="weight uniform").set_index("seed")
    outer = weights[[f"weight blob {b}" for b in (1, 2, 5, 6)]].max(axis=1)
    lead = {f"blob {b}": weights[f"weight blob {b}"] - outer for b in (3, 4)}
    return {
        "vrm-fig02-blob-weights": Evidence(lead, facts=facts),
        "vrm-fig02-blob-accuracy": Evidence({"": kept["uniform"] / kept["vrm"]}, facts=facts),
        "vrm-fig02-blob-accuracy-first": Evidence({"": first["uniform"] / first["vrm"]}, facts=facts),
    }
