"""Figure 13 of the bilevel paper: merge and reduce, read off a real run of the buffer (Section 4.2,
Algorithm 3)."""

from dataclasses import dataclass

import numpy as np
from handful import BilevelCoreset, Logistic, MergeReduce

from handful_papers.claims import Evidence
from handful_papers.style import REPRODUCED


@dataclass(frozen=True)
class Built:
    """A coreset that the run built.

    Attributes
    ----------
    step : int, from 1, when it was built
    first, last : int, from 1, the batches that it stands for
    ids : int array, its points, as positions in the stream; empty if it was merged in the step in
        which it was built
    parents : pair of (first, last), or () for a single batch
    """

    step: int
    first: int
    last: int
    ids: np.ndarray
    parents: tuple = ()

    @property
    def weight(self):
        """Number of batches, in units of the paper's beta."""
        return self.last - self.first + 1

    @property
    def name(self):
        """As the paper labels it: C1, C12, C1234."""
        batches = range(self.first, self.last + 1)
        return "C" + "".join(map(str, batches))


def record_run(buffer, batches):
    """Feed batches to a buffer, and write down which coresets it builds of which.

    All is read from what the buffer shows after each batch: `slot_weights_`, which say how many
    batches each slot stands for, and `coreset_`, its points.

    Parameters
    ----------
    buffer : MergeReduce with `n_slots`, not fitted yet; its `leaf_size` is the length of a batch
    batches : list of (X, y); `y` may be None

    Returns
    -------
    built : list of Built, in the order of their construction
    held : list, for each step the list of (first, last) in the buffer
    """
    built = []
    held = []
    known = []
    for step, (X, y) in enumerate(batches, start=1):
        buffer.partial_fit(X, y)
        weights = np.asarray(buffer.slot_weights_)
        lasts = np.cumsum(weights)
        firsts = lasts - weights + 1
        now = list(zip(map(int, firsts), map(int, lasts)))
        ids = np.split(buffer.coreset_.indices, buffer.size * np.arange(1, len(now)))
        spans = dict(zip(now, ids))
        newest = (step, step)
        nothing = np.empty(0, dtype=np.int64)
        built.append(Built(step, *newest, spans.get(newest, nothing)))
        for first, last in now:
            if (first, last) not in known and (first, last) != newest:
                before = [*known, newest]
                parents = tuple(one for one in before if first <= one[0] and one[1] <= last)
                built.append(Built(step, first, last, spans[first, last], parents))
        known = now
        held.append(now)
    return built, held


def drifting_stream(seed, n_steps, batch_size):
    """Batches (X, y) of two classes whose boundary stays while the data wander along it."""
    rng = np.random.default_rng(seed)
    batches = []
    for step in range(n_steps):
        X = rng.normal(size=(batch_size, 2)) * [1.0, 0.6] + [1.5 * step, 0.0]
        height = X[:, 1] + 0.3 * rng.normal(size=batch_size)
        y = (height > 0.4 * np.sin(X[:, 0])).astype(int)
        batches.append((X, y))
    return batches


def run(seed, *, n_steps, slots, batch_size, slot_size):
    """`record_run` of a buffer of bilevel coresets for logistic regression on a drifting stream."""
    selector = BilevelCoreset(Logistic(l2=0.01), weighting="equal", outer_penalty=False)
    buffer = MergeReduce(
        selector,
        size=slot_size,
        leaf_size=batch_size,
        n_slots=slots,
        random_state=seed,
    )
    return record_run(buffer, drifting_stream(seed, n_steps, batch_size))


def built_rows(seed, **options):
    """What `run` builds, a task of the sweep: a row for each coreset, with seed, step, coreset,
    weight and points."""
    built, _ = run(seed, **options)
    rows = []
    for one in built:
        row = dict(
            seed=seed,
            step=one.step,
            coreset=one.name,
            weight=one.weight,
            points=len(one.ids),
        )
        rows.append(row)
    return rows


def algorithm_3(slots, n_steps):
    """The buffer's weights after every step by the printed pseudocode of Algorithm 3, in its
    plainest terms.

    Merged are the two newest if the newest old slot weighs less than the one before it (or is the
    only one), else the first two neighbours of equal weight. `MergeReduce` takes, of several such
    pairs, the one of smallest weight, as the authors' code does; with three slots that is the same.

    Returns
    -------
    list of lists of int
    """
    weights = []
    history = []
    for _ in range(n_steps):
        weights.append(1)
        if len(weights) > slots:
            k = slots - 1
            if slots > 1 and weights[slots - 2] <= weights[slots - 1]:
                k = next(i for i in range(slots) if weights[i] == weights[i + 1])
            weights[k : k + 2] = [weights[k] + weights[k + 1]]
        history.append(list(weights))
    return history


def draw(ax, built, held, step):
    """The tree of all coresets built up to `step`: batches below, what the buffer holds then in
    grey.

    Parameters
    ----------
    ax : matplotlib Axes
    built, held : from `record_run`
    step : int, from 1
    """
    shown = sorted((one for one in built if one.step <= step), key=lambda one: one.weight)
    place = {}
    for one in shown:
        below = max((place[parent][1] for parent in one.parents), default=0.0)
        place[one.first, one.last] = ((one.first + one.last) / 2, 1.0 + below)
    boxes = {}
    for one in shown:
        span = (one.first, one.last)
        node = _draw_node(ax, one, place[span], is_held=span in held[step - 1])
        boxes[span] = node
        if not one.parents:
            _join(ax, _draw_batch(ax, one.first, place[span][0]), node, "->")
        for parent in one.parents:
            _join(ax, boxes[parent], node, "-")
    top = max(height for _, height in place.values())
    right = max(one.last for one in shown)
    ax.set(xlim=(0.4, right + 0.6), ylim=(-0.4, top + 0.6))
    ax.axis("off")


def _draw_node(ax, one, place, *, is_held):
    """A coreset's box with its name and weight, and the step that built it beside it."""
    weight = r"$\beta$" if one.weight == 1 else rf"${one.weight}\beta$"
    box = dict(
        boxstyle="round,pad=0.35",
        facecolor="#c8c8c8" if is_held else "white",
        edgecolor="#222222",
        lw=0.7,
    )
    text = f"$C_{{{one.name[1:]}}}$, {weight}"
    node = ax.annotate(
        text,
        place,
        ha="center",
        va="center",
        bbox=box,
        zorder=2,
    )
    ax.annotate(
        str(one.step),
        (0, 0.5),
        fontsize=7,
        color=REPRODUCED,
        xycoords=node,
        xytext=(-8, 0),
        textcoords="offset points",
        ha="right",
        va="center",
    )
    return node


def _draw_batch(ax, number, x):
    blank = dict(boxstyle="round,pad=0.1", facecolor="white", edgecolor="none")
    text = f"$D_{number}$"
    return ax.annotate(
        text,
        (x, 0),
        ha="center",
        va="center",
        bbox=blank,
        zorder=2,
    )


def _join(ax, lower, upper, style):
    """A line or an arrow from one box up to another."""
    look = dict(
        patchA=lower.get_bbox_patch(),
        patchB=upper.get_bbox_patch(),
        shrinkA=0,
        shrinkB=0,
        arrowstyle=style,
        lw=0.8,
        color="#777777",
        zorder=1,
    )
    ax.annotate("", upper.xyann, lower.xyann, arrowprops=look)


# --- which numbers decide the claims


# The coresets that the figure shows.
SHOWN = {*(f"C{i}" for i in range(1, 8)), "C12", "C34", "C56"}


def evidence(run):
    """Claim -> the numbers of a run that decide it."""
    given = run.parameters
    run.facts.update(steps=given["n_steps"], slots=given["slots"])
    printed = algorithm_3(given["slots"], given["n_steps"])
    found = []
    right = []
    free_slots = []
    free_points = []
    for _, built in run.rows.groupby("seed"):
        small = set(built[built.weight <= 2].coreset)
        found.append(len(small & SHOWN) - len(small - SHOWN))
        held = [_held(built, step) for step in range(1, given["n_steps"] + 1)]
        agree = [list(now.weight) == weights for now, weights in zip(held, printed)]
        right.append(100 * sum(agree) / len(agree))
        free_slots.append(given["slots"] - max(map(len, held)))
        room = given["slots"] * given["slot_size"]
        free_points.append(room - max(now.points.sum() for now in held))
    settings = {
        "coresets built, less the figure's": np.array(found) - len(SHOWN),
        "percent of the steps by Algorithm 3, less 100": np.array(right) - 100,
        "free slots": free_slots,
        "room for points": free_points,
    }
    return {"bico-fig13-tree": Evidence(settings, shown=float(min(found)))}


def _held(built, step):
    """Rows of the slots after a step: of the coresets built so far, those that no larger one stands
    for."""
    now = built[built.step <= step]
    now = now.assign(batches=now.coreset.str[1:])

    def is_merged(own):
        # "12" lies in "1234".
        return any(own in other and own != other for other in now.batches)

    return now[~now.batches.map(is_merged)].sort_values("batches")
