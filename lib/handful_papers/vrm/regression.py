"""Protocols of VRM's synthetic experiments: an SVM on six blobs, regression on k-DPP batches
(Figure 2)."""

import time

import numpy as np
import pandas as pd
from handful.sampling import KDPP, FixedMixture, MixtureSampler, UniformSampler, group_components

from handful_papers.vrm.sets import SetMixture, UniformSubsets
from handful_papers.vrm.sgd import linear_sgd

# from left to right
BLOB_PARTS = (*(f"blob {b}" for b in range(1, 7)), "uniform")
KDPP_ARMS = ("uniform", "equal mixture", "vrm", "vrm, no truncation")
# for seconds: independent rows, without what draws sets and knows their probabilities
LEAN = "uniform, lean"
# λ of each kernel XX' + λ I
RIDGES = (1.0, 10.0, 100.0)
KDPP_PARTS = (*(f"λ = {ridge:g}" for ridge in RIDGES), "uniform")


def make_blobs(n, *, rng):
    """Six Gaussian blobs on a line, the left three of class -1, the right three of class +1 (VRM,
    section 6.1).

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


def blobs_run(
    X,
    y,
    blob,
    method,
    *,
    n_steps,
    seed,
    record_at=(),
):
    """Online gradient descent on the hinge loss, one draw a step of 0.01/sqrt(t), with the given
    sampler.

    Parameters
    ----------
    method : "uniform", "equal mixture" (of the blobs' components) or "vrm"

    Returns
    -------
    rows : list of dict with method, seed, step, accuracy (% of all points)
    mixture_weights : array, shape (7,), the blobs from left to right, then uniform; None for
        "uniform"
    """
    options = dict(batch_size=1, random_state=seed)
    if method == "uniform":
        sampler = UniformSampler(len(X), **options)
    else:
        sampler = {"equal mixture": FixedMixture, "vrm": MixtureSampler}[method](
            group_components(blob), **options
        )
    _, path = linear_sgd(
        X, y, sampler, loss="hinge", learning_rate=0.01, n_steps=n_steps, record_at=record_at
    )
    rows = [
        dict(
            method=method,
            seed=seed,
            step=step,
            accuracy=100 * float((np.sign(X @ coef) == y).mean()),
        )
        for step, coef in zip(sorted(record_at), path)
    ]
    return rows, getattr(sampler, "mixture_weights", None)


def blob_rows(method, seed, *, n, n_steps, accuracy_level):
    """One sampler on blobs drawn with the same seed: a task of the sweep.

    Returns
    -------
    list of dict of `blobs_run`, with reached (100 where the accuracy is at least `accuracy_level`,
        else 0) and, in the last of VRM, its mixture weights as "weight blob 1", ..., "weight
        uniform"
    """
    data = make_blobs(n, rng=np.random.default_rng(seed))
    rows, weights = blobs_run(
        *data, method, n_steps=n_steps, seed=seed, record_at=_records(n_steps)
    )
    rows = [row | dict(reached=100.0 * (row["accuracy"] >= accuracy_level)) for row in rows]
    if method == "vrm":
        rows[-1] |= {f"weight {part}": w for part, w in zip(BLOB_PARTS, weights)}
    return rows


def steps_to_accuracy(rows, level, *, kept):
    """Steps until the accuracy reaches `level`, at most all of them: a DataFrame, seeds by methods.

    Parameters
    ----------
    rows : DataFrame of `blob_rows`
    kept : whether it has to stay there; False: the first record at that level
    """
    found = {}
    for (method, seed), run in rows.groupby(["method", "seed"]):
        steps = run.step.to_numpy()
        accuracies = run.accuracy.to_numpy()
        found[seed, method] = settled_at(
            steps, accuracies if kept else np.maximum.accumulate(accuracies), level
        )
    return pd.Series(found).clip(upper=rows.step.max()).unstack()


def make_regression(n, d, *, rng, n_outliers=10):
    """Linear regression with a few points ten times as long as the others (VRM, section 6.2).

    Feature means are uniform on 0..1 and standard deviations on 0..10, as in the notebook of the
    authors' code for VRB; coefficients have variance 25, the noise variance one.
    """
    X = rng.random(d) + 10 * rng.random(d) * rng.normal(size=(n, d))
    X[rng.choice(n, size=n_outliers, replace=False)] *= 10
    return X, X @ rng.normal(scale=5.0, size=d) + rng.normal(size=n)


def _records(n_steps):
    return np.unique(np.geomspace(10, n_steps, 60).astype(int)).tolist()


def kdpp_run(
    X,
    y,
    method,
    *,
    batch_size,
    n_steps,
    seed,
    record_at,
    truncation=0.2,
):
    """Least squares by SGD on batches that are sets: uniform ones, or from a mixture of k-DPPs.

    Parameters
    ----------
    method : "uniform", "equal mixture" (of the k-DPPs and the uniform sets), "vrm" or `LEAN`
    truncation : float, importance weights r become (1 - truncation) r + truncation

    Returns
    -------
    rows : list of dict with method, seed, step, mse (mean squared error over all points), seconds
        (CPU time, set-up and sampling included, at the run's mean speed)
    mixture_weights : array, shape (len(RIDGES) + 1,), or None for uniform batches
    """
    begin = time.process_time()
    if method == LEAN:
        sampler = UniformSampler(len(X), batch_size=batch_size, random_state=seed)
    else:
        components = [KDPP(X, batch_size, shift=ridge) for ridge in RIDGES]
        if method == "uniform":
            components = [UniformSubsets(len(X), batch_size)]
        sampler = SetMixture(components, learn=method == "vrm", random_state=seed)
    options = dict(
        learning_rate=1e-4,
        n_steps=n_steps,
        truncation=truncation,
        record_at=record_at,
    )
    _, path = linear_sgd(X, y, sampler, loss="squared", **options)
    seconds = time.process_time() - begin
    rows = []
    for at, coef in zip(sorted(record_at), path):
        mse = float(((X @ coef - y) ** 2).mean())
        rows.append(
            dict(
                method=method,
                seed=seed,
                step=at,
                mse=mse,
                seconds=seconds * at / n_steps,
            )
        )
    return rows, sampler.mixture_weights if method in ("equal mixture", "vrm") else None


def kdpp_rows(method, seed, *, n, d, batch_size, epochs):
    """One arm of Figure 2 (right) with one seed, which also draws the data: a task of the sweep.

    Parameters
    ----------
    method : as in `kdpp_run`, or "vrm, no truncation"

    Returns
    -------
    list of dict of `kdpp_run`, with the mixture weights in the end as "weight λ = 1", ..., "weight
    uniform" for VRM
    """
    X, y = make_regression(n, d, rng=np.random.default_rng(seed))
    n_steps = epochs * n // batch_size
    kind = method.removesuffix(", no truncation")
    options = dict(
        n_steps=n_steps, record_at=_records(n_steps), truncation=0.2 if kind == method else 0.0
    )
    rows, weights = kdpp_run(
        X,
        y,
        kind,
        batch_size=batch_size,
        seed=seed,
        **options,
    )
    learned = (
        {}
        if weights is None or kind != "vrm"
        else {f"weight {p}": w for p, w in zip(KDPP_PARTS, weights)}
    )
    return [row | dict(method=method) | learned for row in rows]


def speed_ups(rows):
    """How much sooner than uniform sampling each run comes down to the error that uniform sampling
    ends with.

    Parameters
    ----------
    rows : DataFrame of `kdpp_rows`

    Returns
    -------
    DataFrame, indexed by method and seed: in_steps, in_time and in_time_lean (ratios; 0 where a run
        never gets there; the last one against the seconds of `LEAN` steps), microseconds a step
    """
    found = {}
    (first, *_) = KDPP_ARMS
    step_seconds = rows.groupby(["seed", "method"]).agg({"seconds": "last", "step": "last"})
    step_seconds = step_seconds.seconds / step_seconds.step
    for (seed, method), run in rows.groupby(["seed", "method"], sort=False):
        base = rows[(rows.seed == seed) & (rows.method == first)]
        steps = steps_to_reach(run.step.to_numpy(), run.mse.to_numpy(), base.mse.iloc[-1])
        gain = base.step.iloc[-1] / steps
        a_step = step_seconds[seed, method]
        in_time, in_time_lean = (
            gain * step_seconds[seed, other] / a_step for other in (first, LEAN)
        )
        found[method, seed] = dict(
            in_steps=gain, in_time=in_time, in_time_lean=in_time_lean, microseconds=1e6 * a_step
        )
    return pd.DataFrame(found).T.rename_axis(["method", "seed"])


def settled_at(steps, accuracies, level):
    """The first recorded step from which on the accuracy stays at `level` or above; inf where it
    does not."""
    short = np.flatnonzero(np.asarray(accuracies) < level)
    if len(short) == 0:
        return float(steps[0])
    return float(steps[short[-1] + 1]) if short[-1] + 1 < len(steps) else np.inf


def steps_to_reach(steps, errors, level):
    """The step at which a falling error curve first comes down to `level`, between records on a
    log-log line.

    Returns
    -------
    float; inf where it never does
    """
    below = np.flatnonzero(np.asarray(errors) <= level)
    if len(below) == 0:
        return np.inf
    i = int(below[0])
    if i == 0:
        return float(steps[0])
    share = np.log(errors[i - 1] / level) / np.log(errors[i - 1] / errors[i])
    return float(steps[i - 1] * (steps[i] / steps[i - 1]) ** share)
