"""Cross-validation on matched rows: folds, optima where they are matched, and how far a curve is
off."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from handful.checks import check_integer
from handful.matching.path import local_optimum, optimum, penalised
from handful.models.newton import root_of_inverse
from handful.tables import as_array, missing

# Rows of the sample that says where to match.
PILOT = 20_000
# Where the path of L1 penalties is matched: shares of the least at which all coefficients are zero.
L1_SHARES = np.array([1.0, 0.5, 0.2, 0.07, 0.015])
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


def folds_of_rows(folds, codes, weights, rng):
    """The `Folds` of all rows.

    Parameters
    ----------
    folds : int, so many are drawn, each with its share of each class; or array, shape (n,), the
        fold of each row: integers, of which -1 is never tested, or any labels
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
    if np.ndim(folds) == 0:
        check_integer("folds", folds, least=2)
        drawn = np.empty(n, np.int16)
        drawn[np.lexsort((rng.random(n), codes))] = np.arange(n) % folds
        found = Folds(drawn, np.arange(folds))
    else:
        folds = as_array(folds)
        if folds.shape != (n,):
            raise ValueError(
                f"folds must be an integer or one label a row, shape ({n},), got {folds.shape}."
            )
        if missing(folds).any():
            raise ValueError("folds must give each row a fold, got missing labels.")
        labels, places = np.unique(folds, return_inverse=True)
        if labels.dtype.kind not in "iu":
            labels = np.arange(len(labels))
        found = Folds(places.astype(np.int16), labels)
    _check_folds(found, codes, weights)
    return found


def _check_folds(folds, codes, weights):
    n_classes = int(codes.max()) + 1
    n_folds = len(folds.labels)
    cells = folds.codes.astype(np.int64) * n_classes + codes
    held = np.bincount(cells, weights, n_folds * n_classes)
    held = held.reshape(n_folds, n_classes)
    if n_folds < 2 or not len(folds.tested):
        raise ValueError("folds must be at least two, one of them not -1, got one.")
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


def strengths(rows, low, high):
    """Pairs of an L1 and an L2 penalty, per mean loss: where to match, and between these.

    They are L2 penalties a decade apart, or less, and L1 penalties of all strengths that leave a
    coefficient.

    Parameters
    ----------
    rows : `Rows`, that say from which L1 penalty on all coefficients are zero
    low, high : the least and the largest L2 penalty
    """
    null = optimum(rows, ALL_ZERO, 0.0, np.zeros(len(penalised(rows))))
    slopes = rows.slopes(null[None])[0] / rows.weights.sum()
    all_zero = np.abs(slopes * penalised(rows)).max()
    l2 = np.geomspace(high, low, n_optima(low, high) - len(L1_SHARES))
    l1 = L1_SHARES * all_zero
    matched = [(0.0, value) for value in l2] + [(value, 0.0) for value in l1]
    between = [(0.0, value) for value in _between(l2)] + [(value, 0.0) for value in _between(l1)]
    return matched, between


def n_optima(low, high):
    """How many `strengths` are matched."""
    return 1 + int(np.ceil(np.log10(high / low) - 1e-6)) + len(L1_SHARES)


def _between(values):
    return np.sqrt(values[1:] * values[:-1]) if len(values) > 1 else values


def where_to_match(rows, sample, pairs):
    """Optima of a linear model at `strengths`, shape (J, p).

    They are those of a sample of the rows, moved by one step towards those of all rows.
    """
    thetas = along(sample, pairs)
    slopes = rows.slopes(thetas) / rows.weights.sum()
    moved = []
    for theta, slope, (l1, l2) in zip(thetas, slopes, pairs):
        now = sample.expansion(theta) / sample.weights.sum()
        now[0, 1:] = slope
        moved.append(local_optimum(now, penalised(rows), l1, l2, theta))
    return np.array(moved)


def sample_of(rows):
    """Some of the rows, drawn uniformly, in memory."""
    places = np.flatnonzero(rows.weights)
    if len(places) > PILOT:
        places = np.sort(np.random.default_rng(0).choice(places, PILOT, replace=False))
    return rows.restricted(places, rows.weights[places])


def models_without(few, pairs):
    """Optima at `strengths` of the rows of all folds but one, shape (G, K, p)."""
    codes = few.folds.codes
    return np.stack([along(few.where(codes != k), pairs) for k in few.folds.tested], axis=1)


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


def curve_reports(rows, sample, few, thetas):
    """The `CurveReport` of each of some settings, a list.

    Parameters
    ----------
    rows, sample, few : `Rows`, all, some of them that say how the loss of all is curved, and the
        matched ones, with their folds
    thetas : shape (G, K, p), for each setting and each fold that is tested the model of the
        matched rows outside of the fold
    """
    tested = rows.folds.tested
    mass = np.array([rows.weights[rows.folds.codes == k].sum() for k in tested])
    outside = rows.weights.sum() - mass
    values, slopes = rows.over_folds(thetas)
    values_few, slopes_few = few.over_folds(thetas)
    loss = -values / mass
    loss_few = -values_few / mass
    missed = (slopes - slopes_few) / outside[:, None]
    moves = np.zeros(loss.shape)
    excess = np.zeros(loss.shape)
    for j, k in enumerate(tested):
        held = few.where(few.folds.codes == k)
        others = sample.where(sample.folds.codes != k)
        for g, theta in enumerate(thetas[:, j]):
            covers = penalised(few)
            free = (theta != 0) | (covers == 0)
            l2 = l2_at_optimum(theta, slopes_few[g, j] / outside[j], covers)
            bend = others.expansion(theta)[1:, 1:][np.ix_(free, free)] / others.weights.sum()
            root = root_of_inverse(bend + np.diag(l2 * covers[free]))
            step = root @ (root.T @ missed[g, j, free])
            # The held-out loss is nearly flat there, so that its curvature counts as well.
            moves[g, j] = -held.slopes(theta[None])[0, free] @ step / mass[j]
            moves[g, j] += step @ bend @ step / 2
            excess[g, j] = missed[g, j, free] @ step / 2
    error = (loss_few - loss - moves).mean(1)
    return [
        CurveReport(*found) for found in zip(loss, loss_few, error.tolist(), excess.max(1).tolist())
    ]
