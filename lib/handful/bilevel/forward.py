"""Forward selection: grow the coreset by the rows that promise most (Algorithm 1, Section 3.5.1)."""

import warnings

import numpy as np

from handful.bilevel.newton import ConvergenceError
from handful.bilevel.weights import optimise_weights

CANDIDATES = 512  # rows of the highest linear score whose gain the quadratic rule predicts
# Weights are optimised again each time the coreset has grown by this factor, in so many Gauss-Newton steps; 1.2 ends
# at the same loss as after every single point, at a third of the cost.
GROWTH = {"binary": np.inf, "optimised": 1.2, "corrective": 1.0}
STEPS_ON_THE_WAY = 3
REFILLS = 4  # times that points whose optimal weight is zero make room for others


def grow(model, size, *, score, weighting, batch, bar):
    """Add rows to a selection that holds its start already.

    Parameters
    ----------
    model : LinearSelection, SoftmaxSelection, GenericSelection or JointSelection
    size : number of points m
    score, weighting, batch : as in `BilevelCoreset`
    bar : tqdm, of points

    Returns
    -------
    weights, shape (m,), adding up to 1, or None for equal ones
    """
    weights = None
    corrected = 1  # size at which the weights were last optimised
    refills = REFILLS
    try:
        while True:
            while len(model) < size:
                count = min(batch, size - len(model))
                best = recalled(model, count)
                if best is None:
                    weights = _with_newcomers(weights, len(model))
                    if len(model) >= GROWTH[weighting] * corrected:
                        weights = optimise_weights(model, weights, max_iter=STEPS_ON_THE_WAY)
                        corrected = len(model)
                    else:
                        model.solve(weights)
                    best = best_rows(model, count, score, batch, weighting != "binary")
                model.add(best)
                bar.update(len(best))
            if weighting == "binary":
                break
            weights = optimise_weights(model, _with_newcomers(weights, len(model)))
            alive = weights > 0
            if alive.all() or refills == 0 or not _worth_refilling(model, int((~alive).sum()), score):
                break
            refills -= 1
            model.keep(alive)
            weights, corrected = weights[alive], len(model)
            bar.update(-int((~alive).sum()))
    except KeyboardInterrupt:
        warn_of_interruption(f"{len(model)} of {size} points")
        weights = None
    return weights


def recalled(model, count):
    """Rows of the next round, shape (count,), where the model has a checkpoint that knows them, else None."""
    recall = getattr(model, "recall", None)
    return None if recall is None else recall(count)


def warn_of_interruption(what):
    """Say what is kept of an interrupted selection."""
    warnings.warn(f"interrupted after {what}; they are kept, with equal weights.", stacklevel=2)


def _worth_refilling(model, n_dead, score):
    # whether that many points like the best one would lower the outer loss by a thousandth
    loss = model.mean_loss()
    best = best_rows(model, 1, score, 1, True)
    return n_dead * model.predicted_gains(best, free_weights=True)[0] > 1e-3 * loss


def best_rows(model, count, score, batch=1, free_weights=False):
    """Rows of the largest score, best first; ties go to the smaller index. The inner problem must be solved.

    Raises
    ------
    ConvergenceError
        if a score is not a finite number
    """
    total = model.linear_scores()
    top = total.max()  # a maximum hands a nan on
    if np.isnan(top) or top == np.inf:
        wrong = np.flatnonzero(np.isnan(total) | (total == np.inf))
        raise ConvergenceError(
            f"the scores of {len(wrong)} of {len(total)} rows are not finite (first: row {wrong[0]}): their features "
            "or losses are too large for the model's type; scale the data."
        )
    if score == "quadratic":
        rows = top_candidates(total, max(min(CANDIDATES, model.max_candidates), 4 * batch))
        gains = model.predicted_gains(rows, free_weights=free_weights)
    else:
        rows = top_candidates(total, count) if count > 1 else np.array([np.argmax(total)])
        gains = total[rows]
    return rows[np.argsort(-gains, kind="stable")[:count]]


def _with_newcomers(weights, s):
    # Newcomers to optimised weights enter with the weight 1 / s.
    if weights is None or len(weights) == s:
        return weights
    weights = np.append(weights, np.full(s - len(weights), 1.0 / s))
    return weights / weights.sum()


def top_candidates(scores, k):
    """Indices of the `k` largest finite scores (of all if they are fewer), ascending; ties go to the smaller index.

    For long arrays the threshold is read off every 16th score: a full partition would cost as much as a pass over
    the data.
    """
    n = len(scores)
    chosen = np.arange(n)
    if n > 64 * k:
        sample = scores[::16]
        rank = k // 8 + 1  # aims at 2 k, so that fewer than k are rare
        threshold = np.partition(sample, len(sample) - rank)[len(sample) - rank]
        above = np.flatnonzero(scores >= threshold)
        if len(above) >= k:
            chosen = above
    if len(chosen) > k:
        values = scores[chosen]
        least = np.partition(values, len(values) - k)[len(values) - k]
        above = values > least
        tied = np.flatnonzero(values == least)[: k - np.count_nonzero(above)]
        above[tied] = True
        chosen = chosen[above]
    return chosen[scores[chosen] > -np.inf]
