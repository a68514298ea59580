"""Which numbers decide the claims of Figure 11."""

from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    facts = {"data": run.parameters["dataset"]}
    batch = run.rows[run.rows.method == "bico"]
    found = {
        "bico-fig11-mistakes": {"": (batch.mistakes - batch.pool_mistakes).to_numpy()},
        "bico-fig11-diverse": {"": batch.spread.to_numpy()},
    }
    return {claim: Evidence(settings, facts=facts) for claim, settings in found.items()}
