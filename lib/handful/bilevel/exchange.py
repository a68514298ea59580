"""Exchange and elimination in batches (Section 3.5.1)."""

from dataclasses import KW_ONLY

import numpy as np

from handful.bilevel.strategy import Strategy, best_rows, random_start
from handful.bilevel.weights import final_weights
from handful.options import Count


class Exchange(Strategy):
    """Exchange swaps the points that help least for those that promise most, from a random set of
    full size.

    In each step the `batch_size` chosen points of the largest implicit gradient leave and as many
    of the smallest enter. The best set of all steps (by its outer loss) is kept, which the paper
    does not do: steps in batches overshoot. The last point of a class stays.

    Parameters
    ----------
    batch_size : int or None, default=None
        Points swapped a step. None: 1 % of the coreset, as in the paper.
    max_iter : int, default=200
        Steps; the paper takes 200.
    """

    batch_size: Count | None = None
    _: KW_ONLY
    max_iter: Count = 200

    def start(self, rows, labels, size, rule, rng):
        """As `Strategy.start`: `size` random rows."""
        return random_start(rows, labels, size, size, rng)

    def bar(self, n, n_start, size):
        """As `Strategy.bar`, of steps."""
        return dict(total=self.max_iter, unit="step")

    def run(self, model, size, *, rule, weighting, labels, bar):
        """As `Strategy.run`."""
        batch_size = max(1, round(0.01 * size)) if self.batch_size is None else self.batch_size
        best = list(model.indices)
        least = np.inf
        try:
            for step in range(self.max_iter + 1):
                model.fit()
                newcomers = best_rows(model, batch_size, rule, batch_size)
                loss = model.mean_loss()
                if loss < least:
                    best = list(model.indices)
                    least = loss
                if step == self.max_iter or not len(newcomers):
                    break
                worst = _worst(model, len(newcomers), labels)
                newcomers = newcomers[: np.count_nonzero(worst)]
                model.drop_rows(worst)
                model.add_rows(newcomers)
                bar.update(1)
        finally:
            # an interruption leaves the best set so far, too
            if best != model.indices:
                model.set_rows(best)
        model.fit()
        return None if weighting == "equal" else final_weights(model)


class Elimination(Strategy):
    """Elimination starts from all rows and drops those of the largest implicit gradient; it suits
    large coresets.

    The last point of a class stays.

    Parameters
    ----------
    batch_size : int or None, default=None
        Points dropped a step. None: a 200th of the rows (the paper: 200 of 45,000).
    """

    batch_size: Count | None = None

    def run(self, model, size, *, rule, weighting, labels, bar):
        """As `Strategy.run`."""
        batch_size = max(1, round(len(model) / 200)) if self.batch_size is None else self.batch_size
        while len(model) > size:
            model.fit()
            worst = _worst(model, min(batch_size, len(model) - size), labels)
            model.drop_rows(worst)
            bar.update(np.count_nonzero(worst))
        return None if weighting == "equal" else final_weights(model)


def _worst(model, count, labels):
    # Mask of the chosen rows, True for the `count` of the smallest score; ties go to the smaller
    # index. The model must be trained.
    chosen = np.asarray(model.indices)
    scores = model.implicit_gradients()
    order = np.lexsort((chosen, scores[chosen]))
    if labels is not None:
        best_of_class = {}
        for place in order[::-1]:
            best_of_class.setdefault(labels[chosen[place]], place)
        order = order[~np.isin(order, list(best_of_class.values()))]
    worst = np.zeros(len(chosen), dtype=bool)
    worst[order[:count]] = True
    return worst
