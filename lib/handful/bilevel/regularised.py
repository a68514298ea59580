"""Bilevel coresets via regularisation: sparse weights by a penalty of the outer loss (Section 3.5.3, Algorithm 2)."""

import numpy as np

from handful.bilevel.forward import warn_of_interruption
from handful.bilevel.weights import descend, optimise_weights
from handful.linalg import project_simplex

MIXING = 1e-8  # the algorithm's epsilon: share of the uniform weights in every iterate
THRESHOLD = 0.01  # of the mean weight, below which a weight counts as zero; the paper's 1e-4 suits n of 100 to 1,000
PLATEAU, SHRINKS = 5, 0.99  # steps in which the support must shrink by this factor, or the penalty is doubled
AT_ONCE = 0.9  # share of the positive weights that a step must leave, so that the others can take over
MAX_STEPS = 1000
GAUSS_NEWTON_BELOW = 400  # points up to which the final weights are found by Gauss-Newton steps
POLISH = 30  # steps of projected gradient for more


def regularised_path(model, sizes, *, max_steps=None, polish=True, watch=None):
    """Weights of every size in `sizes` (largest first) along one run of Algorithm 2.

    All weights start equal. Projected gradient steps decrease the outer loss plus ``beta sum_i sqrt(w_i)``; the step's
    length, which the paper leaves open, is found by backtracking. beta starts where its slope is a hundredth of the
    implicit gradient's spread (the paper: at a small value) and is doubled when the number of positive weights
    plateaus. At the step that crosses size m, the m largest weights stay and are optimised once more without penalty.

    Parameters
    ----------
    model : selection that holds all rows that may be chosen
    sizes : list of int
    max_steps : int or None; None: 1,000
    polish : whether to optimise the weights of each size once more; otherwise they are those of the step
    watch : called with the number of positive weights after every step, e.g. to move a progress bar

    Yields
    ------
    size, indices (m,), weights (m,) adding up to 1
    """
    rows = np.array(model.indices)
    n = len(rows)
    position = np.full(rows.max() + 1, -1)
    position[rows] = np.arange(n)
    todo = sorted(set(sizes), reverse=True)
    w = np.full(n, 1.0 / n)
    beta, step, history = None, None, []
    loss, gradient = _evaluate(model, w, rows, position)
    for _ in range(MAX_STEPS if max_steps is None else max_steps):
        support = np.count_nonzero(w > THRESHOLD / n)
        if watch:
            watch(support)
        if beta is None:
            spread = gradient.std()
            beta = 0.01 * spread * 2.0 / np.sqrt(n)
            step = 0.1 / (n * max(spread, np.finfo(float).tiny))
        history.append(support)
        if len(history) > PLATEAU and support > SHRINKS * history[-PLATEAU - 1]:
            beta, history = 2.0 * beta, []
        moved = _step(model, w, rows, position, loss, gradient, beta, step)
        if moved is None:  # no way down at this penalty
            beta, step = 2.0 * beta, 0.1 / (n * max(gradient.std(), np.finfo(float).tiny))
            continue
        before, (w, loss, gradient, step) = w, moved
        while todo and np.count_nonzero(w > THRESHOLD / n) <= todo[0]:
            yield _snapshot(model, before, rows, todo.pop(0), polish)
            if not todo:
                return
            loss, gradient = _evaluate(model, w, rows, position)
    while todo:
        yield _snapshot(model, w, rows, todo.pop(0), polish)


def regularise(model, size, *, max_steps, bar):
    """The coreset of one size by `regularised_path`; the model is left with it.

    Returns
    -------
    weights, shape (m,), adding up to 1
    """

    def watch(support):
        bar.update(bar.total - support - bar.n)

    if len(model) == size:
        return optimise_weights(model) if size <= GAUSS_NEWTON_BELOW else descend(model, steps=POLISH)
    try:
        for _, indices, weights in regularised_path(model, [size], max_steps=max_steps, watch=watch):
            order = {int(i): j for j, i in enumerate(indices)}
            return weights[[order[i] for i in model.indices]]
    except KeyboardInterrupt:
        warn_of_interruption(f"{bar.n} rows were eliminated: the {size} of the largest weights are left")
        _set(model, np.array(sorted(model.indices))[:size])
    return None


def _penalised(loss, w, beta):
    return loss + beta * np.sqrt(w).sum()


def _step(model, w, rows, position, loss, gradient, beta, step):
    # one projected gradient step (lines 6 to 8), shortened until the penalised outer loss decreases
    n = len(w)
    mixed = (1.0 - MIXING) * w + MIXING / n
    slope = gradient + 0.5 * beta / np.sqrt(mixed)
    value = _penalised(loss, mixed, beta)
    for _ in range(40):
        trial = project_simplex(w - step * slope)
        move = trial - w
        if not move.any():
            return None
        support = np.count_nonzero(w > THRESHOLD / n)
        if np.count_nonzero(trial > THRESHOLD / n) < min(AT_ONCE * support, support - 1):
            step *= 0.5
            continue
        new_loss, new_gradient = _evaluate(model, trial, rows, position)
        new = _penalised(new_loss, (1.0 - MIXING) * trial + MIXING / n, beta)
        if new <= value - 1e-4 * (move @ move) / step:
            return trial, new_loss, new_gradient, 1.5 * step
        step *= 0.4
    return None


def _evaluate(model, w, rows, position):
    # outer loss and its gradient by the weights of all rows; rows of weight zero leave the inner problem
    held = position[np.array(model.indices)]
    alive = w[held] > 0
    if not alive.all():
        model.keep(alive)
    entering = np.setdiff1d(np.flatnonzero(w > 0), held)
    if len(entering):
        model.add(rows[entering])
    held = position[np.array(model.indices)]
    model.solve(w[held] / w[held].sum())
    scores = model.row_scores()
    return model.mean_loss(), -scores[rows].astype(np.float64)


def _set(model, indices):
    model.keep(np.isin(model.indices, indices))
    missing = np.setdiff1d(indices, model.indices)
    if len(missing):
        model.add(missing)


def _snapshot(model, w, rows, size, polish):
    largest = np.sort(np.argsort(-w, kind="stable")[:size])
    _set(model, rows[largest])
    weights = dict(zip(rows[largest].tolist(), w[largest]))
    c = np.maximum(np.array([weights[i] for i in model.indices]), 0.0)
    c = c / c.sum()
    if polish:
        c = optimise_weights(model, c) if size <= GAUSS_NEWTON_BELOW else descend(model, c, steps=POLISH)
    return size, np.array(model.indices), c
