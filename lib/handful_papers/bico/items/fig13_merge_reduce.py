"""Which numbers decide the claims of Figure 13."""

from handful_papers.bico.merge_reduce import algorithm_3
from handful_papers.claims import Evidence

SHOWN = {*(f"C{i}" for i in range(1, 8)), "C12", "C34", "C56"}


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    given = run.parameters
    facts = {"steps": given["n_steps"], "slots": given["slots"]}
    printed = algorithm_3(given["slots"], given["n_steps"])
    found, right, free_slots, free_points = [], [], [], []
    for _, built in run.rows.groupby("seed"):
        small = set(built[built.weight <= 2].coreset)
        found.append(len(small & SHOWN) - len(small - SHOWN))
        held = [_held(built, step) for step in range(1, given["n_steps"] + 1)]
        agree = [list(now.weight) == weights for now, weights in zip(held, printed)]
        right.append(100 * sum(agree) / len(agree))
        free_slots.append(given["slots"] - max(map(len, held)))
        free_points.append(given["slots"] * given["slot_size"] - max(now.points.sum() for now in held))
    memory = {"free slots": free_slots, "room for points": free_points}
    return {
        "bico-fig13-coresets": Evidence({"": found}, facts=facts),
        "bico-fig13-rule": right,
        "bico-fig13-memory": Evidence(memory, shown=given["slots"] - min(free_slots), facts=facts),
    }


def _held(built, step):
    """Rows of the slots after a step: of the coresets built so far, those that no larger one stands for."""
    now = built[built.step <= step].assign(batches=lambda b: b.coreset.str[1:])
    inside = [
        any(own in other and own != other for other in now.batches)  # "12" in "1234"
        for own in now.batches
    ]
    return now[[not one for one in inside]].sort_values("batches")
