"""What `BilevelCoreset` asks of a strategy, and the ranking of rows that strategies share (Section 3.5)."""

import numpy as np

from handful.checks import ConvergenceError
from handful.options import Options


class Strategy(Options):
    """Base class: how the set is found. A subclass implements `start`, `bar` and `run`."""

    ranks = False  # whether, with equal weights, the first k points are the coreset of size k

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
        """Options of the progress bar, a tqdm: its total, unit and so on, for `n` rows that may be chosen."""
        return dict(total=n - size, unit="point")

    def run(self, model, size, *, rule, weighting, labels, bar):
        """Choose `size` rows, on which the model is left.

        Parameters
        ----------
        model : Model that holds the start
        rule, weighting : as in `BilevelCoreset`
        labels : class of every row, or None
        bar : tqdm

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
        raise ValueError("all rows with a positive sample_weight have the same label: two classes are needed.")
    if size < len(classes):
        raise ValueError(f"size must be at least {len(classes)}, one point of each class, got size={size}.")
    found, first = np.unique(labels[start], return_index=True)
    heads = start[np.sort(first)].tolist()
    for label in np.setdiff1d(classes, found):
        of_class = rows[labels[rows] == label]
        heads.append(of_class[rng.integers(len(of_class))])
    rest = start[~np.isin(start, heads)][: max(len(start) - len(heads), 0)]
    return np.concatenate([heads, rest]).astype(np.intp)[:size]


def best_rows(model, count, rule, batch_size=1, free_weights=False):
    """Rows of the largest score, best first; ties go to the smaller index. The model must be trained.

    Raises
    ------
    ConvergenceError
        if a score is not a finite number
    """
    scores = model.linear_scores()
    if rule == "quadratic":
        rows, _ = top_rows(scores, max(model.max_candidates, 4 * batch_size))
        gains = model.predicted_gains(rows, free_weights=free_weights)
    else:
        rows, gains = top_rows(scores, count)
    return rows[np.argsort(-gains, kind="stable")[:count]]


def top_rows(scores, k):
    """The `top_candidates` and their scores.

    Raises
    ------
    ConvergenceError
        if a score is not a finite number
    """
    top = scores.max(initial=-np.inf)  # nan if any score is
    if np.isnan(top) or top == np.inf:
        wrong = np.flatnonzero(np.isnan(scores) | (scores == np.inf))
        raise ConvergenceError(
            f"the scores of {len(wrong)} of {len(scores)} rows are not finite (first: row {wrong[0]}): their features "
            "or losses are too large for the model's type; scale the data."
        )
    rows = top_candidates(scores, k)
    return rows, scores[rows]


def top_candidates(scores, k):
    """Indices of the `k` largest finite scores (of all if they are fewer), ascending; ties go to the smaller index.

    For long arrays the threshold is read off every 16th score: a full partition would cost as much as a pass over
    the data.
    """
    n = len(scores)
    chosen = np.arange(n)
    if n > 64 * k:
        sample = scores[::16]
        rank = k // 8 + 1  # aims at 2 k, so that fewer than k are rare
        threshold = np.partition(sample, len(sample) - rank)[len(sample) - rank]
        above = np.flatnonzero(scores >= threshold)
        if len(above) >= k:
            chosen = above
    if len(chosen) > k:
        values = scores[chosen]
        chosen = chosen[values >= np.partition(values, len(values) - k)[len(values) - k]]  # more than k where they tie
        chosen = np.sort(chosen[np.argsort(-scores[chosen], kind="stable")[:k]])
    return chosen[scores[chosen] > -np.inf]
