"""Readers for the formats in which the data sets are published. Nothing is unpacked to disk or unpickled.

Every reader takes the path, the registry's `Entry` and the options of its `Raw`, and returns a tuple of
arrays. What it cannot read is one of `READ_ERRORS`.
"""

import bz2
import gzip
import io
import lzma
import re
import tarfile
import wave
import zipfile
import zlib
from pathlib import PurePosixPath

import numpy as np
from sklearn.datasets import load_svmlight_file

READ_ERRORS = (
    *(OSError, EOFError, ValueError, KeyError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, wave.Error),
)
_OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}  # by the first two bytes
_IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CIFAR_BATCHES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
_CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes


def _open(path):
    """The decompressed bytes of `path`, whatever its suffix: some servers undo the compression on the way."""
    with open(path, "rb") as file:
        magic = file.read(2)
    return _OPENERS.get(magic, open)(path, "rb")


def read_libsvm(path, entry):
    """LIBSVM text ("+1 3:0.5 7:1", features numbered from 1), compressed or not: X dense, and y."""
    with _open(path) as file:
        X, y = load_svmlight_file(file, n_features=entry.features, zero_based=False)
    return X.astype(entry.dtype).toarray(), y.astype(np.int64)


def read_idx(path, entry):
    """The IDX format of MNIST (a magic number, the sizes, then the values): one array."""
    with _open(path) as file:
        magic = file.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_DTYPES or magic[3] == 0:
            raise ValueError(f"it starts with {magic!r}, which is no IDX header.")
        sizes = file.read(4 * magic[3])
        if len(sizes) < 4 * magic[3]:
            raise ValueError("the IDX header is cut short.")
        shape = tuple(int(s) for s in np.frombuffer(sizes, ">u4"))
        values = np.frombuffer(file.read(), _IDX_DTYPES[magic[2]])
    if values.size != np.prod(shape, dtype=object):
        raise ValueError(f"its header promises shape {shape}, but it holds {values.size} values.")
    return (values.reshape(shape[0], -1) if len(shape) > 1 else values,)


def read_table(path, entry, *, delimiter=None, skip_rows=0, drop=(), label=None, member=None):
    """Columns of numbers as text, compressed or as `member` of a zip: X, and y if column `label` holds it.

    `drop` lists columns that are neither; a negative column counts from the end.
    """
    if member is None:
        with _open(path) as file:
            columns = np.loadtxt(file, delimiter=delimiter, skiprows=skip_rows, ndmin=2)
    else:
        with zipfile.ZipFile(path) as archive:
            columns = np.loadtxt(io.BytesIO(archive.read(member)), delimiter=delimiter, skiprows=skip_rows, ndmin=2)
    if label is None:
        return (np.delete(columns, drop, axis=1),)
    return np.delete(columns, [*drop, label], axis=1), columns[:, label].astype(np.int64)


def read_cifar_binary(path, entry):
    """CIFAR-10's `cifar-10-binary.tar.gz`: X_train, y_train, X_test, y_test, cut at `test_rows`."""
    batches = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = _inside(member.name).name
            if member.isreg() and name in _CIFAR_BATCHES:
                batches[name] = _cifar_batch(name, archive.extractfile(member).read())
    missing = [name for name in _CIFAR_BATCHES if name not in batches]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}.")
    train = np.concatenate([batches[name] for name in _CIFAR_BATCHES[:-1]])
    test = batches[_CIFAR_BATCHES[-1]][: entry.test_rows]
    return train[:, 1:], train[:, 0], test[:, 1:], test[:, 0]


def _cifar_batch(name, content):
    if not content or len(content) % _CIFAR_RECORD:
        raise ValueError(f"{name} has {len(content)} bytes, which is no multiple of {_CIFAR_RECORD}.")
    return np.frombuffer(content, np.uint8).reshape(-1, _CIFAR_RECORD)


def _inside(name):
    """The member's path; ValueError where it would lie outside the archive's own folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"its member {name!r} lies outside the archive's folder: refused.")
    return path


def read_spoken_digits(path, entry):
    """Free Spoken Digits, a zip of `recordings/{digit}_{speaker}_{index}.wav` (8 kHz, mono, 16 bit).

    Returns X (cut or padded with zeros to the entry's length), y, speaker, index and n_samples (before the
    cut), sorted by digit, speaker and index.
    """
    recordings = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            found = re.search(r"recordings/(\d)_(\w+)_(\d+)\.wav$", str(_inside(name)))
            if found:
                digit, speaker, index = found.groups()
                recordings.append((int(digit), speaker, int(index), _wave(archive.read(name), name)))
    if not recordings:
        raise ValueError("it holds no recordings/*.wav.")
    digit, speaker, index, sound = zip(*sorted(recordings, key=lambda r: r[:3]))
    X = np.zeros((len(sound), entry.features), np.int16)
    for row, samples in zip(X, sound):
        row[: len(samples)] = samples[: entry.features]
    return X, np.array(digit), np.array(speaker), np.array(index), np.array([len(s) for s in sound])


def read_speech_commands(path, entry, *, noise=False):
    """Speech Commands (`speech_commands_v0.02.tar.gz`): `{word}/{speaker}_nohash_{k}.wav` and two lists.

    Returns X_train, y_train, X_test, y_test (of `testing_list.txt`) and validation (1 for the training rows of
    `validation_list.txt`), sorted by word and name, cut or padded with zeros to the entry's length; y numbers the words
    in alphabetical order. With `noise`, X and source: `_background_noise_/*.wav`, cut into segments of that length, and
    the number of the file that each comes from.
    """
    sounds, lists = {}, {"validation_list.txt": "", "testing_list.txt": ""}
    with tarfile.open(path) as archive:
        for member in archive:
            place = _inside(member.name)
            name = "/".join(place.parts)
            if not member.isreg():
                continue
            if place.name in lists and not noise:
                lists[place.name] = archive.extractfile(member).read().decode("utf-8")
            elif place.suffix == ".wav" and len(place.parts) == 2 and name.startswith("_") == noise:
                sounds[name] = _wave(archive.extractfile(member).read(), name, rate=16000)
    if not sounds:
        raise ValueError("it holds no recordings, {word}/*.wav.")
    names = sorted(sounds)
    if noise:
        cut = [sounds[name][: len(sounds[name]) // entry.features * entry.features] for name in names]
        parts = [sound.reshape(-1, entry.features) for sound in cut]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    listed = {name: set(text.split()) for name, text in lists.items()}
    words = sorted({name.split("/")[0] for name in names})
    X = np.zeros((len(names), entry.features), np.int16)
    for row, name in zip(X, names):
        sound = sounds.pop(name)[: entry.features]
        row[: len(sound)] = sound
    y = np.array([words.index(name.split("/")[0]) for name in names])
    validation, test = (np.array([name in listed[key] for name in names]) for key in lists)
    return X[~test], y[~test], X[test], y[test], validation[~test].astype(np.int64)


def _wave(content, name, *, rate=8000):
    with wave.open(io.BytesIO(content)) as file:
        got = file.getframerate(), file.getnchannels(), 8 * file.getsampwidth()
        if got != (rate, 1, 16):
            raise ValueError(f"{name} must be {rate} Hz, 1 channel, 16 bit, got {got}.")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


FORMATS = {
    "libsvm": read_libsvm,
    "idx": read_idx,
    "table": read_table,
    "cifar-binary": read_cifar_binary,
    "spoken-digits": read_spoken_digits,
    "speech-commands": read_speech_commands,
}


def decode(arrays):
    """A ready-made file's arrays in the form the readers give: CIFAR-10 decoded, speakers by name.

    The ready-made CIFAR-10 holds uint8 planes (R-G, G, B-G), each differenced along rows and along columns,
    all modulo 256, which compresses well; the result has 1,024 values each of red, green and blue a row.
    """
    plain = {}
    for name, values in arrays.items():
        if name.startswith("D_"):
            plain["X_" + name[2:]] = _images(values)
        elif name == "speaker" and "speaker_names" in arrays:
            plain[name] = arrays["speaker_names"][values]
        elif name != "speaker_names":
            plain[name] = values
    return plain


def _images(coded):
    planes = np.cumsum(coded, axis=3, dtype=np.uint8)
    planes = np.cumsum(planes, axis=2, dtype=np.uint8)
    planes[0] += planes[1]
    planes[2] += planes[1]
    return planes.transpose(1, 0, 2, 3).reshape(coded.shape[1], -1)
