"""Which numbers decide the claims of Table 2."""

from itertools import pairwise

import numpy as np

from handful_papers.published import published

CLUSTERS = (8192, 16384, 32768)


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    em = _by_clusters(run.rows, "em_seconds")
    seeding = _by_clusters(run.rows, "seeding_seconds")
    error = _by_clusters(run.rows, "error")
    run.facts.update(clusters=int(em.columns.max()))
    run.facts.update(initial_e_steps=run.parameters.get("initial_e_steps", 0))
    times = {"seeding and EM": seeding + em, "EM": em}
    growths = {}
    drops = {}
    for few, many in pairwise(sorted(em.columns)):
        for name, seconds in times.items():
            growths[name, f"{few} to {many}"] = seconds[many] / seconds[few]
        drops[f"{few} to {many}"] = 100 * (1 - error[many] / error[few])
    # The last doubling is the one of the most clusters.
    seeding_over_em = (seeding[many] / seeding[few]) / (em[many] / em[few])
    return {
        "vcgmm-tab02-em-doubling": growths,
        "vcgmm-tab02-seeding-grows-faster": {"": seeding_over_em},
        "vcgmm-tab02-error-falls": drops,
        "vcgmm-tab02-values": _against_printed(run.rows),
    }


def _by_clusters(rows, column):
    return rows.pivot(index="seed", columns="clusters", values=column)


def _against_printed(rows):
    """Ours over the nine printed values, each relative to its column's value at the fewest
    clusters."""
    table = published("vcgmm", "Table 2").set_index(["row", "column"]).value
    found = {}
    columns = {"quantization error": "error", "seeding": "seeding_seconds", "EM": "em_seconds"}
    for name, column in columns.items():
        ours = _by_clusters(rows, column)
        for few, many in pairwise(CLUSTERS):
            if {few, many} <= set(ours.columns):
                printed = table[f"C={many}", name] / table[f"C={few}", name]
                found[name, many] = np.asarray(ours[many] / ours[few]) / printed
    return found
