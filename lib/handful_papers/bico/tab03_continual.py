"""Which numbers decide the claims of Table 3 and Figure 9."""

import numpy as np

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence, paired_differences

STREAMS = ("PMNIST", "SMNIST", "SCIFAR-10")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows)
    others = sorted(set(best.method) & set(tables.PRINTED_METHODS) - {"bico", "no replay"})
    found = {"bico-tab03-only": _only(run, best, others)}
    for stream in STREAMS:
        facts, mine = _facts(run, stream), best[best.stream == stream]
        for claim, b in (("above-uniform", "uniform"), ("best", others)):
            found[f"bico-tab03-{claim}-{stream.lower()}"] = (
                Evidence(_lead(mine, "bico", b), facts=facts) if len(mine) else Evidence(lacks=f"{stream} did not run")
            )
    split = run.rows[(run.rows.stream == "SMNIST") & run.rows.method.isin(["uniform", "bico"])]
    tasks = tables.best_beta(split, "accuracy")
    by_task = paired_differences(tasks, a="bico", b="uniform", value="accuracy", by="task")
    found["bico-fig09-most-tasks"] = Evidence(by_task, facts=_facts(run, "SMNIST"))
    n_epochs = run.parameters.get("n_epochs") or run.parameters["epochs"]  # as it was called before
    found["bico-tab03-selection-share"] = Evidence(
        tables.selection_share(run.rows), facts={"n_epochs": min(n_epochs.values())}
    )
    return found


def _lead(best, a, b):
    return paired_differences(best, a=a, b=b, value="accuracy", by="stream")


def _facts(run, stream):
    """The data that ran, and the accuracy on the last task without replay: whether the network learns a task at all."""
    rows = run.rows[(run.rows.stream == stream) & (run.rows.method == "no replay")]
    if rows.empty:
        return {}
    last = float(rows[rows.task == rows.task.max()].accuracy.mean())
    return {"data": run.parameters["streams"][stream]["data"], "accuracy_on_the_last_task": last}


def _only(run, best, others):
    """Each other method's lead over uniform sampling on the stream where it is least."""
    leads = {b: _lead(best, b, "uniform") for b in others if b != "uniform"}
    settings = {b: min(of.values(), key=np.mean) for b, of in leads.items()}
    cifar = _facts(run, "SCIFAR-10").get("accuracy_on_the_last_task", 0.0)
    return Evidence(settings, facts={"streams": best.stream.nunique(), "accuracy_on_the_last_task_of_cifar10": cifar})
