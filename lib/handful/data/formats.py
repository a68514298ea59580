"""Readers for the formats in which the data sets are published. Nothing is unpacked to disk or
unpickled.

Each takes the path, the registry's `Entry` and the options of the original, and returns a tuple of
arrays. What it cannot read is one of `READ_ERRORS`. Readers that no notebook but the papers' needs
are in `handful_papers.readers`.
"""

import gzip
import io
import tarfile
import zipfile
import zlib
from pathlib import PurePosixPath
from pkgutil import resolve_name

import numpy as np
from sklearn.datasets import load_svmlight_file

READ_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
)


def read_npz(path, entry):
    """A ready-made file, as a dict of its arrays: CIFAR-10 decoded, speakers by name, features from
    their hundredths.

    CIFAR-10 is there as uint8 planes (R-G, G, B-G), each differenced along rows and along columns,
    all modulo 256, which compresses well; the result has 1,024 values each of red, green and blue a
    row.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    if "speaker_names" in arrays:
        arrays["speaker"] = arrays.pop("speaker_names")[arrays["speaker"]]
    if "hundredths" in arrays:
        arrays["X"] = arrays.pop("hundredths") / 100
    for name in [name for name in arrays if name.startswith("D_")]:
        planes = np.cumsum(
            np.cumsum(arrays.pop(name), axis=3, dtype=np.uint8), axis=2, dtype=np.uint8
        )
        planes[[0, 2]] += planes[1]
        arrays["X_" + name[2:]] = planes.transpose(1, 0, 2, 3).reshape(planes.shape[1], -1)
    return arrays


def read_libsvm(path, entry):
    """LIBSVM text ("+1 3:0.5 7:1", features numbered from 1): X dense, and y."""
    X, y = load_svmlight_file(str(path), n_features=entry.features, zero_based=False)
    return X.astype(entry.dtype).toarray(), y.astype(np.int64)


def read_table(path, entry, *, delimiter=None, skip_rows=0, drop=(), label=None, member=None):
    """Columns of numbers as text, compressed or as `member` of a zip: X, and y if column `label`
    holds it.

    Columns in `drop` are neither; a negative one counts from the end.
    """
    if member:
        with zipfile.ZipFile(path) as archive:
            path = io.BytesIO(archive.read(member))
    table = np.loadtxt(path, delimiter=delimiter, skiprows=skip_rows, ndmin=2)
    X = np.delete(table, [*drop] if label is None else [*drop, label], axis=1)
    return (X,) if label is None else (X, table[:, label].astype(np.int64))


def read_idx(path, entry):
    """The IDX format of MNIST (a magic number, the sizes, then unsigned bytes), gzipped: one
    array."""
    with gzip.open(path) as file:
        content = file.read()
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])
    return (values.reshape(-1, entry.features) if content[3] > 1 else values,)


def read_cifar_binary(path, entry):
    """CIFAR-10's `cifar-10-binary.tar.gz`: X_train, y_train, X_test, y_test, cut at `test_rows`."""
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    found = {name: content() for name, content in members(path) if name.endswith(".bin")}
    batches = [
        np.frombuffer(found[f"cifar-10-batches-bin/{name}"], np.uint8).reshape(-1, 3073)
        for name in names
    ]
    train = np.concatenate(batches[:-1])
    test = batches[-1][: entry.test_rows]
    return train[:, 1:], train[:, 0], test[:, 1:], test[:, 0]


def members(path):
    """Yield (name, function that gives the bytes) for each file of a tar, in its order, but no
    links and folders."""
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isreg():
                yield (
                    str(PurePosixPath(member.name)),
                    lambda member=member: archive.extractfile(member).read(),
                )


FORMATS = {
    "npz": read_npz,
    "libsvm": read_libsvm,
    "idx": read_idx,
    "table": read_table,
    "cifar-binary": read_cifar_binary,
}


def reader_of(name):
    """The function that reads a format: of `FORMATS`, or ``"module:function"`` of the reproduction.

    Raises
    ------
    ImportError
        where the reproduction is not installed
    """
    try:
        return FORMATS[name] if name in FORMATS else resolve_name(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name} reads these files, which is part of the project's checkout: git clone it."
        ) from error
