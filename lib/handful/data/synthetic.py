"""Generated data: small, seeded, and named for what they are."""

import numpy as np


def pathological(n=1000, *, separation=10.0, spread=1.0, gap=0.5, rng):
    """Two distant clusters of different labels, and two points of different labels close to each
    other.

    On it uniform samples fail a support vector machine: a sample of m misses one of the two points
    between the clusters with probability about 1 - (1 - exp(-m/n))^2 (Tukan, Baykal, Feldman and
    Rus 2020 have the set in their experiments, the numbers are ours). A harder variant is
    ``separation=100, gap=1``.

    Parameters
    ----------
    n : int, even, at least 4
    separation : distance of each cluster's centre from the origin
    spread : standard deviation of the clusters
    gap : distance of the two points in the middle
    rng : numpy.random.Generator, all the randomness there is

    Returns
    -------
    X : array, shape (n, 2); the two middle points are the last rows
    y : int array, shape (n,), -1 or +1
    """
    if n < 4 or n % 2:
        raise ValueError(f"n must be even and at least 4 (two clusters and a pair), got {n}.")
    y = np.tile([1, -1], n // 2)
    X = rng.normal(scale=spread, size=(n, 2))
    X[:, 0] += separation * y
    X[-2:] = [[gap / 2, 0.0], [-gap / 2, 0.0]]
    return X, y


def gaussian_mixture(
    n=1000,
    n_features=2,
    n_components=5,
    *,
    overlap=0.2,
    imbalance=None,
    tail=None,
    dtype=np.float64,
    rng,
):
    """Points of a mixture of isotropic Gaussians with random centres, and the component of each.

    Centres are standard normal; their typical distance is sqrt(2 n_features).

    Parameters
    ----------
    n, n_features, n_components : int
    overlap : a component's standard deviation in every direction, the centres' being 1
    imbalance : exponent of a Pareto law for the component weights, at least 0.1; the smaller, the
        less balanced (1.0 has a few large and many small ones); None for equal weights
    tail : degrees of freedom of Student's t noise, at least 0.1 (3 has heavy tails); None for
        Gaussian noise
    dtype : of X, float32 or float64
    rng : numpy.random.Generator, all the randomness there is

    Returns
    -------
    X : array, shape (n, n_features)
    component : int array, shape (n,), 0..n_components-1
    """
    centers = rng.normal(size=(n_components, n_features))
    weights = (
        np.ones(n_components) if imbalance is None else 1 + rng.pareto(imbalance, size=n_components)
    )
    component = rng.choice(n_components, size=n, p=weights / weights.sum())
    X = rng.normal(scale=overlap, size=(n, n_features))
    if tail is not None:
        # one draw a point: a multivariate t
        X /= np.sqrt(rng.chisquare(tail, size=(n, 1)) / tail)
    X += centers[component]
    return X.astype(dtype, copy=False), component


def image_patches(image, *, size=8, stride=4):
    """All square patches of an image on a grid, one a row.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
    size, stride : side of a patch and distance between neighbours, in pixels

    Returns
    -------
    array, shape (number of patches, size * size * channels), in the dtype of `image`
    """
    image = np.atleast_3d(image)
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))[
        ::stride, ::stride
    ]
    return np.moveaxis(windows, 2, -1).reshape(-1, size * size * image.shape[2])
