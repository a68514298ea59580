"""Which numbers decide the claims of Table 3 and Figure 9."""

import numpy as np

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows)
    others = sorted(set(best.method) & set(tables.PRINTED_METHODS) - {"bico", "no replay"})
    leads = paired_differences(
        best,
        a="bico",
        b=others,
        value="accuracy",
        by="stream",
    )
    split = run.rows[(run.rows.stream == "SMNIST") & run.rows.method.isin(["uniform", "bico"])]
    tasks = tables.best_beta(split, "accuracy")
    by_task = paired_differences(
        tasks,
        a="bico",
        b="uniform",
        value="accuracy",
        by="task",
    )
    by_task.pop(max(by_task, key=lambda task: by_task[task].mean()))
    found = {
        "bico-tab03-above-uniform": {
            stream: gap for (b, stream), gap in leads.items() if b == "uniform"
        },
        "bico-tab03-only": _only(best, others),
        "bico-tab03-best": {
            b: np.mean([gap for (o, _), gap in leads.items() if o == b], axis=0) for b in others
        },
    }
    facts = _facts(run, sorted(set(best.stream)))
    found = {claim: Evidence(settings, facts=facts) for claim, settings in found.items()}
    return found | {"bico-fig09-most-tasks": Evidence(by_task, facts=_facts(run, ["SMNIST"]))}


def _facts(run, streams):
    data = {run.parameters["streams"][stream]["data"].removesuffix("_full") for stream in streams}
    return {"data": ", ".join(sorted(data)), "streams": len(streams)}


def _only(best, others):
    """Each other method's lead over uniform sampling on the stream where it is least."""
    others = [b for b in others if b != "uniform"]
    leads = {
        b: paired_differences(
            best,
            a=b,
            b="uniform",
            value="accuracy",
            by="stream",
        )
        for b in others
    }
    return {b: min(of.values(), key=np.mean) for b, of in leads.items()}
