"""Which numbers decide the claims of Figure 2 (left and middle)."""

from handful_papers.vrm.regression import steps_to_accuracy


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(steps=int(run.rows.step.max()))
    level = run.parameters["accuracy_level"]
    first = steps_to_accuracy(run.rows, level, kept=False)
    kept = steps_to_accuracy(run.rows, level, kept=True)
    weights = run.rows.dropna(subset="weight uniform").set_index("seed")
    outer_blobs = [f"weight blob {b}" for b in (1, 2, 5, 6)]
    outer = weights[outer_blobs].max(axis=1)
    lead = {f"blob {b}": weights[f"weight blob {b}"] - outer for b in (3, 4)}
    return {
        "vrm-fig02-blob-weights": lead,
        "vrm-fig02-blob-accuracy": {
            "once it stays there": kept["uniform"] / kept["vrm"],
            "the first time": first["uniform"] / first["vrm"],
        },
        "vrm-fig02-blob-first-time": first["uniform"] / first["vrm"],
    }
