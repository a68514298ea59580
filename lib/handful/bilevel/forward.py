"""Forward selection: grow the coreset by the rows that promise most (Algorithm 1, Section 3.5.1)."""

import warnings
from contextlib import suppress
from dataclasses import KW_ONLY
from typing import Literal

import numpy as np

from handful.bilevel.strategy import Strategy, best_rows, random_start
from handful.bilevel.weights import optimise_weights
from handful.checks import ConvergenceError
from handful.options import Count

START = {"linear": 10, "quadratic": 2}  # the first is the paper's
# Weights are optimised again each time the coreset has grown by this factor, in so many Gauss-Newton steps; 1.2 ends
# at the same loss as after every single point, at a third of the cost.
GROWTH = {"binary": np.inf, "optimised": 1.2, "corrective": 1.0}
STEPS_ON_THE_WAY = 3
RISE = 1e-3  # share by which the outer loss may end above the least on the way
REFILLS = 4  # times that points whose optimal weight is zero make room for others


class Forward(Strategy):
    """Forward selection adds the best points to a few random ones (Borsos et al. 2024, Algorithm 1 and Section 3.5.1).

    Parameters
    ----------
    batch_size : int, points added a step. None: one, and a tenth of the coreset for a `Network`, which is trained anew
        in every step
    n_start : int, random points to start from. None: 10 for the linear rule, as in the paper, and 2 for the quadratic
        one, which makes better use of them. Where they are all of the coreset, nothing is selected, and a UserWarning
        says so
    every_class : whether the start holds a point of each class, however few `n_start` are. False suits coresets that
        may be smaller than the number of classes, of models whose penalty covers the intercept
    """

    batch_size: Count | None = None
    _: KW_ONLY
    n_start: Count | None = None
    every_class: Literal[True, False] = True

    ranks = True

    def start(self, rows, labels, size, rule, rng):
        """Random rows; warns where they are all of the coreset."""
        n_start = START[rule] if self.n_start is None else self.n_start
        start = random_start(rows, labels, n_start, size, rng, every_class=self.every_class)
        if size == len(start) < len(rows):
            warnings.warn(
                f"all {size} points are of the random start (n_start={n_start}), so that nothing was selected: "
                "take a smaller n_start, or a larger size.",
                UserWarning,
                stacklevel=5,
            )
        return start

    def bar(self, n, n_start, size):
        """As `Strategy.bar`, of points."""
        return dict(total=size, initial=n_start, unit="point")

    def run(self, model, size, *, rule, weighting, labels, bar):
        """As `Strategy.run`.

        Optimised weights can lead astray where points are fewer than features and nearly interpolated: the outer loss
        is then larger in the end than it was on the way. In that case points are chosen anew for equal weights, these
        are optimised at the end, and the better one of the two sets is taken.
        """
        start = list(model.indices)
        weights, least = self._grow(model, size, rule, weighting, bar)
        if weighting != "optimised" or (loss := model.outer_loss()) <= least * (1 + RISE):
            return weights
        found = list(model.indices)
        _hold(model, start)
        bar.reset()
        with suppress(ConvergenceError):  # data that equal weights do not bear keep the first set
            self._grow(model, size, rule, "binary", bar)
            others = optimise_weights(model)
            if model.outer_loss() < loss:
                return others
        _hold(model, found)
        return weights

    def _grow(self, model, size, rule, weighting, bar):
        # The weights of `size` points, None for equal ones, and the least outer loss that weights had on the way.
        batch_size, weights, least = self.batch_size or 1, None, np.inf
        for refill in range(REFILLS + 1):
            optimised = len(model) if refill else 1  # the size at which the weights were last optimised
            while len(model) < size:
                count = min(batch_size, size - len(model))
                weights = _with_newcomers(weights, len(model))
                if len(model) >= GROWTH[weighting] * optimised:
                    weights, optimised = optimise_weights(model, weights, max_iter=STEPS_ON_THE_WAY), len(model)
                    least = min(least, model.outer_loss())
                else:
                    model.fit(weights)
                best = best_rows(model, count, rule, batch_size, weighting != "binary")
                model.add(best)
                bar.update(len(best))
            if weighting == "binary":
                return None, least
            weights = optimise_weights(model, _with_newcomers(weights, len(model)))
            alive = weights > 0
            n_dead = np.count_nonzero(~alive)
            if n_dead == 0 or refill == REFILLS or not _worth_refilling(model, n_dead, rule):
                return weights, least
            model.keep(alive)
            weights = weights[alive]
            bar.update(-n_dead)


def _hold(model, rows):
    # Makes these the chosen rows, in this order.
    model.keep(np.zeros(len(model), dtype=bool))
    model.add(rows)


def _worth_refilling(model, n_dead, rule):
    # whether that many points like the best one would lower the outer loss by a thousandth
    loss = model.mean_loss()
    best = best_rows(model, 1, rule, 1, True)
    return len(best) > 0 and n_dead * model.predicted_gains(best, free_weights=True)[0] > 1e-3 * loss


def _with_newcomers(weights, s):
    # Newcomers to optimised weights enter with the weight 1 / s.
    if weights is None or len(weights) == s:
        return weights
    weights = np.append(weights, np.full(s - len(weights), 1.0 / s))
    return weights / weights.sum()
