"""Training with few labels: on the labelled rows alone (Table 7's baselines), and MixMatch
(Berthelot et al. 2019)."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from handful.checks import MAX_SEED, ConvergenceError
from torch.nn.functional import cross_entropy, mse_loss, one_hot, softmax

from handful_papers.bico.classifiers import network

# The label of a row without one, as in sklearn.semi_supervised.
UNLABELLED = -1
# Rows that are predicted at a time.
PREDICT = 1024
# The weight of the old running mean of guesses in the new one.
ALIGN_MEMORY = 0.95


@dataclass
class SupervisedNetwork:
    """A network trained on labelled rows alone.

    The optimiser is Adam, whose learning rate falls to zero along a cosine. As in MixMatch, the
    network that predicts has an exponential moving average of the trained parameters.

    Parameters
    ----------
    network : str, name of a network as in `classifiers.network`; the paper: "wrn-28-10"
    n_steps : int, gradient steps; the paper: 30 epochs
    batch_size : int, labelled rows in a step; rows are repeated within a step only if fewer are
        labelled
    learning_rate : float, first learning rate of Adam; the paper: 1e-3
    weight_decay : float; the paper: 1e-4
    average : float in 0..1, decay of the moving average, smaller in the first steps; MixMatch:
        0.999
    device : str, a torch device such as "cpu" or "cuda"
    random_state : int; draws the first parameters, the batches and the mixing

    Attributes
    ----------
    classes_ : array, the label of each column of `predict_proba`
    network_ : torch.nn.Module, with the averaged parameters
    """

    network: str = "conv"
    n_steps: int = 600
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    average: float = 0.999
    device: str = "cpu"
    random_state: int = 0

    def fit(
        self,
        X,
        y,
        *,
        copies=None,
        classes=None,
    ):
        """Train on the rows of `X` whose label is not -1, and for `MixMatch` also on the others.

        Parameters
        ----------
        X : array, shape (n, d), (n, height, width) or (n, channels, height, width)
        y : int array, shape (n,), labels; -1 for a row without label
        copies : array, shape (n, k, ...), k augmented variants of each row: whenever a row is in a
            batch, a random one of its variants takes its place. None trains on the rows as they are
        classes : sorted array of all labels, if some may be missing from `y`; None: the labels in
            `y`

        Returns
        -------
        self

        Raises
        ------
        ConvergenceError
            if training ends with a loss that is not finite
        """
        X = np.asarray(X, dtype=np.float32)
        y = np.asarray(y)
        copies = X[:, None] if copies is None else np.asarray(copies)
        labels = y[y != UNLABELLED]
        self.classes_ = np.unique(labels) if classes is None else np.asarray(classes)
        seed = int(np.random.default_rng(self.random_state).integers(MAX_SEED))
        rng = torch.Generator(self.device).manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = network(self.network, len(self.classes_), X.shape[1:])
        net = net.to(self.device)
        variants = torch.as_tensor(copies, device=self.device)
        if X.ndim == 3:
            # The networks need an axis of channels.
            variants = variants[:, :, None]
        targets = np.full(len(y), UNLABELLED)
        targets[y != UNLABELLED] = np.searchsorted(self.classes_, labels)
        self._train(net, variants, torch.as_tensor(targets, device=self.device), rng)
        return self

    def _train(self, net, variants, targets, rng):
        if variants.ndim == 5:
            net = net.to(memory_format=torch.channels_last)
        average = deepcopy(net).requires_grad_(False)
        optimiser = torch.optim.Adam(
            net.parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            fused=True,
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.n_steps)
        labelled = torch.nonzero(targets != UNLABELLED)[:, 0]
        others = torch.nonzero(targets == UNLABELLED)[:, 0]
        draw = Batches(variants, labelled, self.batch_size, rng)
        unlabelled = self._batches(variants, others, rng)
        net.train()
        self.network_ = average.eval()
        for step in range(self.n_steps):
            rows, x = next(draw)
            loss = self._loss(
                net,
                x,
                targets[rows],
                unlabelled,
                step,
                rng,
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            decay = min(self.average, (1 + step) / (10 + step))
            _lerp(average, net, 1.0 - decay)
        finite = all(parameter.isfinite().all() for parameter in average.parameters())
        if not finite or not loss.isfinite():
            raise ConvergenceError(
                f"training diverged: the loss is {loss.item()} after {self.n_steps} steps with "
                "learning_rate="
                f"{self.learning_rate:g}; lower it."
            )

    def _batches(self, variants, rows, rng):
        return None

    def _loss(
        self,
        net,
        x,
        targets,
        unlabelled,
        step,
        rng,
    ):
        return cross_entropy(net(x), targets)

    def _map(self, X, function):
        X = torch.as_tensor(np.asarray(X, dtype=np.float32))
        if X.ndim == 3:
            X = X[:, None]
        with torch.inference_mode():
            parts = [function(rows.to(self.device)) for rows in X.split(PREDICT)]
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


@dataclass
class MixMatch(SupervisedNetwork):
    """A network trained on labelled and unlabelled rows (Berthelot et al. 2019).

    In each step the network guesses the labels of a batch of unlabelled rows: its predictions are
    averaged over augmented variants of a row, and sharpened. Labelled and unlabelled rows are mixed
    with each other (MixUp). The loss is the cross-entropy of the mixed labelled rows plus `weight`
    times the squared error of the mixed unlabelled ones.

    Parameters
    ----------
    network, n_steps, batch_size, learning_rate, weight_decay, average, device, random_state : as in
        `SupervisedNetwork`; the batch has as many unlabelled rows as labelled ones
    n_augmentations : int, K, variants of each unlabelled row over which predictions are averaged;
        the paper: 2
    temperature : float of at least 0.05, T: a guess is raised to the power 1 / T; MixMatch: 0.5
    alpha : float, both parameters of the Beta distribution from which the shares of the mixing
        come; MixMatch: 0.75
    weight : float, lambda_u, of the unlabelled loss; the paper: 10
    ramp_up : float in 0..1, the share of the steps in which `weight` grows linearly from zero
    align : bool, whether guesses are divided by their running mean before they are sharpened, which
        makes all classes about equally frequent (distribution alignment, Berthelot et al. 2020).
        Not part of MixMatch; a small network that is trained for few steps may guess the same class
        for all rows without it
    """

    n_augmentations: int = 2
    temperature: float = 0.5
    alpha: float = 0.75
    weight: float = 10.0
    ramp_up: float = 0.4
    align: bool = False

    def _batches(self, variants, rows, rng):
        self._mean = None
        return Batches(
            variants,
            rows,
            self.batch_size,
            rng,
            n_variants=self.n_augmentations,
        )

    def _loss(
        self,
        net,
        x,
        targets,
        unlabelled,
        step,
        rng,
    ):
        n_classes = len(self.classes_)
        _, u = next(unlabelled)
        with torch.no_grad():
            predicted = softmax(net(u), dim=1)
            guess = predicted.reshape(self.n_augmentations, -1, n_classes).mean(dim=0)
            if self.align:
                guess = self._aligned(guess)
            guess = sharpen(guess, self.temperature).repeat(self.n_augmentations, 1)
        inputs = torch.cat([x, u])
        labels = torch.cat([one_hot(targets, n_classes).to(guess.dtype), guess])
        shares = mixing_shares(len(inputs), self.alpha, rng)
        inputs, labels = mix_up(inputs, labels, shares, rng)
        # One pass over all rows, so that batch normalisation sees labelled and unlabelled rows
        # together.
        logits = net(inputs)
        supervised = cross_entropy(logits[: len(x)], labels[: len(x)])
        mixed = softmax(logits[len(x) :], dim=1)
        unsupervised = mse_loss(mixed, labels[len(x) :])
        n_growing = max(self.ramp_up * self.n_steps, 1.0)
        ramp = min(1.0, (step + 1) / n_growing)
        return supervised + self.weight * ramp * unsupervised

    def _aligned(self, guess):
        """Guesses over their running mean, so that all classes are about equally frequent."""
        mean = guess.mean(dim=0)
        if self._mean is not None:
            mean = torch.lerp(mean, self._mean, ALIGN_MEMORY)
        self._mean = mean
        guess = guess / (mean * guess.shape[1])
        return guess / guess.sum(dim=1, keepdim=True)


def sharpen(P, temperature):
    """Probabilities (rows of P) to the power 1 / temperature, normalised (Berthelot et al. 2019,
    Equation 7)."""
    powers = P ** (1.0 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def mixing_shares(n, alpha, rng):
    """`n` draws of ``max(s, 1 - s)`` for s of Beta(alpha, alpha), as a float32 tensor (Equations 8
    and 9)."""
    # torch.distributions takes no generator, so `rng` draws the seed of a numpy generator.
    seed = torch.randint(
        MAX_SEED,
        (1,),
        generator=rng,
        device=rng.device,
    )
    s = np.random.default_rng(int(seed)).beta(alpha, alpha, size=n).astype(np.float32)
    return torch.as_tensor(np.maximum(s, 1.0 - s), device=rng.device)


def mix_up(inputs, labels, shares, rng):
    """Each row and its label mixed with a random other: ``share x + (1 - share) x'`` (Equations 10
    and 11)."""
    other = torch.randperm(len(inputs), generator=rng, device=inputs.device)
    of_inputs = shares.reshape(-1, *(1,) * (inputs.ndim - 1))
    mixed = torch.lerp(inputs[other], inputs, of_inputs)
    return mixed, torch.lerp(labels[other], labels, shares[:, None])


class Batches:
    """Endless minibatches: each row once before any comes again, and each time a random variant of
    it.

    Parameters
    ----------
    values : tensor, shape (n, k, ...), k variants of each row
    rows : int tensor, the rows to draw from
    batch_size : int
    rng : torch.Generator on the device of `values`
    n_variants : int, how often each row of a batch occurs in it
    """

    def __init__(
        self,
        values,
        rows,
        batch_size,
        rng,
        *,
        n_variants=1,
    ):
        self.values = values
        self.rows = rows
        self.batch_size = batch_size
        self.rng = rng
        self.n_variants = n_variants
        self.left = rows[:0]

    def __iter__(self):
        return self

    def __next__(self):
        while len(self.left) < self.batch_size:
            order = torch.randperm(
                len(self.rows),
                generator=self.rng,
                device=self.rows.device,
            )
            self.left = torch.cat([self.left, self.rows[order]])
        rows = self.left[: self.batch_size]
        self.left = self.left[self.batch_size :]
        repeated = rows.repeat(self.n_variants)
        k = self.values.shape[1]
        which = torch.randint(
            k,
            (len(repeated),),
            generator=self.rng,
            device=rows.device,
        )
        x = self.values[repeated, which].float()
        if x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return rows, x


@torch.no_grad()
def _lerp(average, net, share):
    torch._foreach_lerp_(list(average.parameters()), list(net.parameters()), share)
    # The counters of batch normalisation are integers, which have no mean.
    old = [buffer for buffer in average.buffers() if buffer.is_floating_point()]
    new = [buffer for buffer in net.buffers() if buffer.is_floating_point()]
    torch._foreach_lerp_(old, new, share)
