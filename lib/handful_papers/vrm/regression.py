"""Protocols of VRM's synthetic experiments: an SVM on six blobs, regression on k-DPP batches
(Figure 2)."""

import time

import numpy as np
import pandas as pd
from handful.sampling import KDPP, MixtureSampler, UniformSampler, group_components

from handful_papers.vrm.sets import SetMixture, UniformSubsets
from handful_papers.vrm.sgd import linear_sgd

# The components of the blobs from left to right.
BLOB_PARTS = (*(f"blob {b}" for b in range(1, 7)), "uniform")
KDPP_ARMS = ("uniform", "equal mixture", "vrm", "vrm, no truncation")
# An arm for seconds: independent rows, without what draws sets and knows their probabilities.
LEAN = "uniform, lean"
# λ of each kernel XX' + λ I.
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
    place = np.arange(6)
    centres = np.column_stack([8.0 * place - 20, 8.0 - 4.0 * place])
    X = centres[blob] + rng.normal(scale=1.2, size=(n, 2)) + 100.0
    y = np.where(blob < 3, -1.0, 1.0)
    return np.column_stack([X, np.ones(n)]), y, blob


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
        given = "equal" if method == "equal mixture" else None
        sampler = MixtureSampler(group_components(blob), mixture_weights=given, **options)
    _, path = linear_sgd(
        X,
        y,
        sampler,
        loss="hinge",
        learning_rate=0.01,
        n_steps=n_steps,
        record_at=record_at,
    )
    rows = []
    for step, coef in zip(sorted(record_at), path):
        right = np.sign(X @ coef) == y
        row = dict(
            method=method,
            seed=seed,
            step=step,
            accuracy=100 * float(right.mean()),
        )
        rows.append(row)
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
    record_at = _records(n_steps)
    rows, weights = blobs_run(
        *data,
        method,
        n_steps=n_steps,
        seed=seed,
        record_at=record_at,
    )
    for row in rows:
        row["reached"] = 100.0 * (row["accuracy"] >= accuracy_level)
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
        if not kept:
            accuracies = np.maximum.accumulate(accuracies)
        found[seed, method] = settled_at(steps, accuracies, level)
    return pd.Series(found).clip(upper=rows.step.max()).unstack()


def make_regression(n, d, *, rng, n_outliers=10):
    """Linear regression with a few points ten times as long as the others (VRM, section 6.2).

    Feature means are uniform on 0..1 and standard deviations on 0..10, as in the notebook of the
    authors' code for VRB; coefficients have variance 25, the noise variance one.
    """
    means = rng.random(d)
    deviations = 10 * rng.random(d)
    X = means + deviations * rng.normal(size=(n, d))
    X[rng.choice(n, size=n_outliers, replace=False)] *= 10
    coef = rng.normal(scale=5.0, size=d)
    return X, X @ coef + rng.normal(size=n)


def _records(n_steps):
    steps = np.geomspace(10, n_steps, 60).astype(int)
    return np.unique(steps).tolist()


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
    _, path = linear_sgd(
        X,
        y,
        sampler,
        loss="squared",
        **options,
    )
    seconds = time.process_time() - begin
    rows = []
    for at, coef in zip(sorted(record_at), path):
        mse = float(((X @ coef - y) ** 2).mean())
        row = dict(
            method=method,
            seed=seed,
            step=at,
            mse=mse,
            seconds=seconds * at / n_steps,
        )
        rows.append(row)
    mixes = method in ("equal mixture", "vrm")
    return rows, sampler.mixture_weights if mixes else None


def kdpp_rows(
    method,
    seed,
    *,
    n,
    d,
    batch_size,
    epochs,
):
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
    rows, weights = kdpp_run(
        X,
        y,
        kind,
        batch_size=batch_size,
        seed=seed,
        n_steps=n_steps,
        record_at=_records(n_steps),
        truncation=0.2 if kind == method else 0.0,
    )
    learned = {}
    if kind == "vrm":
        learned = {f"weight {part}": w for part, w in zip(KDPP_PARTS, weights)}
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
    first = KDPP_ARMS[0]
    last = rows.groupby(["seed", "method"]).agg({"seconds": "last", "step": "last"})
    step_seconds = last.seconds / last.step
    for (seed, method), run in rows.groupby(["seed", "method"], sort=False):
        base = rows[(rows.seed == seed) & (rows.method == first)]
        steps = steps_to_reach(run.step.to_numpy(), run.mse.to_numpy(), base.mse.iloc[-1])
        gain = base.step.iloc[-1] / steps
        a_step = step_seconds[seed, method]
        found[method, seed] = dict(
            in_steps=gain,
            in_time=gain * step_seconds[seed, first] / a_step,
            in_time_lean=gain * step_seconds[seed, LEAN] / a_step,
            microseconds=1e6 * a_step,
        )
    return pd.DataFrame(found).T.rename_axis(["method", "seed"])


def settled_at(steps, accuracies, level):
    """The first recorded step from which on the accuracy stays at `level` or above; inf where it
    does not."""
    short = np.flatnonzero(np.asarray(accuracies) < level)
    if len(short) == 0:
        return float(steps[0])
    next_record = short[-1] + 1
    return float(steps[next_record]) if next_record < len(steps) else np.inf


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
    before = errors[i - 1]
    share = np.log(before / level) / np.log(before / errors[i])
    return float(steps[i - 1] * (steps[i] / steps[i - 1]) ** share)
