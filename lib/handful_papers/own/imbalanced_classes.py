"""Where adaptive sampling pays: a torch classifier on imbalanced classes, by steps and by
seconds."""

import time

import numpy as np
import torch
from handful.checks import ConvergenceError
from handful.data import load
from handful.data.dataset import standardise
from handful.sampling import MixtureSampler, UniformSampler, group_components
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import WeightedRandomSampler

METHODS_SHOWN = ("uniform", "by class", "fixed mixture", "mixture")


class ByClass:
    """What torch offers: rows drawn so that each class comes as often as the other; the loss takes
    no weights."""

    def __init__(self, y, *, batch_size, seed):
        generator = torch.Generator().manual_seed(seed)
        chances = 1.0 / np.bincount(y)[y]
        self.draws = WeightedRandomSampler(chances, batch_size, generator=generator)
        self.weights = np.ones(batch_size)

    def sample(self):
        return np.fromiter(self.draws, dtype=np.int64), self.weights

    def update(self, losses):
        """Nothing is learned."""


def make_sampler(method, y, *, batch_size, seed):
    """The sampler of a method, one of `METHODS_SHOWN`. Mixtures are of the classes and the uniform
    distribution."""
    options = dict(batch_size=batch_size, random_state=seed)
    if method == "uniform":
        return UniformSampler(len(y), **options)
    if method == "by class":
        return ByClass(y, batch_size=batch_size, seed=seed)
    given = "equal" if method == "fixed mixture" else None
    return MixtureSampler(group_components(y), mixture_weights=given, **options)


def prepare(dataset, seed, *, n, n_test):
    """Rows of a data set with its classes' shares, standardised: three pairs (X, y) to train, to
    validate, to test.

    Parameters
    ----------
    dataset : str, a name in the registry
    seed : int, of the split
    n, n_test : int, rows to train on, and rows for each of the others, at most; these are a sixth
        at least
    """
    data = load(dataset)
    y = np.unique(data.y, return_inverse=True)[1]
    n_test = min(n_test, len(y) // 6)

    def apart(rows, **sizes):
        return train_test_split(
            rows,
            **sizes,
            stratify=y[rows],
            random_state=seed,
        )

    rows, aside = apart(np.arange(len(y)), test_size=2 * n_test)
    if n < len(rows):
        rows, _ = apart(rows, train_size=n)
    parts = [rows, *apart(aside, test_size=n_test)]
    tables = standardise(*(data.X[part].astype(np.float64) for part in parts))
    return [(torch.tensor(X, dtype=torch.float32), y[part]) for X, part in zip(tables, parts)]


def curve_rows(
    dataset, method, seed, *, n, n_test, hidden, n_steps, n_marks, batch_size, learning_rates
):
    """A network trained with batches of one method, at the learning rate with the least validation
    loss in the end.

    Learning rates at which training diverges are passed over.

    Parameters
    ----------
    dataset, seed, n, n_test : as in `prepare`
    method : one of `METHODS_SHOWN`
    hidden : int, units in each of the two hidden layers
    n_steps, n_marks : int, gradient steps, and at how many of them, evenly spread, the network is
        judged
    batch_size : int
    learning_rates : list of float, of SGD with momentum .9

    Returns
    -------
    list of dict, one for each mark: step, seconds (CPU time of training so far), learning_rate,
    log-losses in nats of all rows to train on (train) and of the test rows (test), and ap, the
    average precision on the test rows in percent: of the rarer one of two classes, otherwise the
    mean over the classes, one against the others

    Raises
    ------
    ConvergenceError
        where training diverges at each of the learning rates
    """
    parts = prepare(dataset, seed, n=n, n_test=n_test)
    marks = np.unique(np.linspace(0, n_steps, n_marks + 1).astype(int)[1:])
    options = dict(
        hidden=hidden,
        marks=marks,
        batch_size=batch_size,
        seed=seed,
    )
    curves = [
        _train(
            method,
            parts,
            learning_rate=rate,
            **options,
        )
        for rate in learning_rates
    ]
    if not any(curves):
        raise ConvergenceError(
            f"{dataset}, {method}: training diverges at the learning rates {learning_rates}."
        )
    return min(filter(None, curves), key=lambda curve: curve[-1].pop("validation"))


def _train(
    method,
    parts,
    *,
    hidden,
    marks,
    batch_size,
    learning_rate,
    seed,
):
    """The rows of a curve; none where the losses overflow."""
    (X, y), validation, test = parts
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(X.shape[1], hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, int(y.max()) + 1),
    )
    targets = torch.tensor(y)
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=learning_rate,
        momentum=0.9,
    )
    sampler = make_sampler(method, y, batch_size=batch_size, seed=seed)
    seconds = 0.0
    done = 0
    curve = []
    for mark in marks:
        start = time.process_time()
        for _ in range(mark - done):
            indices, weights = sampler.sample()
            rows = torch.from_numpy(indices)
            losses = nn.functional.cross_entropy(model(X[rows]), targets[rows], reduction="none")
            if not torch.isfinite(losses).all():
                return []
            optimizer.zero_grad()
            (torch.from_numpy(weights).float() * losses).mean().backward()
            optimizer.step()
            sampler.update(losses.detach().numpy())
        seconds = seconds + time.process_time() - start
        done = mark
        row = dict(
            step=int(mark),
            seconds=seconds,
            learning_rate=learning_rate,
            train=_log_loss(model, X, y),
            test=_log_loss(model, *test),
            ap=_precision(model, *test),
        )
        curve.append(row)
    curve[-1]["validation"] = _log_loss(model, *validation)
    return curve


@torch.no_grad()
def _log_loss(model, X, y):
    return float(nn.functional.cross_entropy(model(X).double(), torch.tensor(y)))


@torch.no_grad()
def _precision(model, X, y):
    shares = model(X).double().softmax(dim=1).numpy()
    counts = np.bincount(y)
    classes = [int(np.argmin(counts))] if len(counts) == 2 else range(len(counts))
    precisions = [average_precision_score(y == k, shares[:, k]) for k in classes]
    return 100.0 * float(np.mean(precisions))


def steps_to(rows, level):
    """Steps after which a curve first lies at or below a level; one mark more than all where it
    never does."""
    reached = rows.step[rows.test <= level]
    if len(reached):
        return float(reached.iloc[0])
    return float(rows.step.iloc[-1] + rows.step.diff().iloc[-1])


def over_uniform(rows):
    """Rows with a column `over_uniform`: the test loss over that of uniform batches of the same
    data set, step and seed."""
    keys = ["dataset", "step", "seed"]
    uniform = rows[rows.method == "uniform"].set_index(keys).test
    mine = rows.set_index(keys)
    ratio = mine.test / uniform.reindex(mine.index)
    return rows.assign(over_uniform=ratio.to_numpy())


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    return {"own-imbalanced-steps": _steps_saved(run.rows)}


def _steps_saved(rows):
    """Steps until the test loss is what uniform batches end with, over their own: data set -> one
    value a seed."""
    found = {}
    for (dataset, _), run in rows.groupby(["dataset", "seed"]):
        curves = dict(list(run.groupby("method")))
        level = curves["uniform"].test.iloc[-1]
        ratio = steps_to(curves["mixture"], level) / steps_to(curves["uniform"], level)
        found.setdefault(dataset, []).append(ratio)
    return {dataset: np.array(values) for dataset, values in found.items()}
