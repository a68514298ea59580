"""Table 8 of the bilevel paper: what implicit gradients, kernel features and coresets cost (Section
5.7)."""

import time

import numpy as np
import pandas as pd
from handful.bilevel import BilevelCoreset
from handful.data import load
from handful.models import Logistic, Network
from handful.models.base import OuterRows
from handful.models.inverse import NeumannSeries
from handful.models.network import TrainConfig
from handful.proxies import CNTK, Nystrom

from handful_papers.bico.cntk_features import images, small_kernel
from handful_papers.bico.image_data import SHAPES
from handful_papers.bico.image_networks import image_network

# The paper's small network and a deep one; neither with pooling.
NETWORKS = {
    "SCNN": small_kernel,
    "deep": lambda shape: CNTK.arora(12, head="flatten", shape=shape),
}


def measure(
    name,
    *,
    n,
    n_landmarks,
    sizes,
    l2,
    n_repeats,
    seed=0,
):
    """Seconds of the kernel features and of coresets, for each network.

    Parameters
    ----------
    name : "digits", "mnist" or "cifar10"
    n, n_landmarks : rows and Nystrom landmarks; the paper: 1,000 and 512
    sizes : of the coresets; the paper: 100 and 400
    l2 : penalty
    n_repeats : of every coreset, each from another random start

    Returns
    -------
    list of dict with network, operation ("features" or "coreset"), size, repeat, seconds (of the
    processor)
    """
    data = load(name)
    chosen = np.random.default_rng(seed).choice(len(data.X), n, replace=False)
    X = images(name, data.X[chosen])
    y = data.y[chosen]
    rows = []
    features = {}

    def add(network, operation, size, repeat, seconds):
        row = dict(
            network=network,
            operation=operation,
            size=size,
            repeat=repeat,
            seconds=seconds,
        )
        rows.append(row)

    for network, kernel in NETWORKS.items():
        proxy = Nystrom(kernel(SHAPES[name]), n_landmarks=n_landmarks, random_state=seed)
        # The first fit imports torch.
        proxy.fit(X[:64])
        for repeat in range(2):
            start = time.process_time()
            Z = np.asarray(proxy.fit(X).transform(X), dtype=np.float32)
            seconds = time.process_time() - start
            add(network, "features", n_landmarks, repeat, seconds)
        # A kernel's scale is arbitrary, the penalty is not.
        features[network] = Z / np.sqrt((Z**2).sum(axis=1).mean())

    def selector(size, random_state):
        return BilevelCoreset(
            Logistic(l2),
            size=size,
            random_state=random_state,
            rule="linear",
            weighting="equal",
            outer_penalty=False,
        )

    # What compiles does so here.
    selector(min(sizes), seed).fit(features["SCNN"], y)
    for repeat in range(n_repeats):
        for size in sizes:
            # The networks take turns, so that a busy moment hits both.
            for network, Z in features.items():
                few = selector(size, seed + repeat)
                start = time.process_time()
                few.fit(Z, y)
                seconds = time.process_time() - start
                add(network, "coreset", size, repeat, seconds)
    return rows


def measure_network(
    name, network, *, n, n_terms, batch_size, n_full, n_terms_full, n_repeats, seed=0
):
    """Seconds of the three parts of one implicit gradient (Equation 3) without a proxy.

    The gradient of the outer loss and the mixed derivative read all rows, and the Neumann series
    takes one product with the Hessian on a minibatch for each term: a few rows and products are
    timed, and `times` says how many times as much all of them are.

    Parameters
    ----------
    name : "digits", "mnist" or "cifar10"
    network : as `image_network` takes it
    n : rows that are timed
    n_terms : of the series whose products are timed
    batch_size : rows of the minibatch of a term
    n_full, n_terms_full : rows and products of the whole; the paper: 50,000 and 100
    n_repeats : of every part

    Returns
    -------
    list of dict with network, operation ("outer gradient", "Neumann series" or "mixed derivative"),
    size (rows or products that were timed), times, repeat, seconds (of the processor)
    """
    data = load(name)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(data.X), n, replace=False)
    X = images(name, data.X[chosen]).reshape(n, -1)
    y = data.y[chosen]
    module = image_network(network, len(np.unique(data.y)), SHAPES[name])
    train = TrainConfig(n_steps=1, batch_size=batch_size)
    problem = Network(module, train=train, curvature_batch_size=batch_size, random_state=seed)
    inverse = _Timed(n_terms)
    model = problem.model(OuterRows(X, y, np.ones(n), np.array([], dtype=int)), rng, ihvp=inverse)
    model.add_rows(range(2 * batch_size))
    model.fit()
    rows = []
    for repeat in range(n_repeats):
        start = time.process_time()
        model.outer_gradient()
        gradient = time.process_time() - start
        start = time.process_time()
        model.implicit_gradients()
        # One more product is taken, by which the series is checked.
        product = inverse.seconds / inverse.products
        rest = time.process_time() - start - gradient - inverse.seconds - product
        parts = {
            "outer gradient": (n, n_full / n, gradient),
            "Neumann series": (inverse.products, n_terms_full / inverse.products, inverse.seconds),
            "mixed derivative": (n, n_full / n, rest),
        }
        for operation, (size, times, seconds) in parts.items():
            row = dict(
                network=network,
                operation=operation,
                size=size,
                times=times,
                repeat=repeat,
                seconds=seconds,
            )
            rows.append(row)
    return rows


class _Timed(NeumannSeries):
    """A Neumann series that counts its products with the Hessian and times them."""

    def solve(self, product, g):
        """As `NeumannSeries.solve`."""
        self.products = 0
        self.seconds = 0.0

        def timed(v):
            start = time.process_time()
            image = product(v)
            self.products += 1
            self.seconds += time.process_time() - start
            return image

        return super().solve(timed, g)


# --- what stands beside the printed seconds

LEFT = {
    "outer gradient": "dg/dtheta",
    "Neumann series": "Neumann series (100 terms)",
    "mixed derivative": "d2f/dtheta dw",
}


def cells(rows):
    """Rows that have a printed number beside them, in the paper's words, with the seconds of the
    whole operation."""
    left = rows[rows.operation.isin(LEFT)]
    whole = left.seconds * left.times
    left = left.assign(part="left", network="WideResNet-16-4, CIFAR-10", seconds=whole)
    others = rows[~rows.operation.isin(LEFT)]
    right = others[others.network == "SCNN"].assign(part="right")
    coresets = "Coreset " + right["size"].astype(str)
    right = right.assign(operation=coresets.mask(right.operation == "features", "NTK calc."))
    both = pd.concat([left.replace({"operation": LEFT}), right])
    return both.assign(seed=both.repeat)


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows[run.rows.times.isna() & (run.rows.operation == "coreset")]
    seconds = rows.set_index(["size", "network", "repeat"]).seconds.sort_index()
    ratios = {}
    for size in run.parameters["sizes"]:
        ratios[size] = (seconds[size, "deep"] / seconds[size, "SCNN"]).to_numpy()
    return {"bico-tab08-independent": ratios}
