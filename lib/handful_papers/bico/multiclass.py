"""Figures 3 and 7 of the bilevel paper: multinomial logistic regression on kernel features
(Sections 5.1 and 5.2.2)."""

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from handful.baselines import KMeansPlusPlus, UniformCoreset
from handful.bilevel import BilevelCoreset, Regularised
from handful.bilevel.exchange import Elimination
from handful.bilevel.weights import final_weights
from handful.models import Logistic
from handful.models.base import OuterRows, outer_rows
from handful.models.glm import GLM
from tqdm import tqdm

from handful_papers.bico.cntk_features import image_features
from handful_papers.bico.forgetting import ForgettingEvents
from handful_papers.bico.kept_forward import KeptForward
from handful_papers.tasks import part

# The one that validates best on all data is taken.
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3)
# The methods of Figure 3, beside batches.
VARIANTS = ("uniform", "bico", "bico elimination", "bico exchange", "bico regularised")
# The methods of Figure 7.
COMPARED = (
    "uniform",
    "kmeans++",
    "forgetting",
    "bico",
    "bico forward weighted",
    "bico regularised",
)

BASELINES = {"uniform": UniformCoreset, "kmeans++": KMeansPlusPlus, "forgetting": ForgettingEvents}

# Rounds of forward selection in a part of its task: minutes, for tens of thousands of rows.
ROUNDS = 100

_PREPARED = ("n_rows", "n_test", "n_train", "n_validation", "n_landmarks", "side", "gamma")


@dataclass(frozen=True)
class Split:
    """Kernel features, split into training, validation and test rows."""

    name: str
    sha256: str
    X: np.ndarray
    y: np.ndarray
    X_val: np.ndarray
    y_val: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def __len__(self):
        return len(self.y)


def method_rows(
    dataset,
    method,
    seed,
    *,
    about,
    shares=(),
    batch_size=1,
    path=None,
):
    """Rows of `score` for one method on one split of one data set: a task of the sweep.

    Parameters
    ----------
    dataset, about, seed : as in `prepare`; `about` also has `outer` (see `Variants`)
    method : "full" (all training rows), "uniform", "kmeans++", "forgetting", "bico" (forward
        selection one by one), "bico batches" (`batch_size` at a time), "bico forward weighted" (one
        by one, then the weights of the chosen are optimised: an extension), "bico elimination",
        "bico exchange" or "bico regularised" (Algorithm 2)
    shares : sizes, in % of the training rows
    path : dict, options of `Regularised`, for Algorithm 2
    """
    data, l2 = prepare(dataset, about, seed)
    if method == "full":
        return full_data(data, l2)
    sizes = sizes_of(data, shares)
    variants = Variants(
        data,
        l2,
        sizes,
        seed=seed,
        outer=about["outer"],
    )
    coresets = {
        "bico": variants.forward,
        "bico batches": partial(variants.forward, batch_size=batch_size),
        "bico forward weighted": variants.forward_weighted,
        "bico elimination": variants.eliminate,
        "bico exchange": variants.exchange,
        "bico regularised": partial(variants.regularised, path),
    }
    choose = coresets.get(method, partial(variants.baseline, method))
    return score(data, l2, method, choose())


def prepare(dataset, about, seed):
    """A random split of a data set's kernel features, and the penalty that validates best on it.

    Parameters
    ----------
    dataset : "digits", "mnist" or "cifar10"
    about : dict with the numbers that `image_features` and `split` take; for `side` and `gamma`, 0
        is None; and, if it is not the CPU, the `device` that computes the kernel
    seed : int, of the split

    Returns
    -------
    Split, float
    """
    numbers = [about[key] for key in _PREPARED]
    return _prepare(dataset, seed, *numbers, about.get("device"))


# The tasks of all methods share it.
@cache
def _prepare(
    dataset, seed, n_rows, n_test, n_train, n_validation, n_landmarks, side, gamma, device
):
    data = image_features(
        dataset,
        n_train=n_rows,
        n_test=n_test,
        n_landmarks=n_landmarks,
        side=side or None,
        gamma=gamma or None,
        device=device,
    )
    data = split(data, n_train=n_train, n_validation=n_validation, seed=seed)
    return data, choose_penalty(data)


def split(data, *, n_train, n_validation, seed):
    """A random split of the features' rows: those beyond training and validation join the test
    rows."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, val, more = np.split(order, [n_train, n_train + n_validation])
    X_test = np.concatenate([data.X_test, data.X[more]])
    y_test = np.concatenate([data.y_test, data.y[more]])
    parts = (data.X[train], data.y[train], data.X[val], data.y[val], X_test, y_test)
    return Split(data.name, data.sha256, *parts)


def train(X, y, weights, l2, classes):
    """Parameters (d + 1, classes) of exactly solved multinomial logistic regression, the
    intercept's row last.

    Parameters
    ----------
    weights : shape (s,), relative to each other; the penalty is `l2` beside the weighted mean loss
    classes : number of classes, some of which may be missing in y
    """
    # A class without a point would drive its free intercept to minus infinity: a penalised one
    # stays finite.
    problem = Logistic(l2, penalise_intercept=len(np.unique(y)) < classes)
    targets = problem.encode(np.eye(classes)[y])
    rows = OuterRows(
        np.asarray(X, dtype=np.float64), targets, np.ones(len(y)), np.array([], dtype=int)
    )
    model = GLM(problem, rows, np.random.default_rng(0), tol=1e-5)
    model.add_rows(range(len(y)))
    model.fit(np.asarray(weights, dtype=np.float64) / np.sum(weights))
    theta = model.coefficients
    return theta if classes > 2 else np.hstack([-theta / 2, theta / 2])


def evaluate(theta, data):
    """Test accuracy and error in percent, and the mean training loss in nats, of `train`'s
    parameters."""
    Z = data.X @ theta[:-1] + theta[-1]
    top = Z.max(axis=1)
    own = Z[np.arange(len(Z)), data.y]
    loss = np.log(np.exp(Z - top[:, None]).sum(axis=1)) + top - own
    right = _predicted(theta, data.X_test) == data.y_test
    return {"test_accuracy": 100.0 * float(right.mean()), "train_loss": float(loss.mean())}


def _predicted(theta, X):
    return np.argmax(X @ theta[:-1] + theta[-1], axis=1)


def choose_penalty(data, penalties=PENALTIES):
    """The penalty whose model of all training rows has the best validation accuracy; ties go to the
    larger one."""
    classes = int(data.y.max()) + 1
    scores = {}
    for l2 in penalties:
        theta = train(
            data.X,
            data.y,
            np.ones(len(data)),
            l2,
            classes,
        )
        right = _predicted(theta, data.X_val) == data.y_val
        scores[l2] = float(right.mean())
    return max(scores, key=lambda l2: (scores[l2], l2))


def sizes_of(data, shares):
    """Numbers of points for shares of the training rows in percent; at least one of each class."""
    classes = len(np.unique(data.y))
    return [max(classes, round(share / 100.0 * len(data))) for share in shares]


class Variants:
    """The strategies of Section 3.5 on one split: each gives ``{size: (indices, weights)}``.

    Parameters
    ----------
    data : Split
    l2 : penalty of selection and training alike
    sizes : numbers of points
    seed : of every strategy
    outer : "train" or "train+validation" (the paper's Section 5.1)
    """

    def __init__(
        self,
        data,
        l2,
        sizes,
        *,
        seed,
        outer="train+validation",
    ):
        self.data = data
        self.problem = Logistic(l2)
        self.sizes = sorted(sizes)
        self.seed = seed
        self.outer = outer

    def _fit(self, **options):
        options |= dict(
            rule="linear",
            weighting="equal",
            outer=self.outer,
            random_state=self.seed,
        )
        selector = BilevelCoreset(self.problem, outer_penalty=False, **options)
        return selector.fit(self.data.X, self.data.y, validation=self._validation())

    def _validation(self):
        return None if self.outer == "train" else (self.data.X_val, self.data.y_val)

    def _prefixes(self, indices):
        return {m: (indices[:m], np.ones(m)) for m in self.sizes if m <= len(indices)}

    def baseline(self, method):
        """One selection of `BASELINES` in the feature space."""
        selector = BASELINES[method](self.sizes[-1], random_state=self.seed)
        return self._prefixes(selector.fit(self.data.X, self.data.y).indices_)

    def forward(self, batch_size=1):
        """One run of forward selection, of which each size is a prefix."""
        strategy = KeptForward("forward", ROUNDS, batch_size)
        return self._prefixes(self._fit(size=self.sizes[-1], strategy=strategy).indices_)

    def forward_weighted(self):
        """Forward selection one by one; at each size, the weights that make training on the chosen
        best on all rows."""
        found = {}
        for m, (chosen, _) in self.forward().items():
            held = self.holding(chosen, weighted=True)
            found[m] = (chosen, final_weights(held))
        return found

    def exchange(self):
        """200 exchanges of 1 % of the points, for each size by itself."""
        return {m: (self._exchanged(m), np.ones(m)) for m in self.sizes}

    def _exchanged(self, m):
        return part(f"exchange {m}", lambda: self._fit(size=m, strategy="exchange").indices_)

    def holding(self, indices, *, weighted):
        """A selection that holds some training rows; `weighted` if weights will be optimised."""
        data = self.data
        rng = np.random.default_rng(self.seed)
        rows = outer_rows(
            data.X, data.y, np.ones(len(data)), self.outer, self._validation(), classes=True
        )
        model = self.problem.model(rows, rng, weighted=weighted)
        model.add_rows(indices)
        return model

    def eliminate(self):
        """One run of elimination, halted at every size."""
        model = self.holding(range(len(self.data)), weighted=False)
        out = {}
        strategy = Elimination(max(1, len(self.data) // 225))

        def drop(m):
            options = dict(rule="linear", weighting="equal", labels=self.data.y)
            with tqdm(disable=True) as bar:
                strategy.run(model, m, **options, bar=bar)
            return np.array(model.indices)

        for m in reversed(self.sizes):
            left = part(f"elimination to {m}", lambda m=m: drop(m))
            if len(model) > m:
                # They were left before the task was killed.
                model.drop_rows(~np.isin(model.indices, left))
            out[m] = (left, np.ones(m))
        return out

    def regularised(self, options=None, *, watch=None):
        """One run of Algorithm 2, halted at every size; `options` are those of `Regularised`."""

        def path():
            model = self.holding(range(len(self.data)), weighted=True)
            strategy = Regularised(**(options or {}))
            return list(strategy.path(model, self.sizes, watch=watch))

        halts = part("regularised", path)
        return {m: (indices, weights) for m, indices, weights in halts}


def score(data, l2, method, chosen):
    """Rows of results for ``{size: (indices, weights)}``: train on each coreset, test.

    Returns
    -------
    list of dict, with method, size, share (percent), n_positive (points of positive weight), l2,
    test_accuracy (percent) and train_loss (nats)
    """
    classes = int(data.y.max()) + 1
    rows = []
    for m, (indices, weights) in chosen.items():
        held = weights > 0
        few = indices[held]
        theta = train(data.X[few], data.y[few], weights[held], l2, classes)
        row = dict(
            method=method,
            size=m,
            share=100.0 * m / len(data),
            n_positive=int(held.sum()),
            l2=l2,
        )
        rows.append(row | evaluate(theta, data))
    return rows


def full_data(data, l2):
    """The row of training on everything."""
    n = len(data)
    every = (np.arange(n), np.ones(n))
    return score(data, l2, "full", {n: every})


def where_shown(rows):
    """Rows of the sizes at which the paper shows the regularised coreset: it stops where forward
    selection is better.

    Parameters
    ----------
    rows : DataFrame with dataset, method, share and test_accuracy
    """
    keys = ["dataset", "share"]
    mean = rows.pivot_table(index=keys, columns="method", values="test_accuracy").reset_index()
    behind = mean[mean["bico regularised"] < mean["bico"]].groupby("dataset").share.max()
    tried = mean.dropna(subset=["bico regularised", "bico"])
    tried = tried[tried.share > tried.dataset.map(behind).fillna(0.0)]
    return rows.merge(tried[["dataset", "share"]])
