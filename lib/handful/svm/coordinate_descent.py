"""Dual coordinate descent for the hinge loss whose bias is not penalised: memory O(nnz + n + d),
for many features.

One dual variable at a time is maximised over, with shrinking, as in Hsieh et al., "A Dual
Coordinate Descent Method for Large-scale Linear SVM" (2008). A bias without penalty adds the
constraint ``sum_i y_i a_i = 0``, which no single variable can keep: it gets a quadratic penalty and
a multiplier, which is the bias itself (the method of multipliers; on the primal side, the
proximal-point method in the bias). The penalty is that of a constant feature as long as the others
together. The multiplier moves after every few passes, and since a short step of the bias moves the
sum of all points near the margin, two or three moves settle it.

A certificate is computed now and then: the primal objective with the best bias for the current
normal, and the dual objective at a feasible point. Both hold whatever the state of the descent.
"""

import numpy as np
from numba import njit
from scipy import sparse

from handful.svm.interior_point import Solution, dual_objective

# with fewer features the interior-point method is always taken
WIDE = 500
# of the interior-point method, for the comparison of costs
ITERATIONS = 30
# nanoseconds of an operation in a Gram matrix, sparse or dense,
GRAM = {True: 1.0, False: 0.09}
# in its Cholesky factor,
FACTOR = 0.1
# and of a stored number in a pass of the descent: ratios of these times matter only
PASS = 10.0
# of the interior-point method's time is given to the descent, which loses no more than that
SHARE = 0.25
# passes; with fewer it is not worth a try
LEAST = 40
# for each iteration that `max_iter` allows
PASSES = 50
# passes between two moves of the multiplier
MOVES = 10
# passes at most between two certificates
CHECK = 20
# finite input is checked before; signs of zero do not matter
FAST = {"reassoc", "contract", "nsz", "arcp"}
# violations (in units of the margin) at which shrunk points come back
FIRST = 0.1
SHARPER = 0.1
LAST = 1e-13


def affordable_passes(A):
    """Passes over `A` (shape (n, d + 1)) worth a try before the interior-point method; 0 for
    none."""
    n = A.shape[0]
    d = A.shape[1] - 1
    if d <= WIDE:
        return 0
    is_sparse = sparse.issparse(A)
    counts = np.diff(A.indptr).astype(np.float64) if is_sparse else np.full(n, float(d))
    of_gram = GRAM[is_sparse] * 0.5 * (counts @ counts)
    of_factor = FACTOR * d**3 / 3
    interior = ITERATIONS * (of_gram + of_factor)
    passes = SHARE * interior / (PASS * max(counts.sum(), 1.0))
    return int(passes) if passes >= LEAST else 0


def descend(A, y, c, *, tol, bias=0.0, max_iter=10_000):
    """Minimise the weighted hinge loss, penalty 1/2 |w|^2, to a certified relative gap of `tol`.

    Parameters
    ----------
    A : from `with_ones`, shape (n, d + 1)
    y : float array, shape (n,), -1 or +1, both present
    c : positive float array, shape (n,), the price of each point's hinge loss
    tol : float, relative duality gap
    bias : float, where to start
    max_iter : int, passes: updates of dual variables, in units of n

    Returns
    -------
    Solution, its `n_iter` the passes; it may not have reached `tol`: the caller looks at `gap`
    """
    A = sparse.csr_array(A)
    # unsigned: numba counts from the front
    arrays = A.data, A.indices.astype(np.uint32), A.indptr.astype(np.uint64)
    sq_norms = np.add.reduceat(A.data**2, A.indptr[:-1]) - 1.0
    # Squared length of the constant feature: that of the others, and so that a move of the sum
    # moves the bias by 1.
    constant = max(c @ sq_norms, 1.0) / c.sum()
    n = len(y)
    a = np.zeros(n)
    w = np.zeros(A.shape[1])
    order = np.arange(n)
    w[-1] = bias
    best_w = w
    best_share = a
    objective = np.inf
    bound = -np.inf
    state = np.ones(1, dtype=np.uint64)
    active = n
    limits = (np.inf, -np.inf)
    violation = FIRST
    work = 0
    while True:
        active, limits, reached, done = _descend(
            *arrays,
            y,
            c,
            a,
            w,
            sq_norms,
            constant,
            order,
            state,
            active,
            limits,
            violation,
            CHECK * n,
        )
        work += done
        # without the rounding of many small updates
        w[:-1] = (A.T @ (y * a))[:-1]
        scores = A @ w
        candidate = w.copy()
        candidate[-1] += _best_bias(scores, y, c)
        margins = y * (scores + candidate[-1] - w[-1])
        value = 0.5 * w[:-1] @ w[:-1] + c @ np.maximum(0.0, 1.0 - margins)
        if value < objective:
            best_w = candidate
            objective = value
        certified = dual_objective(A, y, c, a / c)
        if certified > bound:
            best_share = a / c
            bound = certified
        is_exact = objective - bound <= tol * objective
        if is_exact or work >= max_iter * n or violation < LAST:
            return Solution(
                best_w,
                best_share,
                float(objective),
                float(bound),
                -(-work // n),
                "coordinate descent",
            )
        if reached:
            active = n
            limits = (np.inf, -np.inf)
            # else the bias moves by more than that
            if constant * abs(y @ a) <= violation:
                violation *= SHARPER


def _best_bias(scores, y, c):
    """The bias b that minimises ``sum_i c_i [1 - y_i (scores_i + b)]_+``: where its slope changes
    sign."""
    kinks = y - scores
    order = np.argsort(kinks)
    slopes = np.cumsum(c[order]) - c[y > 0].sum()
    turn = min(np.searchsorted(slopes, 0.0), len(y) - 1)
    return kinks[order[turn]]


@njit(cache=True)
def _shuffle(order, n, state):
    # The first n entries in a random order, the same in every call.
    for last in range(n - 1, 0, -1):
        state[0] = state[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        k = int(((state[0] >> np.uint64(33)) * np.uint64(last + 1)) >> np.uint64(31))
        order[last], order[k] = order[k], order[last]


@njit(cache=True)
def _points_outwards(a, c, gradient, top, bottom):
    # Whether a dual variable is at a limit, and would leave it by a gradient beyond top or bottom.
    if a == 0.0 and gradient > top:
        return True
    return a == c and gradient < bottom


@njit(cache=True, fastmath=FAST, error_model="numpy")
def _descend(
    data,
    columns,
    starts,
    y,
    c,
    a,
    w,
    sq_norms,
    constant,
    order,
    state,
    active,
    limits,
    violation,
    budget,
):
    """Passes over the active points, in place, until no one violates optimality by `violation`, or
    for `budget` steps.

    The first `active` entries of `order` are the active points. Points at a limit whose gradient
    points outwards by more than any violation of the pass before (`limits`) leave them. `state` is
    that of the random numbers.

    Returns
    -------
    active, limits, whether `violation` was reached, steps done
    """
    top, bottom = limits
    one = np.uint64(1)
    total = (y * a).sum()
    done = 0
    n_passes = 0
    while done < budget:
        if n_passes % MOVES == 0:
            w[-1] += constant * total
        n_passes += 1
        _shuffle(order, active, state)
        highest = -np.inf
        lowest = np.inf
        position = 0
        while position < active:
            i = order[position]
            # without the constant feature
            begin = starts[i]
            end = starts[i + 1] - one
            score = w[-1] + constant * total
            for p in range(begin, end):
                score += data[p] * w[columns[p]]
            gradient = y[i] * score - 1.0
            done += 1
            if _points_outwards(a[i], c[i], gradient, top, bottom):
                active -= 1
                order[position] = order[active]
                order[active] = i
                continue
            position += 1
            if _points_outwards(a[i], c[i], gradient, 0.0, 0.0):
                highest = max(highest, 0.0)
                lowest = min(lowest, 0.0)
                continue
            highest = max(highest, gradient)
            lowest = min(lowest, gradient)
            new = min(max(a[i] - gradient / (sq_norms[i] + constant), 0.0), c[i])
            step = (new - a[i]) * y[i]
            a[i] = new
            total += step
            for p in range(begin, end):
                w[columns[p]] += step * data[p]
        if highest - lowest <= violation:
            return active, (top, bottom), True, done
        top = highest if highest > 0.0 else np.inf
        bottom = lowest if lowest < 0.0 else -np.inf
    return active, (top, bottom), False, done
