"""Which numbers decide the claims of Table 10."""

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence, paired_differences

KEYS = ["setting", "stream", "kernel"]


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows, KEYS)
    found = {
        f"bico-tab10-rbf-as-good-{setting.lower()}": _lead(run, best, setting, ["PMNIST", "SMNIST"], "RBF", "NTK")
        for setting in ("CL", "VCL", "Streaming")
    }
    return found | {"bico-tab10-rbf-fails-cifar10": _lead(run, best, "CL", ["SCIFAR-10"], "NTK", "RBF")}


def _lead(run, best, setting, streams, a, b):
    mine = best[(best.setting == setting) & best.stream.isin(streams)]
    if mine.empty:
        return Evidence(lacks=f"{' and '.join(streams)} did not run")
    present = list(mine.stream.unique())
    n_epochs = run.parameters.get("n_epochs") or run.parameters["epochs"]  # as it was called before
    facts = {"data": run.parameters["streams"][present[0]]["data"], "streams": len(present)}
    gaps = paired_differences(mine, a=a, b=b, value="accuracy", by="stream", method="kernel")
    return Evidence(gaps, facts=facts | {"n_epochs": n_epochs[present[0]]})
