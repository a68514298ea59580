"""Bilevel coresets via regularisation: sparse weights by a penalty of the outer loss (Section
3.5.3, Algorithm 2)."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated

import numpy as np

from handful.bilevel.strategy import Strategy
from handful.bilevel.weights import Descent, final_weights
from handful.options import Count, CountOrZero, number

# the algorithm's epsilon: share of the uniform weights in every iterate
MIXING = 1e-8
# where a larger one has long ceased to change the way
MOST_PENALTY = 1e100
# share of the positive weights that a step must leave, so that the others can take over
AT_ONCE = 0.9


class Regularised(Strategy):
    """Weights of all rows under a penalty that makes most of them zero (Borsos et al. 2024,
    Algorithm 2).

    All weights start equal. Projected gradient steps decrease the outer loss plus ``beta sum_i
    sqrt(w_i)``; the step's length, which the paper leaves open, is found by backtracking. beta
    starts where its slope is a hundredth of the implicit gradient's spread (the paper: at a small
    value) and is doubled when the number of positive weights plateaus. At the step that crosses
    size m, the m largest weights stay, the largest of each class among them, and are optimised
    once more without beta. Until then the outer loss is that of the paper, without the penalty of
    the problem.

    Parameters
    ----------
    max_iter : int, default=1000
        Gradient steps, the algorithm's T; where they do not reach the size, the largest weights
        are kept.
    threshold : float, default=0.01
        Weight below which a row is dropped, in units of the mean weight 1 / n. The paper's 1e-4
        of the total weight is this for n = 100.
    plateau, shrink : int, float
        The penalty beta is doubled where the last `plateau` steps have left more than the share
        `shrink` of the positive weights (the paper: where their number was "plateauing in recent
        iterations").
    polish_max_iter : int, default=30
        Steps of the last optimisation, without penalty, of more than 400 weights; fewer are
        optimised by Gauss-Newton steps. 0 keeps the weights of the step that crossed the size.
    """

    max_iter: Count = 1000
    _: KW_ONLY
    threshold: Annotated[float, number(least=0, below=1)] = 0.01
    plateau: Count = 5
    shrink: Annotated[float, number(above=0, most=1)] = 0.99
    polish_max_iter: CountOrZero = 30

    def run(self, model, size, *, rule, weighting, labels, bar):
        """As `Strategy.run`."""

        def watch(support):
            left = max(support - size, 0)
            bar.update(bar.total - left - bar.n)

        weights = None
        try:
            if len(model) == size:
                weights = final_weights(model, max_iter=self.polish_max_iter)
            else:
                [(_, _, weights)] = self.path(model, [size], labels=labels, watch=watch)
        except KeyboardInterrupt:
            model.set_rows(sorted(model.indices)[:size])
            raise
        return None if weighting == "equal" else weights

    def path(self, model, sizes, *, labels=None, watch=None):
        """Weights of every size in `sizes`, from the largest on, along one run of the algorithm.

        Parameters
        ----------
        model : Model that holds all rows that may be chosen; at each size it is left with the
            chosen ones
        sizes : list of int
        labels : class of every row as an integer, or None
        watch : function of the number of positive weights, called after every step, or None

        Yields
        ------
        size, indices (m,), weights (m,) adding up to 1
        """
        rows = np.sort(model.indices)
        n = len(rows)
        zero = self.threshold / len(rows)
        has_penalty = model.data.penalised
        # With the penalty the loss has no slope at the start, equal weights of all rows.
        model.count_penalty(False)
        descent = Descent(partial(_on_all, model, rows), np.full(n, 1.0 / n))
        todo = sorted(set(sizes), reverse=True)
        history = []
        beta = 0.01 * descent.slope.std() * 2.0 / np.sqrt(n)

        def support(w):
            return np.count_nonzero(w > zero)

        def penalty(w):
            mixed = (1.0 - MIXING) * w + MIXING / n
            return beta * np.sqrt(mixed).sum(), 0.5 * beta / np.sqrt(mixed)

        for _ in range(self.max_iter):
            before = descent.w
            positive = support(descent.w)
            if watch:
                watch(positive)
            history.append(positive)
            if len(history) > self.plateau and positive > self.shrink * history[-self.plateau - 1]:
                beta = 2.0 * beta
                history = []
            least = min(AT_ONCE * positive, positive - 1)
            # no way down at this penalty
            if not descent.step(penalty, lambda w, least=least: support(w) >= least):
                if beta > MOST_PENALTY:
                    break
                beta = 2.0 * beta
                continue
            while todo and support(descent.w) <= todo[0]:
                yield self._snapshot(model, rows, before, todo.pop(0), labels, has_penalty)
                if not todo:
                    return
                # the model was used for something else
                model.count_penalty(False)
                descent.value, descent.slope = descent.evaluate(descent.w)
        for size in todo:
            yield self._snapshot(model, rows, descent.w, size, labels, has_penalty)

    def _snapshot(self, model, rows, w, size, labels, has_penalty):
        model.count_penalty(has_penalty)
        order = np.argsort(-w, kind="stable")
        if labels is not None:
            # No class is lost where there is room for all.
            _, first = np.unique(labels[rows[order]], return_index=True)
            first = first[:size]
            order = np.concatenate([order[first], np.delete(order, first)])
        places = np.sort(order[:size])
        model.set_rows(rows[places])
        c = np.maximum(w[places], 0.0)
        c = c / c.sum()
        if self.polish_max_iter:
            c = final_weights(model, c, max_iter=self.polish_max_iter)
        return size, np.array(model.indices), c


def _on_all(model, rows, w):
    # outer loss and its gradient by the weights of all rows (lines 5 to 8); rows of weight 0 leave
    # the inner problem
    gone = w[np.searchsorted(rows, model.indices)] <= 0
    if gone.any():
        model.drop_rows(gone)
    entering = np.setdiff1d(rows[w > 0], model.indices)
    if len(entering):
        model.add_rows(entering)
    held = w[np.searchsorted(rows, model.indices)]
    model.fit(held / held.sum())
    scores = model.implicit_gradients()
    return model.mean_loss(), -scores[rows].astype(np.float64)
