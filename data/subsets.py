"""Build the two subsets that no archive publishes, `covtype_subset` and `susy_subset`, from public repositories.

From the checkout: `.venv/bin/python data/subsets.py`. It downloads 6 MB into this folder, checks them, writes
`covtype_subset.npz` and `susy_subset.npz` beside them, and reads both back, which checks every value.
"""

from pathlib import Path

import numpy as np
import pooch
from handful.data import load
from scipy.io import loadmat

FOLDER = Path(__file__).resolve().parent
RAW = "https://raw.githubusercontent.com"
# Least and greatest value of Covertype's first ten columns, over all of its rows (UCI); the copy is scaled by them.
LEAST = np.array([1859, 0, 0, 0, -173, 0, 0, 0, 0, 0])
GREATEST = np.array([3858, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173])


def covertype(path):
    """(X, y) of the repository's table: its ten scaled columns become integers again, the others are 0 or 1."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    X[:, :10] = X[:, :10] * (GREATEST - LEAST) + LEAST
    return np.rint(X).astype(np.int16), y.astype(np.int64)


def susy(path):
    """(X, y) of the repository's MATLAB file, y being 1 for signal."""
    file = loadmat(path)
    return file["X"].toarray().astype(np.float32), (file["y"][:, 0] > 0).astype(np.int64)


SUBSETS = {
    "covtype_subset": (
        covertype,
        f"{RAW}/ramp-kits/covertype/5f22bd2007aa0ff356275e59641bafa83cc307a3/data/test.csv.gz",
        "d1683af154f7279cfb7221e813d44d904346d4965779c56bfbe7c5c74cebf8fd",
    ),
    "susy_subset": (
        susy,
        f"{RAW}/superlj666/Agnostic-RF/6115ef56e3858d5e866812c6e84879a1c0c2e6ce/data/SUSY.mat",
        "eca72caeb00f3269700da13e07604d07b2f2ca31b30591896f88ea5b3da0167b",
    ),
}


def build(name):
    """Write `NAME.npz` into this folder, and read it back."""
    arrays_of, url, sha256 = SUBSETS[name]
    original = f"{name}-{url.rpartition('/')[2]}"
    try:
        path = pooch.retrieve(url, sha256, fname=original, path=FOLDER)
    except OSError as error:
        raise SystemExit(
            f"{error}\n{url} cannot be had: put it at {FOLDER / original} by hand, then run this again."
        ) from error
    X, y = arrays_of(path)
    np.savez_compressed(FOLDER / f"{name}.npz", X=X, y=y)
    print(load(name).describe())


if __name__ == "__main__":
    for name in SUBSETS:
        build(name)
