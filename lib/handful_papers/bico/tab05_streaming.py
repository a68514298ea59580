"""Which numbers decide the claims of Tables 5 and 6."""

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence, paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows)

    def lead(stream, a, b):
        mine = best[best.stream == stream]
        if mine.empty:
            return Evidence(lacks=f"{stream} did not run")
        data = run.parameters["streams"][stream]["data"]
        return Evidence(paired_differences(mine, a=a, b=b, value="accuracy", by="stream"), facts={"data": data})

    n_steps = run.parameters.get("n_steps") or run.parameters["steps"]  # as it was called before
    return {
        "bico-tab05-above-reservoir-pmnist": lead("PMNIST", "bico", "reservoir"),
        "bico-tab05-above-reservoir-smnist": lead("SMNIST", "bico", "reservoir"),
        "bico-tab05-replay-pmnist": lead("PMNIST", "bico", "coreset only"),
        "bico-tab05-replay-smnist": lead("SMNIST", "bico", "coreset only"),
        "bico-tab05-coreset-alone": lead("SMNIST", "coreset only", "bico"),
        "bico-tab05-aljundi": Evidence(lacks="the selection of Aljundi et al. is not part of the library"),
        "bico-tab05-not-above-cifar10": lead("SCIFAR-10", "bico", "reservoir"),
        "bico-tab06-above-reservoir-imbalanced-smnist": lead("imbalanced SMNIST", "bico", "reservoir"),
        "bico-tab06-above-reservoir-imbalanced-scifar-10": lead("imbalanced SCIFAR-10", "bico", "reservoir"),
        "bico-tab06-above-cbrs": lead("imbalanced SMNIST", "bico", "cbrs"),
        "bico-tab06-near-cbrs": lead("imbalanced SCIFAR-10", "bico", "cbrs"),
        "bico-tab05-selection-share": Evidence(tables.selection_share(run.rows), facts={"n_steps": n_steps}),
    }
