"""The cube method: random samples that are balanced, so that estimated totals equal the true
ones."""

import numpy as np
from scipy.optimize import linprog

GROUP_ENTRIES = 1 << 21
"""Entries of the null vectors of all groups that are moved at the same time: 16 MiB."""
DEPENDENT = 1e-10
"""A constraint that is smaller than this, beside the length of its column, is met by all vectors
that are left."""
DECIDED = 1e-9
"""A probability this close to 0 or 1 is 0 or 1."""
NEGLIGIBLE = 1e-11
"""An entry of a direction that is smaller than this, beside its largest one, is rounding."""
N_LANDINGS = 500
"""Most landings between which a linear programme chooses: more keep totals little better."""
PER_UNDECIDED = 50
"""Landings for each row that is undecided, as few rows have few different ones."""
STEEP = 6
"""The power of the largest error of a total that the programme minimises: the worst landings
count."""


def cube_sample(columns, probabilities, rng, *, judged=None):
    """Draw a sample with given inclusion probabilities that keeps the totals of some columns.

    The cube method (Deville and Tillé 2004): the vector of probabilities moves at random, without a
    drift, inside the unit cube and along directions that change no estimated total, until its
    entries are 0 or 1 (the flight). When fewer rows are undecided than there are columns, no such
    direction is left, and these rows land: many landings, each of which drops the last column, then
    the one before it, and so on, are given chances by a linear programme, so that totals are kept
    as well as possible on average and each row still has its probability. As Chauvet and Tillé
    (2006) do, the flight takes few rows at a time: groups of twice as many rows as columns, all
    groups at once. Time: about ``10 n q**2`` operations.

    Parameters
    ----------
    columns : float array, shape (n, q) What is balanced, the most important column first: the
        landing drops the last columns first. A column equal to `probabilities` fixes the size of
        the sample, if the probabilities add up to a whole number.
    probabilities : float array, shape (n,)
        Inclusion probabilities, above 0 and at most 1.
    rng : numpy.random.Generator
    judged : float array, shape (n, k), or None for `columns`
        The totals that the landing keeps, in units in which an error of 1 weighs as much in each.

    Returns
    -------
    int array
        Places of the drawn rows, ascending. The sum of ``columns / probabilities[:, None]`` over
        them differs from the sum of `columns` over all rows by no more than the landing's at most q
        rows contribute.
    """
    state = np.array(probabilities, dtype=np.float64)
    constraints = columns / state[:, None]
    lengths = np.linalg.norm(constraints, axis=0)
    constraints /= np.where(lengths > 0, lengths, 1.0)
    undecided = rng.permutation(np.flatnonzero(state < 1 - DECIDED))
    group_size = max(2, 2 * columns.shape[1])
    while len(undecided) > group_size:
        _fly(constraints, state, undecided, group_size, rng)
        undecided = undecided[(state[undecided] > 0) & (state[undecided] < 1)]
    if len(undecided):
        flight, _ = _directions(constraints[undecided][None])
        state[undecided] = _walk(state[undecided][None], flight, rng)[0]
        undecided = undecided[(state[undecided] > 0) & (state[undecided] < 1)]
    if len(undecided):
        totals = columns if judged is None else judged
        rows = totals / probabilities[:, None]
        decided = np.flatnonzero(state == 1)
        error = rows[decided].sum(axis=0) - totals.sum(axis=0)
        state[undecided] = _land(
            state[undecided], constraints[undecided], rows[undecided], error, rng
        )
    return np.flatnonzero(state > 0.5)


def _land(state, constraints, rows, error, rng):
    """One of many landings of the last undecided rows: shape (size,), 0 or 1.

    Each landing has the expectation `state`, and so has their mean; the programme gives them
    chances with the same mean, of which none is likelier to leave large errors.

    Parameters
    ----------
    state : float array, shape (size,), between 0 and 1
    constraints : float array, shape (size, q)
    rows : float array, shape (size, k); what each row adds to the totals if it is drawn
    error : float array, shape (k,); of the totals without these rows
    """
    flight, landing = _directions(constraints[None])
    directions = np.concatenate([flight, landing], axis=2)
    n_undecided = len(state)
    most = max(1, GROUP_ENTRIES // n_undecided**2)
    n_landings = min(N_LANDINGS, PER_UNDECIDED * n_undecided, most)
    landings = _walk(
        np.repeat(state[None], n_landings, axis=0),
        np.repeat(directions, n_landings, axis=0),
        rng,
    )
    worst = np.abs(error + landings @ rows).max(axis=1, initial=0.0)
    if worst.max() == 0:
        return landings[0]
    programme = linprog(
        (worst / worst.max()) ** STEEP,
        A_eq=np.vstack([landings.T, np.ones(n_landings)]),
        b_eq=np.append(landings.mean(axis=0), 1.0),
    )
    chances = np.maximum(programme.x, 0.0)
    return landings[rng.choice(n_landings, p=chances / chances.sum())]


def _fly(constraints, state, undecided, group_size, rng):
    """Move the undecided rows, in groups, until half of each group are decided."""
    n_groups = len(undecided) // group_size
    groups = undecided[: n_groups * group_size].reshape(n_groups, group_size)
    at_once = max(1, GROUP_ENTRIES // group_size**2)
    for start in range(0, n_groups, at_once):
        rows = groups[start : start + at_once]
        flight, _ = _directions(constraints[rows])
        state[rows] = _walk(state[rows], flight, rng)


def _directions(constraints):
    """Independent directions of each group, from those that keep all constraints to one that keeps
    none.

    All unit vectors are candidates. Each constraint in turn is taken out of all candidates but the
    one on which it acts most, which leaves them: Gaussian elimination with pivots of the largest
    size. A candidate that leaves at a constraint keeps all constraints before it.

    Parameters
    ----------
    constraints : float array, shape (groups, size, q)

    Returns
    -------
    flight : float array, shape (groups, size, k)
        Directions that keep all constraints: ``constraints.T @ direction == 0`` in each group.
    landing : float array, shape (groups, size, size - k)
        The candidates that left, the last one first.
    """
    n_groups, size, n_columns = constraints.shape
    every = np.arange(n_groups)
    candidates = np.broadcast_to(np.eye(size), (n_groups, size, size)).copy()
    left = [np.empty((n_groups, size, 0))]
    for column in range(n_columns):
        if candidates.shape[2] == 0:
            break
        action = np.einsum("gi,gij->gj", constraints[:, :, column], candidates)
        pivot = np.abs(action).argmax(axis=1)
        largest = action[every, pivot]
        is_kept = np.abs(largest) <= DEPENDENT * np.linalg.norm(constraints[:, :, column], axis=1)
        if is_kept.all():
            continue
        shares = action / np.where(is_kept, np.inf, largest)[:, None]
        leaving = candidates[every, :, pivot]
        candidates -= leaving[:, :, None] * shares[:, None, :]
        candidates[every, :, pivot] = candidates[:, :, -1]
        candidates = candidates[:, :, :-1]
        left.append(leaving[:, :, None])
    return candidates, np.concatenate(left[::-1], axis=2)


def _walk(state, directions, rng):
    """The states of all groups, moved along each direction in turn until an entry is 0 or 1.

    Of the two ends of a direction the nearer one is the likelier, so that the expected state does
    not move. The entry that is decided is taken out of the directions that follow, by a multiple of
    this direction: they keep what they kept, as this one keeps at least as much.
    """
    state = state.copy()
    every = np.arange(len(state))
    for _ in range(directions.shape[2]):
        direction = directions[:, :, 0]
        directions = directions[:, :, 1:]
        size = np.abs(direction)
        moves = size > NEGLIGIBLE * np.maximum(size.max(axis=1, keepdims=True), NEGLIGIBLE)
        with np.errstate(divide="ignore", invalid="ignore"):
            to_one = np.where(moves, (1 - state) / size, np.inf)
            to_zero = np.where(moves, state / size, np.inf)
        ahead = np.where(direction > 0, to_one, to_zero)
        behind = np.where(direction > 0, to_zero, to_one)
        first_ahead = ahead.argmin(axis=1)
        first_behind = behind.argmin(axis=1)
        room_ahead = ahead[every, first_ahead]
        room_behind = behind[every, first_behind]
        can_move = np.isfinite(room_ahead)
        goes_ahead = rng.random(len(state)) * (room_ahead + room_behind) < room_behind
        step = np.where(can_move, np.where(goes_ahead, room_ahead, -room_behind), 0.0)
        decided = np.where(goes_ahead, first_ahead, first_behind)
        state += step[:, None] * np.where(moves, direction, 0.0)
        state[every, decided] = np.where(
            can_move, np.round(state[every, decided]), state[every, decided]
        )
        state = np.where(state < DECIDED, 0.0, np.where(state > 1 - DECIDED, 1.0, state))
        pivot = np.where(can_move, direction[every, decided], np.inf)
        shares = directions[every, decided] / pivot[:, None]
        directions = directions - direction[:, :, None] * shares[:, None, :]
        directions[every, decided] = np.where(can_move[:, None], 0.0, directions[every, decided])
    return state
