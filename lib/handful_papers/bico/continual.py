"""Continual learning with a replay memory, and how it is filled: Tables 3, 9 and 10, Figure 9 of
the bilevel paper."""

import time
from functools import cache

import numpy as np
import pandas as pd
import torch
from handful.baselines import Herding, KCenter, KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset, Forward
from handful.continual import ReplayBuffer
from handful.models import Logistic
from handful.proxies import CNTK, NTK, RBF, Nystrom
from torch.nn.utils.rnn import pad_sequence

from handful_papers.bico.continual_data import learner_of, tasks_of
from handful_papers.bico.trained import FRCL, Hardest, ICaRL, MaxEntropy

# The penalty of the proxy's logistic regression, as in the authors' continual-learning code.
L2 = 1e-3
# The width of the RBF proxy on 784 normalised pixels (Appendix D).
GAMMA = 5e-4
NO_REPLAY = "no replay"


def bilevel(rule="linear"):
    """The selector of the paper's tables: multinomial logistic regression, equal weights, forward.

    It starts from one random point, as the authors' code does, and not from one of each class: a
    task's share of the memory may be no larger than its classes are many, and all of it would be
    random. That needs a penalty on the intercept, else a class that is missing drives it to
    infinity.
    """
    strategy = Forward(n_start=1, every_class=False)
    problem = Logistic(L2, penalise_intercept=True)
    options = dict(rule=rule, weighting="equal", strategy=strategy)
    return BilevelCoreset(problem, outer_penalty=False, **options)


# A selector and what it looks at: pixels, a proxy, or an attribute of `handful.continual.Views`.
METHODS = {
    "uniform": (UniformCoreset(), "pixels"),
    "kmeans features": (KMeansPlusPlus(), "pixels"),
    "kmeans embeddings": (KMeansPlusPlus(), "embeddings"),
    "kmeans gradients": (KMeansPlusPlus(), "gradients"),
    "kcenter features": (KCenter(), "pixels"),
    "kcenter embeddings": (KCenter(), "embeddings"),
    "kcenter gradients": (KCenter(), "gradients"),
    "gradient matching": (Herding(), "gradients"),
    "max entropy": (MaxEntropy(), "logits"),
    "hardest": (Hardest(), "losses"),
    "frcl": (FRCL(), "embeddings"),
    "icarl": (ICaRL(), "embeddings"),
    "bico": (bilevel(), "proxy"),
    "bico quadratic": (bilevel("quadratic"), "proxy"),
}
OF_THE_NETWORK = ("embeddings", "gradients", "losses", "logits")


def make_proxy(kind, inputs):
    """Nystrom features of a kernel of Table 10.

    Parameters
    ----------
    kind : "rbf" (that of Appendix D, for images of other sizes at the same width a pixel), or the
        tangent kernel of the paper's dense ("ntk") or convolutional ("cntk") network
    inputs : int, pixels of a row: a square image of one channel, or 3 x 32 x 32
    """
    image = (3, 32, 32) if inputs == 3072 else None
    kernels = {
        "rbf": RBF(GAMMA * 784 / inputs),
        "ntk": NTK(),
        "cntk": CNTK(shape=image),
    }
    return Nystrom(kernels[kind], n_landmarks=512)


def proxy_of(kernel, about, inputs):
    """The proxy of Table 10's rows: "RBF", or "NTK" for the tangent kernel that a stream's `about`
    names."""
    return make_proxy("rbf" if kernel == "RBF" else about["kernel"], inputs)


def arms_of(methods, betas, *, without):
    """All pairs of a method and a beta; the method `without` knows no beta and gets 0."""
    arms = []
    for method in methods:
        own = (0.0,) if method == without else betas
        arms += [(method, beta) for beta in own]
    return arms


def replay_rows(
    stream, about, *, seed, methods, kernel="RBF", size=None, batch_size=256, **training
):
    """Rows of `run` for one stream and seed, all arms side by side: a task of the sweeps.

    Parameters
    ----------
    stream : str, its name, a column of the rows
    about : dict, all that belongs to the stream: what `tasks_of` takes, network, size, betas,
        n_epochs and, where kernel is "NTK", which
    methods : list of str; `NO_REPLAY` gets no beta
    kernel : "RBF" or "NTK"
    size : int, rows of the memory, in place of the stream's own
    batch_size : of the training
    training : learning_rate, bfloat16, device, see `stacked.Runs`
    """
    # Products are small: threads would wait for each other.
    torch.set_num_threads(1)
    tasks = tasks_of(about)
    inputs = tasks[0].X.shape[1]
    arms = arms_of(methods, about["betas"], without=NO_REPLAY)
    rows = run(
        tasks,
        arms,
        seed=seed,
        size=size or about["size"],
        learner=learner_of(about, inputs, seed, **training),
        n_epochs=about["n_epochs"],
        batch_size=batch_size,
        proxy=proxy_of(kernel, about, inputs),
    )
    return rows.assign(stream=stream)


def run(
    tasks,
    arms,
    *,
    seed,
    size,
    learner,
    n_epochs,
    batch_size=256,
    proxy=None,
):
    """Learn the tasks one after another, once for each arm; all arms of a seed share start,
    minibatches and masks.

    The loss at task t is the minibatch's mean plus beta times the sum over older tasks of the mean
    loss of their rows in the memory (Section 4.1 and the authors' code).

    Parameters
    ----------
    tasks : list of `Task`
    arms : list of (method, beta); methods are keys of `METHODS`, or `NO_REPLAY`
    seed : int, of the selections and the proxy's landmarks; the learner has its own
    size : int, rows of the memory
    learner : `StackedMLP` or `TorchRuns` of one run
    n_epochs : int, a task
    proxy : transformer for methods that look at the "proxy"; the "rbf" one of `make_proxy` by
        default

    Returns
    -------
    DataFrame, one row per (method, beta, task), with columns method, beta, seed, task (from 1),
    accuracy and val_accuracy after the last task (percent), select_seconds of all the arm's
    selections, train_seconds (the arm's share of the whole training)
    """
    if proxy is None:
        proxy = make_proxy("rbf", tasks[0].X.shape[1])
    buffers = {}
    seconds = {}
    training = 0.0
    for t, task in enumerate(tasks):
        memory = None
        if t:
            kept = {key: buffer.rows() for key, buffer in buffers.items()}
            memory = filled_up([(kept.get(_key(method, beta)), beta) for method, beta in arms])
        start = time.perf_counter()
        learner.fit(
            task.X,
            task.y,
            n_epochs=n_epochs,
            batch_size=batch_size,
            memory=memory,
            key=t,
        )
        training += time.perf_counter() - start
        if t == 0:
            learner.repeat(len(arms))
        if t < len(tasks) - 1:
            _select(
                buffers,
                seconds,
                task,
                arms,
                learner,
                proxy,
                seed=[seed, t],
                size=size,
                shared=t == 0,
            )
    scores = accuracies(learner, tasks)
    rows = []
    for position, (method, beta) in enumerate(arms):
        rows += task_rows(
            scores,
            position,
            method=method,
            beta=beta,
            seed=seed,
            select_seconds=seconds.get(_key(method, beta), 0.0),
            train_seconds=training / len(arms),
        )
    return pd.DataFrame(rows)


def accuracies(learner, tasks):
    """Of each task the pair of its test and its validation accuracies in percent, each of all runs
    of the learner."""
    found = []
    for task in tasks:
        test = learner.accuracy(task.X_test, task.y_test)
        found.append((test, learner.accuracy(task.X_val, task.y_val)))
    return found


def task_rows(scores, position, **about):
    """A row for each task: `about`, task (from 1), and the accuracies of the run at `position`; see
    `accuracies`."""
    rows = []
    for task, (test, val) in enumerate(scores, start=1):
        found = dict(task=task, accuracy=test[position], val_accuracy=val[position])
        rows.append(about | found)
    return rows


def _key(method, beta):
    # What the network does not enter is selected once for all beta.
    if method == NO_REPLAY:
        return None
    _, view = METHODS[method]
    return method, beta if view in OF_THE_NETWORK else None


def _select(
    buffers,
    seconds,
    task,
    arms,
    learner,
    proxy,
    *,
    seed,
    size,
    shared,
):
    @cache
    def features():
        rng = np.random.default_rng(seed)
        proxy.set_params(random_state=int(rng.integers(2**31)))
        return proxy.fit_transform(task.X)

    done = {None}
    for position, (method, beta) in enumerate(arms):
        key = _key(method, beta)
        # Without replay there is no memory, and some memories serve every beta.
        if key in done:
            continue
        done.add(key)
        start = time.perf_counter()
        selector, view = METHODS[method]
        if view in OF_THE_NETWORK:
            # After the first task all runs are still alike.
            views = learner.views(task.X, task.y, 0 if shared else position)
            rows = getattr(views, view)
        else:
            rows = task.X if view == "pixels" else features()
        buffer = buffers.setdefault(key, ReplayBuffer(selector, size, random_state=seed[0]))
        buffer.add(task.X, task.y, view=np.ascontiguousarray(rows))
        seconds[key] = seconds.get(key, 0.0) + time.perf_counter() - start


def filled_up(parts):
    """Memories of several arms as arrays of one length: rows of coefficient zero fill up what is
    missing.

    Parameters
    ----------
    parts : list of (memory, beta) with memory None or (X, y, weights)

    Returns
    -------
    None where all memories are, else X (arms, m, d), y (arms, m) and beta times the weights (arms,
    m)
    """
    some = next((kept for kept, _ in parts if kept is not None), None)
    if some is None:
        return None
    empty = tuple(array[:0] for array in some)
    memories = [kept or empty for kept, _ in parts]
    betas = np.array([beta for _, beta in parts])
    X, y, weights = map(_padded, zip(*memories))
    return X, y, weights * betas[:, None]


def _padded(arrays):
    """Arrays of several lengths as one, with zeros behind the shorter ones."""
    tensors = [torch.as_tensor(array) for array in arrays]
    return pad_sequence(tensors, batch_first=True).numpy()
