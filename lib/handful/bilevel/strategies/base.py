"""What `BilevelCoreset` asks of a strategy, and the ranking of rows that strategies share."""

import numpy as np
from sklearn.base import BaseEstimator

from handful.bilevel.numerics.newton import ConvergenceError
from handful.checks import check_integer

CANDIDATES = 512  # rows of the highest linear score whose gain the quadratic rule predicts


class Strategy(BaseEstimator):
    """Base class: how the set is found. A subclass implements `start`, `bar` and `run`."""

    ranks = False  # whether the first k points are the coreset of size k
    weighting = "binary"  # what `weighting="auto"` means
    integers = ()  # options that are positive integers, or None where that is their default

    def check(self):
        """ValueError if an option makes no sense."""
        for name in self.integers:
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value, of=self)

    def start(self, labels, candidates, size, rule, rng):
        """Rows to begin with: all candidates, unless a subclass draws some of them.

        Parameters
        ----------
        labels : class of every row, or None
        candidates : int array, the rows that may be chosen
        size, rule : as in `BilevelCoreset`
        rng : numpy.random.Generator
        """
        return candidates

    def bar(self, n, n_start, size):
        """Options of the progress bar, a tqdm: its total, unit and so on, for `n` candidates."""
        return dict(total=n - size, unit="point")

    def run(self, model, size, *, rule, weighting, labels, bar):
        """Choose `size` rows, on which the model is left.

        Parameters
        ----------
        model : Selection that holds the start
        rule, weighting : as in `BilevelCoreset`
        labels : class of every row, or None
        bar : tqdm

        Returns
        -------
        weights, shape (m,), adding up to 1, or None for equal ones
        """
        raise NotImplementedError


def random_start(labels, candidates, n_start, size, rng):
    """`n_start` random candidates, at most `size`; where rows have labels, one of each class comes first.

    Raises
    ------
    ValueError
        for candidates of one class, and for a size below the number of classes
    """
    start = rng.choice(candidates, min(n_start, len(candidates)), replace=False)
    if labels is None:
        return start[:size]
    of_candidates = labels[candidates]
    classes = np.unique(of_candidates)
    if len(classes) < 2:
        raise ValueError("all rows with a positive sample_weight have the same label: two classes are needed.")
    if size < len(classes):
        raise ValueError(f"size must be at least {len(classes)}, one point of each class, got size={size}.")
    first = {}
    for row in start:
        first.setdefault(labels[row], row)
    for label in classes:
        if label not in first:
            first[label] = rng.choice(candidates[of_candidates == label])
    heads = list(first.values())
    rest = start[~np.isin(start, heads)][: max(len(start) - len(heads), 0)]
    return np.concatenate([heads, rest]).astype(np.intp)[:size]


def best_rows(model, count, rule, batch_size=1, free_weights=False):
    """Rows of the largest score, best first; ties go to the smaller index. The inner problem must be solved.

    Raises
    ------
    ConvergenceError
        if a score is not a finite number
    """
    total = model.linear_scores()
    top = total.max()  # nan if any score is
    if np.isnan(top) or top == np.inf:
        wrong = np.flatnonzero(np.isnan(total) | (total == np.inf))
        raise ConvergenceError(
            f"the scores of {len(wrong)} of {len(total)} rows are not finite (first: row {wrong[0]}): their features "
            "or losses are too large for the model's type; scale the data."
        )
    if rule == "quadratic":
        rows = top_candidates(total, max(min(CANDIDATES, model.max_candidates), 4 * batch_size))
        gains = model.predicted_gains(rows, free_weights=free_weights)
    else:
        rows = top_candidates(total, count) if count > 1 else np.array([np.argmax(total)])
        gains = total[rows]
    return rows[np.argsort(-gains, kind="stable")[:count]]


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
        least = np.partition(values, len(values) - k)[len(values) - k]
        above = values > least
        tied = np.flatnonzero(values == least)[: k - np.count_nonzero(above)]
        above[tied] = True
        chosen = chosen[above]
    return chosen[scores[chosen] > -np.inf]
