"""dattri's attribution table of a network: scores from the tangent kernel of a network that has
hardly been trained."""

import time
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from handful_papers.public import dattri_lds
from handful_papers.public.dattri_lds import agreements, images, lds
from handful_papers.public.network_influence import network_influence

# of every training
BATCH = 64
RATE = 0.01
MOMENTUM = 0.9
DROPOUT = 0.1


def initial(widths, generator):
    """Weights (outputs, inputs) and biases of each layer, uniform as torch draws them."""
    layers = []
    for inputs, outputs in pairwise(widths):
        draws = [
            torch.rand(*shape, generator=generator) for shape in ((outputs, inputs), (outputs,))
        ]
        layers.append(tuple((2 * draw - 1) / inputs**0.5 for draw in draws))
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
    return inputs, torch.addmm(layers[-1][1], inputs[-1], layers[-1][0].T)


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
    return nn.functional.cross_entropy(forward(layers, T)[1].double(), t, reduction="none").numpy()


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
        slope = labels - others / others.sum(dim=1, keepdim=True)
        return inputs, backward(layers, inputs, slope), chances[torch.arange(len(y)), y]

    (inputs, slopes, chances) = margins(X, y)
    test = margins(T, t)
    k = sum((g @ h.T) * (a @ b.T + 1) for a, b, g, h in zip(inputs, test[0], slopes, test[1]))
    return ((1 - chances)[:, None] * k).numpy()


def unit(scores):
    """Scores of mean nought and deviation one for each test row: no network then outweighs the
    others."""
    return (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-30)


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

    start = time.process_time()
    losses, second = (
        np.stack([losses_of(networks(s, [n_epochs])[0], T, b) for s in subsets]) for _ in range(2)
    )
    ceiling = np.sqrt(max(agreements(losses, second).mean(), 0.0))
    spent = time.process_time() - start
    found = [
        dict(
            method="ceiling",
            networks=0,
            lds=float(ceiling),
            deviation=0.0,
            seconds=spent,
        )
    ]

    def add(method, k, scores, seconds):
        found_lds = lds(scores, subsets, losses)
        found.append(
            dict(
                method=method,
                networks=k,
                lds=found_lds.mean(),
                deviation=found_lds.std(),
                seconds=seconds,
            )
        )

    add("random", 0, rng.normal(size=(n, t)), 0.0)
    for method, read, counts in (("early", read_at, n_networks), ("late", [n_epochs], [n_late])):
        total = 0.0
        plain = 0.0
        spent = 0.0
        for k in range(1, max(counts) + 1):
            start = time.process_time()
            for layers in networks(np.arange(n), read):
                total = total + unit(
                    network_influence(
                        network_of(layers),
                        X,
                        y,
                        T,
                        b,
                    )
                )
                plain = plain + unit(products(layers, X, y, T, b))
            spent += time.process_time() - start
            if k in counts:
                add(method, k, total, spent)
        add(f"{method}, products", k, plain, spent)
    return [row | dict(share=row["lds"] / ceiling if ceiling else 0.0) for row in found]


# --- the published numbers, and which numbers decide the claims

printed = partial(dattri_lds.printed, "dattri, MNIST, network")


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    most = run.rows[(run.rows.method == "early") & (run.rows.networks == run.rows.networks.max())]
    return {"public-mlp-published": (most.lds - printed()["TRAK-50"]).to_numpy()}
