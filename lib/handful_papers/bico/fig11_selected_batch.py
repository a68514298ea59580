"""Which numbers decide the claims of Figure 11."""

from handful_papers.claims import Evidence, paired_differences


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    facts = {"data": run.parameters["dataset"]}
    batch = run.rows[run.rows.method == "bico"]
    words = paired_differences(run.rows.assign(first=1), a="bico", b="uniform", value="classes", by="first")
    found = {
        "bico-fig11-mistakes": {"": (batch.mistakes - batch.pool_mistakes).to_numpy()},
        "bico-fig11-diverse": {"": batch.spread.to_numpy()},
        "bico-fig11-classes": {"": next(iter(words.values()))},
    }
    return {claim: Evidence(settings, facts=facts) for claim, settings in found.items()}
