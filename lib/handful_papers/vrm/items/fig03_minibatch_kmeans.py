"""Which numbers decide the claims of Figure 3 and Table 1."""

from handful_papers.claims import Evidence
from handful_papers.verdicts import paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    starts = run.rows.groupby(["dataset", "method", "start", "step"])[["error", "seconds"]].mean().reset_index()
    last, first = (starts[starts.step == step] for step in (starts.step.max(), starts.step.min()))
    mnist = last.dataset == "mnist"
    facts = dict(
        tuned=int("vrm" in run.parameters.get("grids", {})), mnist_rows=run.facts.get("rows", {}).get("mnist", 0)
    )
    c = run.facts.get("c") or {d: [value] for d, value in run.rows.groupby("dataset").c.first().items()}
    gains = _gains(last[~last.dataset.isin(run.parameters.get("unchanged", ["digits", "mnist"]))], ["uniform", "vrb"])
    found = {
        "vrm-fig03-ends-best": Evidence(gains, facts=facts),
        "vrm-fig03-no-gain": Evidence(lacks="MNIST is not among the data of this run"),
        "vrm-fig03-uniform": Evidence(lacks="the run does not keep the learned weights"),
        "vrm-fig03-setup": paired_differences(first, a="vrm", b="uniform", value="seconds", by="dataset", seed="start"),
        "vrm-tab01-c": Evidence(lacks="MNIST is not among the data of this run"),
        "vrm-tab01-c-below-50": Evidence(c),
        "vrm-fig03-control": _gains(last, "equal mixture"),
    }
    if mnist.any():
        found["vrm-fig03-no-gain"] = Evidence(_gains(last[mnist], "uniform"), facts=facts)
        found["vrm-tab01-c"] = Evidence({"": c["mnist"]}, facts=facts)
    if "mnist" in run.facts.get("uniform_weight", {}):
        found["vrm-fig03-uniform"] = Evidence({"": run.facts["uniform_weight"]["mnist"]}, facts=facts)
    return found


def _gains(rows, others):
    gains = paired_differences(
        rows, a="vrm", b=others, value="error", by="dataset", seed="start", higher_is_better=False
    )
    return {setting: 100 * values for setting, values in gains.items()}
