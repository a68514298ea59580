"""Which numbers decide the claims of Figure 7."""

from handful_papers.bico.multiclass import where_shown
from handful_papers.claims import Evidence, paired_differences

TENTH = 10.0  # percent
MARGIN = 0.5  # points of test accuracy up to which two methods are called level


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows.assign(percent=run.rows.share.round(1))
    facts = {f"{d}_rows": int(n) for d, n in rows[rows.method == "full"].groupby("dataset")["size"].max().items()}
    facts |= {"largest_share": float(rows[rows.method == "bico"].groupby("dataset").share.max().min())}
    shown = drawn_sizes(rows)
    weighted = rows.merge(rows.loc[rows.method == "bico forward weighted", ["dataset", "percent"]].drop_duplicates())
    found = {
        "bico-fig07-compression-mnist": _compression(rows, "mnist"),
        "bico-fig07-compression-cifar10": _compression(rows, "cifar10"),
        "bico-fig07-above-forward": _lead(rows, "bico", ["uniform"]),
        "bico-fig07-above-reg": _lead(shown, "bico regularised", ["uniform"]),
        "bico-fig07-kmeans-not-always": _lead(rows, "kmeans++", ["uniform"]),
        "bico-fig07-forgetting-not-always": _lead(rows, "forgetting", ["uniform"]),
        "bico-fig07-others-forward": _lead(rows, "bico", ["kmeans++", "forgetting"]),
        "bico-fig07-own-weights": _lead(weighted, "bico forward weighted", ["bico"]),
        "bico-fig07-others-reg": _lead(shown, "bico regularised", ["kmeans++", "forgetting"]),
    }
    return {id: Evidence(one.settings, facts=facts, lacks=one.lacks) for id, one in found.items()}


def drawn_sizes(rows):
    """Rows of the sizes at which the regularised coreset is drawn: down to where it is clearly below forward selection.

    The paper stops when "its test performance drops below" that. Where both are level with all the data, which of them
    is ahead is noise, so half a point is let pass.

    Parameters
    ----------
    rows : DataFrame with dataset, method, share and test_accuracy, in percent
    """
    lenient = rows.assign(test_accuracy=rows.test_accuracy - MARGIN * (rows.method == "bico"))
    return rows.merge(where_shown(lenient)[["dataset", "share"]].drop_duplicates())


def _compression(rows, dataset):
    mine = rows[rows.dataset == dataset].set_index("seed")
    tenth = mine[(mine.method == "bico regularised") & (mine.share <= TENTH)]
    if tenth.empty:
        return Evidence(lacks=f"no weighted coreset of at most {TENTH:g} % of {dataset}")
    largest = tenth[tenth["size"] == tenth["size"].max()].test_accuracy
    return Evidence({"": (largest - mine[mine.method == "full"].test_accuracy).to_numpy()})


def _lead(rows, method, others):
    rows = rows[rows.method.isin([method, *others])]
    if not {method, *others} <= set(rows.method):
        return Evidence(lacks=f"no size at which both {method} and {', '.join(others)} are shown")
    return Evidence(paired_differences(rows, a=method, b=others, value="test_accuracy", by=["dataset", "percent"]))
