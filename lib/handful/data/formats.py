"""Readers for the formats in which the data sets are published. Nothing is unpacked to disk or unpickled.

Each takes the path, the registry's `Entry` and the options of the original, and returns a tuple of arrays. What it
cannot read is one of `READ_ERRORS`.
"""

import gzip
import io
import re
import tarfile
import wave
import zipfile
import zlib
from pathlib import PurePosixPath

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import load_svmlight_file

READ_ERRORS = (OSError, EOFError, ValueError, LookupError, zlib.error, zipfile.BadZipFile, tarfile.TarError, wave.Error)


def read_npz(path, entry):
    """A ready-made file, as a dict of its arrays: CIFAR-10 decoded, speakers by name.

    CIFAR-10 is there as uint8 planes (R-G, G, B-G), each differenced along rows and along columns, all modulo 256,
    which compresses well; the result has 1,024 values each of red, green and blue a row.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    if "speaker_names" in arrays:
        arrays["speaker"] = arrays.pop("speaker_names")[arrays["speaker"]]
    for name in [name for name in arrays if name.startswith("D_")]:
        planes = np.cumsum(np.cumsum(arrays.pop(name), axis=3, dtype=np.uint8), axis=2, dtype=np.uint8)
        planes[[0, 2]] += planes[1]
        arrays["X_" + name[2:]] = planes.transpose(1, 0, 2, 3).reshape(planes.shape[1], -1)
    return arrays


def read_libsvm(path, entry):
    """LIBSVM text ("+1 3:0.5 7:1", features numbered from 1): X dense, and y."""
    X, y = load_svmlight_file(str(path), n_features=entry.features, zero_based=False)
    return X.astype(entry.dtype).toarray(), y.astype(np.int64)


def read_table(path, entry, *, delimiter=None, skip_rows=0, drop=(), label=None, member=None, least=(), greatest=()):
    """Columns of numbers as text, compressed or as `member` of a zip: X, and y if column `label` holds it.

    Columns in `drop` are neither; a negative one counts from the end. The first columns of X, scaled to 0..1, become
    the integers from `least` to `greatest` again.
    """
    if member:
        with zipfile.ZipFile(path) as archive:
            path = io.BytesIO(archive.read(member))
    table = np.loadtxt(path, delimiter=delimiter, skiprows=skip_rows, ndmin=2)
    X = np.delete(table, [*drop] if label is None else [*drop, label], axis=1)
    if least:
        scaled = X[:, : len(least)]
        scaled *= np.subtract(greatest, least)
        scaled += least
        np.rint(scaled, out=scaled)
    return (X,) if label is None else (X, table[:, label].astype(np.int64))


def read_matlab(path, entry):
    """A MATLAB file of a sparse X and of signs y: X dense, and y as 0 and 1."""
    file = loadmat(path)
    return file["X"].toarray(), (file["y"][:, 0] > 0).astype(np.int64)


def read_idx(path, entry):
    """The IDX format of MNIST (a magic number, the sizes, then unsigned bytes), gzipped: one array."""
    with gzip.open(path) as file:
        content = file.read()
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])
    return (values.reshape(-1, entry.features) if content[3] > 1 else values,)


def read_cifar_binary(path, entry):
    """CIFAR-10's `cifar-10-binary.tar.gz`: X_train, y_train, X_test, y_test, cut at `test_rows`."""
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    found = {name: content() for name, content in _members(path) if name.endswith(".bin")}
    batches = [np.frombuffer(found[f"cifar-10-batches-bin/{name}"], np.uint8).reshape(-1, 3073) for name in names]
    train, test = np.concatenate(batches[:-1]), batches[-1][: entry.test_rows]
    return train[:, 1:], train[:, 0], test[:, 1:], test[:, 0]


def read_spoken_digits(path, entry):
    """Free Spoken Digits, a zip of `recordings/{digit}_{speaker}_{index}.wav` (8 kHz, mono, 16 bit).

    Returns X (cut or padded with zeros to the entry's length), y, speaker, index and n_samples (before the cut),
    sorted by digit, speaker and index.
    """
    with zipfile.ZipFile(path) as archive:
        found = {re.search(r"recordings/(\d)_(\w+)_(\d+)\.wav$", name): name for name in archive.namelist()}
        keys = sorted((int(m[1]), m[2], int(m[3]), name) for m, name in found.items() if m)
        sounds = [_wave(archive.read(name)) for *_, name in keys]
    digit, speaker, index, _ = zip(*keys)
    lengths = np.array([len(sound) for sound in sounds])
    return _padded(sounds, entry.features), np.array(digit), np.array(speaker), np.array(index), lengths


def read_speech_commands(path, entry, *, noise=False):
    """Speech Commands (`speech_commands_v0.02.tar.gz`): `{word}/{speaker}_nohash_{k}.wav` and two lists.

    Returns X_train, y_train, X_test, y_test (of `testing_list.txt`) and validation (1 for the training rows of
    `validation_list.txt`), sorted by word and name, cut or padded with zeros to the entry's length; y numbers the words
    in alphabetical order. With `noise`, X and source: `_background_noise_/*.wav`, cut into segments of that length, and
    the number of the file that each comes from.
    """
    sounds, listed = {}, {}
    for name, content in _members(path):
        if name in ("validation_list.txt", "testing_list.txt"):
            listed[name[:4]] = set(content().decode().split())
        elif name.endswith(".wav") and name.startswith("_") == noise:
            sounds[name] = _wave(content())
    names = sorted(sounds)
    if noise:
        parts = [s[: len(s) // entry.features * entry.features] for s in map(sounds.get, names)]
        parts = [sound.reshape(-1, entry.features) for sound in parts]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    X = _padded([sounds.pop(name) for name in names], entry.features)
    y = np.unique([name.split("/")[0] for name in names], return_inverse=True)[1]
    validation, test = (np.isin(names, list(listed[key])) for key in ("vali", "test"))
    return X[~test], y[~test], X[test], y[test], validation[~test].astype(np.int64)


def _members(path):
    # (name, function that gives the bytes) for each file of a tar, in its order; links and folders are passed over.
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isreg():
                yield str(PurePosixPath(member.name)), lambda member=member: archive.extractfile(member).read()


def _wave(content):
    with wave.open(io.BytesIO(content)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def _padded(sounds, length):
    X = np.zeros((len(sounds), length), np.int16)
    for row, sound in zip(X, sounds):
        row[: len(sound)] = sound[:length]
    return X


FORMATS = {
    "npz": read_npz,
    "libsvm": read_libsvm,
    "idx": read_idx,
    "table": read_table,
    "matlab": read_matlab,
    "cifar-binary": read_cifar_binary,
    "spoken-digits": read_spoken_digits,
    "speech-commands": read_speech_commands,
}
