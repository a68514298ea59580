"""Variational continual learning with coresets: Table 4 of the bilevel paper, and the rows of Table
10 on it."""

import numpy as np
import pandas as pd
import torch
from handful.baselines import KCenter, UniformCoreset

from handful_papers.bico.continual import bilevel, make_proxy, proxy_of
from handful_papers.bico.continual_data import tasks_of
from handful_papers.bico.vcl import VCL

# Selector, and whether it looks at features of a proxy.
METHODS = {
    "no coreset": (None, False),
    "uniform": (UniformCoreset(), False),
    "kcenter": (KCenter(), False),
    "bico": (bilevel(), True),
    "bico quadratic": (bilevel("quadratic"), True),
}
PRINTED = {"uniform": "Uniform", "kcenter": "k-center", "bico": "BiCo"}


def run(
    tasks,
    methods,
    *,
    seed,
    proxy=None,
    **options,
):
    """Learn the tasks one after another with VCL, once for each method; test after the last.

    Parameters
    ----------
    tasks : list of `Task`
    methods : keys of `METHODS`
    seed : int; all methods of a seed share start, minibatches and noise
    proxy : transformer for the methods that look at features; the "rbf" one of `make_proxy` by
        default
    options : of `VCL`

    Returns
    -------
    DataFrame, one row per (method, task), with columns method, seed, task (from 1), accuracy
    (percent)
    """
    if proxy is None:
        proxy = make_proxy("rbf", tasks[0].X.shape[1])
    proxy.set_params(random_state=seed)
    rows = []
    for method in methods:
        selector, of_proxy = METHODS[method]
        model = VCL(selector, random_state=seed, **options)
        for task in tasks:
            view = proxy.fit_transform(task.X) if of_proxy else None
            model.add_task(task.X, task.y, view=view)
        predicted = model.predict(np.concatenate([task.X_test for task in tasks]))
        ends = np.cumsum([len(task.y_test) for task in tasks])
        parts = np.split(predicted, ends[:-1])
        for t, (task, labels) in enumerate(zip(tasks, parts), start=1):
            accuracy = 100.0 * float(np.mean(labels == task.y_test))
            row = dict(
                method=method,
                seed=seed,
                task=t,
                accuracy=accuracy,
            )
            rows.append(row)
    return pd.DataFrame(rows)


def vcl_rows(
    stream,
    about,
    *,
    seed,
    methods,
    hidden,
    kernel="RBF",
    **options,
):
    """Rows of `run` for one stream and seed: a task of the sweeps.

    Parameters
    ----------
    stream, about, methods, kernel : as in `continual.replay_rows`
    hidden, options : of `VCL`
    """
    # Products are small: threads would wait for each other.
    torch.set_num_threads(1)
    tasks = tasks_of(about)
    options |= dict(proxy=proxy_of(kernel, about, tasks[0].X.shape[1]), hidden=tuple(hidden))
    return run(
        tasks,
        methods,
        seed=seed,
        **options,
    ).assign(stream=stream)
