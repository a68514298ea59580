"""`MixMatch`: a network trained on few labelled rows and many unlabelled ones (Berthelot et al. 2019)."""

import numpy as np

from handful.active.supervised import UNLABELLED, Batches, SupervisedNetwork
from handful.checks import MAX_SEED, check_integer, check_number

try:
    import torch
    from torch.nn.functional import cross_entropy, mse_loss, one_hot, softmax
except ImportError as error:
    raise ImportError("MixMatch needs torch: pip install torch.") from error

ALIGN_MEMORY = 0.95  # weight of the old running mean of guesses in the new one


class MixMatch(SupervisedNetwork):
    """A network trained on labelled and unlabelled rows (Berthelot et al. 2019).

    In each step the network guesses the labels of a batch of unlabelled rows: its predictions are averaged over
    augmented variants of a row, and sharpened. Labelled and unlabelled rows are mixed with each other (MixUp). The loss
    is the cross-entropy of the mixed labelled rows plus `weight` times the squared error of the mixed unlabelled ones.

    Parameters
    ----------
    network, n_steps, batch_size, learning_rate, weight_decay, average, device, random_state : as in
        `SupervisedNetwork`; the batch has as many unlabelled rows as labelled ones
    n_augmentations : int, K, variants of each unlabelled row over which predictions are averaged; the paper: 2
    temperature : float of at least 0.05, T: a guess is raised to the power 1 / T; MixMatch: 0.5
    alpha : float, both parameters of the Beta distribution from which the shares of the mixing come; MixMatch: 0.75
    weight : float, lambda_u, of the unlabelled loss; the paper: 10
    ramp_up : float in 0..1, the share of the steps in which `weight` grows linearly from zero
    align : bool, whether guesses are divided by their running mean before they are sharpened, which makes all classes
        about equally frequent (distribution alignment, Berthelot et al. 2020). Not part of MixMatch; a small network
        that is trained for few steps may guess the same class for all rows without it

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> few = np.where(np.arange(150) % 25 == 0, y, -1)
    >>> model = MixMatch("mlp", n_steps=60, random_state=0).fit((X - X.mean(0)) / X.std(0), few)
    >>> model.predict(X[:2]).shape
    (2,)
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
            n_steps=n_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
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
        check_number("temperature", self.temperature, least=0.05, why="powers of smaller ones vanish in float32")
        check_number("alpha", self.alpha, above=0)
        check_number("weight", self.weight, least=0)
        check_number("ramp_up", self.ramp_up, least=0, most=1)

    def _prepare(self, variants, targets, rng):
        rows = torch.nonzero(targets == UNLABELLED)[:, 0]
        if len(rows) == 0:
            raise ValueError("MixMatch needs unlabelled rows (label -1), got none; SupervisedNetwork does without.")
        self._mean = None
        self._unlabelled = Batches(variants, rows, self.batch_size, rng, n_variants=self.n_augmentations)

    def _loss(self, net, x, targets, step, rng):
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
        labels = torch.cat([one_hot(targets, n_classes).to(guess.dtype), guess])
        shares = mixing_shares(len(inputs), self.alpha, rng)
        inputs, labels = mix_up(inputs, labels, shares, rng)
        # One pass over all rows, so that batch normalisation sees labelled and unlabelled rows together.
        logits = net(inputs)
        supervised = cross_entropy(logits[: len(x)], labels[: len(x)])
        unsupervised = mse_loss(softmax(logits[len(x) :], dim=1), labels[len(x) :])
        ramp = min(1.0, (step + 1) / max(self.ramp_up * self.n_steps, 1.0))
        return supervised + self.weight * ramp * unsupervised

    def _train(self, net, variants, targets, rng):
        try:
            super()._train(net, variants, targets, rng)
        finally:  # a fitted model keeps no data
            self._unlabelled = self._mean = None


def sharpen(P, temperature):
    """Probabilities (rows of P) to the power 1 / temperature, normalised (Berthelot et al. 2019, Equation 7)."""
    powers = P ** (1.0 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def mixing_shares(n, alpha, rng):
    """`n` draws of ``max(s, 1 - s)`` for s of Beta(alpha, alpha), as a float32 tensor (Equations 8 and 9)."""
    # torch.distributions takes no generator; so `rng` draws the seed of a numpy generator.
    seed = int(torch.randint(MAX_SEED, (1,), generator=rng, device=rng.device))
    s = np.random.default_rng(seed).beta(alpha, alpha, size=n).astype(np.float32)
    return torch.as_tensor(np.maximum(s, 1.0 - s), device=rng.device)


def mix_up(inputs, labels, shares, rng):
    """Each row and its label mixed with a random other: ``share x + (1 - share) x'`` (Equations 10 and 11)."""
    other = torch.randperm(len(inputs), generator=rng, device=inputs.device)
    of_inputs = shares.reshape(-1, *(1,) * (inputs.ndim - 1))
    mixed = torch.lerp(inputs[other], inputs, of_inputs)
    return mixed, torch.lerp(labels[other], labels, shares[:, None])
