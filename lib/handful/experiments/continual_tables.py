"""Tables and claims of continual learning and streaming: our number beside the paper's, for each stream and method."""

import numpy as np
import pandas as pd

from handful.experiments.continual import averages, best_beta
from handful.experiments.published import published
from handful.experiments.verdicts import judge

PAPERS_BETAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def arms_of(methods, betas, *, without=()):
    """All pairs of a method and a beta; methods in `without` know no beta and get 0."""
    return [(m, b) for m in methods for b in ((0.0,) if m in without else betas)]


def beside_paper(rows, item, names, *, column=lambda stream: stream):
    """Mean and standard deviation over seeds of the accuracy averaged over tasks, beside the published value.

    Parameters
    ----------
    rows : DataFrame of runs with a column stream
    item : "Table 3"; the published item
    names : dict, method -> published row
    column : gives the published column of a stream

    Returns
    -------
    DataFrame, one row per (stream, method), with columns beta (best on the test set, as in the paper), ours and sd
    (percent), honest (with beta chosen on validation rows), paper, paper_sd
    """
    keys = ("stream", "method")
    printed = published("bico", item).set_index(["row", "column"])
    chosen = averages(best_beta(rows, "accuracy", keys), keys)
    table = chosen.groupby(list(keys), sort=False).agg(
        beta=("beta", "first"), ours=("accuracy", "mean"), sd=("accuracy", "std")
    )
    honest = averages(best_beta(rows, "val_accuracy", keys), keys)
    table["honest"] = honest.groupby(list(keys)).accuracy.mean()
    for name, source in (("paper", "value"), ("paper_sd", "sd")):
        table[name] = [
            printed[source].get((names.get(method), column(stream)), np.nan) for stream, method in table.index
        ]
    return table


def per_seed(rows, stream, method):
    """Accuracies of a method at its best beta, averaged over the tasks, one value a seed."""
    chosen = averages(best_beta(rows[(rows.stream == stream) & (rows.method == method)], "accuracy"))
    return chosen.sort_values("seed").accuracy.to_numpy()


def per_task(rows, methods):
    """Accuracy of each task at each method's best beta: DataFrame with method, seed, task, accuracy."""
    chosen = best_beta(rows[rows.method.isin(methods)], "accuracy")
    return chosen[["method", "seed", "task", "accuracy"]]


def best_or_within_sd(table, stream, method, *, tested):
    """Verdict of "best, or within one standard deviation of the best": of ours and all methods that the paper has."""
    ours = table.loc[stream]
    others = ours[ours.paper.notna()]
    best = others.ours.idxmax()
    short = float(others.ours.max() - others.loc[method].ours)
    sd = float(others.loc[best].sd)
    return judge(
        short <= sd,
        weaker=bool(short <= 2 * sd),
        tested=tested,
        why=f"{short:.2f} points below the best ({best}), whose standard deviation is {sd:.2f} (weaker: twice that)",
    )


def share_of_selection(rows):
    """Seconds of selection over seconds of training, percent, for each method (of all its runs)."""
    runs = rows.groupby(["stream", "method", "beta", "seed"], as_index=False)[
        ["select_seconds", "train_seconds"]
    ].first()
    totals = runs.groupby("method")[["select_seconds", "train_seconds"]].sum()
    return 100.0 * totals.select_seconds / totals.train_seconds


def display_table(table):
    """`beside_paper` for a reader: "79.3 ± 0.5" and the paper's beside it."""

    def text(mean, sd):
        return "" if np.isnan(mean) else f"{mean:.2f}" + ("" if np.isnan(sd) else f" ± {sd:.2f}")

    return pd.DataFrame(
        {
            "beta": table.beta,
            "ours, %": [text(*pair) for pair in zip(table.ours, table.sd)],
            "paper, %": [text(*pair) for pair in zip(table.paper, table.paper_sd)],
            "beta by validation, %": table.honest.map("{:.2f}".format),
        }
    )
