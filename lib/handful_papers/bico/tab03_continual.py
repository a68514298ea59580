"""Which numbers decide the claims of Table 3 and Figure 9."""

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows)
    others = sorted(set(best.method) & set(tables.PRINTED_METHODS) - {"bico", "no replay"})
    leads = {other: _leads(best, "bico", other) for other in others}
    found = {
        "bico-tab03-above-uniform": leads["uniform"],
        "bico-tab03-only": _only(best, others),
        "bico-tab03-best": {
            (other, stream): gap
            for other, by_stream in leads.items()
            for stream, gap in by_stream.items()
        },
    }
    facts = _facts(run, sorted(set(best.stream)))
    found = {claim: Evidence(settings, facts=facts) for claim, settings in found.items()}
    by_task = _leads_by_task(run.rows[run.rows.stream == "SMNIST"])
    found["bico-fig09-most-tasks"] = Evidence(by_task, facts=_facts(run, ["SMNIST"]))
    return found


def _leads(best, a, b):
    """Stream -> leads of a method over another, one a seed."""
    found = paired_differences(
        best,
        a=a,
        b=b,
        value="accuracy",
        by="stream",
    )
    return {stream: gap for (_, stream), gap in found.items()}


def _leads_by_task(rows):
    """Leads over uniform sampling on each task."""
    shown = rows[rows.method.isin(["uniform", "bico"])]
    tasks = tables.best_beta(shown, "accuracy")
    return paired_differences(
        tasks,
        a="bico",
        b="uniform",
        value="accuracy",
        by="task",
    )


def _facts(run, streams):
    data = {run.parameters["streams"][stream]["data"].removesuffix("_full") for stream in streams}
    return {
        "data": ", ".join(sorted(data)),
        "streams": len(streams),
        "share_of_the_training": tables.share_of_epochs(run, streams),
    }


def _only(best, others):
    """Leads of each other method over uniform sampling, by method and stream."""
    return {
        (other, stream): gap
        for other in others
        if other != "uniform"
        for stream, gap in _leads(best, other, "uniform").items()
    }
