"""Outer optimisation: the weights of a given set of points that make training on them best on all
the data."""

from functools import partial

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from handful.checks import ConvergenceError

# points up to which an s x s matrix is cheap
GAUSS_NEWTON_BELOW = 400


def on_simplex(w):
    """The point of the simplex nearest to `w`, shape (s,) (Duchi et al. 2008)."""
    w = w - w.max()
    u = np.sort(w)[::-1]
    levels = (np.cumsum(u) - 1.0) / np.arange(1, len(u) + 1)
    return np.maximum(w - levels[np.flatnonzero(u > levels)[-1]], 0.0)


def simplex_quadratic(Q, b, start):
    """Minimise ``1/2 c' Q c - b' c`` over the simplex: a non-negative least squares problem (Lawson
    and Hanson 1974).

    On the simplex the objective is half the square of ``G c`` with ``G = R - r 1'``, where ``Q = R'
    R`` and ``b = R' r``. A penalty ``(1' c - 1)^2 / 2`` in place of the constraint changes the
    length of the solution alone.

    Parameters
    ----------
    Q : positive definite, shape (s, s); b : shape (s,)
    start : what comes back where Q is singular to rounding, so that there is no better point

    Returns
    -------
    c : shape (s,), non-negative, adding up to 1
    """
    s = len(b)
    try:
        R = np.linalg.cholesky(Q).T
        G = R - solve_triangular(R, b, trans="T")[:, None]
        c, _ = nnls(
            np.vstack([G / np.abs(G).max(), np.ones(s)]),
            np.append(np.zeros(s), 1.0),
            maxiter=30 * s,
        )
    except (ValueError, RuntimeError):
        # LinAlgError among them, and what is not finite
        return start
    return c / c.sum()


def optimise_weights(model, weights=None, *, max_iter=20, tol=1e-5):
    """Weights of the selected points that minimise the outer loss (line 6 of Algorithm 1).

    Where the paper takes 150 steps of Adam along the implicit gradient, these are Gauss-Newton
    steps: the parameters are linearised in the weights (the implicit function theorem), the outer
    loss is followed to second order, and the quadratic model is minimised over the simplex, kept
    close to the current weights by a Levenberg-Marquardt term that grows until the outer loss
    decreases. The weights stay on the simplex, so that the inner problem keeps its penalty.

    Parameters
    ----------
    model : Model of s points; left trained with the result
    weights : where to start, shape (s,), adding up to 1; uniform for None
    max_iter : Gauss-Newton steps
    tol : relative decrease of the outer loss below which to stop

    Returns
    -------
    shape (s,), non-negative, adding up to 1
    """
    s = len(model)
    c = np.full(s, 1.0 / s) if weights is None else weights
    loss = _loss(model, c)
    damping = 1e-3
    before = None
    for _ in range(max_iter):
        try:
            Q, slope = model.weight_quadratic()
        except ConvergenceError:
            # the last step went where nothing can be solved
            if before is None:
                raise
            c = before
            break
        scale = np.trace(Q) / s
        # the weights change nothing
        if scale < np.finfo(float).tiny:
            break
        decrease = 0.0
        while decrease <= 0.0 and damping < 1e6:
            D = Q + damping * scale * np.eye(s)
            trial = simplex_quadratic(D, D @ c - slope, c)
            try:
                decrease = loss - _loss(model, trial)
            except ConvergenceError:
                # a step too far: without a class the intercepts have no optimum
                decrease = 0.0
            damping *= 1.0 / 3.0 if decrease > 0.0 else 10.0
        if decrease <= 0.0:
            break
        before = c
        c = trial
        loss -= decrease
        if decrease < tol * loss:
            break
    _loss(model, c)
    return c


class Descent:
    """Projected gradient steps on the simplex, whose length is found by backtracking.

    Parameters
    ----------
    evaluate : function of weights, shape (s,), that gives their value and its gradient
    w : weights to start from
    """

    def __init__(self, evaluate, w):
        self.evaluate = evaluate
        self.w = w
        self.value, self.slope = evaluate(w)
        self._length = self._first_length()

    def _first_length(self):
        return 0.1 / (len(self.w) * max(self.slope.std(), np.finfo(float).tiny))

    def step(self, extra=None, allows=None):
        """A step, shortened until value and `extra` decrease; False, and nothing moves, where none
        does.

        Parameters
        ----------
        extra : function of weights that gives what is added to the value, and its gradient; or None
        allows : function of weights, False for those that no step may end at; None allows all
        """
        more, steeper = (0.0, 0.0) if extra is None else extra(self.w)
        value = self.value + more
        slope = self.slope + steeper
        for _ in range(40):
            trial = on_simplex(self.w - self._length * slope)
            move = trial - self.w
            if not move.any():
                break
            if allows is not None and not allows(trial):
                self._length *= 0.5
                continue
            new, gradient = self.evaluate(trial)
            reached = new if extra is None else new + extra(trial)[0]
            if reached <= value - 1e-4 * (move @ move) / self._length:
                self.w = trial
                self.value = new
                self.slope = gradient
                self._length *= 1.5
                return True
            self._length *= 0.4
        self._length = self._first_length()
        return False


def descend(model, weights=None, *, max_iter=30, tol=1e-5):
    """Weights that decrease the outer loss, by projected gradient steps, for more points than an s
    x s matrix allows.

    Parameters
    ----------
    model, weights, tol : as in `optimise_weights`
    max_iter : int, steps

    Returns
    -------
    shape (s,), non-negative, adding up to 1
    """
    s = len(model)
    descent = Descent(partial(_slope, model), np.full(s, 1.0 / s) if weights is None else weights)
    for _ in range(max_iter):
        before = descent.value
        if not descent.step() or before - descent.value < tol * descent.value:
            break
    _loss(model, descent.w)
    return descent.w


def final_weights(model, weights=None, *, max_iter=30):
    """Weights that minimise the outer loss, by Gauss-Newton steps for few points and by projected
    gradients for many.

    Parameters
    ----------
    model, weights : as in `optimise_weights`
    max_iter : int, projected gradient steps
    """
    if len(model) <= GAUSS_NEWTON_BELOW:
        return optimise_weights(model, weights)
    return descend(model, weights, max_iter=max_iter)


def _loss(model, weights):
    model.fit(weights)
    return model.outer_loss()


def _slope(model, weights):
    # the outer loss and its derivative by the weights (Equation 3)
    model.fit(weights)
    scores = model.implicit_gradients()
    return model.mean_loss(), -scores[model.indices].astype(np.float64)
