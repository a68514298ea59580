"""Streams in files: their arrays beside the rest as JSON, in one archive that is read without pickle."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from handful.types import Block

FORMAT = 2
PARTS = ("data", "indices", "indptr", "shape")  # of a CSR matrix


def write_state(path, state):
    """Write what a stream knows, all or nothing.

    Parameters
    ----------
    path : str or path
    state : dict of numbers, words, arrays, CSR matrices, blocks and numpy Generators, and of lists and dicts of these

    Returns
    -------
    pathlib.Path of the file

    Raises
    ------
    TypeError
        for arrays of objects that are not words
    """
    path, arrays = Path(path), []
    text = json.dumps({"format": FORMAT, "state": _as_json(state, arrays)})
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            np.savez(file, text=np.array(text), **{str(k): array for k, array in enumerate(arrays)})
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def read_state(path):
    """What `write_state` wrote.

    Raises
    ------
    ValueError
        for a file that is damaged, or that another program wrote
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = json.loads(str(arrays["text"]))
            if found["format"] != FORMAT:
                raise ValueError("another format")
            return _from_json(found["state"], arrays)
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no stream that this version wrote, or is damaged: {error}.") from error


def _as_json(value, arrays):
    # Arrays are appended to `arrays`, and stand for themselves by their place.
    if isinstance(value, Block):
        return {"block": [_as_json(part, arrays) for part in (value.X, value.y, value.weights, value.ids)]}
    if isinstance(value, np.random.Generator):
        return {"generator": value.bit_generator.state}
    if sparse.issparse(value):
        return {"csr": [_as_json(np.asarray(getattr(value, part)), arrays) for part in PARTS]}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            if not all(isinstance(label, str) for label in value.tolist()):
                raise TypeError("labels are saved as numbers or words, but y holds other objects.")
            value = value.astype(str)
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {"dict": [[_as_json(k, arrays), _as_json(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list):
        return {"list": [_as_json(v, arrays) for v in value]}
    return value.item() if isinstance(value, np.generic) else value


def _from_json(value, arrays):
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "array":
        return arrays[str(held)]
    if kind == "generator":
        generator = np.random.default_rng()
        generator.bit_generator.state = held
        return generator
    if kind == "dict":
        return {_from_json(k, arrays): _from_json(v, arrays) for k, v in held}
    parts = [_from_json(part, arrays) for part in held]
    if kind == "csr":
        return sparse.csr_matrix(tuple(parts[:3]), shape=tuple(parts[3]))
    return Block(*parts) if kind == "block" else parts
