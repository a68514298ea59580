"""Bilevel coresets via regularisation: sparse weights by a penalty of the outer loss (Section 3.5.3, Algorithm 2)."""

import numpy as np

from handful.bilevel.strategy import Strategy
from handful.bilevel.weights import final_weights, on_simplex
from handful.checks import integer, number

MIXING = 1e-8  # the algorithm's epsilon: share of the uniform weights in every iterate
MOST_PENALTY = 1e100  # where a larger one has long ceased to change the way
AT_ONCE = 0.9  # share of the positive weights that a step must leave, so that the others can take over


class Regularised(Strategy):
    """Weights of all rows under a penalty that makes most of them zero (Borsos et al. 2024, Algorithm 2).

    All weights start equal. Projected gradient steps decrease the outer loss plus ``beta sum_i sqrt(w_i)``; the step's
    length, which the paper leaves open, is found by backtracking. beta starts where its slope is a hundredth of the
    implicit gradient's spread (the paper: at a small value) and is doubled when the number of positive weights
    plateaus. At the step that crosses size m, the m largest weights stay and are optimised once more without penalty.

    Parameters
    ----------
    max_iter : int, gradient steps, the algorithm's T; where they do not reach the size, the largest weights are kept
    threshold : weight below which a row is dropped, in units of the mean weight 1 / n. The paper's 1e-4 of the total
        weight is this for n = 100
    plateau, shrink : beta is doubled where the last `plateau` steps have left more than the share `shrink` of the
        positive weights (the paper: where their number was "plateauing in recent iterations")
    polish_max_iter : int, steps of the last optimisation, without penalty, of more than 400 weights; fewer are
        optimised by Gauss-Newton steps. 0 keeps the weights of the step that crossed the size
    """

    _options = {
        "max_iter": integer(),
        "threshold": number(least=0, below=1),
        "plateau": integer(),
        "shrink": number(above=0, most=1),
        "polish_max_iter": integer(least=0),
    }

    def __init__(self, max_iter=1000, *, threshold=0.01, plateau=5, shrink=0.99, polish_max_iter=30):
        self.max_iter = max_iter
        self.threshold = threshold
        self.plateau = plateau
        self.shrink = shrink
        self.polish_max_iter = polish_max_iter

    def run(self, model, size, *, rule, weighting, labels, bar):
        """As `Strategy.run`."""

        def watch(support):
            bar.update(bar.total - support - bar.n)

        weights = None
        try:
            if len(model) == size:
                weights = final_weights(model, max_iter=self.polish_max_iter)
            else:
                [(_, _, weights)] = self.path(model, [size], watch=watch)
        except KeyboardInterrupt:
            _hold(model, np.array(sorted(model.indices))[:size])
            raise
        return None if weighting == "binary" else weights

    def path(self, model, sizes, *, watch=None):
        """Weights of every size in `sizes`, from the largest on, along one run of the algorithm.

        Parameters
        ----------
        model : Model that holds all rows that may be chosen; at each size it is left with the chosen ones
        sizes : list of int
        watch : function of the number of positive weights, called after every step, or None

        Yields
        ------
        size, indices (m,), weights (m,) adding up to 1
        """
        descent = _Descent(model, self.threshold)
        todo, history, beta = sorted(set(sizes), reverse=True), [], None
        for _ in range(self.max_iter):
            support = descent.support(descent.w)
            if watch:
                watch(support)
            if beta is None:
                beta = 0.01 * descent.gradient.std() * 2.0 / np.sqrt(len(descent.w))
            history.append(support)
            if len(history) > self.plateau and support > self.shrink * history[-self.plateau - 1]:
                beta, history = 2.0 * beta, []
            before = descent.w
            if not descent.step(beta):  # no way down at this penalty
                if beta > MOST_PENALTY:
                    break
                beta = 2.0 * beta
                continue
            while todo and descent.support(descent.w) <= todo[0]:
                yield self._snapshot(descent, before, todo.pop(0))
                if not todo:
                    return
                descent.evaluate()
        while todo:
            yield self._snapshot(descent, descent.w, todo.pop(0))

    def _snapshot(self, descent, w, size):
        model, rows = descent.model, descent.rows
        largest = np.sort(np.argsort(-w, kind="stable")[:size])
        _hold(model, rows[largest])
        c = np.maximum(w[descent.position[model.indices]], 0.0)
        c = c / c.sum()
        if self.polish_max_iter:
            c = final_weights(model, c, max_iter=self.polish_max_iter)
        return size, np.array(model.indices), c


class _Descent:
    """Weights w of all rows that a model holds, and projected gradient steps (lines 5 to 8)."""

    def __init__(self, model, threshold):
        self.model, self.rows = model, np.array(model.indices)
        n = len(self.rows)
        self._zero = threshold / n
        self.position = np.full(self.rows.max() + 1, -1)
        self.position[self.rows] = np.arange(n)
        self.w = np.full(n, 1.0 / n)
        self.evaluate()
        self._length = self._first_length()

    def support(self, w):
        """How many weights count as positive."""
        return np.count_nonzero(w > self._zero)

    def evaluate(self):
        """Compute the outer loss and its gradient at the weights anew, after the model was used for something else."""
        self.loss, self.gradient = self._at(self.w)

    def _first_length(self):
        return 0.1 / (len(self.w) * max(self.gradient.std(), np.finfo(float).tiny))

    def _mixed(self, w):
        return (1.0 - MIXING) * w + MIXING / len(w)

    def step(self, beta):
        """A step, shortened until the penalised outer loss decreases; False, and nothing moves, where none does."""
        w, support = self.w, self.support(self.w)
        slope = self.gradient + 0.5 * beta / np.sqrt(self._mixed(w))
        value = self.loss + beta * np.sqrt(self._mixed(w)).sum()
        for _ in range(40):
            trial = on_simplex(w - self._length * slope)
            move = trial - w
            if not move.any():
                break
            if self.support(trial) < min(AT_ONCE * support, support - 1):
                self._length *= 0.5
                continue
            loss, gradient = self._at(trial)
            new = loss + beta * np.sqrt(self._mixed(trial)).sum()
            if new <= value - 1e-4 * (move @ move) / self._length:
                self.w, self.loss, self.gradient = trial, loss, gradient
                self._length *= 1.5
                return True
            self._length *= 0.4
        self._length = self._first_length()
        return False

    def _at(self, w):
        # outer loss and its gradient by the weights of all rows; rows of weight zero leave the inner problem
        model = self.model
        alive = w[self.position[model.indices]] > 0
        if not alive.all():
            model.keep(alive)
        entering = np.setdiff1d(np.flatnonzero(w > 0), self.position[model.indices])
        if len(entering):
            model.add(self.rows[entering])
        held = self.position[model.indices]
        model.fit(w[held] / w[held].sum())
        scores = model.row_scores()
        return model.mean_loss(), -scores[self.rows].astype(np.float64)


def _hold(model, indices):
    # let the model hold these rows
    model.keep(np.isin(model.indices, indices))
    missing = np.setdiff1d(indices, model.indices)
    if len(missing):
        model.add(missing)
