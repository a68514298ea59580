"""Learning from a stream with a replay memory: Tables 5, 6, 9 and 10 of the bilevel paper (Sections 4.2 and 5.4)."""

import time

import numpy as np
import pandas as pd

from handful.bilevel.proxy import ProxyCoreset
from handful.experiments.continual import bilevel, filled_up, rbf_proxy
from handful.streaming import ClassBalancedReservoir, MergeReduce, Reservoir

PUBLISHED = {"coreset only": "Train on coreset", "reservoir": "Reservoir", "cbrs": "CBRS", "bico": "BiCo"}
METHODS = ("coreset only", "reservoir", "cbrs", "bico", "bico quadratic")


def make_memory(method, *, size, slots, batch, inputs, seed, proxy=None):
    """The memory that a method keeps of a stream: a `Reservoir`, `ClassBalancedReservoir` or `MergeReduce`.

    Parameters
    ----------
    method : one of `METHODS`; "coreset only" keeps what "bico" keeps
    size : int, rows of the memory; `slots` of them share it
    batch : int, rows of a batch of the stream, which becomes a slot
    inputs : int, columns of the rows
    proxy : transformer; `rbf_proxy` by default
    """
    if method == "reservoir":
        return Reservoir(size, random_state=seed)
    if method == "cbrs":
        return ClassBalancedReservoir(size, random_state=seed)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    selector = bilevel("quadratic" if method == "bico quadratic" else "linear")
    few = ProxyCoreset(selector, rbf_proxy(inputs) if proxy is None else proxy)
    if size % slots:
        raise ValueError(f"slots must divide the memory evenly, got size={size} and slots={slots}.")
    return MergeReduce(few, size=size // slots, leaf_size=batch, slots=slots, random_state=seed)


def run(batches, tasks, arms, *, seed, size, slots, learner, steps=40, final_epochs=400, proxy=None):
    """Learn a stream batch by batch, once for each arm; all arms of a seed share start and masks.

    At every batch Adam starts anew and takes `steps` full-batch steps on the mean loss of the batch plus beta times the
    loss of the memory: a reservoir's mean, or the sum over slots of their mean losses times the number of batches
    behind each (the authors' code). Then the memory takes the batch in. The arms "coreset only" are trained on the
    final memory alone, from scratch.

    Parameters
    ----------
    batches : list of (X, y), all of one length
    tasks : list of `Task`, what the result is tested on
    arms : list of (method, beta); methods of `METHODS`
    size, slots : ints, of the memory
    learner : function of a seed that gives a `StackedMLP` or `TorchRuns` of one run
    steps : int
    final_epochs : int, full-batch steps on the final memory

    Returns
    -------
    DataFrame, one row per (method, beta, task): columns as in `handful.experiments.continual.run`, and held: rows of
    each class in the final memory (a string)
    """
    inputs, batch = batches[0][0].shape[1], len(batches[0][0])
    streaming = [arm for arm in arms if arm[0] != "coreset only"]
    options = dict(size=size, slots=slots, batch=batch, inputs=inputs, seed=seed, proxy=proxy)
    memories = {kind: make_memory(kind, **options) for kind in sorted({_kind(method) for method, _ in arms})}
    seconds, training, network = dict.fromkeys(memories, 0.0), 0.0, learner(seed)
    for i, (X, y) in enumerate(batches):
        held = _stacked(memories, streaming, batch) if i else None
        start = time.perf_counter()
        if streaming:
            network.fit(X, y, epochs=steps, batch_size=len(X), memory=held, key=i)
        training += time.perf_counter() - start
        if i == 0:
            network.repeat(len(streaming))
        for kind, memory in memories.items():
            start = time.perf_counter()
            memory.partial_fit(X, y)
            seconds[kind] += time.perf_counter() - start
    scores = _scores(network, tasks) if streaming else None
    rows = []
    for method, beta in arms:
        kind = _kind(method)
        if method == "coreset only":
            X, y, weights = memories[kind].root()
            alone = learner(seed)
            alone.fit(X, y, epochs=final_epochs, batch_size=len(X), sample_weight=weights / weights.mean())
            own, position = _scores(alone, tasks), 0
        else:
            own, position = scores, streaming.index((method, beta))
        labels = memories[kind].root()[1]
        about = dict(
            method=method,
            beta=beta,
            seed=seed,
            select_seconds=seconds[kind],
            train_seconds=training / max(len(streaming), 1),
            held=" ".join(map(str, np.bincount(labels, minlength=10))),
        )
        rows += [
            dict(about, task=t + 1, accuracy=test[position], val_accuracy=val[position])
            for t, (test, val) in enumerate(own)
        ]
    return pd.DataFrame(rows)


def _scores(network, tasks):
    # test and validation accuracies of each task, each of all runs
    return [(network.accuracy(t.X_test, t.y_test), network.accuracy(t.X_val, t.y_val)) for t in tasks]


def _kind(method):
    # whose memory an arm uses
    return "bico" if method == "coreset only" else method


def _stacked(memories, arms, batch):
    kept = {}
    for kind, memory in memories.items():
        X, y, weights = memory.root()
        # The weights of merge and reduce add up to the rows behind each slot, those of a reservoir count alike.
        share = weights / batch if isinstance(memory, MergeReduce) else np.full(len(y), 1.0 / len(y))
        kept[kind] = X, y, share
    return filled_up([(kept[method], beta) for method, beta in arms])
