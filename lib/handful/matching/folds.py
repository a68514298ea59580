"""Cross-validation on matched rows: folds, optima where they are matched, and how far a curve is
off."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from handful.checks import check_integer
from handful.forms import kind_of_labels
from handful.matching.path import local_optimum, optimum, penalised
from handful.models.newton import bordered, root_of_inverse
from handful.tables import as_array, missing

# Rows of the sample that says how the loss of all is curved, and of its part that says where
# optima are, before a step towards those of all rows.
PILOT = 20_000
PATH_PILOT = 5000
# For each parameter there are at least so many of the latter.
PER_PARAMETER = 50
# Where the path of L1 penalties is matched: shares of the least at which all coefficients are zero.
L1_SHARES = np.array([1.0, 0.5, 0.2, 0.07, 0.015])
# Where curves are checked: so many penalties are looked at from one of these to the next.
FINER = 3
# Those whose model is nearer to a matched one than this share of the largest distance are left out.
NEAR_SHARE = 0.1
# An L1 penalty at which every coefficient is zero.
ALL_ZERO = 1e9
# A row with this label is in every training set and in no test set, as in `PredefinedSplit`.
NEVER_TESTED = -1


@dataclass(frozen=True)
class Folds:
    """The fold of each row.

    Attributes
    ----------
    codes : int array, shape (n,), places in `labels`
    labels : int array, shape (K,), what `PredefinedSplit` takes: -1 is never tested
    """

    codes: np.ndarray
    labels: np.ndarray

    @property
    def tested(self):
        """Codes of the folds that are tested, in turn."""
        return np.flatnonzero(self.labels != NEVER_TESTED)

    def __getitem__(self, places):
        return Folds(self.codes[places], self.labels)


# Of what scikit-learn's splitters give, pairs of arrays of rows.
PARTS = (list, tuple, np.ndarray)
OF_SPLITS = (
    "give the number of the fold that tests it for each row, folds[test] = k for k, (_, test) in "
    "enumerate(splitter.split(X, y))"
)


def folds_of_rows(folds, codes, weights, rng):
    """The `Folds` of all rows.

    Parameters
    ----------
    folds : int, so many are drawn, each with its share of each class; or array, shape (n,), the
        fold of each row: whole numbers, of which -1 is never tested, or any labels
    codes : array, shape (n,), the class of each row; zeros where there are no classes
    weights : shape (n,); rows of weight zero are no part of a fold
    rng : Generator

    Raises
    ------
    ValueError
        for fewer than two folds, an array of another length, missing labels, and a fold whose test
        or training rows lack a class or have no weight
    """
    n = len(weights)
    if isinstance(folds, list | tuple) and any(isinstance(one, PARTS) for one in folds):
        raise ValueError(f"folds must be an integer or one label a row, got splits: {OF_SPLITS}.")
    if np.ndim(folds) == 0:
        why = OF_SPLITS if hasattr(folds, "split") or hasattr(folds, "__next__") else ""
        check_integer("folds", folds, least=2, why=why)
        drawn = np.empty(n, np.min_scalar_type(-folds))
        order = np.argsort(rng.random(n))
        # Small integers are sorted in the time of a pass.
        shuffled = codes.astype(np.int16)[order]
        # Rows of weight zero come last, whatever their class.
        shuffled[weights[order] == 0] = np.iinfo(np.int16).max
        order = order[np.argsort(shuffled, kind="stable")]
        drawn[order] = np.resize(np.arange(folds), n)
        found = Folds(drawn, np.arange(folds))
    else:
        found = _given_folds(as_array(folds), n)
    _check_folds(found, codes, weights)
    return found


def _given_folds(folds, n):
    if folds.shape != (n,):
        raise ValueError(
            f"folds must be an integer or one label a row, shape ({n},), got {folds.shape}."
        )
    if missing(folds).any():
        raise ValueError("folds must give each row a fold, got missing labels.")
    if folds.dtype.kind == "O" and kind_of_labels(folds) == "numbers":
        folds = folds.astype(np.float64)
    labels, places = np.unique(folds, return_inverse=True)
    # as a merge of tables leaves them
    is_small = labels.dtype.kind == "f" and np.abs(labels).max() < 2**31
    if is_small and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int32)
    if labels.dtype.kind not in "iu":
        labels = np.arange(len(labels))
    return Folds(places.astype(np.min_scalar_type(-len(labels))), labels)


def _check_folds(folds, codes, weights):
    n_classes = int(codes.max()) + 1
    n_folds = len(folds.labels)
    cells = folds.codes.astype(np.int64) * n_classes + codes
    held = np.bincount(cells, weights, n_folds * n_classes)
    held = held.reshape(n_folds, n_classes)
    if n_folds < 2 or not len(folds.tested):
        raise ValueError("folds must be at least two, one of them not -1, got one.")
    if n_folds > len(codes):
        raise ValueError(
            f"folds must be at most the number of rows, got {n_folds} for {len(codes)}."
        )
    for k in folds.tested:
        if not held[k].sum() > 0:
            raise ValueError(f"fold {folds.labels[k]} holds no row of positive weight.")
        if not (held.sum(0) - held[k] > 0).all():
            raise ValueError(
                f"all rows of a class are in fold {folds.labels[k]}: a model trained without it "
                "does not know the class. Take fewer folds, or folds that are stratified."
            )


@dataclass(frozen=True)
class CurveReport:
    """What one pass over all rows says of a cross-validated loss computed on matched rows.

    Each model was trained on the matched rows of all folds but one. Losses are means of the
    negative log-likelihood, in nats, over the fold that was left out.

    Attributes
    ----------
    loss : float array, shape (K,), of these models on all rows of each fold
    loss_of_rows : float array, shape (K,), the same on the matched rows
    error : by how much the mean of `loss_of_rows` differs from the mean loss of models trained on
        all rows, to second order in the difference of the gradients of both training losses; how
        the loss of all rows is curved is seen on a sample of 20,000
    excess : the most by which one of the models misses the least training loss of all rows, per
        row, by the same difference of gradients
    """

    loss: np.ndarray
    loss_of_rows: np.ndarray
    error: float
    excess: float

    def __str__(self):
        return (
            f"Held-out loss on all rows {self.loss.mean():.6g}, on the matched rows "
            f"{self.loss_of_rows.mean():.6g}. Models trained on all rows would have about "
            f"{self.loss_of_rows.mean() - self.error:.6g}, a difference of {self.error:+.2g}. "
            f"Training loss above the least on all rows: at most about {self.excess:.2g}."
        )


def strengths(rows, low, high, finer=1):
    """Pairs of an L1 and an L2 penalty, per mean loss: L2 penalties a decade apart, or less, then
    L1 penalties of all strengths that leave a coefficient, both from the largest on.

    Parameters
    ----------
    rows : `Rows`, that say from which L1 penalty on all coefficients are zero
    low, high : the least and the largest L2 penalty
    finer : so many steps are made of one
    """
    null = optimum(rows, ALL_ZERO, 0.0, np.zeros(len(penalised(rows))))
    slopes = rows.slopes(null[None])[0] / rows.weights.sum()
    all_zero = np.abs(slopes * penalised(rows)).max()
    n_l2 = n_optima(low, high) - len(L1_SHARES)
    l2 = np.geomspace(high, low, finer * (n_l2 - 1) + 1)
    steps = np.arange(finer * (len(L1_SHARES) - 1) + 1) / finer
    shares = np.exp(np.interp(steps, np.arange(len(L1_SHARES)), np.log(L1_SHARES)))
    return [(0.0, value) for value in l2] + [(value, 0.0) for value in shares * all_zero]


def n_optima(low, high):
    """How many `strengths` there are, a decade apart."""
    return 1 + int(np.ceil(np.log10(high / low) - 1e-6)) + len(L1_SHARES)


def far_apart(rows, pairs, thetas, size):
    """Which of the optima of some `strengths` are matched, so many that every other one is near,
    and at which others the curve is checked.

    After the ends of both paths the farthest from those before (Gonzalez 1985). The distance is
    the mean of both Kullback-Leibler divergences of two models, in nats a row.

    Parameters
    ----------
    rows : `Rows`, that say how the loss slopes
    pairs : G pairs of penalties
    thetas : shape (G, p)
    size : how many are matched

    Returns
    -------
    matched, checked : int arrays, ascending
    """
    slopes = rows.slopes(thetas) / rows.weights.sum()
    apart = np.array(
        [((theta - thetas) * (slopes - slope)).sum(1) for theta, slope in zip(thetas, slopes)]
    )
    n_l2 = sum(l1 == 0 for l1, _ in pairs)
    last = len(pairs) - 1
    # where no l1 leaves a coefficient there are those of l2 alone
    matched = [0, n_l2 - 1, min(n_l2, last), last]
    while len(matched) < size:
        matched.append(int(apart[matched].min(0).argmax()))
    distance = apart[matched].min(0)
    is_checked = distance > NEAR_SHARE * distance.max()
    # Where the L2 penalty is the least, models trained without a fold differ the most; and without
    # a fold coefficients come in at another L1 penalty, also near a model that is matched.
    is_checked[n_l2 - 1 :] = True
    return np.unique(matched), np.flatnonzero(is_checked)


def where_to_match(rows, sample, pairs, thetas):
    """Optima of all rows at some pairs of penalties, shape (J, p): those of a sample of the rows,
    moved by one step."""
    slopes = rows.slopes(thetas) / rows.weights.sum()
    moved = []
    for theta, slope, (l1, l2) in zip(thetas, slopes, pairs):
        now = sample.expansion(theta) / sample.weights.sum()
        now[0, 1:] = slope
        moved.append(local_optimum(now, penalised(rows), l1, l2, theta))
    return np.array(moved)


def sample_of(rows):
    """Some of the rows, as many of each fold, in memory."""
    return _thinned(rows, PILOT)


def places_of_sample(rows, size=PILOT):
    """Places of some of the rows that count, ascending, the same whenever they are asked for."""
    return np.sort(rows.drawn(size, np.random.default_rng(0)))


def path_sample(sample):
    """Part of a sample, enough to find its optima."""
    size = max(PATH_PILOT, PER_PARAMETER * len(penalised(sample)))
    return _thinned(sample, size)


def _thinned(rows, size):
    if rows.folds is None or rows.n_present <= size:
        places = places_of_sample(rows, size)
        return rows.restricted(places, rows.weights[places])
    rng = np.random.default_rng(0)
    of_each = -(-size // rows.n_folds)
    chosen = []
    kept = []
    for k in range(rows.n_folds):
        is_in = rows.folds.codes == k
        is_in &= rows.weights > 0
        places = np.flatnonzero(is_in)
        mass = rows.weights[places].sum()
        if len(places) > of_each:
            places = rng.choice(places, of_each, replace=False)
        weights = rows.weights[places]
        chosen.append(places)
        kept.append(mass / weights.sum() * weights)
    places = np.concatenate(chosen)
    order = np.argsort(places)
    return rows.restricted(places[order], np.concatenate(kept)[order])


def models_without(few, pairs, starts):
    """Optima at `strengths` of the rows of all folds but one, shape (G, K, p), each searched from a
    start, shape (G, p)."""
    codes = few.folds.codes
    others = [few.where(codes != k) for k in few.folds.tested]
    found = [[optimum(rows, *pair, start) for rows in others] for pair, start in zip(pairs, starts)]
    return np.array(found)


def along(rows, pairs):
    """Optima on rows at pairs of an L1 and an L2 penalty, per mean loss, shape (J, p)."""
    theta = np.zeros(len(penalised(rows)))
    found = []
    for l1, l2 in pairs:
        theta = optimum(rows, l1, l2, theta)
        found.append(theta)
    return np.array(found)


def l2_at_optimum(theta, slope, covers):
    """The L2 penalty of an elastic net whose optimum is `theta`, by least squares.

    Parameters
    ----------
    theta : shape (p,)
    slope : shape (p,), of the mean log-likelihood, which the slope of the penalty equals
    covers : shape (p,), one where the penalty acts, else zero
    """
    on = (theta != 0) & (covers > 0)
    if not on.any():
        return 0.0
    penalties = np.column_stack([np.sign(theta[on]), theta[on]])
    return nnls(penalties, slope[on])[0][1]


def curve_reports(rows, sample, few, thetas, pairs=None):
    """The `CurveReport` of each of some settings, a list.

    Parameters
    ----------
    rows, sample, few : `LikelihoodSums`, all, some of them that say how the loss of all is curved,
        and the matched ones, with their folds
    thetas : shape (G, K, p), for each setting and each fold that is tested the model of the
        matched rows outside of the fold
    pairs : G pairs of an L1 and an L2 penalty; None where they are not known, and coefficients
        that are zero are taken to stay so
    """
    tested = rows.folds.tested
    mass = np.bincount(rows.folds.codes, rows.weights, rows.n_folds)[tested]
    outside = rows.weights.sum() - mass
    values_few, _, others_few = few.over_folds(thetas)
    loss_few = -values_few / mass
    # A sample lacks the rows at which squares and the means of counts are huge.
    is_heavy = rows.model.squares or rows.model.counts
    is_exact = is_heavy or pairs is None
    centers = thetas.mean(1)
    if is_exact:
        on_rows = zip(*rows.over_folds(thetas))
    else:
        at_centers = rows.of_folds(centers)
    codes = sample.folds.codes
    parts = [sample.where(codes == k) for k in range(rows.n_folds)]
    covers = penalised(few)
    loss = np.zeros(loss_few.shape)
    moves = np.zeros(loss.shape)
    excess = np.zeros(loss.shape)
    for g, models in enumerate(thetas):
        if is_exact:
            bends = np.array([_curvatures(parts, theta) for theta in models])
            rest = bends.sum(1) - bends[np.arange(len(tested)), tested]
            values, slopes, others = next(on_rows)
        else:
            bends = _curvatures(parts, centers[g])
            own = bends[tested]
            rest = bends.sum(0) - own
            here = [found[:, g] for found in at_centers]
            values, slopes, others = _around(*here, tested, models - centers[g], own, rest)
        loss[g] = -values / mass
        for j, theta in enumerate(models):
            bend = rest[j] / outside[j]
            slope = others[j] / outside[j]
            slope_few = others_few[g, j] / outside[j]
            missed = slope - slope_few
            if pairs is None:
                step = _step_where_free(bend, slope_few, missed, theta, covers)
            else:
                now = bordered(0.0, slope, bend)
                step = local_optimum(now, covers, *pairs[g], theta) - theta
            # The held-out loss is nearly flat there, so that its curvature counts as well.
            uphill = -slopes[j] / mass[j]
            moves[g, j] = uphill @ step + step @ bend @ step / 2
            excess[g, j] = missed @ step / 2
    error = (loss_few - loss - moves).mean(1)
    most = excess.max(1)
    return [CurveReport(*one) for one in zip(loss, loss_few, error.tolist(), most.tolist())]


def _curvatures(parts, theta):
    """Curvatures of the loss of each part of the rows, shape (parts, p, p)."""
    return np.array([part.expansion(theta)[1:, 1:] for part in parts])


def _around(values, slopes, tested, away, own, rest):
    """What models say of their fold, and how they slope on it and on the others, to second order
    around one model.

    Parameters
    ----------
    values, slopes : shape (folds,) and (folds, p), there
    tested : K codes of folds
    away : shape (K, p), from there to each model
    own, rest : shape (K, p, p), curvatures of the loss of the fold and of the others
    """
    slopes_own = slopes[tested]
    slopes_rest = slopes.sum(0) - slopes_own
    turned = np.einsum("kij,kj->ki", own, away)
    turned_rest = np.einsum("kij,kj->ki", rest, away)
    rise = (slopes_own * away).sum(1) - (turned * away).sum(1) / 2
    return values[tested] + rise, slopes_own - turned, slopes_rest - turned_rest


def _step_where_free(bend, slope_few, missed, theta, covers):
    """From the optimum of the matched rows to that of all, shape (p,), where coefficients that are
    zero stay so.

    Parameters
    ----------
    bend : shape (p, p), curvature of the mean loss of all rows
    slope_few, missed : shape (p,), slope of the mean log-likelihood of the matched rows at their
        optimum, and by how much that of all rows differs
    theta : shape (p,), the optimum
    covers : shape (p,), one where the penalty acts, else zero
    """
    l2 = l2_at_optimum(theta, slope_few, covers)
    free = (theta != 0) | (covers == 0)
    bent = bend + np.diag(l2 * covers)
    root = root_of_inverse(bent[np.ix_(free, free)])
    step = np.zeros(len(theta))
    step[free] = root @ (root.T @ missed[free])
    return step
