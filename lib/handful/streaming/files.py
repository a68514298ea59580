"""Trees in files: their nodes as arrays, what else they know as JSON, in one .npz that is read without pickle."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from handful.types import Block

FORMAT = 1
PARTS = ("data", "indices", "indptr", "shape")  # of a CSR matrix


def write_nodes(path, nodes, state):
    """Write nodes and what goes with them, all or nothing.

    Parameters
    ----------
    path : str or path; the suffix .npz is added where it lacks one
    nodes : dict of Block by name
    state : dict that JSON can hold

    Returns
    -------
    pathlib.Path of the file

    Raises
    ------
    TypeError
        for labels that are neither numbers nor words
    """
    path = _with_suffix(path)
    arrays = {"state": np.array(json.dumps({"format": FORMAT, "nodes": list(nodes), **state}, default=int))}
    for k, node in enumerate(nodes.values()):
        if sparse.issparse(node.X):
            arrays |= {f"{k}/X/{part}": np.asarray(getattr(node.X, part)) for part in PARTS}
        else:
            arrays[f"{k}/X"] = node.X
        arrays |= {f"{k}/weights": node.weights, f"{k}/ids": node.ids}
        if node.y is not None:
            arrays[f"{k}/y"] = _without_objects(node.y)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            np.savez(file, **arrays)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def _with_suffix(path):
    path = Path(path)
    return path if path.suffix == ".npz" else path.with_name(path.name + ".npz")


def _without_objects(y):
    if y.dtype.kind != "O":
        return y
    if not all(isinstance(label, str) for label in y.tolist()):
        raise TypeError("labels are saved as numbers or words, but y holds other objects.")
    return y.astype(str)


def read_nodes(path):
    """Blocks by name, and the state, as `write_nodes` wrote them to the same path.

    Raises
    ------
    ValueError
        for a file that is damaged, or that another program wrote
    """
    try:
        with np.load(_with_suffix(path), allow_pickle=False) as arrays:
            state = json.loads(str(arrays["state"]))
            if state.pop("format") != FORMAT:
                raise ValueError("another format")
            return {name: _node(arrays, k) for k, name in enumerate(state.pop("nodes"))}, state
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no tree that this version wrote, or is damaged: {error}.") from error


def _node(arrays, k):
    if f"{k}/X" in arrays:
        X = arrays[f"{k}/X"]
    else:
        data, indices, indptr, shape = (arrays[f"{k}/X/{part}"] for part in PARTS)
        X = sparse.csr_matrix((data, indices, indptr), shape=tuple(shape))
    return Block(X, arrays.get(f"{k}/y"), arrays[f"{k}/weights"], arrays[f"{k}/ids"])
