"""Exchange and elimination in batches (Section 3.5.1)."""

import numpy as np

from handful.bilevel.forward import best_rows, warn_of_interruption

ELIMINATION_STEPS = 200  # into which elimination is cut by default; the paper: 200 of 45,000 points a step
EXCHANGE_STEPS = 200  # the paper's


def exchange(model, size, *, score, batch, max_steps, labels, bar):
    """Swap the points that help least for those that promise most, starting from a random selection of full size.

    In each step the `batch` chosen points of the largest implicit gradient leave and as many of the smallest enter.
    The best selection of all steps (by its outer loss) is returned, which the paper does not do: steps in batches
    overshoot.

    Parameters
    ----------
    model : selection that holds `size` random points
    batch : int or None, points a step; None: 1 % of `size`, the paper's
    max_steps : int or None; None: 200, the paper's
    labels : class of every row, or None; the last point of a class stays

    Returns
    -------
    None: the weights are equal
    """
    batch = max(1, round(0.01 * size)) if batch is None else batch
    best, least = list(model.indices), np.inf
    try:
        for step in range((EXCHANGE_STEPS if max_steps is None else max_steps) + 1):
            model.solve()
            newcomers = best_rows(model, batch, score, batch)
            loss = model.mean_loss()
            if loss < least:
                best, least = list(model.indices), loss
            if step == bar.total or not len(newcomers):
                break
            alive = _without_worst(model, model.row_scores(), len(newcomers), labels)
            newcomers = newcomers[: np.count_nonzero(~alive)]
            model.keep(alive)
            model.add(newcomers)
            bar.update(1)
    except KeyboardInterrupt:
        warn_of_interruption(f"{bar.n} exchanges, of which the best {size} points are left")
    _restore(model, best)


def eliminate(model, size, *, batch, labels, bar):
    """Drop the points of the largest implicit gradient, `batch` a step, until `size` are left.

    Parameters
    ----------
    model : selection that holds all rows that may be chosen
    batch : int or None; None: a 200th of the rows
    labels : class of every row, or None; the last point of a class stays

    Returns
    -------
    None: the weights are equal
    """
    batch = max(1, round(len(model) / ELIMINATION_STEPS)) if batch is None else batch
    while len(model) > size:
        model.solve()
        alive = _without_worst(model, model.row_scores(), min(batch, len(model) - size), labels)
        model.keep(alive)
        bar.update(np.count_nonzero(~alive))


def _without_worst(model, scores, count, labels):
    # Mask of the chosen rows, False for the `count` of the smallest score; ties go to the smaller index.
    chosen = np.asarray(model.indices)
    order = np.lexsort((chosen, scores[chosen]))
    if labels is not None:
        best_of_class = {}
        for place in order[::-1]:
            best_of_class.setdefault(labels[chosen[place]], place)
        order = order[~np.isin(order, list(best_of_class.values()))]
    alive = np.ones(len(chosen), dtype=bool)
    alive[order[:count]] = False
    return alive


def _restore(model, rows):
    if rows != model.indices:
        model.keep(np.zeros(len(model), dtype=bool))
        model.add(rows)
    model.solve()
