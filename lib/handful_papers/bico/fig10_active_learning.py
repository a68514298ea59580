"""Which numbers decide the claims of Figure 10."""

from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences

OTHERS = ("uniform", "max-entropy", "kcenter", "consistency", "badge")
# The methods of the paper's table.
ON_SPEECH_COMMANDS = ("uniform", "max-entropy", "kcenter", "badge")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    dataset = run.parameters["dataset"]
    run.facts.update(data=dataset)
    few, many = run.parameters["judged"]
    if dataset == "speech_commands":
        best = _lead(rows, "bico", ON_SPEECH_COMMANDS, [few, many])
        below = _lead(rows, "uniform", ON_SPEECH_COMMANDS[1:], [many])
    else:
        best = below = Evidence(lacks="Speech Commands is not part of this run", reason="data")
    return {
        "bico-fig10-best": _lead(rows, "bico", OTHERS, [few, many]),
        "bico-fig10-best-speech-commands": best,
        "bico-fig10-redundant-speech-commands": below,
    }


def _lead(rows, a, others, at):
    """Leads of `a` with the numbers of labels `at`, each over the seeds that both methods have."""
    found = {}
    for b in others:
        seeds = set(rows.seed[rows.method == a]) & set(rows.seed[rows.method == b])
        shared = rows[rows.labels.isin(at) & rows.seed.isin(seeds)]
        found |= paired_differences(
            shared,
            a=a,
            b=b,
            value="accuracy",
            by="labels",
        )
    return found
