"""What `BilevelCoreset` asks of a strategy, the ranking of rows that strategies share, and forward
selection."""

from contextlib import suppress
from dataclasses import KW_ONLY
from typing import Literal

import numpy as np

from handful.bilevel.weights import optimise_weights
from handful.checks import ConvergenceError
from handful.options import Count, Options
from handful.running import warn

# the first is the paper's
START = {"linear": 10, "quadratic": 2}
# Weights are optimised again each time the coreset has grown by this factor, in so many
# Gauss-Newton steps; 1.2 ends at the same loss as after every single point, at a third of the cost.
GROWTH = {"equal": np.inf, "optimised": 1.2, "corrective": 1.0}
STEPS_ON_THE_WAY = 3
# share by which the outer loss may end above the least on the way
RISE = 1e-3
# times that points whose optimal weight is zero make room for others
REFILLS = 4


class Strategy(Options):
    """Base class: how the set is found. A subclass implements `start`, `bar` and `run`."""

    # whether, with equal weights, the first k points are the coreset of size k
    ranks = False

    def start(self, rows, labels, size, rule, rng):
        """Rows to begin with: all that may be chosen, unless a subclass draws some of them.

        Parameters
        ----------
        rows : int array, ascending, the rows that may be chosen
        labels : class of every row of the data as an integer, or None for problems without classes
        size, rule : as in `BilevelCoreset`
        rng : numpy.random.Generator
        """
        return rows

    def bar(self, n, n_start, size):
        """Options of the progress bar, a `Bar`: its total, unit and so on, for `n` rows that may be
        chosen."""
        return dict(total=n - size, unit="point")

    def run(self, model, size, *, rule, weighting, labels, bar):
        """Choose `size` rows, on which the model is left.

        Parameters
        ----------
        model : Model that holds the start
        rule, weighting : as in `BilevelCoreset`
        labels : class of every row, or None
        bar : Bar

        Returns
        -------
        weights, shape (m,), adding up to 1, or None for equal ones
        """
        raise NotImplementedError


def random_start(rows, labels, n_start, size, rng, *, every_class=True):
    """`n_start` random rows, at most `size`; where they have labels, one of each class comes first.

    Parameters
    ----------
    rows, labels : as in `Strategy.start`
    every_class : whether to see to the classes

    Raises
    ------
    ValueError
        for rows of one class, and for a size below the number of classes
    """
    start = rows[rng.choice(len(rows), min(n_start, len(rows)), replace=False)]
    if labels is None or not every_class:
        return start[:size]
    classes = np.unique(labels[rows])
    if len(classes) < 2:
        raise ValueError(
            "all rows with a positive sample_weight have the same label: two classes are needed."
        )
    if size < len(classes):
        way = (
            " For targets of a regression take LeastSquares(...), or a Network with a loss."
            if len(classes) > len(rows) // 10
            else ""
        )
        raise ValueError(
            f"size must be at least {len(classes)}, one point of each class, got size={size}.{way}"
        )
    found, first = np.unique(labels[start], return_index=True)
    heads = start[np.sort(first)].tolist()
    for label in np.setdiff1d(classes, found):
        of_class = rows[labels[rows] == label]
        heads.append(of_class[rng.integers(len(of_class))])
    rest = start[~np.isin(start, heads)][: max(len(start) - len(heads), 0)]
    return np.concatenate([heads, rest]).astype(np.intp)[:size]


def best_rows(model, count, rule, batch_size=1, free_weights=False):
    """Rows of the largest score, best first; ties go to the smaller index. The model must be
    trained.

    Raises
    ------
    ConvergenceError
        if a score is not a finite number
    """
    scores = model.candidate_scores()
    # nan if any score is
    top = scores.max(initial=-np.inf)
    if np.isnan(top) or top == np.inf:
        wrong = np.flatnonzero(np.isnan(scores) | (scores == np.inf))
        raise ConvergenceError(
            f"the scores of {len(wrong)} of {len(scores)} rows are not finite (first: row "
            f"{wrong[0]}): their features "
            "or losses are too large for the model's type; scale the data."
        )
    quadratic = rule == "quadratic"
    rows = top_candidates(scores, max(model.max_candidates, 4 * batch_size) if quadratic else count)
    gains = model.predicted_gains(rows, free_weights=free_weights) if quadratic else scores[rows]
    return rows[np.argsort(-gains, kind="stable")[:count]]


def top_candidates(scores, k):
    """Indices of the `k` largest finite scores (of all if they are fewer), ascending; ties go to
    the smaller index."""
    chosen = np.arange(len(scores)) if k > 1 else scores.argmax(keepdims=True)
    if len(chosen) > k:
        chosen = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
    # where they tie
    if len(chosen) > k:
        chosen = np.sort(chosen[np.argsort(-scores[chosen], kind="stable")[:k]])
    return chosen[scores[chosen] > -np.inf]


class Forward(Strategy):
    """Forward selection adds the best points to a few random ones (Borsos et al. 2024, Algorithm 1
    and Section 3.5.1).

    Parameters
    ----------
    batch_size : int or None, default=None
        Points added a step. None: one, and a hundredth of the coreset for a `Network`, which
        is trained anew in every step. Points that join together are alike, so that larger batches
        of few points may be no better than uniform ones.
    n_start : int or None, default=None
        Random points to start from. None: 10 for the linear rule, as in the paper, and 2 for
        the quadratic one, which makes better use of them. Where they are all of the coreset,
        nothing is selected, and a UserWarning says so.
    every_class : bool, default=True
        Whether the start holds a point of each class, however few `n_start` are. False suits
        coresets that may be smaller than the number of classes, of models whose penalty covers
        the intercept.
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
            starts_by_class = labels is not None and self.every_class
            fewest = len(np.unique(labels[rows])) if starts_by_class else 1
            way = "take a larger size"
            if fewest < size:
                way += f", or a smaller n_start, as in strategy=Forward(n_start={fewest})"
            warn(
                f"all {size} points are of the random start (n_start={n_start}), so that nothing "
                f"was selected: {way}.",
                UserWarning,
            )
        return start

    def bar(self, n, n_start, size):
        """As `Strategy.bar`, of points."""
        return dict(total=size, initial=n_start, unit="point")

    def run(self, model, size, *, rule, weighting, labels, bar):
        """As `Strategy.run`.

        Optimised weights can lead astray where points are fewer than features and nearly
        interpolated: the outer loss is then larger in the end than it was on the way. In that case
        points are chosen anew for equal weights, these are optimised at the end, and the better one
        of the two sets is taken.
        """
        start = list(model.indices)
        weights, least = self._grow(model, size, rule, weighting, bar)
        if weighting != "optimised" or (loss := model.outer_loss()) <= least * (1 + RISE):
            return weights
        found = list(model.indices)
        model.set_rows(start)
        bar.update(len(start) - bar.n)
        # data that equal weights do not bear keep the first set
        with suppress(ConvergenceError):
            self._grow(model, size, rule, "equal", bar)
            others = optimise_weights(model)
            if model.outer_loss() < loss:
                return others
        model.set_rows(found)
        return weights

    def _grow(self, model, size, rule, weighting, bar):
        # The weights of `size` points, None for equal ones, and the least outer loss that weights
        # had on the way.
        batch_size = self.batch_size or 1
        weights = None
        least = np.inf
        for refill in range(REFILLS + 1):
            # the size at which the weights were last optimised
            optimised = len(model) if refill else 1
            while len(model) < size:
                count = min(batch_size, size - len(model))
                weights = _with_newcomers(weights, len(model))
                if len(model) >= GROWTH[weighting] * optimised:
                    weights = optimise_weights(model, weights, max_iter=STEPS_ON_THE_WAY)
                    optimised = len(model)
                    least = min(least, model.outer_loss())
                else:
                    model.fit(weights)
                best = best_rows(model, count, rule, batch_size, weighting != "equal")
                model.add_rows(best)
                bar.update(len(best))
            if weighting == "equal":
                return None, least
            weights = optimise_weights(model, _with_newcomers(weights, len(model)))
            alive = weights > 0
            n_dead = np.count_nonzero(~alive)
            if n_dead == 0 or refill == REFILLS or not _worth_refilling(model, n_dead, rule):
                return weights, least
            model.drop_rows(~alive)
            weights = weights[alive]
            bar.update(-n_dead)


def _worth_refilling(model, n_dead, rule):
    # whether that many points like the best one would lower the outer loss by a thousandth
    loss = model.mean_loss()
    best = best_rows(model, 1, rule, 1, True)
    return (
        len(best) > 0 and n_dead * model.predicted_gains(best, free_weights=True)[0] > 1e-3 * loss
    )


def _with_newcomers(weights, s):
    # Newcomers to optimised weights enter with the weight 1 / s.
    if weights is None or len(weights) == s:
        return weights
    weights = np.append(weights, np.full(s - len(weights), 1.0 / s))
    return weights / weights.sum()
