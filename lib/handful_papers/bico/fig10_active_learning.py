"""Which numbers decide the claims of Figure 10."""

from handful_papers.claims import Evidence, paired_differences

OTHERS = ("uniform", "max-entropy", "kcenter", "consistency", "badge")
ON_SPEECH_COMMANDS = ("uniform", "max-entropy", "kcenter", "badge")  # as in the paper's table


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows, dataset = run.rows, run.parameters["dataset"]
    facts = {"data": dataset, "network": run.parameters["network"]}
    few, many = run.parameters["judged"]
    later = sorted(set(rows.labels) - {rows.labels.min()})
    found = {
        "bico-fig10-best-at-40": _lead(rows, "bico", OTHERS, [few]),
        "bico-fig10-best-at-70": _lead(rows, "bico", OTHERS, [many]),
        "bico-fig10-above-uniform": _lead(rows, "bico", ["uniform"], later),
        "bico-fig10-mistakes": _excess(rows),
    }
    found = {claim: Evidence(settings, facts=facts) for claim, settings in found.items()}
    if dataset == "speech_commands":
        best = Evidence(_lead(rows, "bico", ON_SPEECH_COMMANDS, [few, many]), facts=facts)
        below = Evidence(_lead(rows, "uniform", ON_SPEECH_COMMANDS[1:], [many]), facts=facts)
    else:
        best = below = Evidence(lacks="Speech Commands is not part of this run")
    return found | {
        "bico-fig10-best-speech-commands": best,
        "bico-fig10-redundant-speech-commands": below,
        "bico-fig10-cost": _cost(rows, facts),
    }


def _lead(rows, a, others, at):
    """Leads of `a` with the numbers of labels `at`, each over the seeds that both methods have."""
    found = {}
    for b in others:
        seeds = set(rows.seed[rows.method == a]) & set(rows.seed[rows.method == b])
        shared = rows[rows.labels.isin(at) & rows.seed.isin(seeds)]
        found |= paired_differences(shared, a=a, b=b, value="accuracy", by="labels")
    return found


def _excess(rows):
    asked = rows[(rows.method == "bico") & rows.mistakes.notna()]
    return {n: (batch.mistakes - batch.pool_mistakes).to_numpy() for n, batch in asked.groupby("labels")}


def _cost(rows, facts):
    if "seconds_train" not in rows:
        return Evidence(lacks="the seconds of training were not kept")
    asked = rows[rows.seconds_query.notna()]
    ratio = (asked.seconds_query / asked.seconds_train).groupby([asked.method, asked.seed]).mean()
    return Evidence({m: of.to_numpy() for m, of in ratio.groupby(level="method")}, facts=facts)
