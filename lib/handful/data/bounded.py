"""Reading within limits: no file, packed or not, makes the reader hold more bytes than it was told to expect."""

import bz2
import gzip
import io
import math
import os
import re
import tarfile
import tokenize
import zipfile
from pathlib import PurePosixPath

import numpy as np

_OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open}  # by the first two bytes
_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DRIVE = re.compile(r"[A-Za-z]:")  # of Windows


class _Bounded(io.RawIOBase):
    """The bytes of `stream`; ValueError as soon as there are more than `max_bytes`."""

    def __init__(self, stream, max_bytes):
        self._stream, self._left, self._max_bytes = stream, max_bytes, max_bytes

    def readable(self):
        return True

    def readinto(self, buffer):
        content = self._stream.read(min(len(buffer), self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"it holds more than the {self._max_bytes:,} bytes that the registry allows.")
        buffer[: len(content)] = content
        return len(content)

    def close(self):
        self._stream.close()
        super().close()


def open_text(path, max_bytes):
    """The decompressed bytes of `path`, whatever its suffix: some servers undo the compression on the way."""
    check_size(path, max_bytes)
    with open(path, "rb") as file:
        magic = file.read(2)
    return io.BufferedReader(_Bounded(_OPENERS.get(magic, open)(path, "rb"), max_bytes))


def check_size(path, max_bytes):
    """ValueError if the file itself is larger than `max_bytes`."""
    size = os.path.getsize(path)
    if size > max_bytes:
        raise ValueError(f"it has {size:,} bytes, the registry allows {max_bytes:,}.")


def tar_members(path, max_bytes):
    """(name, content) for each file in a tar, compressed or not, in its order; links and folders are passed over.

    `content` is a function that gives the bytes, to be called before the next member is asked for. Nothing is written
    to disk. The bytes of the archive and the sizes of what is read out of it both stay within `max_bytes`; a sparse
    member can be larger than the archive.
    """
    left = max_bytes
    with open_text(path, max_bytes) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            name = _inside(member.name)
            if not member.isreg():
                continue

            def content(member=member):
                nonlocal left
                left -= member.size
                _check_left(left, max_bytes, member.name)
                return archive.extractfile(member).read()

            yield name, content
        while stream.read(1 << 16):  # whatever stands behind the end of the archive has to be whole and within bounds
            pass


def zip_members(path, max_bytes, wanted):
    """(name, bytes) for each member of a zip whose name `wanted` accepts; their sizes stay within `max_bytes`."""
    check_size(path, max_bytes)
    left = max_bytes
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = _inside(info.filename)
            if wanted(str(name)):
                left -= info.file_size
                _check_left(left, max_bytes, info.filename)
                yield name, archive.read(info)


def _check_left(left, max_bytes, name):
    if left < 0:
        raise ValueError(f"it unpacks to more than the {max_bytes:,} bytes that the registry allows, at {name!r}.")


def _inside(name):
    """The member's path; ValueError where it would lie outside the archive's own folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or _DRIVE.match(name):
        raise ValueError(f"its member {name!r} lies outside the archive's folder: refused.")
    return path


def read_npz(file, max_bytes):
    """The arrays of a `.npz` by name, each writable. No array is made before its header was held against its size.

    Raises
    ------
    ValueError
        for members that are no arrays, that hold objects (nothing is unpickled), whose header does not fit the number
        of bytes, for a name that occurs twice, or if together they hold more than `max_bytes`.
    """
    arrays, left = {}, max_bytes
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            left -= info.file_size
            _check_left(left, max_bytes, info.filename)
            if name in arrays:
                raise ValueError(f"it holds {info.filename!r} twice.")
            with archive.open(info) as member:
                _check_header(member, info)
            with archive.open(info) as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays


def _check_header(member, info):
    version = np.lib.format.read_magic(member)
    if version not in _NPY_HEADERS:
        raise ValueError(f"{info.filename} has version {version} of the npy format; 1.0 and 2.0 are read.")
    try:
        shape, _, dtype = _NPY_HEADERS[version](member)
    except (tokenize.TokenError, SyntaxError) as error:
        raise ValueError(f"{info.filename} has a header that cannot be read: {error}") from error
    if dtype.kind not in "biufU":
        raise ValueError(f"{info.filename} must hold numbers or text, got dtype {dtype}.")
    promised, held = math.prod(shape) * dtype.itemsize, info.file_size - member.tell()
    if promised != held or min(shape, default=0) < 0:
        raise ValueError(
            f"the header of {info.filename} promises {promised:,} bytes (shape {shape}), it holds {held:,}."
        )
