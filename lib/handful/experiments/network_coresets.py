"""Coresets for image networks, and what other networks make of them (Section 5.2.3 of the bilevel paper)."""

import time

import numpy as np
import torch

from handful.baselines import KCenter, UniformCoreset, forgetting_events
from handful.bilevel import BilevelCoreset, Joint
from handful.bilevel.network import Network, TrainConfig
from handful.experiments.continual_data import images
from handful.experiments.image_networks import image_network, shift_and_flip

SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
TARGET, PARTNER = "WideResNet-16-4", "VGG16"  # selected for; and jointly with it
METHODS = ("uniform", "kcenter", "forgetting", "bico", "bico joint")
LOOKS = 20  # times during training that each row is classified, to count what is forgotten


class NetworkCoresets:
    """One data set, three networks: choose rows for one of them, train all on what was chosen.

    Parameters
    ----------
    data : "digits", "mnist" or "cifar10"
    n, side : training rows taken, and pixels of a side to which images are averaged
    networks : names of `image_network` by the paper's names
    train : options of `TrainConfig`
    n_start, batch : random rows at the start, rows a round
    sizes : of the coresets; a prefix of the largest each
    terms : of the Neumann series
    use : function that the data set is handed to, such as `Experiment.use`
    device : of torch
    """

    def __init__(self, data, *, n, side, networks, train, n_start, batch, sizes, terms, use, device=None):
        X, y, X_test, y_test = images(data, use=use)
        channels, height, _ = SHAPES[data]
        self.shape = (channels, side, side)

        def shrunk(X):
            k = height // side
            return X.reshape(-1, channels, side, k, side, k).mean(axis=(3, 5)).reshape(len(X), -1)

        rows = np.random.default_rng(0).permutation(len(X))[:n]
        self.X, self.y = shrunk(X[rows]), y[rows]
        self.X_test, self.y_test = shrunk(X_test), y_test
        self.networks, self.device = networks, device
        augment = shift_and_flip(self.shape, pad=max(1, side // 8), flip=data == "cifar10")
        self.train = TrainConfig(augment=augment, **train)
        self.n_start, self.batch, self.sizes, self.terms = n_start, batch, sorted(sizes), terms

    def problem(self, network, seed):
        """The inner problem of one network."""
        classes = len(np.unique(self.y))
        name = self.networks[network]

        def make():
            return image_network(name, classes, self.shape).to(memory_format=torch.channels_last)

        return Network(make, train=self.train, seed=seed, device=self.device)

    def _tensors(self, X, y):
        return torch.from_numpy(X).to(self.device), torch.from_numpy(y).to(self.device)

    def _trained(self, network, rows, seed, watch=None):
        return self.problem(network, seed).fit_module(*self._tensors(self.X[rows], self.y[rows]), (seed, 2), watch)

    @torch.no_grad()
    def _logits(self, module, X):
        parts = torch.from_numpy(X).split(1000)
        return torch.cat([module(part.to(self.device)).cpu() for part in parts]).numpy()

    def accuracy(self, network, rows, seed):
        """Test accuracy, percent, of a network trained on some rows."""
        logits = self._logits(self._trained(network, rows, seed), self.X_test)
        return 100.0 * float((logits.argmax(axis=1) == self.y_test).mean())

    def look_on(self, seed):
        """One training of the target on all rows: its embeddings, and how often each row was forgotten.

        Returns
        -------
        embeddings, shape (n, channels); events, shape (n,); test accuracy, percent
        """
        correct, every = [], max(1, self.train.steps // LOOKS)

        def watch(step, module):
            if step % every == 0:
                correct.append(self._logits(module.eval(), self.X).argmax(axis=1) == self.y)
                module.train()

        module = self._trained(TARGET, np.arange(len(self.X)), seed, watch)
        unflatten, body = module
        with torch.no_grad():
            parts = torch.from_numpy(self.X).split(1000)
            embeddings = torch.cat([body.embed(unflatten(part.to(self.device))).cpu() for part in parts]).numpy()
        right = self._logits(module, self.X_test).argmax(axis=1) == self.y_test
        return embeddings, forgetting_events(correct), 100.0 * float(right.mean())

    def select(self, method, seed, embeddings, events):
        """The largest coreset of one method, in the order of selection: the smaller ones are its prefixes."""
        size = self.sizes[-1]
        if method == "uniform":
            return UniformCoreset(size, random_state=seed).fit(self.X).indices_
        if method == "kcenter":
            return KCenter(size, random_state=seed).fit(embeddings).indices_
        if method == "forgetting":
            return np.lexsort([np.random.default_rng(seed).random(len(events)), -events])[:size]
        problem = self.problem(TARGET, seed)
        if method == "bico joint":
            problem = Joint(problem, self.problem(PARTNER, seed), alternate=True)
        options = dict(score="linear", ihvp="neumann", ihvp_steps=self.terms, random_state=seed)
        selector = BilevelCoreset(problem, size=size, batch=self.batch, n_start=self.n_start, **options)
        return selector.fit(self.X, self.y).indices_

    def run(self, seed):
        """Everything for one seed: rows of method, network, size, test accuracy in percent and seconds of selection."""
        rows, n = [], len(self.X)
        embeddings, events, full = self.look_on(seed)
        for network in self.networks:
            value = full if network == TARGET else self.accuracy(network, np.arange(n), seed)
            rows.append(dict(method="full", network=network, size=n, seed=seed, accuracy=value, seconds=0.0))
        for method in METHODS:
            start = time.perf_counter()
            chosen = self.select(method, seed, embeddings, events)
            seconds = time.perf_counter() - start
            for network in self.networks:
                # the curve of Figure 8 is the target's; other networks get the largest coreset, as in Tables 1 and 2
                for size in self.sizes if network == TARGET and method != "bico joint" else self.sizes[-1:]:
                    value = self.accuracy(network, chosen[:size], seed)
                    row = dict(method=method, network=network, size=size, seed=seed, accuracy=value, seconds=seconds)
                    rows.append(row)
        return rows
