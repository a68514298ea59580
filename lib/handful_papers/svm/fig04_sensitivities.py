"""Which numbers decide the claims of Figure 4."""

from handful_papers.claims import Evidence


def evidence(run):
    """Claim -> the numbers of a run that decide it: ratios of mean bounds on the real set, one a
    clustering."""
    scores = run.facts.get("scores")
    facts = {"dataset": run.parameters["dataset"]}
    if not scores:
        return dict.fromkeys(
            ("svm-fig04-wrong", "svm-fig04-far"), Evidence(lacks="the run has the tight bound only")
        )
    return {
        "svm-fig04-wrong": Evidence({"": scores["misclassified"]}, facts=facts),
        "svm-fig04-far": Evidence({"": scores["far"]}, facts=facts),
    }
