"""Which numbers decide the claims of Figure 7."""

from handful_papers.bico.multiclass import where_shown
from handful_papers.claims import Evidence
from handful_papers.effects import paired_differences

N_CLASSES = 10
# In percent of the rows.
TENTH = 10.0
# Points of test accuracy up to which two methods are called level.
MARGIN = 0.5


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows.assign(percent=run.rows.share.round(1))
    n = rows[rows.method == "full"].groupby("dataset")["size"].max()
    rows_for_each = []
    for name, about in run.parameters["sets"].items():
        n_coefficients = N_CLASSES * (about["n_landmarks"] + 1)
        rows_for_each.append(n[name] / n_coefficients)
    largest = rows[rows.method == "bico"].groupby("dataset").share.max()
    facts = {
        "rows_for_each_coefficient": min(rows_for_each),
        "largest_share": float(largest.min()),
    }
    regularised = _lead("regularised", drawn_sizes(rows), "bico regularised")
    forward = _lead("forward", rows, "bico")
    others = _lead("kmeans++", rows, "kmeans++") | _lead("forgetting", rows, "forgetting")
    # "In all experiments": each of a method on a data set.
    others = {(f"{name} on {data}", share): lead for (name, data, share), lead in others.items()}
    return {
        "bico-fig07-compression": _compression(rows, facts),
        "bico-fig07-above-uniform": Evidence(forward | regularised, facts=facts),
        "bico-fig07-others-not-always": Evidence(others, facts=facts),
    }


def drawn_sizes(rows):
    """Rows of the sizes at which the regularised coreset is drawn: down to where it is clearly
    below forward selection.

    The paper stops when "its test performance drops below" that. Where both are level with all the
    data, which of them is ahead is noise, so half a point is let pass.

    Parameters
    ----------
    rows : DataFrame with dataset, method, share and test_accuracy, in percent
    """
    lenient = rows.assign(test_accuracy=rows.test_accuracy - MARGIN * (rows.method == "bico"))
    return rows.merge(where_shown(lenient)[["dataset", "share"]].drop_duplicates())


def _compression(rows, facts):
    settings = {}
    for dataset, mine in rows.set_index("seed").groupby("dataset"):
        tenth = mine[(mine.method == "bico regularised") & (mine.share <= TENTH)]
        if tenth.empty:
            return Evidence(lacks=f"no weighted coreset of at most {TENTH:g} % of {dataset}")
        largest = tenth[tenth["size"] == tenth["size"].max()].test_accuracy
        settings[dataset] = (largest - mine[mine.method == "full"].test_accuracy).to_numpy()
    return Evidence(settings, facts=facts)


def _lead(name, rows, method):
    """Leads of a method over uniform rows by (name, dataset, percent); none where the method is not
    shown."""
    if not {method, "uniform"} <= set(rows.method):
        return {}
    found = paired_differences(
        rows,
        a=method,
        b="uniform",
        value="test_accuracy",
        by=["dataset", "percent"],
    )
    return {(name, *setting): values for (_, *setting), values in found.items()}
