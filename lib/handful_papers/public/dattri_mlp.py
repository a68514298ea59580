"""dattri's attribution table of a network: scores from the tangent kernel of a network that has hardly been trained."""

import time
from itertools import pairwise

import numpy as np
import torch
from scipy.stats import rankdata
from torch import nn

from handful_papers.claims import DATA, Evidence
from handful_papers.public.dattri_lds import images
from handful_papers.published import published

ITEM = "dattri, MNIST, network"
BATCH, RATE, MOMENTUM, DROPOUT = 64, 0.01, 0.9, 0.1  # of every training


def initial(widths, generator):
    """Weights (outputs, inputs) and biases of each layer, uniform as torch draws them."""
    layers = []
    for inputs, outputs in pairwise(widths):
        draws = [torch.rand(*shape, generator=generator) for shape in ((outputs, inputs), (outputs,))]
        layers.append(tuple((2 * draw - 1) / inputs**0.5 for draw in draws))
    return layers


@torch.no_grad()
def trained(X, y, rows, widths, read_at, seed):
    """The network after each epoch of `read_at`: SGD with momentum and dropout behind each hidden layer, on `rows`.

    Gradients are written out: automatic differentiation takes three times as long for layers as small as these.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = initial(widths, generator)
    speeds = [tuple(torch.zeros_like(part) for part in layer) for layer in layers]
    rows, Y, found = torch.as_tensor(rows), torch.eye(widths[-1])[y], []
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
                torch.addmm(speed[0], g.T, a, beta=MOMENTUM, out=speed[0])
                speed[1].mul_(MOMENTUM).add_(g.sum(dim=0))
                for part, change in zip(layer, speed):
                    part.add_(change, alpha=-RATE)
        if epoch in read_at:
            found.append([tuple(part.clone() for part in layer) for layer in layers])
    return found


def forward(layers, X, kept=None):
    """The input of each layer, and the logits; `kept` multiplies the outputs of hidden layers (dropout)."""
    inputs = [X]
    for i, (weights, biases) in enumerate(layers[:-1]):
        h = torch.addmm(biases, inputs[-1], weights.T).relu_()
        inputs.append(h if kept is None else h.mul_(kept[i]))
    return inputs, torch.addmm(layers[-1][1], inputs[-1], layers[-1][0].T)


def backward(layers, inputs, slope, kept=None):
    """The gradient in each layer's outputs before the kink, by going back from the gradient in the logits."""
    slopes = [slope]
    for i in range(len(layers) - 1, 0, -1):
        g = (slopes[0] @ layers[i][0]).mul_(inputs[i] > 0)
        slopes.insert(0, g if kept is None else g.mul_(kept[i - 1]))
    return slopes


def losses_of(layers, T, t):
    """Cross-entropy of each test row, in float64."""
    return nn.functional.cross_entropy(forward(layers, T)[1].double(), t, reduction="none").numpy()


# --- scores


def margins(layers, X, y):
    """Of each row's margin log p / (1 - p): inputs and gradients of each layer; and p, its label's probability."""
    inputs, z = forward(layers, X)
    chances, labels = torch.softmax(z, dim=1), torch.eye(z.shape[1])[y]
    others = chances * (1 - labels)
    slope = labels - others / others.sum(dim=1, keepdim=True)
    return inputs, backward(layers, inputs, slope), chances[torch.arange(len(y)), y]


def kernel(one, other):
    """Products of the margins' gradients in all weights and biases, by layers: no gradient is ever written out."""
    return sum((g @ h.T) * (a @ b.T + 1) for a, b, g, h in zip(one[0], other[0], one[1], other[1]))


def kernel_scores(layers, X, y, T, t):
    """What each row does to each test row's margin, and the plain products of the gradients; both (n, tests).

    Ridge regression on the tangent features (TRAK, Park and others 2023, with no projection of the gradients): a row's
    residual 1 - p times the kernel's inverse. The ridge is the mean of the kernel's diagonal.
    """
    train, test = margins(layers, X, y), margins(layers, T, t)
    K, k, rest = kernel(train, train), kernel(train, test), (1 - train[2])[:, None]
    K.diagonal().add_(K.diagonal().mean())
    return (rest * torch.cholesky_solve(k, torch.linalg.cholesky(K))).numpy(), (rest * k).numpy()


def unit(scores):
    """Scores of mean nought and deviation one for each test row: no network then outweighs the others."""
    return (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-30)


# --- the score of scores


def agreements(a, b):
    """Spearman's correlation of two arrays over their first axis, for each column."""
    a, b = (rankdata(of, axis=0) for of in (a, b))
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    return (a * b).sum(axis=0) / np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))


def score_rows(dataset, seed, *, n, t, n_subsets, hidden, n_epochs, read_at, n_networks, n_late):
    """LDS of each score against one truth, and the agreement of that truth with a second one on the same subsets.

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
    list of dict with method, networks, lds and its deviation over test rows, share (of the ceiling) and CPU seconds
    """
    X, y, T, b = map(torch.as_tensor, images(dataset, n, t))
    widths, rng = (X.shape[1], *hidden, int(y.max()) + 1), np.random.default_rng((seed, 0))
    subsets = [rng.choice(n, n // 2, replace=False) for _ in range(n_subsets)]

    def networks(rows, epochs):
        return trained(X, y, rows, widths, epochs, int(rng.integers(2**31)))

    start = time.process_time()
    losses, second = (np.stack([losses_of(networks(s, [n_epochs])[0], T, b) for s in subsets]) for _ in range(2))
    ceiling = np.sqrt(max(agreements(losses, second).mean(), 0.0))
    spent = time.process_time() - start
    found = [dict(method="ceiling", networks=0, lds=float(ceiling), deviation=0.0, seconds=spent)]

    def add(method, k, scores, seconds):
        lds = agreements(np.stack([scores[s].sum(axis=0) for s in subsets]), -losses)
        found.append(dict(method=method, networks=k, lds=lds.mean(), deviation=lds.std(), seconds=seconds))

    add("random", 0, rng.normal(size=(n, t)), 0.0)
    for method, read, counts in (("early", read_at, n_networks), ("late", [n_epochs], [n_late])):
        total, products, spent = 0.0, 0.0, 0.0
        for k in range(1, max(counts) + 1):
            start = time.process_time()
            for layers in networks(np.arange(n), read):
                one, plain = kernel_scores(layers, X, y, T, b)
                total, products = total + unit(one), products + unit(plain)
            spent += time.process_time() - start
            if k in counts:
                add(method, k, total, spent)
        add(f"{method}, products", k, products, spent)
    return [row | dict(share=row["lds"] / ceiling if ceiling else 0.0) for row in found]


def printed():
    """The published LDS of each method, a Series, the largest first."""
    table = published("public", ITEM)
    return table.set_index("row").value.sort_values(ascending=False)


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows, theirs = run.rows, printed()
    lds = rows.set_index(["method", "networks", "seed"]).lds
    lead = (lds["early", int(rows.networks.max())] - theirs["TRAK-50"]).to_numpy()
    on_mnist = "mnist" in run.data
    return {"public-mlp-published": lead if on_mnist else Evidence(lacks="the table is on MNIST", reason=DATA)}
