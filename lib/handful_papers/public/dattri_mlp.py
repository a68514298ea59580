"""dattri's attribution table of a network: scores from the tangent kernel of a network that has
hardly been trained."""

import time
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from handful_papers.public import dattri_lds
from handful_papers.public.dattri_lds import agreements, images, lds, with_share
from handful_papers.public.network_influence import network_influence

# Of every training.
BATCH = 64
RATE = 0.01
MOMENTUM = 0.9
DROPOUT = 0.1


def initial(widths, generator):
    """Weights (outputs, inputs) and biases of each layer, uniform as torch draws them."""
    layers = []
    for inputs, outputs in pairwise(widths):
        weights = torch.rand(outputs, inputs, generator=generator)
        biases = torch.rand(outputs, generator=generator)
        layers.append(tuple((2 * draw - 1) / inputs**0.5 for draw in (weights, biases)))
    return layers


@torch.no_grad()
def trained(X, y, rows, widths, read_at, seed):
    """The network after each epoch of `read_at`: SGD with momentum and dropout behind each hidden
    layer, on `rows`.

    Gradients are written out: automatic differentiation takes three times as long for layers as
    small as these.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = initial(widths, generator)
    speeds = [tuple(torch.zeros_like(part) for part in layer) for layer in layers]
    rows = torch.as_tensor(rows)
    Y = torch.eye(widths[-1])[y]
    found = []
    for epoch in range(1, max(read_at) + 1):
        order = rows[torch.randperm(len(rows), generator=generator)]
        masks = [torch.empty(len(rows), width) for width in widths[1:-1]]
        for mask in masks:
            mask.bernoulli_(1 - DROPOUT, generator=generator).div_(1 - DROPOUT)
        for start in range(0, len(rows), BATCH):
            batch = order[start : start + BATCH]
            kept = [mask[start : start + BATCH] for mask in masks]
            inputs, z = forward(layers, X[batch], kept)
            slope = (torch.softmax(z, dim=1) - Y[batch]) / len(batch)
            slopes = backward(layers, inputs, slope, kept)
            for layer, speed, a, g in zip(layers, speeds, inputs, slopes):
                torch.addmm(
                    speed[0],
                    g.T,
                    a,
                    beta=MOMENTUM,
                    out=speed[0],
                )
                speed[1].mul_(MOMENTUM).add_(g.sum(dim=0))
                for part, change in zip(layer, speed):
                    part.add_(change, alpha=-RATE)
        if epoch in read_at:
            found.append([tuple(part.clone() for part in layer) for layer in layers])
    return found


def forward(layers, X, kept=None):
    """The input of each layer, and the logits; `kept` multiplies the outputs of hidden layers
    (dropout)."""
    inputs = [X]
    for i, (weights, biases) in enumerate(layers[:-1]):
        h = torch.addmm(biases, inputs[-1], weights.T).relu_()
        inputs.append(h if kept is None else h.mul_(kept[i]))
    weights, biases = layers[-1]
    return inputs, torch.addmm(biases, inputs[-1], weights.T)


def backward(layers, inputs, slope, kept=None):
    """The gradient in each layer's outputs before the kink, by going back from the gradient in the
    logits."""
    slopes = [slope]
    for i in range(len(layers) - 1, 0, -1):
        g = (slopes[0] @ layers[i][0]).mul_(inputs[i] > 0)
        slopes.insert(0, g if kept is None else g.mul_(kept[i - 1]))
    return slopes


def losses_of(layers, T, t):
    """Cross-entropy of each test row, in float64."""
    _, logits = forward(layers, T)
    return nn.functional.cross_entropy(logits.double(), t, reduction="none").numpy()


# --- scores


def network_of(layers):
    """The network of these weights and biases, for `network_influence`."""
    modules = []
    for weights, biases in layers:
        modules += [nn.Linear(*weights.T.shape), nn.ReLU()]
        modules[-2].load_state_dict({"weight": weights, "bias": biases})
    return nn.Sequential(*modules[:-1])


def products(layers, X, y, T, t):
    """A control, (n, tests): products of the margins' gradients times the row's 1 - p, without the
    kernel's inverse."""

    def margins(X, y):
        inputs, z = forward(layers, X)
        chances = torch.softmax(z, dim=1)
        labels = torch.eye(z.shape[1])[y]
        others = chances * (1 - labels)
        total = others.sum(dim=1, keepdim=True)
        slope = labels - others / total
        own = chances[torch.arange(len(y)), y]
        return inputs, backward(layers, inputs, slope), own

    inputs, slopes, chances = margins(X, y)
    test_inputs, test_slopes, _ = margins(T, t)
    total = 0
    for a, b, g, h in zip(inputs, test_inputs, slopes, test_slopes):
        total = total + (g @ h.T) * (a @ b.T + 1)
    return ((1 - chances)[:, None] * total).numpy()


def unit(scores):
    """Scores of mean nought and deviation one for each test row: no network then outweighs the
    others."""
    deviation = np.maximum(scores.std(axis=0), 1e-30)
    return (scores - scores.mean(axis=0)) / deviation


def score_rows(
    dataset,
    seed,
    *,
    n,
    t,
    n_subsets,
    hidden,
    n_epochs,
    read_at,
    n_networks,
    n_late,
):
    """LDS of each score against one truth, and the agreement of that truth with a second one on the
    same subsets.

    Parameters
    ----------
    dataset : str, in the registry
    seed : int, of the subsets, of both truths and of the networks that score
    n, t : int, training and test rows
    n_subsets : int, random halves that are trained on, once for each truth
    hidden : list of int, widths of the hidden layers
    n_epochs : int, of a training of the truth
    read_at : list of int, epochs after which the kernel of a network that scores is taken
    n_networks : list of int, networks, trained on all rows, whose scores are averaged
    n_late : int, as many more are trained for `n_epochs`: a control

    Returns
    -------
    list of dict with method, networks, lds and its deviation over test rows, share (of the ceiling)
    and CPU seconds
    """
    X, y, T, b = map(torch.as_tensor, images(dataset, n, t))
    widths = (X.shape[1], *hidden, int(y.max()) + 1)
    rng = np.random.default_rng((seed, 0))
    subsets = [rng.choice(n, n // 2, replace=False) for _ in range(n_subsets)]

    def networks(rows, epochs):
        return trained(
            X,
            y,
            rows,
            widths,
            epochs,
            int(rng.integers(2**31)),
        )

    def truth():
        ends = (networks(rows, [n_epochs])[0] for rows in subsets)
        return np.stack([losses_of(layers, T, b) for layers in ends])

    start = time.process_time()
    losses = truth()
    ceiling = np.sqrt(max(agreements(losses, truth()).mean(), 0.0))
    spent = time.process_time() - start
    found = []

    def add(method, k, mean, deviation, seconds):
        row = dict(
            method=method,
            networks=k,
            lds=mean,
            deviation=deviation,
            seconds=seconds,
        )
        found.append(row)

    def add_scores(method, k, scores, seconds):
        of_rows = lds(scores, subsets, losses)
        add(
            method,
            k,
            of_rows.mean(),
            of_rows.std(),
            seconds,
        )

    add(
        "ceiling",
        0,
        float(ceiling),
        0.0,
        spent,
    )

    add_scores("random", 0, rng.normal(size=(n, t)), 0.0)
    ways = [("early", read_at, n_networks), ("late", [n_epochs], [n_late])]
    for method, read, counts in ways:
        total = 0.0
        plain = 0.0
        spent = 0.0
        for k in range(1, max(counts) + 1):
            start = time.process_time()
            for layers in networks(np.arange(n), read):
                scores = network_influence(
                    network_of(layers),
                    X,
                    y,
                    T,
                    b,
                )
                total = total + unit(scores)
                own = products(layers, X, y, T, b)
                plain = plain + unit(own)
            spent += time.process_time() - start
            if k in counts:
                add_scores(method, k, total, spent)
        add_scores(f"{method}, products", k, plain, spent)
    return with_share(found, ceiling)


# --- the published numbers, and which numbers decide the claims

printed = partial(dattri_lds.printed, "dattri, MNIST, network")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    early = run.rows[run.rows.method == "early"]
    most = early[early.networks == run.rows.networks.max()]
    return {"public-mlp-published": (most.lds - printed()["TRAK-50"]).to_numpy()}
