"""Readers of data sets that only the papers' notebooks use; the registry names them, see
`handful.data.formats`."""

import io
import re
import wave
import zipfile

import numpy as np
from handful.data.formats import members, read_table
from scipy.io import loadmat


def read_scaled_table(path, entry, *, least, greatest, **options):
    """As `read_table`; the first columns of X, scaled to 0..1, become the integers from `least` to
    `greatest` again."""
    X, *y = read_table(path, entry, **options)
    scaled = X[:, : len(least)]
    scaled *= np.subtract(greatest, least)
    scaled += least
    np.rint(scaled, out=scaled)
    return X, *y


def read_parquet(path, entry, *, member, label, drop=()):
    """A parquet file that is a `member` of a zip, such as a wheel: X, its columns of numbers but
    `label` and those in `drop`, and y."""
    from pyarrow import parquet

    with zipfile.ZipFile(path) as archive:
        table = parquet.read_table(io.BytesIO(archive.read(member)))
    columns = [name for name in table.schema.names if name not in (label, *drop)]
    X = np.column_stack([table[name].to_numpy() for name in columns])
    # A negative zero becomes zero.
    return X + 0.0, table[label].to_numpy()


def read_matlab(path, entry):
    """A MATLAB file of a sparse X and of signs y: X dense, and y as 0 and 1."""
    file = loadmat(path)
    return file["X"].toarray(), (file["y"][:, 0] > 0).astype(np.int64)


def read_house_numbers(path, entry):
    """Images of SVHN, a MATLAB file of pixels (height, width, channel, image) and of labels from 1
    to 10: a row of 3,072 values an image, as in CIFAR-10, and the digit, 0 where the label is 10.
    """
    file = loadmat(path)
    pixels = file["X"].transpose(3, 2, 0, 1)
    return pixels.reshape(len(pixels), -1), file["y"][:, 0].astype(np.int64) % 10


def read_spoken_digits(path, entry):
    """Free Spoken Digits, a zip of `recordings/{digit}_{speaker}_{index}.wav` (8 kHz, mono, 16
    bit).

    Returns X (cut or padded with zeros to the entry's length), y, speaker, index and n_samples
    (before the cut), sorted by digit, speaker and index.
    """
    with zipfile.ZipFile(path) as archive:
        found = {
            re.search(r"recordings/(\d)_(\w+)_(\d+)\.wav$", name): name
            for name in archive.namelist()
        }
        keys = sorted((int(m[1]), m[2], int(m[3]), name) for m, name in found.items() if m)
        sounds = [_wave(archive.read(name)) for *_, name in keys]
    digit, speaker, index, _ = zip(*keys)
    lengths = np.array([len(sound) for sound in sounds])
    return (
        _padded(sounds, entry.features),
        np.array(digit),
        np.array(speaker),
        np.array(index),
        lengths,
    )


def read_speech_commands(path, entry, *, noise=False):
    """Speech Commands (`speech_commands_v0.02.tar.gz`): `{word}/{speaker}_nohash_{k}.wav` and two
    lists.

    Returns X_train, y_train, X_test, y_test (of `testing_list.txt`) and validation (1 for the
    training rows of `validation_list.txt`), sorted by word and name, cut or padded with zeros to
    the entry's length; y numbers the words in alphabetical order. With `noise`, X and source:
    `_background_noise_/*.wav`, cut into segments of that length, and the number of the file that
    each comes from.
    """
    sounds = {}
    listed = {}
    for name, content in members(path):
        if name in ("validation_list.txt", "testing_list.txt"):
            listed[name[:4]] = set(content().decode().split())
        elif name.endswith(".wav") and name.startswith("_") == noise:
            sounds[name] = _wave(content())
    names = sorted(sounds)
    if noise:
        parts = [s[: len(s) // entry.features * entry.features] for s in map(sounds.get, names)]
        parts = [sound.reshape(-1, entry.features) for sound in parts]
        return np.concatenate(parts), np.repeat(
            np.arange(len(parts)), [len(part) for part in parts]
        )
    X = _padded([sounds.pop(name) for name in names], entry.features)
    y = np.unique([name.split("/")[0] for name in names], return_inverse=True)[1]
    validation, test = (np.isin(names, list(listed[key])) for key in ("vali", "test"))
    return X[~test], y[~test], X[test], y[test], validation[~test].astype(np.int64)


def _wave(content):
    try:
        with wave.open(io.BytesIO(content)) as file:
            return np.frombuffer(file.readframes(file.getnframes()), "<i2")
    except wave.Error as error:
        raise ValueError(str(error)) from error


def _padded(sounds, length):
    X = np.zeros((len(sounds), length), np.int16)
    for row, sound in zip(X, sounds):
        row[: len(sound)] = sound[:length]
    return X
