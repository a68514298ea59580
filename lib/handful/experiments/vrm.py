"""Protocols of VRM's synthetic experiments: an SVM on six blobs, regression on k-DPP batches, regret exponents."""

import numpy as np

from handful.sampling import (
    KDPP,
    FixedMixture,
    FullInformation,
    MixtureSampler,
    SetMixture,
    UniformSampler,
    group_components,
    linear_sgd,
)
from handful.sampling.full_information import theory_settings


def make_blobs(n, *, rng):
    """Six Gaussian blobs on a line, the left three of class -1, the right three of class +1 (VRM, section 6.1).

    Centres and the shift by 100 are those of the authors' code; the text has none.

    Returns
    -------
    X : array, shape (n, 3), the last feature constant
    y : array, shape (n,), -1 or +1
    blob : int array, shape (n,), 0..5 from left to right
    """
    blob = np.arange(n) % 6
    centres = np.c_[8.0 * np.arange(6) - 20, 8.0 - 4.0 * np.arange(6)]
    X = centres[blob] + rng.normal(scale=1.2, size=(n, 2)) + 100.0
    return np.c_[X, np.ones(n)], np.where(blob < 3, -1.0, 1.0), blob


def blobs_run(X, y, blob, method, *, n_steps, seed, record_at=(), beta=10.0, gamma=0.01):
    """Online gradient descent on the hinge loss, one draw a step of 0.01/sqrt(t), with the given sampler.

    Parameters
    ----------
    method : "uniform", "equal mixture" (of the blobs' components) or "vrm"

    Returns
    -------
    rows : list of dict with method, seed, step, accuracy (% of all points)
    mixture_weights : array, shape (7,), the blobs from left to right, then uniform; None for "uniform"
    """
    components = group_components(blob)
    sampler = {
        "uniform": lambda: UniformSampler(len(X), batch_size=1, random_state=seed),
        "equal mixture": lambda: FixedMixture(components, batch_size=1, random_state=seed),
        "vrm": lambda: MixtureSampler(components, batch_size=1, beta=beta, gamma=gamma, random_state=seed),
    }[method]()
    _, path = linear_sgd(X, y, sampler, loss="hinge", step=0.01, n_steps=n_steps, record_at=record_at)
    rows = [
        dict(method=method, seed=seed, step=step, accuracy=100 * float((np.sign(X @ coef) == y).mean()))
        for step, coef in zip(sorted(record_at), path)
    ]
    return rows, getattr(sampler, "mixture_weights", None)
