"""Table 8 of the bilevel paper: what kernel features and coresets of 1,000 images cost (Section 5.7)."""

import time

import numpy as np
from handful.bilevel import BilevelCoreset, Logistic
from handful.bilevel.proxies import CNTK, Nystrom
from handful.data import load

from handful_papers.bico.cntk_features import images, small_kernel
from handful_papers.bico.image_data import SHAPES

# The paper's small network and a deep one; neither with pooling.
NETWORKS = {"SCNN": small_kernel, "deep": lambda shape: CNTK.arora(12, head="flatten", shape=shape)}


def measure(name, *, n, n_landmarks, sizes, l2, n_repeats, seed=0):
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
    list of dict with network, operation ("features" or "coreset"), size, repeat, seconds
    """
    data = load(name)
    chosen = np.random.default_rng(seed).choice(len(data.X), n, replace=False)
    X, y = images(name, data.X[chosen]), data.y[chosen]
    rows, features = [], {}
    for network, kernel in NETWORKS.items():
        proxy = Nystrom(kernel(SHAPES[name]), n_landmarks=n_landmarks, random_state=seed)
        proxy.fit(X[:64])  # compiles
        for repeat in range(2):
            start = time.perf_counter()
            features[network] = np.asarray(proxy.fit(X).transform(X), dtype=np.float32)
            seconds = time.perf_counter() - start
            rows.append(dict(network=network, operation="features", size=n_landmarks, repeat=repeat, seconds=seconds))
    BilevelCoreset(Logistic(l2), size=min(sizes), rule="linear", random_state=seed).fit(features["SCNN"], y)
    for repeat in range(n_repeats):  # taking turns, so that a busy moment hits both
        for size in sizes:
            for network, Z in features.items():
                selector = BilevelCoreset(Logistic(l2), size=size, rule="linear", random_state=seed + repeat)
                start = time.perf_counter()
                selector.fit(Z, y)
                seconds = time.perf_counter() - start
                rows.append(dict(network=network, operation="coreset", size=size, repeat=repeat, seconds=seconds))
    return rows
