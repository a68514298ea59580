"""Which numbers decide the claims on adaptive sampling with imbalanced classes, our own."""

import numpy as np

from handful_papers.own.imbalanced import steps_to


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    last = rows[rows.step == rows.step.max()]
    wide = last.pivot_table(index=["dataset", "seed"], columns="method", values=["train", "test", "ap", "seconds"])

    def over(column, a, b):
        ratios = wide[column][a] / wide[column][b]
        return {dataset: values.to_numpy() for dataset, values in ratios.groupby("dataset")}

    return {
        "own-imbalanced-steps": _steps_saved(rows),
        "own-imbalanced-fixed": over("train", "mixture", "fixed mixture"),
        "own-imbalanced-loss": over("test", "mixture", "by class"),
        "own-imbalanced-ranking": over("ap", "mixture", "by class"),
        "own-imbalanced-seconds": over("seconds", "mixture", "uniform"),
    }


def _steps_saved(rows):
    """Steps until the test loss is what uniform batches end with, over their own: data set -> one value a seed."""
    found = {}
    for (dataset, _), run in rows.groupby(["dataset", "seed"]):
        curves = dict(list(run.groupby("method")))
        level = curves["uniform"].test.iloc[-1]
        ratio = steps_to(curves["mixture"], level) / steps_to(curves["uniform"], level)
        found.setdefault(dataset, []).append(ratio)
    return {dataset: np.array(values) for dataset, values in found.items()}
