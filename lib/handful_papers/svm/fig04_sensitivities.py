"""Which numbers decide the claims of Figure 4."""

from scipy.stats import spearmanr

from handful_papers.claims import Evidence

PARTS = 5
TIGHT_ONLY = "the run has the tight bound only"


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows, bounds = run.rows, [f"k={k}" for k in run.parameters["n_clusters"]]
    scores, facts = run.facts.get("scores"), {"dataset": run.parameters["dataset"]}
    parts = [rows[rows.point % PARTS == i] for i in range(PARTS)]

    def of_scores(name):
        return Evidence({"": scores[name]}, facts=facts) if scores else Evidence(lacks=TIGHT_ONLY)

    return {
        "svm-fig04-outliers": _outliers(rows, [f"paper {k}" for k in bounds]),
        "svm-fig04-wrong": of_scores("misclassified"),
        "svm-fig04-far": of_scores("far"),
        "svm-fig04-outliers-tight": _outliers(rows, bounds),
        "svm-fig04-rank": [spearmanr(part[bounds[0]], part.exact)[0] for part in parts],
    }


def _outliers(rows, bounds):
    if not set(bounds) <= set(rows):
        return Evidence(lacks=TIGHT_ONLY)
    return {k: (rows[k][rows.outlier] / rows[k][~rows.outlier].mean()).to_numpy() for k in bounds}
