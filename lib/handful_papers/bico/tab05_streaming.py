"""Which numbers decide the claims of Tables 5 and 6."""

from handful_papers.bico import continual_tables as tables
from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    best = tables.at_best_beta(run.rows)
    run.facts.update(share_of_the_training=tables.share_of_steps(run))

    def lead(b, *streams):
        lost = set(streams) - set(best.stream)
        if lost:
            return Evidence(lacks=f"{' and '.join(sorted(lost))} did not run")
        about = [run.parameters["streams"][stream] for stream in streams]
        data = {one["data"].removesuffix("_full") for one in about}
        mine = best[best.stream.isin(streams)]
        gaps = paired_differences(
            mine,
            a="bico",
            b=b,
            value="accuracy",
            by="stream",
        )
        return Evidence(gaps, facts={"data": ", ".join(sorted(data))})

    imbalanced = ("imbalanced SMNIST", "imbalanced SCIFAR-10")
    return {
        "bico-tab05-above-reservoir": lead("reservoir", "PMNIST", "SMNIST"),
        "bico-tab05-not-above-cifar10": lead("reservoir", "SCIFAR-10"),
        "bico-tab06-above-reservoir": lead("reservoir", *imbalanced),
        "bico-tab06-near-cbrs": lead("cbrs", *imbalanced),
    }
