"""`SupervisedNetwork`: a network trained on labelled rows alone."""

from copy import deepcopy

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from handful.active.networks import network
from handful.checks import MAX_SEED, ConvergenceError, as_generator, check_integer, check_number

try:
    import torch
    from torch.nn.functional import cross_entropy, softmax
except ImportError as error:
    raise ImportError("handful's training with few labels needs torch: pip install torch.") from error

UNLABELLED = -1  # as in sklearn.semi_supervised
PREDICT = 1024  # rows that are predicted at a time


class SupervisedNetwork(ClassifierMixin, BaseEstimator):
    """A network trained on labelled rows alone: the baselines of Table 7 (Borsos et al. 2024).

    The optimiser is Adam, whose learning rate falls to zero along a cosine. As in MixMatch, the network that predicts
    has an exponential moving average of the trained parameters.

    Parameters
    ----------
    network : str, name of a network as in `handful.active.networks.network`; the paper: "wrn-28-10"
    n_steps : int, gradient steps; the paper: 30 epochs
    batch_size : int, labelled rows in a step; rows are repeated within a step only if fewer are labelled
    learning_rate : float, first learning rate of Adam; the paper: 1e-3
    weight_decay : float; the paper: 1e-4
    average : float in 0..1, decay of the moving average, smaller in the first steps; MixMatch: 0.999
    device : str, a torch device such as "cpu" or "cuda"
    random_state : None, int or Generator; draws the first parameters, the batches and the mixing

    Attributes
    ----------
    classes_ : array, the label of each column of `predict_proba`
    network_ : torch.nn.Module, with the averaged parameters

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SupervisedNetwork("mlp", n_steps=60, random_state=0).fit((X - X.mean(0)) / X.std(0), y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    def __init__(
        self,
        network="conv",
        *,
        n_steps=600,
        batch_size=64,
        learning_rate=1e-3,
        weight_decay=1e-4,
        average=0.999,
        device="cpu",
        random_state=None,
    ):
        self.network = network
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.average = average
        self.device = device
        self.random_state = random_state

    def fit(self, X, y, *, copies=None, classes=None):
        """Train on the rows of `X` whose label is not -1, and for `MixMatch` also on the others.

        Ctrl-C raises KeyboardInterrupt, and leaves the network averaged so far in `network_`.

        Parameters
        ----------
        X : array, shape (n, d), (n, height, width) or (n, channels, height, width)
        y : int array, shape (n,), labels; -1 for a row without label
        copies : array, shape (n, k, ...), k augmented variants of each row: whenever a row is in a batch, a random one
            of its variants takes its place. None trains on the rows as they are
        classes : array of all labels, if some may be missing from `y`; None: the labels in `y`

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for values that are not finite, arrays that do not fit, no labelled row, and labels outside `classes`
        ConvergenceError
            if training ends with a loss that is not finite
        """
        self._check()
        X, y, copies = _check_data(X, y, copies)
        labels = y[y != UNLABELLED]
        self.classes_ = np.unique(labels) if classes is None else np.asarray(classes)
        if not np.isin(labels, self.classes_).all():
            strange = np.setdiff1d(labels, self.classes_)
            raise ValueError(f"y holds {strange.tolist()}, which are not among the classes {self.classes_.tolist()}.")
        if len(self.classes_) < 2:
            raise ValueError(
                f"there must be at least 2 classes, got {self.classes_.tolist()}; `classes` names them all."
            )
        seed = int(as_generator(self.random_state).integers(MAX_SEED))
        rng = torch.Generator(self.device).manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = network(self.network, len(self.classes_), X.shape[1:]).to(self.device)
        if X.ndim == 3:  # the networks need an axis of channels
            X, copies = X[:, None], None if copies is None else copies[:, :, None]
        rows = torch.as_tensor(X, device=self.device)[:, None]
        variants = rows if copies is None else torch.as_tensor(copies, device=self.device)
        targets = np.full(len(y), UNLABELLED)
        order = np.argsort(self.classes_, kind="stable")
        targets[y != UNLABELLED] = order[np.searchsorted(self.classes_[order], labels)]
        self._train(net, variants, torch.as_tensor(targets, device=self.device), rng)
        return self

    def _check(self):
        for name in ("n_steps", "batch_size"):
            check_integer(name, getattr(self, name))
        for name, most in {"learning_rate": 1e8, "weight_decay": 1e8, "average": 1}.items():
            check_number(name, getattr(self, name), least=0, most=most)

    def _train(self, net, variants, targets, rng):
        if variants.ndim == 5:
            net = net.to(memory_format=torch.channels_last)
        average = deepcopy(net).requires_grad_(False)
        options = dict(lr=self.learning_rate, weight_decay=self.weight_decay, fused=True)
        optimiser = torch.optim.Adam(net.parameters(), **options)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.n_steps)
        labelled = torch.nonzero(targets != UNLABELLED)[:, 0]
        draw = Batches(variants, labelled, self.batch_size, rng)
        self._prepare(variants, targets, rng)
        net.train()
        self.network_ = average.eval()
        for step in range(self.n_steps):
            rows, x = next(draw)
            loss = self._loss(net, x, targets[rows], step, rng)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            _lerp(average, net, 1.0 - min(self.average, (1 + step) / (10 + step)))
        if not (loss.isfinite() and all(p.isfinite().all() for p in average.parameters())):
            del self.network_
            raise ConvergenceError(
                f"training diverged: the loss is {loss.item()} after {self.n_steps} steps with learning_rate="
                f"{self.learning_rate:g} and weight_decay={self.weight_decay:g}; lower them."
            )

    def _prepare(self, variants, targets, rng):
        pass

    def _loss(self, net, x, targets, step, rng):
        return cross_entropy(net(x), targets)

    def _map(self, X, function):
        check_is_fitted(self, "network_")
        X = np.asarray(X, dtype=np.float32)
        if len(X) == 0 or not np.isfinite(X).all():
            raise ValueError(f"X must have at least one row and finite values, got shape {X.shape}.")
        X = X[:, None] if X.ndim == 3 else X
        with torch.inference_mode():
            parts = [function(rows.to(self.device)) for rows in torch.as_tensor(X).split(PREDICT)]
        values = torch.cat(parts).cpu().numpy()
        if not np.isfinite(values).all():
            raise ConvergenceError("the network gives values that are not finite: scale X, or lower learning_rate.")
        return values

    def predict_proba(self, X):
        """Class probabilities, shape (n, classes), float32."""
        return self._map(X, lambda x: softmax(self.network_(x), dim=1))

    def predict(self, X):
        """The most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def embed(self, X):
        """The input of the network's last layer, shape (n, width), float32."""
        return self._map(X, self.network_.embed)


class Batches:
    """Endless minibatches: each row once before any comes again, and each time a random variant of it.

    Parameters
    ----------
    values : tensor, shape (n, k, ...), k variants of each row
    rows : int tensor, the rows to draw from
    batch_size : int
    rng : torch.Generator on the device of `values`
    n_variants : int, how often each row of a batch occurs in it
    """

    def __init__(self, values, rows, batch_size, rng, *, n_variants=1):
        self.values, self.rows, self.batch_size = values, rows, batch_size
        self.rng, self.n_variants = rng, n_variants
        self.left = rows[:0]

    def __iter__(self):
        return self

    def __next__(self):
        while len(self.left) < self.batch_size:
            order = torch.randperm(len(self.rows), generator=self.rng, device=self.rows.device)
            self.left = torch.cat([self.left, self.rows[order]])
        rows, self.left = self.left[: self.batch_size], self.left[self.batch_size :]
        repeated = rows.repeat(self.n_variants)
        k = self.values.shape[1]
        which = torch.randint(k, (len(repeated),), generator=self.rng, device=rows.device)
        x = self.values[repeated, which].float()
        return rows, x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


@torch.no_grad()
def _lerp(average, net, share):
    torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), share)
    floats = [(a, b) for a, b in zip(average.buffers(), net.buffers()) if a.is_floating_point()]
    torch._foreach_lerp_([a for a, _ in floats], [b for _, b in floats], share)


def _check_data(X, y, copies):
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim not in (2, 3, 4) or len(X) == 0:
        raise ValueError(
            "X must have at least one row and shape (n, d), (n, height, width) or (n, channels, height, width), got "
            f"{X.shape}."
        )
    if y.shape != (len(X),) or y.dtype.kind not in "iu":
        raise ValueError(f"y must hold an integer label a row, shape ({len(X)},), got {y.dtype} of shape {y.shape}.")
    if not (y != UNLABELLED).any():
        raise ValueError(f"none of {len(y)} rows is labelled (all of y is -1): at least one must be.")
    if copies is not None:
        copies = np.asarray(copies)
        if copies.ndim != X.ndim + 1 or copies.shape[0] != len(X) or copies.shape[2:] != X.shape[1:]:
            raise ValueError(f"copies must have shape ({len(X)}, k, {X.shape[1:]}), got {copies.shape}.")
        if copies.shape[1] == 0:
            raise ValueError("copies must hold at least one variant of each row, got 0.")
        copies = copies if copies.dtype in (np.float16, np.float32) else copies.astype(np.float32)
    X = X.astype(np.float32)
    for name, values in {"X": X, "copies": copies}.items():
        if values is not None and not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite.")
    return X, y, copies
