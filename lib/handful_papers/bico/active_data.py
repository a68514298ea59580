"""Recordings for active learning (Section 5.5): pool and test set as spectrograms, with presampled
augmentations."""

import hashlib
import inspect
import json
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
from handful.data import load
from handful.data.files import MissingDataError, data_folder
from handful.proxies import CNTK, RBF, Nystrom
from scipy.io import wavfile

from handful_papers.bico import audio
from handful_papers.bico.tones import spoken_tones

# Spoken Digits numbered below it are the test set, as is customary; 2,700 remain, as in the paper.
TEST_INDEX = 5
NOISE_SEGMENTS = 100


@dataclass(frozen=True)
class Recordings:
    """A pool of recordings without labels (but for the oracle's), and a test set.

    Attributes
    ----------
    X, X_test : float32, shape (n, 32, 32), spectrograms, standardised by the pool's mean and
        deviation
    copies : float16, shape (n, k, 32, 32), augmented variants of each recording of the pool
    y, y_test : int labels 0..classes-1
    sound : shape (n, samples), int16 or float32, what one hears
    rate : of `sound`, samples a second
    words : name of each class
    name, sha256 : of the data set
    noise : "generated" or "recorded", what was mixed under the augmented variants
    """

    name: str
    sha256: str
    X: np.ndarray = field(repr=False)
    copies: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    X_test: np.ndarray = field(repr=False)
    y_test: np.ndarray = field(repr=False)
    sound: np.ndarray = field(repr=False)
    rate: int
    words: tuple
    noise: str


def cache_folder():
    """Where spectrograms and kernel rows are kept: in the data folder, under a hash of the modules
    that make them.

    Changed code never finds what earlier code left; folders of earlier code may be deleted.
    """
    modules = {__name__, audio.__name__, *(made.__module__ for made in (CNTK, RBF, Nystrom))}
    source = "".join(inspect.getsource(sys.modules[name]) for name in sorted(modules))
    digest = hashlib.sha256(source.encode()).hexdigest()
    return data_folder() / "cache" / "active" / digest[:16]


def recordings(dataset, n_copies, generated):
    """`prepare` for the tasks of a sweep: made once in each process, and kept on disk unless the
    set is generated.

    Parameters
    ----------
    dataset, n_copies : as `name` and `n_copies` of `prepare`
    generated : dict, options of a generated data set; {} for one that is read
    """
    arguments = dict(name=dataset, n_copies=n_copies, cache=not generated)
    return _made(prepare, json.dumps(arguments | generated))


def features(pool, proxy):
    """The `Proxy` of a pool, made once in each process.

    Parameters
    ----------
    pool : dict, arguments of `recordings`
    proxy : dict, options of `Proxy`
    """
    return _made(_features, json.dumps(dict(pool=pool, proxy=proxy)))


def _features(pool, proxy):
    return Proxy(recordings(**pool), cache=not pool["generated"], **proxy)


@lru_cache(maxsize=4)
def _made(make, arguments):
    return make(**json.loads(arguments))


def prepare(name, *, n_copies, cache=True, **options):
    """A data set's pool and test set as spectrograms, with `n_copies` augmentations of each pool
    recording.

    The augmentations are drawn once and shared by all seeds and methods: at 32 x 32 they cost more
    to make than to train on.

    Parameters
    ----------
    name : "fsdd" (2,700 + 300 recordings), "speech_commands" or "spoken_tones" (the last two
        sevenths test)
    n_copies : int
    cache : bool, whether to keep spectrograms on disk
    options : of a generated set

    Returns
    -------
    Recordings
    """
    data = _tones(**options) if name == "spoken_tones" else load(name, **options)
    rate = 16000 if name == "speech_commands" else 8000
    X, y, X_test, y_test = _pool_and_test(data)
    noise, of_noise = _noise(name)
    memory = joblib.Memory(cache_folder() if cache else None, verbose=0)
    spectrograms = memory.cache(_spectrograms)
    arrays = _standardised(spectrograms(X, X_test, rate, noise, n_copies))
    return Recordings(
        name=data.name,
        sha256=data.sha256,
        **arrays,
        y=y,
        y_test=y_test,
        sound=X,
        rate=rate,
        words=tuple(str(word) for word in np.unique(data.y)),
        noise=of_noise,
    )


def _pool_and_test(data):
    """Sounds and labels of the pool and of the test set: X, y, X_test, y_test."""
    if data.X_test is None:
        n = len(data.X)
        if "index" in data.extra:
            test = data.extra["index"] < TEST_INDEX
        else:
            test = np.arange(n) >= n * 5 // 7
        return data.X[~test], data.y[~test], data.X[test], data.y[test]
    if "validation" not in data.extra:
        return data.X, data.y, data.X_test, data.y_test
    train = data.extra["validation"] == 0
    return data.X[train], data.y[train], data.X_test, data.y_test


def _tones(*, n=700, random_state=0, **options):
    X, y = spoken_tones(n, **options, rng=np.random.default_rng(random_state))
    return SimpleNamespace(
        name="spoken_tones",
        sha256=None,
        X=X,
        y=y,
        X_test=None,
        extra={},
    )


def from_folder(folder, words, *, n_copies):
    """The recordings of a folder as a pool for a person to label; nothing is known of what they
    say.

    Parameters
    ----------
    folder : path; all .wav files in it and below it, of any rate and length; several channels are
        averaged
    words : list of str, the labels that may be given
    n_copies : int, as in `prepare`

    Returns
    -------
    data : Recordings, with labels -1 and an empty test set; the sound is what the network hears, 16
        kHz and one second
    names : list of str, the files, relative to `folder`

    Raises
    ------
    ValueError
        for a folder without .wav files, and a file that cannot be read or is silent; names the
        file.
    """
    folder = Path(folder)
    waves = (path for path in folder.rglob("*") if path.suffix.lower() == ".wav")
    files = sorted(path for path in waves if path.is_file())
    if not files:
        raise ValueError(f"{folder} has no .wav files: give the folder that holds your recordings.")
    sound = np.stack([_read_wav(file) for file in files])
    rate = audio.SAMPLING_RATE
    arrays = _spectrograms(
        sound,
        sound[:0],
        rate,
        _generated_noise(),
        n_copies,
    )
    data = Recordings(
        name=folder.name,
        sha256=joblib.hash(sound),
        **_standardised(arrays),
        y=np.full(len(sound), -1),
        y_test=np.zeros(0, dtype=int),
        sound=sound,
        rate=rate,
        words=tuple(words),
        noise="generated",
    )
    return data, [str(f.relative_to(folder)) for f in files]


def _read_wav(file):
    # One second at 16 kHz, the mean of its channels.
    try:
        rate, sound = wavfile.read(file)
        channels = [audio.full_scale(channel, "a channel") for channel in np.atleast_2d(sound.T)]
        return audio.prepare([np.mean(channels, axis=0)], rate)[0]
    except (ValueError, EOFError) as error:
        raise ValueError(f"{file} cannot be taken ({error}): convert or remove it.") from error


def _standardised(arrays):
    mean = float(np.mean(arrays["X"], dtype=np.float64))
    sd = float(np.std(arrays["X"], dtype=np.float64))
    copies = (arrays["copies"] - np.float32(mean)) / np.float32(sd)
    return {
        "X": ((arrays["X"] - mean) / sd).astype(np.float32),
        "copies": copies.astype(np.float16),
        "X_test": ((arrays["X_test"] - mean) / sd).astype(np.float32),
    }


def _noise(name):
    # Recorded noise where Speech Commands is at hand (a name of its own, so nothing is downloaded
    # for it).
    if name == "speech_commands":
        try:
            return load("speech_commands_noise").X.astype(np.float32) / 32768, "recorded"
        except MissingDataError:
            pass
    return _generated_noise(), "generated"


def _generated_noise():
    rng = np.random.default_rng(0)
    return audio.background_noise(NOISE_SEGMENTS, audio.SAMPLING_RATE, rng=rng)


def _spectrograms(X, X_test, rate, noise, n_copies):
    rng = np.random.default_rng(1)
    sound = audio.prepare(X, rate)
    test = audio.prepare(X_test, rate)
    copies = np.empty((len(sound), n_copies, 32, 32), dtype=np.float16)
    for k in range(n_copies):
        for at in range(0, len(sound), 500):
            block = slice(at, at + 500)
            varied = audio.augment(sound[block], noise=noise, rng=rng)
            copies[block, k] = audio.mel_spectrogram(varied)
    return {
        "X": audio.mel_spectrogram(sound),
        "X_test": audio.mel_spectrogram(test),
        "copies": copies,
    }


class Proxy:
    """Features of a pool under the Nystrom map of a kernel, and of its augmented variants where
    they are asked for.

    Parameters
    ----------
    data : Recordings
    kernel : "cntk", that of six layers and flattening (3 x 3 convolutions), or "rbf"
    n_landmarks : int; the paper: 2048
    n_variants : int, presampled augmentations of a labelled point, each a row of the kernel; the
        paper: 100
    cache : bool, whether to keep kernel rows on disk

    Attributes
    ----------
    Z : float32, shape (n, features), of the pool's recordings as they are
    """

    def __init__(
        self,
        data,
        *,
        kernel="cntk",
        n_landmarks=2048,
        n_variants=10,
        cache=True,
    ):
        if n_variants > data.copies.shape[1]:
            raise ValueError(
                f"n_variants must be at most the {data.copies.shape[1]} presampled, got "
                f"{n_variants}."
            )
        pixels = data.X.shape[1] * data.X.shape[2]
        shape = (1, *data.X.shape[1:])
        kernels = {
            "cntk": CNTK.arora(6, head="flatten", shape=shape),
            "rbf": RBF(0.3 / pixels),
        }
        if kernel not in kernels:
            raise ValueError(f"kernel must be 'cntk' or 'rbf', got {kernel!r}.")
        folder = str(Path(cache_folder()) / "kernel") if cache else None
        rows = data.X.reshape(len(data.X), -1)
        self._map = Nystrom(
            kernels[kernel],
            n_landmarks=n_landmarks,
            cache=folder,
            random_state=0,
        )
        self._map.fit(rows)
        self.Z = self._map.transform(rows).astype(np.float32, copy=False)
        self._copies = data.copies
        self._n_variants = n_variants
        self._known = {}

    def variants(self, index):
        """Features of the presampled augmentations of one recording, shape (n_variants,
        features)."""
        index = int(index)
        if index not in self._known:
            copies = self._copies[index, : self._n_variants]
            rows = copies.reshape(self._n_variants, -1).astype(np.float32)
            self._known[index] = self._map.transform(rows).astype(np.float32, copy=False)
        return self._known[index]
