"""Nystrom features of convolutional tangent kernels: the proxies of Figures 3, 7 and 13 and of
Table 8 (Section 5.1).

CIFAR-10 as the paper takes it (six layers, pooling, 32 x 32) needs a million pairs of pixels for
each pair of images. At 8 x 8, each pixel the mean of 4 x 4, it needs 4,096; flatten at 32 x 32
needs 1,024, for features of a few points less accuracy. The kernel matrix is kept on disk, 512 rows
at a time: the second call takes seconds, an interrupted one goes on, and one that asks for more
rows computes only those.
"""

from dataclasses import replace
from functools import cache

import numpy as np
from handful.checks import check_integer
from handful.data import load
from handful.data.files import data_folder
from handful.proxies import CNTK, RBF, Nystrom

from handful_papers.bico.image_data import BRIGHTEST, CHANNELS, SHAPES, averaged


def images(name, X, *, side=None):
    """Rows of pixels as float32 images, each channel standardised, shrunk to `side` pixels by
    averaging.

    Parameters
    ----------
    name : "digits", "mnist" or "cifar10"
    X : shape (n, d), as `handful.data.load` gives it
    side : divisor of the images' height, or None to keep it

    Returns
    -------
    array, shape (n, channels, side, side)
    """
    channels, height, width = SHAPES[name]
    side = height if side is None else side
    if side < 1 or height % side:
        raise ValueError(f"side must divide the {height} pixels of {name!r}, got side={side}.")
    of_channels = np.array(CHANNELS.get(name, ([0.0], [1.0])), dtype=np.float32)
    mean, deviation = of_channels[:, :, None, None]
    brightest = np.float32(BRIGHTEST[name])
    out = np.empty((len(X), channels, side, side), dtype=np.float32)
    # Bytes become floats a few rows at a time.
    for start in range(0, len(X), 4096):
        rows = slice(start, start + 4096)
        part = X[rows].reshape(-1, channels, height, width) / brightest
        out[rows] = averaged((part - mean) / deviation, SHAPES[name], side)
    return out


def small_kernel(shape, device=None):
    """The tangent kernel of the paper's small network, on images of a shape."""
    filters = (5, 5) if shape[1] > 8 else (3, 3)
    return CNTK(filters, head="flatten", shape=shape, device=device)


@cache
def image_features(
    name,
    *,
    n_train,
    n_test,
    n_landmarks,
    side=None,
    gamma=None,
    device=None,
):
    """A data set of images with Nystrom features in place of its pixels: of the RBF kernel where
    `gamma` is given.

    Else of the convolutional tangent kernel of the paper's network for these images: six layers
    (Arora et al. 2019) for CIFAR-10, its small one for digits. Rows and landmarks come from random
    orders of the training set that are the same for any sizes: a larger `n_train` begins with the
    rows of a smaller one.

    Parameters
    ----------
    name : "digits" (one set: `n_test` rows of it are held out), "mnist" or "cifar10"
    n_train, n_test : rows of the training set and of the test set
    n_landmarks : int, landmarks out of the whole training set; the paper: 500 for MNIST, 2048 for
        CIFAR-10
    side : pixels to which images are shrunk for the CNTK, see `images`
    gamma : of the RBF kernel, on standardised pixels
    device : of torch, that computes the tangent kernel

    Returns
    -------
    Dataset : X (n_train, r) and X_test (n_test, r) float32, y and y_test; `extra["row"]` holds the
        rows' numbers in the training set
    """
    data = load(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.X))
    drawn = rng.permutation(len(data.X))
    check_integer("n_test", n_test, most=len(order if data.X_test is None else data.X_test))
    if data.X_test is None:
        held_out = order[:n_test]
        order = order[n_test:]
        drawn = drawn[~np.isin(drawn, held_out)]
        data = replace(
            data,
            X_test=data.X[held_out],
            y_test=data.y[held_out],
        )
    check_integer("n_train", n_train, most=len(order))
    rows = order[:n_train]
    test = rng.permutation(len(data.X_test))[:n_test]
    if gamma is None:
        channels, height, _ = SHAPES[name]
        shape = (channels, side or height, side or height)
        kernel = _kernel_of(name, shape, device)
        folder = data_folder() / "kernels"
    else:
        kernel = RBF(gamma)
        folder = None
    proxy = Nystrom(kernel, n_landmarks=n_landmarks, cache=folder, random_state=0)
    proxy.fit(images(name, data.X[drawn[:n_landmarks]], side=side))
    return replace(
        data,
        X=proxy.transform(images(name, data.X[rows], side=side)),
        y=data.y[rows],
        X_test=proxy.transform(images(name, data.X_test[test], side=side)),
        y_test=data.y_test[test],
        feature_names=tuple(proxy.get_feature_names_out()),
        extra={"row": rows},
    )


def _kernel_of(name, shape, device=None):
    if name == "cifar10":
        return CNTK.arora(
            6,
            head="pool",
            shape=shape,
            device=device,
        )
    return small_kernel(shape, device)
