"""The rows that the clustering experiments run on: data sets as the paper prepares them, and
patches of images."""

from dataclasses import dataclass

import numpy as np
from handful.data import load

# Rows of CIFAR-10, as many as the official test set has.
N_HELD_OUT = 10_000
# Patches cut at a time.
CHUNK = 1 << 18
# Name -> (side, grey) of what is cut from CIFAR-10's training images.
PATCHES = {"colour_patches": (5, False), "grey_patches": (4, True)}


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to cluster.

    Attributes
    ----------
    name : str, of a data set in the registry, with the kind of patches behind it:
        "cifar10[grey_patches]"
    X : float32 array, shape (n, d), about its mean: all algorithms round alike
    X_test : float32 array, or None: the rows on which errors are taken where these are not all of
        `X`
    sha256 : str, of the file that it was made from; None for generated rows
    """

    name: str
    X: np.ndarray
    X_test: np.ndarray | None
    sha256: str | None = None

    @property
    def measured(self):
        """The rows on which errors and partitions are taken."""
        return self.X if self.X_test is None else self.X_test


def clustering_problem(name, *, rows=None, measured=None, seed=0):
    """The `Problem` of a data set.

    Images and patches get uniform noise in [0, 1) (the paper's preprocessing of CIFAR-10); nothing
    else is scaled.

    Parameters
    ----------
    name : "colour_patches" (5 x 5 x 3) or "grey_patches" (4 x 4), cut from CIFAR-10 at random
        places, or a name that `handful.data.load` knows
    rows : int or None, patches to cut; elsewhere rows to draw, None for all
    measured : int or None, about how many rows, at equal steps, errors are taken on; None for all
        (of CIFAR-10: all of its test set)
    seed : int, of noise, places and draws
    """
    rng = np.random.default_rng(seed)
    dataset = load("cifar10" if name in PATCHES else name)
    X, X_test = _prepared(name, dataset, rows, rng)
    if rows is not None and rows < len(X):
        X = X[np.sort(rng.choice(len(X), rows, replace=False))]
    mean = X.mean(axis=0, dtype=np.float64)
    X = _centred(X, mean)
    if X_test is not None:
        X_test = _centred(X_test, mean)
    elif measured is not None and measured < len(X):
        X_test = np.ascontiguousarray(X[:: len(X) // measured])
    shown = f"cifar10[{name}]" if name in PATCHES else name
    return Problem(shown, X, X_test, dataset.sha256)


def _prepared(name, dataset, rows, rng):
    """A data set's rows as the paper prepares them, and those on which errors are taken (None: on
    the same)."""
    if name in PATCHES:
        size, grey = PATCHES[name]
        n = 500_000 if rows is None else rows
        X = cut_patches(
            as_images(dataset.X),
            n,
            size=size,
            grey=grey,
            rng=rng,
        )
        return _with_noise(X, rng), None
    if name == "cifar10_full":
        return _with_noise(dataset.X, rng), _with_noise(dataset.X_test, rng)
    if name == "cifar10":
        order = rng.permutation(len(dataset.X))
        # With None all others are kept.
        kept = np.sort(order[N_HELD_OUT:][:rows])
        X = _with_noise(dataset.X[kept], rng)
        return X, _with_noise(dataset.X[np.sort(order[:N_HELD_OUT])], rng)
    if name == "sample_patches":
        return _with_noise(dataset.X, rng), None
    if name == "cod_rna":
        return np.concatenate([dataset.X, dataset.X_test]), None
    return dataset.X, None


def _with_noise(X, rng):
    return X.astype(np.float32) + rng.random(X.shape, dtype=np.float32)


def _centred(X, mean):
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    return np.ascontiguousarray(X - mean.astype(dtype), dtype=np.float32)


def as_images(X):
    """Rows of CIFAR-10 as images, shape (n, 3, 32, 32)."""
    return X.reshape(len(X), 3, 32, 32)


def cut_patches(
    images,
    n,
    *,
    size,
    rng,
    grey=False,
    out=None,
):
    """Square patches from random places of random images, one a row.

    Parameters
    ----------
    images : uint8 array, shape (m, channels, height, width)
    n : int
    size : int, pixels
    grey : bool, the mean over the channels instead of all of them
    out : uint8 array or memory map to write into, shape (n, d), or None

    Returns
    -------
    uint8 array, shape (n, size * size * channels)
    """
    m, channels, height, width = images.shape
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(2, 3))
    if out is None:
        width_of_row = size * size * (1 if grey else channels)
        out = np.empty((n, width_of_row), np.uint8)
    for start in range(0, n, CHUNK):
        count = min(CHUNK, n - start)
        # They come in the order of the images, as they lie in memory.
        image = np.sort(rng.integers(m, size=count))
        y = rng.integers(height - size + 1, size=count)
        x = rng.integers(width - size + 1, size=count)
        part = windows[image, :, y, x]
        if grey:
            part = part.mean(axis=1)
        out[start : start + count] = part.reshape(count, -1)
    return out


def patch_file(
    path,
    n,
    *,
    source="cifar10",
    size=4,
    seed=0,
):
    """Write patches to a file that is larger than one would hold in memory; gives it as a memory
    map.

    Parameters
    ----------
    path : of the .npy file
    n : int, patches
    source : "cifar10", with the sample images of scikit-learn; "sample_images", these alone
    size : int, pixels

    Returns
    -------
    uint8 memory map, shape (n, 3 size^2); its last rows are as random as the first
    Dataset, what they were cut from
    """
    rng = np.random.default_rng(seed)
    out = np.lib.format.open_memmap(
        path,
        mode="w+",
        dtype=np.uint8,
        shape=(n, 3 * size * size),
    )
    patches = load("sample_patches", size=32, stride=32)
    photographs = patches.X.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
    if source == "sample_images":
        images = photographs
        dataset = patches
    else:
        dataset = load("cifar10")
        images = np.concatenate([as_images(dataset.X), photographs])
    cut_patches(
        images,
        n,
        size=size,
        rng=rng,
        out=out,
    )
    out.flush()
    return out, dataset
