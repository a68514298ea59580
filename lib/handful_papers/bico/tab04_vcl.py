"""Which numbers decide the claims of Table 4."""

from handful_papers.claims import Evidence, paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    averages = run.rows.groupby(["stream", "method", "seed"], as_index=False).accuracy.mean()
    found = {}
    for stream, about in run.parameters["streams"].items():
        facts = {"data": about["data"], "n_kept": run.parameters["n_kept"]}
        for other in ("uniform", "kcenter"):
            mine = averages[averages.stream == stream]
            gaps = paired_differences(mine, a="bico", b=other, value="accuracy", by="stream")
            found[f"bico-tab04-above-{other}-{stream.lower()}"] = Evidence(gaps, facts=facts)
    return found
