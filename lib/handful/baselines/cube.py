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
    units = np.where(lengths > 0, lengths, 1.0)
    constraints /= units
    undecided = rng.permutation(np.flatnonzero(state < 1 - DECIDED))
    group_size = max(2, 2 * columns.shape[1])
    while len(undecided) > group_size:
        _fly(constraints, state, undecided, group_size, rng)
        undecided = _still_undecided(state, undecided)
    if len(undecided):
        group = undecided[None]
        flight, _ = _directions(constraints[group])
        [landed] = _walk(state[group], flight, rng)
        state[undecided] = landed
        undecided = _still_undecided(state, undecided)
    if len(undecided):
        totals = columns if judged is None else judged
        rows = totals / probabilities[:, None]
        drawn = rows[state == 1]
        estimated = drawn.sum(axis=0)
        error = estimated - totals.sum(axis=0)
        state[undecided] = _land(
            state[undecided],
            constraints[undecided],
            rows[undecided],
            error,
            rng,
        )
    return np.flatnonzero(state > 0.5)


def _still_undecided(state, rows):
    own = state[rows]
    is_open = (own > 0) & (own < 1)
    return rows[is_open]


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
    that_fit = max(1, GROUP_ENTRIES // n_undecided**2)
    enough = PER_UNDECIDED * n_undecided
    n_landings = min(N_LANDINGS, enough, that_fit)
    states = np.repeat(state[None], n_landings, axis=0)
    directions = np.repeat(directions, n_landings, axis=0)
    landings = _walk(states, directions, rng)
    errors = error + landings @ rows
    worst = np.abs(errors).max(axis=1, initial=0.0)
    largest = worst.max()
    if largest == 0:
        return landings[0]
    cost = (worst / largest) ** STEEP
    ones = np.ones(n_landings)
    mean = landings.mean(axis=0)
    programme = linprog(
        cost,
        A_eq=np.vstack([landings.T, ones]),
        b_eq=np.append(mean, 1.0),
    )
    chances = np.maximum(programme.x, 0.0)
    chances /= chances.sum()
    return landings[rng.choice(n_landings, p=chances)]


def _fly(constraints, state, undecided, group_size, rng):
    """Move the undecided rows, in groups, until half of each group are decided."""
    n_groups = len(undecided) // group_size
    n_rows = n_groups * group_size
    groups = undecided[:n_rows].reshape(n_groups, group_size)
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
    candidates = np.tile(np.eye(size), (n_groups, 1, 1))
    left = [np.empty((n_groups, size, 0))]
    for column in range(n_columns):
        if candidates.shape[2] == 0:
            break
        constraint = constraints[:, :, column]
        length = np.linalg.norm(constraint, axis=1)
        action = np.einsum("gi,gij->gj", constraint, candidates)
        pivot = np.abs(action).argmax(axis=1)
        largest = action[every, pivot]
        is_kept = np.abs(largest) <= DEPENDENT * length
        if is_kept.all():
            continue
        divisor = np.where(is_kept, np.inf, largest)
        shares = action / divisor[:, None]
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
        largest = size.max(axis=1, keepdims=True)
        moves = size > NEGLIGIBLE * np.maximum(largest, NEGLIGIBLE)
        ahead, behind = _rooms(state, direction, size, moves)
        first_ahead = ahead.argmin(axis=1)
        first_behind = behind.argmin(axis=1)
        room_ahead = ahead[every, first_ahead]
        room_behind = behind[every, first_behind]
        can_move = np.isfinite(room_ahead)
        length = room_ahead + room_behind
        place = rng.random(len(state)) * length
        goes_ahead = place < room_behind
        step = np.where(goes_ahead, room_ahead, -room_behind)
        step = np.where(can_move, step, 0.0)
        decided = np.where(goes_ahead, first_ahead, first_behind)
        along = np.where(moves, direction, 0.0)
        state += step[:, None] * along
        entry = every, decided
        arrived = state[entry]
        state[entry] = np.where(can_move, np.round(arrived), arrived)
        state = np.where(state > 1 - DECIDED, 1.0, state)
        state = np.where(state < DECIDED, 0.0, state)
        pivot = np.where(can_move, direction[entry], np.inf)
        shares = directions[entry] / pivot[:, None]
        taken_out = direction[:, :, None] * shares[:, None, :]
        directions = directions - taken_out
        directions[entry] = np.where(can_move[:, None], 0.0, directions[entry])
    return state


def _rooms(state, direction, size, moves):
    """How far each entry can go along a direction, and against it, until it is 0 or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        to_one = (1 - state) / size
        to_zero = state / size
    rises = direction > 0
    ahead = np.where(rises, to_one, to_zero)
    behind = np.where(rises, to_zero, to_one)
    ahead[~moves] = np.inf
    behind[~moves] = np.inf
    return ahead, behind
