"""Readers for the formats in which the data sets are published. Nothing is unpacked to disk or unpickled.

Every reader takes the path, the registry's `Entry` and the options of its `Raw`, and returns a tuple of
arrays. It reads no more than the entry's `max_bytes`. What it cannot read is one of `READ_ERRORS`.
"""

import io
import math
import re
import tarfile
import warnings
import wave
import zipfile
import zlib

import numpy as np
from sklearn.datasets import load_svmlight_file

from handful.data.bounded import open_text, tar_members, zip_members

READ_ERRORS = (
    *(OSError, EOFError, ValueError, LookupError, OverflowError, MemoryError),
    *(zlib.error, zipfile.BadZipFile, tarfile.TarError, wave.Error),
    RuntimeError,  # a zip that is encrypted, or packed by a method that zipfile does not know
)
_IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CIFAR_BATCHES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
_CIFAR_RECORD = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes


def misfits(values, dtype):
    """Where numbers are not finite or would change by more than rounding in `dtype`: a bool array of their shape."""
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(dtype)
    return ~np.isfinite(cast) if cast.dtype.kind == "f" else cast != values


def strangers(labels, entry):
    """Where labels are none of the entry's classes, or no whole numbers if it lists no classes: a bool array."""
    return ~np.isin(labels, entry.classes) if entry.classes else misfits(labels, np.int64)


def labels_of(entry):
    """What `strangers` allows, in words."""
    return f"the labels are {', '.join(map(str, entry.classes))}" if entry.classes else "labels are whole numbers"


def read_libsvm(path, entry):
    """LIBSVM text ("+1 3:0.5 7:1", features numbered from 1), compressed or not: X dense, and y."""

    def text():
        return open_text(path, entry.max_bytes)

    with text() as file:
        X, y = load_svmlight_file(file, n_features=entry.features, zero_based=False)
    rows = np.repeat(np.arange(len(y)), np.diff(X.indptr))
    _refuse_values(misfits(X.data, entry.dtype), X.data, rows, text, entry)
    _refuse_labels(y, text, entry)
    return X.astype(entry.dtype).toarray(), y.astype(np.int64)


def read_table(path, entry, *, delimiter=None, skip_rows=0, drop=(), label=None, member=None):
    """Columns of numbers as text, compressed or as `member` of a zip: X, and y if column `label` holds it.

    `drop` lists columns that are neither; a negative column counts from the end.
    """
    if member is not None:
        found = [content for _, content in zip_members(path, entry.max_bytes, member.__eq__)]
        if len(found) != 1:
            raise ValueError(f"it must hold the member {member} once, got {len(found)}.")

    def text():
        return open_text(path, entry.max_bytes) if member is None else io.BytesIO(found[0])

    with text() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a file without rows has no columns either: see below
        columns = np.loadtxt(file, delimiter=delimiter, skiprows=skip_rows, ndmin=2)
    others = [*drop] if label is None else [*drop, label]
    if columns.shape[1] != entry.features + len(others):
        raise ValueError(f"it must have {entry.features + len(others)} columns, got {columns.shape[1]}.")
    X = np.delete(columns, others, axis=1)
    rows = np.broadcast_to(np.arange(len(X))[:, np.newaxis], X.shape)
    _refuse_values(misfits(X, entry.dtype), X, rows, text, entry, skip_rows)
    if label is None:
        return (X,)
    _refuse_labels(columns[:, label], text, entry, skip_rows)
    return X, columns[:, label].astype(np.int64)


def _refuse_values(wrong, values, rows, text, entry, skip_rows=0):
    if wrong.any():
        line = _line(text, rows[wrong][0], skip_rows)
        raise ValueError(f"line {line} has the value {values[wrong][0]}, which {entry.dtype} cannot hold.")


def _refuse_labels(labels, text, entry, skip_rows=0):
    wrong = strangers(labels, entry)
    if wrong.any():
        line = _line(text, np.flatnonzero(wrong)[0], skip_rows)
        raise ValueError(f"line {line} has the label {labels[wrong][0]:g}; {labels_of(entry)}.")


def _line(text, row, skip_rows):
    """The number of the line that holds a row: blank lines and comments are no rows, nor are the first `skip_rows`."""
    with text() as file:
        for number, line in enumerate(file, start=1):
            row -= number > skip_rows and bool(line.partition(b"#")[0].strip())
            if row < 0:
                return number
    raise ValueError("its rows changed while it was read.")


def read_idx(path, entry):
    """The IDX format of MNIST (a magic number, the sizes, then the values): one array."""
    with open_text(path, entry.max_bytes) as file:
        magic = file.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_DTYPES or magic[3] == 0:
            raise ValueError(f"it starts with {magic!r}, which is no IDX header.")
        sizes = file.read(4 * magic[3])
        if len(sizes) < 4 * magic[3]:
            raise ValueError("the IDX header is cut short.")
        shape, dtype = tuple(np.frombuffer(sizes, ">u4").tolist()), np.dtype(_IDX_DTYPES[magic[2]])
        promised = math.prod(shape) * dtype.itemsize
        if promised > entry.max_bytes:
            raise ValueError(f"its header promises shape {shape}; the registry allows {entry.max_bytes:,} bytes.")
        content = file.read(promised + 1)
    if len(content) != promised:
        held = f"only {len(content):,}" if len(content) < promised else "more"
        raise ValueError(f"its header promises shape {shape}, which is {promised:,} bytes, but it holds {held}.")
    values = np.frombuffer(content, dtype)
    return (values.reshape(shape[0], -1) if len(shape) > 1 else values,)


def read_cifar_binary(path, entry):
    """CIFAR-10's `cifar-10-binary.tar.gz`: X_train, y_train, X_test, y_test, cut at `test_rows`."""
    batches = {}
    for place, content in tar_members(path, entry.max_bytes):
        if place.name in _CIFAR_BATCHES:
            batches[place.name] = _cifar_batch(place.name, content())
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


def read_spoken_digits(path, entry):
    """Free Spoken Digits, a zip of `recordings/{digit}_{speaker}_{index}.wav` (8 kHz, mono, 16 bit).

    Returns X (cut or padded with zeros to the entry's length), y, speaker, index and n_samples (before the
    cut), sorted by digit, speaker and index.
    """
    is_recording = re.compile(r"(?:.*/)?recordings/(\d)_(\w+)_(\d{1,9})\.wav", re.ASCII).fullmatch
    recordings = []
    for place, content in zip_members(path, entry.max_bytes, is_recording):
        digit, speaker, index = is_recording(str(place)).groups()
        recordings.append((int(digit), speaker, int(index), _wave(content, place)))
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
    for place, content in tar_members(path, entry.max_bytes):
        name = "/".join(place.parts)
        if place.name in lists and not noise:
            lists[place.name] = content().decode("utf-8")
        elif place.suffix == ".wav" and len(place.parts) == 2 and name.startswith("_") == noise:
            sounds[name] = _wave(content(), name, rate=16000)
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
        return np.frombuffer(file.readframes(min(file.getnframes(), len(content))), "<i2")


FORMATS = {
    "libsvm": read_libsvm,
    "idx": read_idx,
    "table": read_table,
    "cifar-binary": read_cifar_binary,
    "spoken-digits": read_spoken_digits,
    "speech-commands": read_speech_commands,
}


def decode(arrays):
    """The arrays of a ready-made file in the form that the readers give: CIFAR-10 decoded, speakers by name.

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
