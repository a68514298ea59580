"""Task streams made of digits and other images: permuted, split, imbalanced (Borsos et al. 2024,
Sections 5.3, 5.4)."""

from dataclasses import dataclass

import numpy as np
from handful.data import load

from handful_papers.bico.image_data import CHANNELS, shape_of
from handful_papers.bico.networks import small_cnn
from handful_papers.bico.stacked import StackedMLP, TorchRuns

# What a figure calls the data sets.
TITLES = {"digits": "digits", "mnist": "MNIST", "cifar10": "CIFAR-10"}
PAIRS = (
    (0, 1),
    (2, 3),
    (4, 5),
    (6, 7),
    (8, 9),
)


@dataclass(frozen=True)
class Task:
    """One task: the rows to learn, those that test it, and training rows held back to choose beta
    without the test set.

    Attributes
    ----------
    X, X_test, X_val : float32 arrays, shape (n, d), normalised pixels
    y, y_test, y_val : int arrays, shape (n,), 0..9
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    X_val: np.ndarray
    y_val: np.ndarray


def images(name):
    """Normalised images with a test set: ``(X, y, X_test, y_test)``, rows of float32 pixels.

    "mnist" comes with its own; of "digits" (8 x 8, ships with scikit-learn) the last 450 rows test;
    of "cifar10" the last 10,000 training images, where not all official test images are at hand.

    Parameters
    ----------
    name : "mnist", "digits" or "cifar10"
    """
    data = load(name)
    X = data.X
    y = data.y
    X_test = data.X_test
    y_test = data.y_test
    if name == "digits":
        mean = data.X[:-450].mean()
        sd = data.X[:-450].std()
        X = ((X - mean) / sd).astype(np.float32)
        return X[:-450], y[:-450], X[-450:], y[-450:]
    mean, sd = (np.repeat(v, X.shape[1] // np.size(v)) for v in CHANNELS[name])
    if name == "cifar10" and len(X_test) < 10_000:
        X, X_test = np.split(X, [-10_000])
        y, y_test = np.split(y, [-10_000])
    return *_normalised(X, y, mean, sd), *_normalised(X_test, y_test, mean, sd)


def _normalised(X, y, mean, sd):
    normalised = (X / np.float32(255.0) - mean) / sd
    return normalised.astype(np.float32), np.asarray(y, dtype=np.int64)


def permuted_tasks(arrays, *, n_tasks=10, n_train=1000, n_val=1000):
    """Permuted images: the first `n_train` rows, and the whole test set, under a permutation of the
    pixels a task.

    The permutations are drawn one after another from seed 0, whatever the seed of a run, as in the
    authors' code.

    Raises
    ------
    ValueError
        if there are fewer than `n_train` + `n_val` rows to train on
    """
    X, y, X_test, y_test = arrays
    _check_counts(n_train, n_val, len(X), "the training rows")
    rng = np.random.RandomState(0)
    val = slice(n_train, n_train + n_val)
    tasks = []
    for _ in range(n_tasks):
        order = rng.permutation(X.shape[1])
        task = Task(
            X[:n_train, order],
            y[:n_train],
            X_test[:, order],
            y_test,
            X[val, order],
            y[val],
        )
        tasks.append(task)
    return tasks


def split_tasks(arrays, *, n_train=1000, n_val=1000):
    """Split images: a task for each pair of classes, `n_train` random rows each and `n_val` others,
    from seed 0.

    Parameters
    ----------
    arrays : what `images` gives
    n_train, n_val : int, or one number a task

    Raises
    ------
    ValueError
        if a pair of classes has fewer than `n_train` + `n_val` rows to train on
    """
    X, y, X_test, y_test = arrays
    rng = np.random.RandomState(0)
    tasks = []
    counts = np.broadcast_to(n_train, len(PAIRS)).tolist()
    further = np.broadcast_to(n_val, len(PAIRS)).tolist()
    for pair, n, more in zip(PAIRS, counts, further):
        rows = rng.permutation(np.flatnonzero(np.isin(y, pair)))
        _check_counts(n, more, len(rows), f"the training rows of classes {pair}")
        test = np.isin(y_test, pair)
        val = rows[n : n + more]
        task = Task(
            X[rows[:n]],
            y[rows[:n]],
            X_test[test],
            y_test[test],
            X[val],
            y[val],
        )
        tasks.append(task)
    return tasks


def _check_counts(n_train, n_val, n, what):
    if n_train + n_val > n:
        raise ValueError(f"n_train + n_val must be at most {n}, {what}, got {n_train} + {n_val}.")


def stream_of(tasks, *, batch_size=125, seed=0):
    """The tasks one after another, each shuffled with `seed`, in batches; a last one that is not
    full is dropped.

    Returns
    -------
    list of (X, y)
    """
    orders = [np.random.RandomState(seed).permutation(len(task.X)) for task in tasks]
    X = np.concatenate([task.X[order] for task, order in zip(tasks, orders)])
    y = np.concatenate([task.y[order] for task, order in zip(tasks, orders)])
    starts = range(0, len(X) - batch_size + 1, batch_size)
    return [(X[i : i + batch_size], y[i : i + batch_size]) for i in starts]


def video_stream(
    arrays,
    *,
    frames,
    n_scenes=8,
    shift=2,
    noise=0.1,
    seed=0,
):
    """An imbalanced stream of pictures as a camera gives them, in random order: Figure 2's, made of
    still images.

    Each scene is one image, each of its frames that image moved by a few pixels under fresh noise,
    so that frames of a scene are nearly alike, and how many there are differs from class to class.

    Parameters
    ----------
    arrays : what `images` gives
    frames : list of int, frames of each scene of class 0, 1, ...
    n_scenes : int, images of each class
    shift : int, pixels that a frame is moved at most, up or down and left or right; the border is
        continued
    noise : standard deviation of the pixels' noise, in theirs
    seed : int

    Returns
    -------
    X : float32 array, shape (n, d); y, scene : int arrays, shape (n,), the class and the number of
        the scene
    """
    images, labels = arrays[:2]
    rng = np.random.default_rng(seed)
    shape = shape_of(images.shape[1])
    X = []
    y = []
    scene = []
    for label, n in enumerate(frames):
        for row in rng.choice(np.flatnonzero(labels == label), n_scenes, replace=False):
            border = ((0, 0), (shift, shift), (shift, shift))
            wide = np.pad(images[row].reshape(shape), border, mode="edge")
            for down, right in rng.integers(2 * shift + 1, size=(n, 2)):
                frame = wide[:, down : down + shape[1], right : right + shape[2]]
                X.append(frame.ravel())
            y += [label] * n
            scene += [len(scene) and scene[-1] + 1] * n
    X = np.array(X, dtype=np.float32)
    X += noise * rng.standard_normal(X.shape, dtype=np.float32)
    order = rng.permutation(len(X))
    return X[order], np.array(y)[order], np.array(scene)[order]


def draw_image(ax, pixels, title):
    """A row of pixels as an image with a title."""
    image = pixels.reshape(shape_of(len(pixels))).transpose(1, 2, 0)
    low = image.min()
    high = image.max()
    ax.imshow((image - low) / (high - low), cmap="gray_r")
    ax.set_title(str(title), fontsize=6, pad=1.5)
    ax.set_axis_off()


def title_of(stream, about):
    """The name of a stream in a figure: the paper's, with the images in brackets where they are not
    the paper's."""
    return stream if about["data"] in CHANNELS else f"{stream} ({TITLES[about['data']]})"


def tasks_of(about):
    """The tasks of a stream.

    Parameters
    ----------
    about : dict of data (see `images`), kind ("permuted" or "split") and, if they are not the
        defaults, the options of `permuted_tasks` or `split_tasks`, among others
    """
    make = {"permuted": permuted_tasks, "split": split_tasks}[about["kind"]]
    known = ("n_tasks", "n_train", "n_val")
    options = {name: about[name] for name in known if name in about}
    return make(images(about["data"]), **options)


def learner_of(about, inputs, seed, **options):
    """The networks of Section 5.3: "mlp" (two hidden layers of 100, dropout .2) or "cnn"
    (`small_cnn`).

    Parameters
    ----------
    about : dict of network, among others
    inputs : int, pixels of a row: 784, 64 or 3,072 (three channels)
    seed, options : of `StackedMLP` and `TorchRuns`
    """
    if about["network"] == "mlp":
        return StackedMLP(
            (inputs, 100, 100, 10),
            seed=seed,
            **options,
        )
    return TorchRuns(
        lambda: small_cnn(shape_of(inputs)),
        seed=seed,
        **options,
    )
