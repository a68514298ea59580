"""Training with few labels: MixMatch (Berthelot et al. 2019) and, beside it, supervised training."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from handful.active.networks import network
from handful.checks import MAX_SEED, as_generator, check_integer, check_number

try:
    import torch
    from torch.nn.functional import cross_entropy, mse_loss, softmax
except ImportError as error:
    raise ImportError("handful's training with few labels needs torch: pip install 'handful[torch]'.") from error

UNLABELLED = -1  # as in sklearn.semi_supervised
PREDICT = 1024  # rows at a time
ALIGN_MEMORY = 0.95  # of the running mean of guesses, from step to step


class SupervisedNetwork(ClassifierMixin, BaseEstimator):
    """A network trained on labelled rows alone: the baselines of Table 7 (Borsos et al. 2024).

    Adam, its rate falling to zero along a cosine; predictions are those of an exponential average of the parameters, as
    in MixMatch.

    Parameters
    ----------
    network : str, see `handful.active.networks.network`; the paper: "wrn-28-10"
    steps : int, gradient steps; the paper: 30 epochs
    batch_size : int, labelled rows a step (drawn with repetition only where fewer are labelled)
    rate : float, first learning rate of Adam; the paper: 1e-3
    weight_decay : float; the paper: 1e-4
    average : float, decay of the parameters' average, smaller in the first steps; MixMatch: 0.999
    device : str, "cpu" or a device of torch
    random_state : None, int or Generator: initialisation, batches, mixing

    Attributes
    ----------
    classes_ : labels of the columns of `predict_proba`
    network_ : torch.nn.Module, the averaged one

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SupervisedNetwork("mlp", steps=60, random_state=0).fit((X - X.mean(0)) / X.std(0), y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    def __init__(
        self,
        network="conv",
        *,
        steps=600,
        batch_size=64,
        rate=1e-3,
        weight_decay=1e-4,
        average=0.999,
        device="cpu",
        random_state=None,
    ):
        self.network = network
        self.steps = steps
        self.batch_size = batch_size
        self.rate = rate
        self.weight_decay = weight_decay
        self.average = average
        self.device = device
        self.random_state = random_state

    def fit(self, X, y, *, copies=None, classes=None):
        """Train on the rows of `X` whose label is not -1 (`MixMatch`: on the others as well).

        Parameters
        ----------
        X : array, shape (n, d), (n, height, width) or (n, channels, height, width)
        y : labels, shape (n,); -1 where there is none
        copies : array, shape (n, k, ...), augmented variants of each row, of which a random one takes the row's place
            in each batch; None trains on the rows as they are
        classes : all labels there are, where `y` may lack some; None: those of `y`

        Returns
        -------
        self

        Raises
        ------
        ValueError
            for values that are not finite, arrays that do not fit, no labelled row, labels outside `classes`.
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
        generator = torch.Generator(self.device).manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = network(self.network, len(self.classes_), X.shape[1:]).to(self.device)
        if X.ndim == 3:  # the networks want a channel axis
            X, copies = X[:, None], None if copies is None else copies[:, :, None]
        rows = torch.as_tensor(X, device=self.device)[:, None]
        variants = rows if copies is None else torch.as_tensor(copies, device=self.device)
        targets = np.full(len(y), UNLABELLED)
        order = np.argsort(self.classes_, kind="stable")
        targets[y != UNLABELLED] = order[np.searchsorted(self.classes_[order], labels)]
        self._train(net, variants, torch.as_tensor(targets, device=self.device), generator)
        return self

    def _check(self):
        for name in ("steps", "batch_size"):
            check_integer(name, getattr(self, name))
        for name, most in {"rate": None, "weight_decay": None, "average": 1}.items():
            check_number(name, getattr(self, name), least=0, most=most)

    def _train(self, net, variants, targets, generator):
        if variants.ndim == 5:
            net = net.to(memory_format=torch.channels_last)
        average = _averaged(net)
        optimiser = torch.optim.Adam(net.parameters(), lr=self.rate, weight_decay=self.weight_decay, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        labelled = torch.nonzero(targets != UNLABELLED)[:, 0]
        draw = _Batches(variants, labelled, self.batch_size, generator)
        self._prepare(variants, targets, generator)
        net.train()
        for step in range(self.steps):
            rows, x = next(draw)
            loss = self._loss(net, x, targets[rows], step, generator)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            _lerp(average, net, 1.0 - min(self.average, (1 + step) / (10 + step)))
        if not np.isfinite(loss.item()):
            raise FloatingPointError(
                f"training diverged: the loss is {loss.item()} after {self.steps} steps; lower rate."
            )
        self.network_ = average.eval()

    def _prepare(self, variants, targets, generator):
        pass

    def _loss(self, net, x, targets, step, generator):
        return cross_entropy(net(x), targets)

    def _map(self, X, function):
        check_is_fitted(self, "network_")
        X = np.asarray(X, dtype=np.float32)
        if len(X) == 0 or not np.isfinite(X).all():
            raise ValueError(f"X must have at least one row and finite values, got shape {X.shape}.")
        X = X[:, None] if X.ndim == 3 else X
        with torch.inference_mode():
            parts = [
                function(torch.as_tensor(X[at : at + PREDICT], device=self.device)) for at in range(0, len(X), PREDICT)
            ]
        return torch.cat(parts).cpu().numpy()

    def predict_proba(self, X):
        """Class probabilities, shape (n, classes), float32."""
        return self._map(X, lambda x: softmax(self.network_(x), dim=1))

    def predict(self, X):
        """The most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def embed(self, X):
        """The input of the network's last layer, shape (n, width), float32."""
        return self._map(X, self.network_.embed)


class MixMatch(SupervisedNetwork):
    """A network trained on labelled and unlabelled rows (Berthelot et al. 2019).

    In each step the network guesses the labels of a batch of unlabelled rows, averaged over two augmentations and
    sharpened; labelled and unlabelled rows are mixed with each other (MixUp); the loss is the cross-entropy of the
    mixed labelled rows plus `weight`, ramped up, times the squared error of the mixed unlabelled ones.

    Parameters
    ----------
    network, steps, batch_size, rate, weight_decay, average, device, random_state : as in `SupervisedNetwork`; the batch
        has as many unlabelled rows as labelled ones
    n_augmentations : int, K, variants of each unlabelled row whose guesses are averaged; the paper: 2
    temperature : float, T, by which guesses are sharpened; MixMatch: 0.5
    alpha : float, of the Beta distribution of the mixing; MixMatch: 0.75
    weight : float, lambda_u, of the unlabelled loss; the paper: 10
    ramp_up : float in 0..1, share of the steps over which `weight` grows from zero, linearly
    align : bool, whether guesses are divided by their running mean before they are sharpened, as if all classes were
        equally frequent (distribution alignment, Berthelot et al. 2020). Not part of MixMatch: it keeps a small
        network, or a short training, from guessing one class for everything

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> few = np.where(np.arange(150) % 25 == 0, y, -1)
    >>> model = MixMatch("mlp", steps=60, random_state=0).fit((X - X.mean(0)) / X.std(0), few)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    def __init__(
        self,
        network="conv",
        *,
        steps=600,
        batch_size=64,
        rate=1e-3,
        weight_decay=1e-4,
        average=0.999,
        n_augmentations=2,
        temperature=0.5,
        alpha=0.75,
        weight=10.0,
        ramp_up=0.4,
        align=False,
        device="cpu",
        random_state=None,
    ):
        super().__init__(
            network,
            steps=steps,
            batch_size=batch_size,
            rate=rate,
            weight_decay=weight_decay,
            average=average,
            device=device,
            random_state=random_state,
        )
        self.n_augmentations = n_augmentations
        self.temperature = temperature
        self.alpha = alpha
        self.weight = weight
        self.ramp_up = ramp_up
        self.align = align

    def _check(self):
        super()._check()
        check_integer("n_augmentations", self.n_augmentations)
        for name in ("temperature", "alpha"):
            check_number(name, getattr(self, name), above=0)
        check_number("weight", self.weight, least=0)
        check_number("ramp_up", self.ramp_up, least=0, most=1)

    def _prepare(self, variants, targets, generator):
        rows = torch.nonzero(targets == UNLABELLED)[:, 0]
        if len(rows) == 0:
            raise ValueError("MixMatch needs unlabelled rows (label -1), got none; SupervisedNetwork does without.")
        self._mean = None
        self._unlabelled = _Batches(variants, rows, self.batch_size, generator, variants=self.n_augmentations)

    def _loss(self, net, x, targets, step, generator):
        n_classes = len(self.classes_)
        _, u = next(self._unlabelled)
        with torch.no_grad():
            guess = softmax(net(u), dim=1).reshape(self.n_augmentations, -1, n_classes).mean(dim=0)
            if self.align:
                mean = guess.mean(dim=0)
                self._mean = mean if self._mean is None else torch.lerp(mean, self._mean, ALIGN_MEMORY)
                guess = guess / (self._mean * n_classes)
                guess = guess / guess.sum(dim=1, keepdim=True)
            guess = sharpen(guess, self.temperature).repeat(self.n_augmentations, 1)
        inputs = torch.cat([x, u])
        labels = torch.cat([torch.nn.functional.one_hot(targets, n_classes).to(guess.dtype), guess])
        shares = mixing_shares(len(inputs), self.alpha, generator)
        inputs, labels = mix_up(inputs, labels, shares, generator)
        # one pass for all, so that batch normalisation sees labelled and unlabelled rows together
        logits = net(inputs)
        supervised = cross_entropy(logits[: len(x)], labels[: len(x)])
        unsupervised = mse_loss(softmax(logits[len(x) :], dim=1), labels[len(x) :])
        ramp = min(1.0, (step + 1) / max(self.ramp_up * self.steps, 1.0))
        return supervised + self.weight * ramp * unsupervised

    def _train(self, net, variants, targets, generator):
        super()._train(net, variants, targets, generator)
        del self._unlabelled, self._mean


def sharpen(P, temperature):
    """Probabilities to the power of 1 / temperature, adding up to one again (Berthelot et al. 2019, Equation 7)."""
    powers = P ** (1.0 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def mixing_shares(n, alpha, generator):
    """`n` draws of ``max(s, 1 - s)`` for s of Beta(alpha, alpha), as a float32 tensor (Equations 8 and 9)."""
    # torch.distributions takes no generator; the seed of a numpy one is drawn from it instead
    seed = int(torch.randint(MAX_SEED, (1,), generator=generator, device=generator.device))
    s = np.random.default_rng(seed).beta(alpha, alpha, size=n).astype(np.float32)
    return torch.as_tensor(np.maximum(s, 1.0 - s), device=generator.device)


def mix_up(inputs, labels, shares, generator):
    """Each row, mixed with a random other: ``share x + (1 - share) x'``, labels alike (Equations 10 and 11)."""
    other = torch.randperm(len(inputs), generator=generator, device=inputs.device)
    of_inputs = shares.reshape(-1, *(1,) * (inputs.ndim - 1))
    mixed = torch.lerp(inputs[other], inputs, of_inputs)
    return mixed, torch.lerp(labels[other], labels, shares[:, None])


class _Batches:
    # Endless batches of rows, each row once before any comes again, and of random variants of them.

    def __init__(self, values, rows, size, generator, *, variants=1):
        self.values, self.rows, self.size, self.generator, self.variants = values, rows, size, generator, variants
        self.left = rows[:0]

    def __iter__(self):
        return self

    def __next__(self):
        while len(self.left) < self.size:
            order = torch.randperm(len(self.rows), generator=self.generator, device=self.rows.device)
            self.left = torch.cat([self.left, self.rows[order]])
        rows, self.left = self.left[: self.size], self.left[self.size :]
        repeated = rows.repeat(self.variants)
        k = self.values.shape[1]
        which = torch.randint(k, (len(repeated),), generator=self.generator, device=rows.device)
        x = self.values[repeated, which].float()
        return rows, x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def _averaged(net):
    from copy import deepcopy

    return deepcopy(net).requires_grad_(False)


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
