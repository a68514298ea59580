"""Generated data: small, seeded, and named for what they are."""

import numpy as np

from handful.checks import check_integer


def pathological(n=1000, *, separation=10.0, spread=1.0, gap=0.5, rng):
    """Two distant clusters of different labels, and two points of different labels close to each other.

    On it uniform samples fail a support vector machine: a sample of m misses one of the two points between
    the clusters with probability about 1 - (1 - exp(-m/n))^2 (Tukan, Baykal, Feldman and Rus 2020 have the
    set in their experiments, the numbers are ours). A harder variant is ``separation=100, gap=1``.

    Parameters
    ----------
    n : int, even, at least 4
    separation : distance of each cluster's centre from the origin
    spread : standard deviation of the clusters
    gap : distance of the two points in the middle
    rng : numpy.random.Generator

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


def gaussian_mixture(n, n_features, n_components, *, overlap=0.2, imbalance=None, tail=None, dtype=np.float64, rng):
    """Points of a mixture of isotropic Gaussians with random centres, and the component of each.

    Centres are standard normal; their typical distance is sqrt(2 n_features).

    Parameters
    ----------
    n, n_features, n_components : int
    overlap : a component's standard deviation in every direction, the centres' being 1
    imbalance : exponent of a Pareto law for the component weights, the smaller the less balanced (1.0 has a
        few large and many small ones); None for equal weights
    tail : degrees of freedom of Student's t noise (3 has heavy tails); None for Gaussian noise
    dtype : of X
    rng : numpy.random.Generator

    Returns
    -------
    X : array, shape (n, n_features)
    component : int array, shape (n,), 0..n_components-1
    """
    for name, value in {"n": n, "n_features": n_features, "n_components": n_components}.items():
        check_integer(name, value)
    centers = rng.normal(size=(n_components, n_features))
    weights = np.ones(n_components) if imbalance is None else 1 + rng.pareto(imbalance, size=n_components)
    component = rng.choice(n_components, size=n, p=weights / weights.sum())
    X = rng.normal(scale=overlap, size=(n, n_features))
    if tail is not None:
        X /= np.sqrt(rng.chisquare(tail, size=(n, 1)) / tail)  # one draw a point: a multivariate t
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
    image = np.asarray(image)
    image = image[..., np.newaxis] if image.ndim == 2 else image
    if not 1 <= size <= min(image.shape[:2]) or stride < 1:
        raise ValueError(
            f"size must be in 1..{min(image.shape[:2])} for an image of {image.shape[0]} x {image.shape[1]} "
            f"and stride at least 1, got size={size}, stride={stride}."
        )
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))[::stride, ::stride]
    return np.moveaxis(windows, 2, -1).reshape(-1, size * size * image.shape[2])


def spoken_tones(n, *, n_classes=10, rate=8000, rng):
    """Recordings of one second that behave like spoken words: tones whose colour glides, in random voices.

    Every class has a melody of three vowel-like colours (two resonances each, fixed once and for all); every recording
    has its own pitch, speed, start, loudness and hiss, and one of six voices with its own resonances. They are no
    speech: a stand-in that needs no download.

    Parameters
    ----------
    n : int, recordings, as equally many of each class as possible
    n_classes : int, 2..20
    rate : samples a second, at least 8000
    rng : numpy.random.Generator

    Returns
    -------
    X : int16 array, shape (n, rate)
    y : int array, shape (n,), 0..n_classes-1
    """
    if not 2 <= n_classes <= 20 or n < n_classes or rate < 8000:
        raise ValueError(
            f"n_classes must be in 2..20, n at least n_classes, rate at least 8000; got n_classes={n_classes}, n={n}, "
            f"rate={rate}."
        )
    words = np.random.default_rng(20).uniform([300, 900], [900, 2600], size=(20, 3, 2))  # Hz
    y = rng.permutation(np.arange(n) % n_classes)
    X = np.zeros((n, rate), dtype=np.int16)
    for row, word in zip(X, y):
        voice = rng.integers(6)
        pitch = (95, 115, 140, 170, 200, 230)[voice] * rng.uniform(0.93, 1.07)
        resonances = words[word] * (0.9 + 0.04 * voice) * rng.uniform(0.94, 1.06, size=(3, 2))
        length = int(rate * rng.uniform(0.3, 0.65))
        at = np.linspace(0.0, 2.0, length)
        phase = 2 * np.pi * np.cumsum(pitch * (1.1 - 0.1 * at)) / rate
        glide = [np.interp(at, [0, 1, 2], resonances[:, j])[:, None] for j in range(2)]
        harmonics = np.arange(1, int(3600 / pitch))
        colour = sum(np.exp(-0.5 * ((harmonics * pitch - f) / 120.0) ** 2) for f in glide) + 0.01
        sound = np.sum(colour * np.sin(phase[:, None] * harmonics), axis=1)
        sound *= np.sin(np.pi * np.linspace(0, 1, length)) ** 0.5
        sound /= np.abs(sound).max()
        start = rng.integers(0, rate - length)
        loudness = 10.0 ** rng.uniform(-1.3, -0.2)
        whole = rng.normal(scale=10.0 ** rng.uniform(-3, -1.5), size=rate)
        whole[start : start + length] += sound
        row[:] = np.clip(32767 * loudness * whole, -32767, 32767)
    return X, y
