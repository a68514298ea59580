"""Which numbers decide the claims of Table 2."""

from itertools import pairwise

import numpy as np

from handful_papers.published import published

CLUSTERS = (8192, 16384, 32768)


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows.assign(em_distances=run.rows.distances_per_point * (run.rows.iterations + 1))
    em, seeding, error = (
        rows.pivot(index="seed", columns="clusters", values=column)
        for column in ("em_distances", "seeding_distances", "error")
    )
    run.facts.update(
        clusters=int(em.columns.max()), initial_e_steps=run.parameters.get("initial_e_steps", 0)
    )
    doublings = list(pairwise(sorted(em.columns)))
    growths = {f"{few} to {many}": em[many] / em[few] for few, many in doublings}
    few, many = doublings[-1]
    growth = (seeding[many] / seeding[few]) / (em[many] / em[few])
    drops = {f"{few} to {many}": 100 * (1 - error[many] / error[few]) for few, many in doublings}
    return {
        "vcgmm-tab02-em-doubling": growths,
        "vcgmm-tab02-seeding-grows-faster": {"": growth},
        "vcgmm-tab02-error-falls": drops,
        "vcgmm-tab02-values": _against_printed(run.rows),
    }


def _against_printed(rows):
    """Ours over the nine printed values, each relative to its column's value at the fewest
    clusters."""
    table = published("vcgmm", "Table 2").set_index(["row", "column"]).value
    found = {}
    columns = {"quantization error": "error", "seeding": "seeding_seconds", "EM": "em_seconds"}
    for name, column in columns.items():
        ours = rows.pivot(index="seed", columns="clusters", values=column)
        for few, many in pairwise(CLUSTERS):
            if {few, many} <= set(ours.columns):
                printed = table[f"C={many}", name] / table[f"C={few}", name]
                found[name, many] = np.asarray(ours[many] / ours[few]) / printed
    return found
