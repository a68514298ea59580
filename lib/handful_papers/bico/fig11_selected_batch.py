"""Which numbers decide the claims of Figure 11."""


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    run.facts.update(data=run.parameters["dataset"])
    batch = run.rows[run.rows.method == "bico"]
    mistakes = (batch.mistakes - batch.pool_mistakes).to_numpy()
    return {"bico-fig11-mistakes": mistakes, "bico-fig11-diverse": batch.spread.to_numpy()}
