"""Figure 12 of the bilevel paper: measurements for compressed sensing (Section 5.6)."""

import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

from handful.data import load
from handful.dictionary import (
    L1,
    L2,
    MeasurementSelector,
    approximate_greedy,
    gaussian_atoms,
    recovery_error,
    wavelet_atoms,
)

METHODS_SHOWN = ("random measurements", "approximate greedy", "bico", "bico quadratic")
RECOVERIES = {"L2": "L2 recovery", "L1": "L1 recovery (basis pursuit)", "GM": "generative model (VAE)"}
_SHAPES = {"mnist": (28, 28), "digits": (8, 8)}
_BRIGHTEST = {"mnist": 255.0, "digits": 16.0}


@dataclass(frozen=True, eq=False)
class Task:
    """Signals to choose measurements for, others to test them on, and the atoms to choose from."""

    name: str
    X: np.ndarray
    X_test: np.ndarray
    atoms: np.ndarray
    recoveries: dict


def synthetic_task(n, d, m, *, seed, penalty=0.01, share=0.1):
    """Sparse random signals and Gaussian atoms (Section 5.6): a share of the values is not 0, and those are normal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, d)) * (rng.random((2 * n, d)) < share)
    atoms = gaussian_atoms(m, d, rng=rng)
    return Task("synthetic", X[:n], X[n:], atoms, {"L2": L2(penalty), "L1": L1(penalty)})


def image_pool(name):
    """Rows of pixels in [0, 1], float32, and the `Dataset` that they come from."""
    data = load(name)
    return (data.X / np.float32(_BRIGHTEST[name])).astype(np.float32), data


def image_tasks(name, X, n, generator, *, seed, penalty=0.01):
    """Two tasks on n random images, with atoms as many as pixels: Gaussian ones and wavelets (db1).

    Wavelets go without L1: images are not negative and a coarse wavelet is constant on blocks of pixels, so that the
    ink of a block may lie in any of its pixels at the same absolute norm. What is recovered is then left to the solver.

    Parameters
    ----------
    name : "mnist" or "digits"
    X : array, shape (at least 2 n, d), images that the generator was not trained on
    n : int, images to choose for, and as many to test on
    generator : a trained `handful.dictionary.generative.VAE`
    """
    from handful.dictionary.generative import Generative

    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))[: 2 * n]
    of_both = {"L2": L2(penalty), "GM": Generative(generator, penalty=penalty)}
    gaussian = gaussian_atoms(X.shape[1], X.shape[1], rng=rng, dtype=np.float32)
    wavelets = wavelet_atoms(_SHAPES[name], dtype=np.float32)
    return [
        Task(f"{name}, Gaussian", X[rows[:n]], X[rows[n:]], gaussian, {"L1": L1(penalty)} | of_both),
        Task(f"{name}, wavelets", X[rows[:n]], X[rows[n:]], wavelets, of_both),
    ]


def measurements(method, task, recovery, size, seed):
    """`size` measurement vectors by a method; the first few of them are its choice of that few.

    "random measurements" are Gaussian of variance 1 / d whatever the dictionary, as in the paper.
    """
    d = task.X.shape[1]
    if method == "random measurements":
        return gaussian_atoms(size, d, rng=np.random.default_rng([seed, 12]), dtype=task.X.dtype)
    if method == "approximate greedy":
        return task.atoms[approximate_greedy(task.X, task.atoms, size)]
    score = {"bico": "linear", "bico quadratic": "quadratic"}[method]
    return MeasurementSelector(task.atoms, recovery, size=size, score=score).fit(task.X).measurements_


def run(task, sizes, *, seed, watch=iter):
    """Every method and recovery on one task.

    Recovery starts afresh for every method and size, so that none is ahead by its history.

    Returns
    -------
    DataFrame, one row per (recovery, method, size), with columns task, recovery, method, size, error (eq. 12: mean
    squared distance of the signals from what is recovered), error_test (of signals never seen), energy (mean squared
    norm of the signals) and seconds (of the choice of the largest size)
    """
    energy = float((task.X.astype(np.float64) ** 2).sum(axis=1).mean())
    rows = []
    for key, method in watch([(key, method) for key in task.recoveries for method in METHODS_SHOWN]):
        recovery = task.recoveries[key]
        start = time.perf_counter()
        A = measurements(method, task, recovery, max(sizes), seed)
        seconds = time.perf_counter() - start
        for size in sizes:
            rows.append(
                dict(
                    task=task.name,
                    recovery=key,
                    method=method,
                    size=size,
                    error=recovery_error(recovery, A[:size], task.X),
                    error_test=recovery_error(recovery, A[:size], task.X_test),
                    energy=energy,
                    seconds=seconds if size == max(sizes) else None,
                )
            )
    return pd.DataFrame(rows)


def ratios(rows, method, baseline, value="error"):
    """Error of `method` over that of `baseline`: geometric mean over the sizes, per (task, recovery, seed)."""
    wide = rows.pivot_table(index=["task", "recovery", "seed", "size"], columns="method", values=value)
    share = np.log(wide[method] / wide[baseline])
    return np.exp(share.groupby(["task", "recovery", "seed"]).mean())


def sizes_for(rows, level, value="error"):
    """Smallest size whose error, averaged over the seeds, is at most `level` of the signals' energy; NaN if none is.

    One row per (task, recovery), one column per method.
    """
    mean = rows.assign(share=rows[value] / rows.energy).groupby(["task", "recovery", "method", "size"])["share"].mean()
    reached = mean[mean <= level].reset_index()
    table = reached.groupby(["task", "recovery", "method"])["size"].min().unstack()
    return table.reindex(columns=list(METHODS_SHOWN))
