"""Learning from a stream with a replay memory: Figure 2, Tables 5, 6, 9 and 10 (Sections 4.2 and
5.4)."""

import time
from functools import partial

import numpy as np
import pandas as pd
import torch
from handful.bilevel import ProxyCoreset
from handful.streaming import ClassBalancedReservoir, MergeReduce, Reservoir

from handful_papers.bico.continual import (
    accuracies,
    arms_of,
    bilevel,
    filled_up,
    make_proxy,
    proxy_of,
    task_rows,
)
from handful_papers.bico.continual_data import images, learner_of, stream_of, tasks_of, video_stream

# Method -> its row in Tables 5 and 6.
PRINTED = {
    "coreset only": "Train on coreset",
    "reservoir": "Reservoir",
    "cbrs": "CBRS",
    "bico": "BiCo",
}
METHODS = ("coreset only", "reservoir", "cbrs", "bico", "bico quadratic")
RESERVOIRS = {"reservoir": Reservoir, "cbrs": ClassBalancedReservoir}


def make_memory(
    method,
    *,
    size,
    slots,
    batch_size,
    inputs,
    seed,
    proxy=None,
):
    """The memory that a method keeps of a stream: a `Reservoir`, `ClassBalancedReservoir` or
    `MergeReduce`.

    Parameters
    ----------
    method : one of `METHODS`; "coreset only" keeps what "bico" keeps
    size : int, rows of the memory; `slots` of them share it
    batch_size : int, rows of a batch of the stream, which becomes a slot
    inputs : int, columns of the rows
    proxy : transformer; the "rbf" one of `make_proxy` by default
    """
    if method in RESERVOIRS:
        return RESERVOIRS[method](size, random_state=seed)
    selector = bilevel("quadratic" if method == "bico quadratic" else "linear")
    if proxy is None:
        proxy = make_proxy("rbf", inputs)
    if size % slots:
        raise ValueError(f"slots must divide the memory evenly, got size={size} and slots={slots}.")
    return MergeReduce(
        ProxyCoreset(selector, proxy),
        size=size // slots,
        leaf_size=batch_size,
        n_slots=slots,
        random_state=seed,
    )


def run(
    batches, tasks, arms, *, seed, size, slots, learner, n_steps=40, n_final_epochs=400, proxy=None
):
    """Learn a stream batch by batch, once for each arm; all arms of a seed share start and masks.

    At every batch Adam starts anew and takes `n_steps` full-batch steps on the mean loss of the
    batch plus beta times the loss of the memory: a reservoir's mean, or the sum over slots of their
    mean losses times the number of batches behind each (the authors' code). Then the memory takes
    the batch in. The arms "coreset only" are trained on the final memory alone, from scratch.

    Parameters
    ----------
    batches : list of (X, y), all of one length
    tasks : list of `Task`, what the result is tested on
    arms : list of (method, beta); methods of `METHODS`
    size, slots : ints, of the memory
    learner : function of a seed that gives a `StackedMLP` or `TorchRuns` of one run
    n_steps : int
    n_final_epochs : int, full-batch steps on the final memory

    Returns
    -------
    DataFrame, one row per (method, beta, task): columns as in `handful_papers.bico.continual.run`,
    and held: rows of each class in the final memory (a string)
    """
    inputs = batches[0][0].shape[1]
    batch_size = len(batches[0][0])
    streaming = [arm for arm in arms if arm[0] != "coreset only"]
    options = dict(
        size=size, slots=slots, batch_size=batch_size, inputs=inputs, seed=seed, proxy=proxy
    )
    kinds = sorted({_kind(method) for method, _ in arms})
    memories = {kind: make_memory(kind, **options) for kind in kinds}
    seconds = dict.fromkeys(memories, 0.0)
    training = 0.0
    network = learner(seed)
    for i, (X, y) in enumerate(batches):
        held = _stacked(memories, streaming, batch_size) if i else None
        start = time.perf_counter()
        if streaming:
            network.fit(
                X,
                y,
                n_epochs=n_steps,
                batch_size=len(X),
                memory=held,
                key=i,
            )
        training += time.perf_counter() - start
        if i == 0:
            network.repeat(len(streaming))
        for kind, memory in memories.items():
            start = time.perf_counter()
            memory.partial_fit(X, y)
            seconds[kind] += time.perf_counter() - start
    scores = accuracies(network, tasks) if streaming else None
    rows = []
    for method, beta in arms:
        kind = _kind(method)
        if method == "coreset only":
            X, y, weights = memories[kind].rows()
            alone = learner(seed)
            alone.fit(
                X,
                y,
                n_epochs=n_final_epochs,
                batch_size=len(X),
                sample_weight=weights / weights.mean(),
            )
            own = accuracies(alone, tasks)
            position = 0
        else:
            own = scores
            position = streaming.index((method, beta))
        _, labels, _ = memories[kind].rows()
        rows += task_rows(
            own,
            position,
            method=method,
            beta=beta,
            seed=seed,
            select_seconds=seconds[kind],
            train_seconds=training / max(len(streaming), 1),
            held=" ".join(map(str, np.bincount(labels, minlength=10))),
        )
    return pd.DataFrame(rows)


def streaming_rows(
    stream, about, *, seed, methods, kernel="RBF", size=None, batch_size=125, n_steps=40, **training
):
    """Rows of `run` for one stream and seed, all arms side by side: a task of the sweeps.

    Parameters
    ----------
    stream, about, methods, kernel, size, training : as in `continual.replay_rows`; `about` has
        slots, and no n_epochs
    batch_size, n_steps : rows of a batch of the stream, steps at each
    """
    torch.set_num_threads(1)
    tasks = tasks_of(about)
    batches = stream_of(tasks, batch_size=batch_size)
    inputs = tasks[0].X.shape[1]
    arms = arms_of(methods, about["betas"], without="coreset only")
    learner = partial(learner_of, about, inputs, **training)
    rows = run(
        batches,
        tasks,
        arms,
        seed=seed,
        size=size or about["size"],
        slots=about["slots"],
        learner=learner,
        n_steps=n_steps,
        proxy=proxy_of(kernel, about, inputs),
    )
    return rows.assign(stream=stream)


def watch(
    method,
    *,
    seed,
    data,
    frames,
    n_scenes,
    shift,
    noise,
    size,
    batch_size,
    kernel,
):
    """Feed `video_stream` to a memory of one slot, for Figure 2.

    Returns
    -------
    X, y, scene : the stream; kept : int array, positions of the rows that the memory holds at its
        end
    """
    about = dict(
        frames=frames,
        n_scenes=n_scenes,
        shift=shift,
        noise=noise,
    )
    X, y, scene = video_stream(
        images(data),
        seed=seed,
        **about,
    )
    inputs = X.shape[1]
    options = dict(
        size=size,
        slots=1,
        batch_size=batch_size,
        inputs=inputs,
        seed=seed,
    )
    memory = make_memory(method, proxy=make_proxy(kernel, inputs), **options)
    for start in range(0, len(X) - batch_size + 1, batch_size):
        batch = slice(start, start + batch_size)
        memory.partial_fit(X[batch], y[batch])
    return X, y, scene, memory.indices_


def memory_rows(data, frames, *, seed, methods, **options):
    """What memories hold of one stream of pictures: a task of the sweep.

    Returns
    -------
    list of dict with method, seed, classes and scenes (how many are held), "class 0", ... (rows of
    each)
    """
    rows = []
    for method in methods:
        _, y, scene, kept = watch(
            method,
            seed=seed,
            data=data,
            frames=frames,
            **options,
        )
        counts = np.bincount(y[kept], minlength=len(frames))
        row = dict(
            method=method,
            seed=seed,
            classes=int((counts > 0).sum()),
            scenes=len(np.unique(scene[kept])),
        )
        rows.append(row | {f"class {c}": int(k) for c, k in enumerate(counts)})
    return rows


def _kind(method):
    # The method whose memory an arm uses.
    return "bico" if method == "coreset only" else method


def _stacked(memories, arms, batch_size):
    kept = {}
    for kind, memory in memories.items():
        X, y, weights = memory.rows()
        if kind in RESERVOIRS:
            shares = np.full(len(y), 1 / len(y))
        else:
            # The weights of merge and reduce add up to the rows behind each slot.
            shares = weights / batch_size
        kept[kind] = (X, y, shares)
    return filled_up([(kept[method], beta) for method, beta in arms])
