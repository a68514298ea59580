"""Fifty questions of a benchmark: how well few questions tell the accuracy of a model that was not
asked the others, on the protocol of benchmark-prediction."""

import time
from functools import cache

import numpy as np
from handful import BalancedCoreset, StratifiedCoreset
from handful.data import load
from handful.matching import recombine
from scipy.stats import t as student
from sklearn.linear_model import RidgeCV

MADE = "made"
INTERPOLATION = "interpolation"
EXTRAPOLATION = "extrapolation"
# The penalty of the regression of a model's answers on those of the others, as in
# benchmark-prediction.
ALPHA = 10.0
LEVEL = 0.95
# A few lines each, at as many questions and under the same regression.
ALTERNATIVES = ("aipw", "strata")
# Rounds of k-medoids, which settles in fewer.
ROUNDS = 30


@cache
def scores(dataset):
    """Which questions each model answers: float array of 0 and 1, shape (models, questions).

    As the protocol does, a model that answers none is left out.
    """
    if dataset == MADE:
        rng = np.random.default_rng(0)
        ability = rng.normal(0.5, 1.0, size=(60, 1))
        of_models = rng.normal(0.0, 0.7, size=(60, 3))
        skills = of_models @ rng.normal(0.0, 0.7, size=(3, 300))
        difficulty = rng.normal(size=300)
        chance = 1 / (1 + np.exp(difficulty - ability - skills))
        return (rng.random((60, 300)) < chance).astype(float)
    found = load("benchmark_scores").extra[dataset].astype(float)
    return found[found.any(axis=1)]


def models(full, split, rng):
    """The models that are known and those that are judged by few questions: two int arrays.

    Parameters
    ----------
    full : float array, shape (models, questions)
    split : "interpolation", a random quarter is judged; or "extrapolation", the best 30 % are, by
        the worse half
    rng : numpy.random.Generator
    """
    n = len(full)
    if split == INTERPOLATION:
        judged = rng.permutation(n)[: int(0.25 * n)]
        known = np.setdiff1d(np.arange(n), judged)
        return known, judged
    order = np.argsort(full.mean(axis=1))
    worse = order[: int(0.5 * n)]
    best = order[-int(0.3 * n) :]
    return worse, best


def components(known, k):
    """A question's mean answer and its leading k principal components over the known models.

    Parameters
    ----------
    known : float array, shape (models, questions)
    k : int

    Returns
    -------
    float array, shape (questions, 1 + k)
    """
    centred = known.T - known.mean(axis=1)
    left, _, _ = np.linalg.svd(centred, full_matrices=False)
    leading = left[:, :k] * np.sqrt(len(left))
    return np.column_stack([known.mean(axis=0), leading])


def anchors(known, size, rng):
    """Anchor points: medoids of the questions by the correlation of their answers, and the share of
    questions that each stands for.

    In rounds, from questions that are far from each other (as k-means++ has them), where the
    authors of anchor points swap (FasterPAM).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = np.nan_to_num(np.corrcoef(known, rowvar=False))
    chosen = [rng.integers(len(correlations))]
    for _ in range(size - 1):
        far = np.maximum(1 - correlations[chosen].max(axis=0), 0)
        far[chosen] = 0
        chosen.append(rng.choice(len(far), p=far / far.sum()))
    chosen = np.array(chosen)
    for _ in range(ROUNDS):
        nearest = correlations[chosen].argmax(axis=0)
        cells = [np.flatnonzero(nearest == cell) for cell in range(size)]
        better = chosen.copy()
        for cell, members in enumerate(cells):
            if len(members):
                within = correlations[np.ix_(members, members)].sum(axis=0)
                better[cell] = members[within.argmax()]
        if (better == chosen).all():
            break
        chosen = better
    nearest = correlations[chosen].argmax(axis=0)
    return chosen, np.bincount(nearest, minlength=size) / len(nearest)


def regression_estimate(known, answers, chosen):
    """The accuracies of models by a ridge regression of their answers on those of known models.

    AIPW as benchmark-prediction has it: what the regression predicts for the questions that were
    not asked, and the answers to those that were.

    Parameters
    ----------
    known : float array, shape (known models, questions)
    answers : float array, shape (judged models, size)
    chosen : int array, shape (size,); the questions that were asked

    Returns
    -------
    accuracy, deviation : float arrays, shape (judged models,); the second is the standard error, of
        errors at questions that were left out in turn
    """
    n_questions = known.shape[1]
    size = len(chosen)
    asked = known[:, chosen]
    center = asked.mean(axis=1, keepdims=True)
    centred = asked - center
    kernel = centred.T @ centred
    penalised = kernel + ALPHA * np.eye(size)
    smoother = np.linalg.solve(penalised, kernel).T
    means = answers.mean(axis=1, keepdims=True)
    dual = np.linalg.solve(penalised, (answers - means).T)
    missed = known.mean(axis=1) - center[:, 0]
    shift = missed @ centred @ dual
    residuals = (answers - means) @ (np.eye(size) - smoother)
    left_out = residuals / (1 - 1 / size - np.diag(smoother))
    return means[:, 0] + shift, standard_error(left_out, n_questions)


def standard_error(values, n_questions):
    """Of the mean of each row's values as that of all questions, drawn without repetition."""
    size = values.shape[1]
    share = (1 - size / n_questions) / size
    return values.std(axis=1, ddof=1) * np.sqrt(share)


def estimates(
    full,
    split,
    seed,
    *,
    size,
    n_components,
    more,
):
    """How each method judges: method -> accuracies, their standard errors or None, CPU seconds to
    choose."""
    rng = np.random.default_rng(seed)
    known_rows, judged_rows = models(full, split, rng)
    known = full[known_rows]
    judged = full[judged_rows]
    n_questions = full.shape[1]
    order = rng.permutation(n_questions)
    found = {}

    def keep(method, chosen, estimated, start, error=None):
        found[method] = estimated, error, time.process_time() - start, len(chosen)

    start = time.process_time()
    chosen = order[:size]
    answers = judged[:, chosen]
    keep(
        "sample",
        chosen,
        answers.mean(axis=1),
        start,
        standard_error(answers, n_questions),
    )
    start = time.process_time()
    learnt = RidgeCV().fit(known[:, chosen], known.mean(axis=1))
    keep("learn", chosen, learnt.predict(answers), start)
    start = time.process_time()
    medoids, shares = anchors(known, size, rng)
    keep("anchors", medoids, judged[:, medoids] @ shares, start)
    for n_asked in [size, *more]:
        start = time.process_time()
        chosen = order[:n_asked]
        name = "aipw" if n_asked == size else f"aipw {n_asked}"
        keep(name, chosen, *timed_regression(known, judged, chosen, start))
    start = time.process_time()
    tenths = np.argsort(np.argsort(known.mean(axis=0))) * 10 // n_questions
    strata = StratifiedCoreset(size, random_state=seed).fit(known.T, tenths).indices_
    keep("strata", strata, *timed_regression(known, judged, strata, start))
    start = time.process_time()
    described = components(known, n_components)
    selector = BalancedCoreset(size, by=lambda items: described, random_state=seed)
    chosen = selector.fit(known.T).indices_
    keep("balanced", chosen, *timed_regression(known, judged, chosen, start))
    keep("balanced mean", chosen, judged[:, chosen].mean(axis=1), start)
    start = time.process_time()
    exact = np.column_stack([np.ones(n_questions), components(known, size - 2)])
    chosen, weights, _ = recombine(exact)
    keep("exact", chosen, judged[:, chosen] @ weights / weights.sum(), start)
    return judged.mean(axis=1), found


def timed_regression(known, judged, chosen, start):
    """`regression_estimate` of the chosen questions, with the start of the clock between, as
    `estimates` keeps it."""
    estimated, error = regression_estimate(known, judged[:, chosen], chosen)
    return estimated, start, error


def item_rows(
    dataset,
    split,
    seed,
    *,
    size,
    n_components,
    more,
):
    """A row for each method: its mean error over the judged models, in points of accuracy.

    Parameters
    ----------
    dataset : str, a benchmark of "benchmark_scores", or "made" for answers by formula
    split : "interpolation" or "extrapolation"
    seed : int, of the models that are judged and of the questions
    size : int, questions that are asked
    n_components : int, of the questions, which the balanced draw keeps
    more : list of int, other numbers of questions for the random draw
    """
    full = scores(dataset)
    truth, found = estimates(
        full,
        split,
        seed,
        size=size,
        n_components=n_components,
        more=more,
    )
    rows = []
    for method, (estimated, error, seconds, n_asked) in found.items():
        gaps = np.abs(estimated - truth)
        row = dict(
            dataset=dataset,
            split=split,
            method=method,
            m=n_asked,
        )
        row |= dict(gap=100 * gaps.mean(), bias=100 * (estimated - truth).mean())
        if error is not None:
            half = student.ppf((1 + LEVEL) / 2, n_asked - 1) * error
            row |= dict(covered=(gaps <= half).mean(), half=100 * half.mean())
        rows.append(
            row
            | dict(
                models=len(truth),
                questions=full.shape[1],
                seconds=seconds,
            )
        )
    return rows


# --- which numbers decide the claims


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    rows = run.rows
    gaps = rows.pivot(
        index=["split", "dataset", "seed"],
        columns="method",
        values="gap",
    )
    means = gaps.groupby(["split", "seed"]).mean()
    covered = rows[rows.method == "balanced"].groupby(["split", "seed"]).covered.mean()
    extrapolated = gaps.loc[EXTRAPOLATION]
    lead = extrapolated["sample"] - extrapolated["aipw"]

    def over_alternatives(split):
        return {other: (means[other] - means["balanced"]).loc[split] for other in ALTERNATIVES}

    return {
        "public-items-aipw": {name: of.to_numpy() for name, of in lead.groupby("dataset")},
        "public-items-interpolation": over_alternatives(INTERPOLATION),
        "public-items-extrapolation": over_alternatives(EXTRAPOLATION),
        "public-items-cover": {split: of.to_numpy() for split, of in covered.groupby("split")},
    }
