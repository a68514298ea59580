"""Writers of the formats in which data sets are published, by hand: no reader is tested against
itself."""

import gzip
import io
import tarfile
import wave
import zipfile

import numpy as np
from sklearn.datasets import dump_svmlight_file


def as_libsvm(X, y):
    """LIBSVM text: "1 3:0.5 7:1", features numbered from 1, zeros left out."""
    text = io.BytesIO()
    dump_svmlight_file(X.astype(np.float64), y, text, zero_based=False)
    return text.getvalue()


def as_idx(values):
    """A gzipped IDX file of unsigned bytes."""
    header = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    return gzip.compress(header + values.astype(np.uint8).tobytes(), compresslevel=1)


def as_csv(X, y=None, *, delimiter=",", header="", ids=False):
    """Numbers as text, row numbers first if `ids`, labels last."""
    columns = X.astype(np.float64) if y is None else np.column_stack([X.astype(np.float64), y])
    columns = np.column_stack([np.arange(1, len(X) + 1), columns]) if ids else columns
    lines = [delimiter.join(map(repr, map(float, row))) for row in columns.tolist()]
    return ("\n".join([header, *lines] if header else lines) + "\n").encode()


def as_zip(members):
    """A zip of name -> bytes."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return archive.getvalue()


def as_tar(members):
    """A gzipped tar of name -> bytes."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return archive.getvalue()


def as_cifar(X_train, y_train, X_test, y_test):
    """`cifar-10-binary.tar.gz`."""
    train = np.column_stack([y_train, X_train]).astype(np.uint8)
    members = {
        f"data_batch_{i + 1}.bin": part.tobytes() for i, part in enumerate(np.array_split(train, 5))
    }
    members["test_batch.bin"] = np.column_stack([y_test, X_test]).astype(np.uint8).tobytes()
    members["readme.html"] = b"<html>"
    return as_tar({f"cifar-10-batches-bin/{name}": content for name, content in members.items()})


def as_spoken_digits(recordings):
    """The archive of the Free Spoken Digit Dataset: recording -> samples."""
    return as_zip(
        {f"fsdd-0/recordings/{name}.wav": as_wave(samples) for name, samples in recordings.items()}
    )


def as_wave(samples, rate=8000):
    """A mono wave file of 16 bit."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(np.asarray(samples, "<i2").tobytes())
    return file.getvalue()
