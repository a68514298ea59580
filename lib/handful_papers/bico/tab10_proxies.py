"""Which numbers decide the claims of Table 10."""

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences

KEYS = ["setting", "stream", "kernel"]


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows, KEYS)
    continual = best[best.setting == "CL"]
    return {
        "bico-tab10-rbf-as-good": _lead(run, best, ["PMNIST", "SMNIST"], "RBF", "NTK"),
        "bico-tab10-rbf-fails-cifar10": _lead(run, continual, ["SCIFAR-10"], "NTK", "RBF"),
    }


def _lead(run, best, streams, a, b):
    mine = best[best.stream.isin(streams)]
    if mine.empty:
        return Evidence(lacks=f"{' and '.join(streams)} did not run")
    gaps = paired_differences(
        mine,
        a=a,
        b=b,
        value="accuracy",
        by=["setting", "stream"],
        method="kernel",
    )
    first = mine.stream.iloc[0]
    trained = min(tables.share_of_epochs(run, streams), tables.share_of_steps(run))
    facts = {"data": run.parameters["streams"][first]["data"], "streams": len(gaps)}
    return Evidence(gaps, facts=facts | {"share_of_the_training": trained})
