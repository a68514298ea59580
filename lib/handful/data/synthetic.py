"""Generated data: small, seeded, and named for what they are."""

import numpy as np

from handful.checks import check_generator, check_integer, check_number

_LARGEST = 1e100  # of lengths: distances can still be squared and added up
_MOST = 2**31  # of whatever is counted


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
    rng : numpy.random.Generator, all the randomness there is

    Returns
    -------
    X : array, shape (n, 2); the two middle points are the last rows
    y : int array, shape (n,), -1 or +1
    """
    check_integer("n", n, most=_MOST)
    if n < 4 or n % 2:
        raise ValueError(f"n must be even and at least 4 (two clusters and a pair), got {n}.")
    for name, value in {"separation": separation, "spread": spread, "gap": gap}.items():
        check_number(name, value, least=0, most=_LARGEST)
    check_generator(rng)
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
    imbalance : exponent of a Pareto law for the component weights, at least 0.1; the smaller, the less balanced (1.0
        has a few large and many small ones); None for equal weights
    tail : degrees of freedom of Student's t noise, at least 0.1 (3 has heavy tails); None for Gaussian noise
    dtype : of X, float32 or float64
    rng : numpy.random.Generator, all the randomness there is

    Returns
    -------
    X : array, shape (n, n_features)
    component : int array, shape (n,), 0..n_components-1
    """
    for name, value in {"n": n, "n_features": n_features, "n_components": n_components}.items():
        check_integer(name, value, most=_MOST)
    check_number("overlap", overlap, least=0, most=_LARGEST)
    if imbalance is not None:
        check_number("imbalance", imbalance, least=0.1, most=_LARGEST, why="smaller exponents overflow")
    if tail is not None:
        check_number("tail", tail, least=0.1, most=_LARGEST, why="with fewer degrees of freedom the noise overflows")
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got dtype={dtype!r}.")
    check_generator(rng)
    centers = rng.normal(size=(n_components, n_features))
    weights = np.ones(n_components) if imbalance is None else 1 + rng.pareto(imbalance, size=n_components)
    component = rng.choice(n_components, size=n, p=weights / weights.sum())
    X = rng.normal(scale=overlap, size=(n, n_features))
    if tail is not None:
        X /= np.sqrt(rng.chisquare(tail, size=(n, 1)) / tail)  # one draw a point: a multivariate t
    X += centers[component]
    with np.errstate(over="ignore"):
        X = X.astype(dtype, copy=False)
    if not np.isfinite(X).all():
        raise ValueError(f"{np.dtype(dtype)} cannot hold the points of overlap={overlap}, tail={tail}.")
    return X, component


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
    if image.ndim not in (2, 3):
        raise ValueError(f"image must have shape (height, width) or (height, width, channels), got {image.shape}.")
    image = image[..., np.newaxis] if image.ndim == 2 else image
    check_integer("size", size)
    check_integer("stride", stride)
    if size > min(image.shape[:2]):
        height, width = image.shape[:2]
        raise ValueError(
            f"size must be in 1..{min(height, width)} for an image of {height} x {width}, got size={size}."
        )
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))[::stride, ::stride]
    return np.moveaxis(windows, 2, -1).reshape(-1, size * size * image.shape[2])


def spoken_tones(n, *, n_classes=10, sampling_rate=8000, rng):
    """Recordings of one second that behave like spoken words: tones whose colour glides, in random voices.

    Every class is a sequence of three vowel-like colours with two resonances each, the same in every call. Every
    recording has its own pitch, speed, start, loudness and hiss, and one of six voices with resonances of its own. This
    is not speech: it stands in where nothing may be downloaded.

    Parameters
    ----------
    n : int, recordings; the numbers of recordings of two classes differ by at most 1
    n_classes : int, 2..20
    sampling_rate : int, samples a second, 8,000..192,000
    rng : numpy.random.Generator, all the randomness there is

    Returns
    -------
    X : int16 array, shape (n, sampling_rate)
    y : int array, shape (n,), 0..n_classes-1
    """
    for name, value in {"n": n, "n_classes": n_classes, "sampling_rate": sampling_rate}.items():
        check_integer(name, value, most=_MOST)
    if not 2 <= n_classes <= 20 or n < n_classes or not 8000 <= sampling_rate <= 192_000:
        raise ValueError(
            "n_classes must be in 2..20, n at least n_classes, sampling_rate in 8,000..192,000; got "
            f"n_classes={n_classes}, n={n}, sampling_rate={sampling_rate}."
        )
    check_generator(rng)
    words = np.random.default_rng(20).uniform([300, 900], [900, 2600], size=(20, 3, 2))  # Hz
    y = rng.permutation(np.arange(n) % n_classes)
    X = np.zeros((n, sampling_rate), dtype=np.int16)
    for row, word in zip(X, y):
        voice = rng.integers(6)
        pitch = (95, 115, 140, 170, 200, 230)[voice] * rng.uniform(0.93, 1.07)
        resonances = words[word] * (0.9 + 0.04 * voice) * rng.uniform(0.94, 1.06, size=(3, 2))
        length = int(sampling_rate * rng.uniform(0.3, 0.65))
        at = np.linspace(0.0, 2.0, length)
        phase = 2 * np.pi * np.cumsum(pitch * (1.1 - 0.1 * at)) / sampling_rate
        glide = [np.interp(at, [0, 1, 2], resonances[:, j])[:, None] for j in range(2)]
        harmonics = np.arange(1, int(3600 / pitch))
        colour = sum(np.exp(-0.5 * ((harmonics * pitch - f) / 120.0) ** 2) for f in glide) + 0.01
        sound = np.sum(colour * np.sin(phase[:, None] * harmonics), axis=1)
        sound *= np.sin(np.pi * np.linspace(0, 1, length)) ** 0.5
        sound /= np.abs(sound).max()
        start = rng.integers(0, sampling_rate - length)
        loudness = 10.0 ** rng.uniform(-1.3, -0.2)
        whole = rng.normal(scale=10.0 ** rng.uniform(-3, -1.5), size=sampling_rate)
        whole[start : start + length] += sound
        row[:] = np.clip(32767 * loudness * whole, -32767, 32767)
    return X, y
