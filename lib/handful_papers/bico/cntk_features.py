"""Nystrom features of convolutional tangent kernels: the proxies of Figures 3, 7 and 13 and of Table 8 (Section 5.1).

CIFAR-10 as the paper takes it (six layers, pooling, 32 x 32) needs a million pairs of pixels for each pair of images.
At 8 x 8, each pixel the mean of 4 x 4, it needs 4,096 and 40 microseconds of one core; flatten at 32 x 32 needs 10, for
features of a few points less accuracy. 21,000 images and 1,024 landmarks at 8 x 8 take a quarter of an hour. The kernel
matrix is kept on disk, 512 rows at a time: the second call takes seconds, an interrupted one goes on, and one that asks
for more rows computes only those.
"""

from dataclasses import replace

import numpy as np
from handful.bilevel.proxies import CNTK, Nystrom
from handful.data import data_folder, load

# Mean and standard deviation of the channels, as networks for these images are usually given them.
_CHANNELS = {
    "mnist": ([0.1307], [0.3081]),
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
}
_SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
_BRIGHTEST = {"digits": 16.0, "mnist": 255.0, "cifar10": 255.0}

# What a figure that uses `image_features("cifar10", side=8)` has to declare.
REDUCTION = "CIFAR-10: CNTK with global average pooling at 8 x 8 instead of 32 x 32 pixels"


def images(name, X, *, side=None):
    """Rows of pixels as float32 images, each channel standardised, shrunk to `side` pixels by averaging.

    Parameters
    ----------
    name : "digits", "mnist" or "cifar10"
    X : shape (n, d), as `handful.data.load` gives it
    side : divisor of the images' height, or None to keep it

    Returns
    -------
    array, shape (n, channels, side, side)
    """
    channels, height, width = _SHAPES[name]
    side = height if side is None else side
    if side < 1 or height % side:
        raise ValueError(f"side must divide the {height} pixels of {name!r}, got side={side}.")
    mean, deviation = (np.array(v, dtype=np.float32)[:, None, None] for v in _CHANNELS.get(name, ([0.0], [1.0])))
    out = np.empty((len(X), channels, side, side), dtype=np.float32)
    for i in range(0, len(X), 4096):  # bytes become floats a few at a time
        part = X[i : i + 4096].reshape(-1, channels, height, width) / np.float32(_BRIGHTEST[name])
        part = (part - mean) / deviation
        k = height // side
        out[i : i + 4096] = part.reshape(-1, channels, side, k, side, k).mean(axis=(3, 5))
    return out


def kernel_of(name, *, side=None, head="pool"):
    """The paper's network for these images: six layers (Arora et al. 2019) for CIFAR-10, its small one for digits."""
    channels, height, _ = _SHAPES[name]
    side = height if side is None else side
    if name == "cifar10":
        return CNTK.arora(6, head=head, shape=(channels, side, side))
    return CNTK((5, 5) if side > 8 else (3, 3), head="flatten", shape=(channels, side, side))


def image_features(
    name,
    *,
    n_train=None,
    n_test=None,
    n_landmarks=1024,
    side=None,
    head="pool",
    kernel=None,
    seed=0,
    cache=True,
    verbose=False,
):
    """A data set of images with Nystrom features of a convolutional tangent kernel in place of its pixels.

    Rows and landmarks come from random orders of the training set that depend on `seed` alone: a larger `n_train`
    begins with the rows of a smaller one.

    Parameters
    ----------
    name : "digits" (one set: `n_test` rows of it are held out), "mnist" or "cifar10"
    n_train, n_test : rows; None for all. CIFAR-10 at laptop: 20,000, and the 1,000 test images of "cifar10".
    n_landmarks : int, landmarks out of the whole training set. The paper: 2048 for CIFAR-10.
    side, head : see `images` and `CNTK`; for CIFAR-10 at laptop side=8 with head="pool"
    kernel : another `handful.bilevel.proxies.Kernel` than `kernel_of` gives
    seed : int
    cache : True keeps the kernel matrix under the data folder, False nowhere; or a folder
    verbose : show a progress bar

    Returns
    -------
    Dataset : X (n_train, r) and X_test (n_test, r) float32, y and y_test; `extra["row"]` holds the rows' numbers in
        the training set
    """
    data = load(name)
    _check_rows(name, data, n_train, n_test)
    rng = np.random.default_rng(seed)
    order, drawn = rng.permutation(len(data.X)), rng.permutation(len(data.X))
    if data.X_test is None:
        n_test = len(order) // 5 if n_test is None else n_test
        held_out, order = order[:n_test], order[n_test:]
        drawn = drawn[~np.isin(drawn, held_out)]
        data = replace(data, X_test=data.X[held_out], y_test=data.y[held_out])
    rows = order[:n_train]
    test = rng.permutation(len(data.X_test))[:n_test]
    folder = data_folder() / "kernels" if cache is True else cache or None
    kernel = kernel_of(name, side=side, head=head) if kernel is None else kernel
    proxy = Nystrom(kernel, n_landmarks=n_landmarks, cache=folder, verbose=verbose, random_state=seed)
    proxy.fit(images(name, data.X[drawn[:n_landmarks]], side=side))
    Z, Z_test = (proxy.transform(images(name, X, side=side)) for X in (data.X[rows], data.X_test[test]))
    names = tuple(proxy.get_feature_names_out())
    return replace(
        data,
        X=Z,
        y=data.y[rows],
        X_test=Z_test,
        y_test=data.y_test[test],
        feature_names=names,
        extra={"row": rows},
    )


def _check_rows(name, data, n_train, n_test):
    limits = {
        "n_train": (n_train, len(data.X)),
        "n_test": (n_test, len(data.X if data.X_test is None else data.X_test)),
    }
    if data.X_test is None:
        limits["n_train"] = (n_train, len(data.X) - (len(data.X) // 5 if n_test is None else n_test))
    for option, (value, most) in limits.items():
        if value is not None and not 1 <= value <= most:
            raise ValueError(f"{option} must be between 1 and {most} for {name!r}, got {option}={value}.")
