"""Tables and figures of continual learning and streaming: our number beside the paper's, for each
stream and method."""

import numpy as np
import pandas as pd

from handful_papers.bico import METHODS
from handful_papers.published import published
from handful_papers.spread import has_spread
from handful_papers.style import BLACK, EXTENSION, REPRODUCED

# Methods whose row in Table 3 has their label for a name.
_NAMED_BY_LABEL = (
    "no replay",
    "kmeans features",
    "kmeans embeddings",
    "kmeans gradients",
    "kcenter features",
    "kcenter embeddings",
    "kcenter gradients",
    "gradient matching",
    "max entropy",
    "hardest",
    "frcl",
    "icarl",
)
# Method -> its row in Table 3.
PRINTED_METHODS = {method: METHODS[method]["label"] for method in _NAMED_BY_LABEL}
PRINTED_METHODS |= {"uniform": "Uniform sampling", "bico": "BiCo"}
# Epochs of a task and gradient steps of a batch of a stream, in the paper.
N_EPOCHS = 400
N_STEPS = 40
# The marks of the paper's values.
PRINTED = dict(
    fmt="o",
    mfc="none",
    color=BLACK,
    ms=3.5,
    lw=0.7,
    label="the paper's",
    zorder=1.8,
)


def share_of_epochs(run, streams):
    """The least of the epochs that a task of these streams is trained, over the paper's."""
    epochs = run.parameters["n_epochs"]
    return min(epochs[stream] for stream in streams) / N_EPOCHS


def share_of_steps(run):
    """The gradient steps of a batch of a stream, over the paper's."""
    return run.parameters["n_steps"] / N_STEPS


def best_beta(rows, by, keys=("method",)):
    """The rows of the best beta of each method, by the mean of `by` over tasks and seeds.

    Parameters
    ----------
    rows : DataFrame with columns method, beta and those named
    by : "accuracy", the test set's, as in the paper; or "val_accuracy"
    keys : what beta is chosen for separately

    Returns
    -------
    DataFrame : the rows of the chosen (method, beta)
    """
    keys = list(keys)
    means = rows.groupby([*keys, "beta"], as_index=False)[by].mean()
    highest = means.groupby(keys)[by].idxmax()
    best = means.loc[highest, [*keys, "beta"]]
    return rows.merge(best, on=[*keys, "beta"])


def averages(rows, keys=("method",)):
    """Accuracy averaged over the tasks, one row per (keys, seed)."""
    by_seed = rows.groupby([*keys, "beta", "seed"], as_index=False, sort=False)
    return by_seed[["accuracy", "val_accuracy"]].mean()


def at_best_beta(rows, keys=("stream", "method")):
    """Accuracy averaged over the tasks at the beta that is best for each of `keys`: one row per
    (keys, seed)."""
    return averages(best_beta(rows, "accuracy", keys), keys)


def beside_paper(rows, item, names):
    """Mean and standard deviation over seeds of the accuracy averaged over tasks, beside the
    published value.

    Parameters
    ----------
    rows : DataFrame of runs with a column stream
    item : "Table 3"; the published item
    names : dict, method -> published row

    Returns
    -------
    DataFrame, one row per (stream, method), with columns beta (best on the test set, as in the
    paper), ours and sd (percent), honest (with beta chosen on validation rows), paper, paper_sd
    """
    keys = ("stream", "method")
    printed = published("bico", item).set_index(["row", "column"])
    chosen = at_best_beta(rows, keys)
    table = chosen.groupby(list(keys), sort=False).agg(
        beta=("beta", "first"),
        ours=("accuracy", "mean"),
        sd=("accuracy", "std"),
    )
    honest = averages(best_beta(rows, "val_accuracy", keys), keys)
    table["honest"] = honest.groupby(list(keys)).accuracy.mean()
    cells = [(names.get(method), stream) for stream, method in table.index]
    table["paper"] = [printed["value"].get(cell, np.nan) for cell in cells]
    table["paper_sd"] = [printed["sd"].get(cell, np.nan) for cell in cells]
    return table


def per_task(rows, methods):
    """Accuracy of each task at each method's best beta: DataFrame with method, seed, task,
    accuracy."""
    chosen = best_beta(rows[rows.method.isin(methods)], "accuracy")
    return chosen[["method", "seed", "task", "accuracy"]]


def draw_tasks(ax, by_task, methods):
    """Figure 9: mean accuracy of each task as a mark, with its standard deviation where there are
    several seeds, the methods side by side.

    Marks and no bars, as bars would have to begin at nought, where no difference is seen.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    by_task : `per_task`
    methods : pair of str, left and right
    """
    for shift, method in zip((-0.12, 0.12), methods):
        mine = by_task[by_task.method == method]
        tasks = mine.groupby("task").accuracy
        mean = tasks.mean()
        error = tasks.std() if has_spread(mine, ["task"]) else None
        look = METHODS.style(method, ls="", ms=6)
        ax.errorbar(mean.index + shift, mean, yerr=error, **look)
    ax.set_xticks(sorted(by_task.task.unique()))
    ax.grid(False, axis="x")


def display_table(table):
    """`beside_paper` for a reader: "79.3 ± 0.5" and the paper's beside it."""

    shown = {
        "beta": table.beta,
        "ours, %": [_with_deviation(*pair) for pair in zip(table.ours, table.sd)],
        "paper, %": [_with_deviation(*pair) for pair in zip(table.paper, table.paper_sd)],
        "beta by validation, %": table.honest.map("{:.2f}".format),
    }
    return pd.DataFrame(shown)


def _with_deviation(mean, sd):
    """ "79.30 ± 0.50", without what is NaN."""
    if np.isnan(mean):
        return ""
    return f"{mean:.2f}" if np.isnan(sd) else f"{mean:.2f} ± {sd:.2f}"


def dot_plot(axes, table, methods, titles):
    """The table as a figure: a panel for each stream, a row for each method, the paper's values as
    hollow circles.

    Parameters
    ----------
    axes : list of matplotlib Axes
    table : `beside_paper`
    methods : list of str, from top to bottom
    titles : dict, stream -> what stands above its panel
    """
    streams = table.index.get_level_values(0).unique()
    for ax, stream in zip(axes, streams):
        part = table.loc[stream].reindex(methods[::-1])
        for height, (method, row) in enumerate(part.iterrows()):
            look = METHODS.style(
                method,
                ls="",
                lw=1,
                ms=4,
            )
            if look["color"] not in (REPRODUCED, EXTENSION):
                look["marker"] = "o"
            ax.errorbar(
                row.ours,
                height,
                xerr=None if np.isnan(row.sd) else row.sd,
                **look,
            )
            error = None if np.isnan(row.paper_sd) else row.paper_sd
            ax.errorbar(
                row.paper,
                height - 0.25,
                xerr=error,
                **PRINTED,
            )
        labels = [METHODS[method]["label"] for method in part.index]
        ax.set_yticks(range(len(part)), labels if ax is axes[0] else [])
        title = titles[stream].replace("imbalanced ", "imbalanced\n")
        ax.set(
            xlabel="accuracy, %",
            title=title,
            ylim=(-0.7, len(part) - 0.4),
        )


def legend(fig):
    """A legend below the figure for what `dot_plot` draws."""
    looks = {"reproduced": "bico", "extension": "bico quadratic", "baseline": "uniform"}
    handles = [METHODS.line(method, ls="", ms=4, label=label) for label, method in looks.items()]
    hollow = METHODS.line(
        "full",
        ls="",
        ms=3.5,
        marker="o",
        mfc="none",
        label="the paper's",
    )
    handles.append(hollow)
    fig.legend(handles=handles, loc="outside lower center", ncols=4)
