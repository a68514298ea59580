"""All rows of a data set, in memory or in blocks: sums over them, and the few rows that keep such
sums."""

import numpy as np
from scipy import sparse

from handful.matching.recombine import recombine, reweighted
from handful.rows import InMemory, RowBlocks, Rows
from handful.scales import centers, merged
from handful.tables import rows_at_once

# So many numbers of a part of a block are computed at once: they fit into a cache.
PART = 1 << 18
# Of so many rows for each equation, in each fold, some are chosen that keep the sums of all; of
# more where columns are heavy-tailed.
SAMPLED = (16, 64)
# That is worth a pass over all rows from so many times as many rows on, and so many numbers.
MANY = 4
MANY_NUMBERS = 1 << 22
# A block whose rows are halved until few are left has so many for each equation: to halve them
# costs the same, however many they are.
PER_EQUATION = 128


class LikelihoodSums:
    """Rows whose columns are read block by block: what is reduced over them is reduced over each
    block first.

    Parameters
    ----------
    model : Likelihood
    X : array or CSR matrix; or RowBlocks, whose rows were checked
    y, weights : arrays of n entries; y as `likelihood` gives it, or None, and the weights of the
        rows, which those of blocks are
    folds : `Folds`, each of which keeps its sums; None for one of all rows
    form : `QuadraticForm` of parameters as users see them, which belongs to the sums over rows;
        None without
    """

    def __init__(self, model, X, y, weights, folds=None, form=None):
        self.model = model
        self.y = y
        self.weights = weights
        self.folds = folds
        self.form = form
        n = len(weights)
        if not isinstance(X, RowBlocks):
            X = InMemory(Rows(X, None, weights, np.arange(n)))
        self.blocks = X
        # What each block gets beside its columns and weights.
        self.own = []
        for start, length in zip(X.starts, X.lengths):
            cut = slice(start, start + length)
            own_y = None if y is None else y[cut]
            own_codes = None if folds is None else folds.codes[cut]
            self.own.append((own_y, own_codes))

    def moved(self, at):
        """These rows, the columns of a linear model moved to zero where that changes nothing of
        what `at` names."""
        model = self.model
        if not model.n_outputs or not isinstance(at, str):
            return self
        center = centers(self.over(merged, "moments", weighted=True))
        # A penalty of the intercept is one of the columns as they are; to a posterior it is
        # nothing.
        has_prior = at == "posterior"
        free = has_prior or not model.problem.penalise_intercept
        model.move(center, moves_intercept=free, binds_intercept=has_prior)
        if self.form is not None:
            self.form = self.form.of(model.outer)
        return self

    def drawn(self, size, rng):
        """Places of rows that count, drawn uniformly without repetition, of all if they are few."""
        n = self.n_present
        everywhere = n == len(self.weights)
        places = n if everywhere else np.flatnonzero(self.weights)
        return rng.choice(places, min(size, n), replace=False)

    def restricted(self, places, weights, form=None, taken=None):
        """The sums over some of the rows, with new weights, in memory, and a `QuadraticForm`
        beside them; the rows are read unless they were `taken`."""
        some = self.blocks.take(places) if taken is None else taken
        X = self.model.columns(some.X)
        y = None if self.y is None else self.y[places]
        folds = None if self.folds is None else self.folds[places]
        return LikelihoodSums(self.model, X, y, weights, folds, form)

    def where(self, mask):
        """The rows of a mask, in memory, with their weights."""
        places = np.flatnonzero(mask)
        return self.restricted(places, self.weights[places])

    def with_folds(self, folds):
        """The same rows, each of whose `folds` keeps its sums."""
        return LikelihoodSums(self.model, self.blocks, self.y, self.weights, folds)

    @property
    def n_present(self):
        """How many rows count."""
        return int(np.count_nonzero(self.weights))

    @property
    def n_folds(self):
        return len(self.folds.labels) if self.folds else 1

    def over_folds(self, thetas):
        """What models say of the fold that each of them is for, and how they slope on it and on the
        others.

        Parameters
        ----------
        thetas : shape (G, K, p), G models for each of the K folds that are tested

        Returns
        -------
        values : shape (G, K), sums of the log-likelihoods of the rows of the fold
        slopes : shape (G, K, p), of these sums
        others : shape (G, K, p), of the sums over all other rows
        """
        flat = thetas.reshape(-1, thetas.shape[-1])
        values, slopes = self.of_folds(flat)
        values = values.reshape(-1, *thetas.shape[:2])
        slopes = slopes.reshape(-1, *thetas.shape)
        tested = self.folds.tested
        own = tested, slice(None), np.arange(len(tested))
        mine = np.moveaxis(slopes[own], 0, 1)
        return values[own].T, mine, slopes.sum(0) - mine

    def of_folds(self, thetas):
        """What models say of each fold.

        Parameters
        ----------
        thetas : shape (G, p)

        Returns
        -------
        values : shape (K, G), sums of the log-likelihoods of the rows of each fold
        slopes : shape (K, G, p), of these sums
        """
        found = self._sums_of_folds("tangents_at", thetas)
        of_thetas = found[:, -thetas.size - len(thetas) :]
        values, slopes = np.split(of_thetas, [len(thetas)], axis=1)
        return values, slopes.reshape(-1, *thetas.shape)

    def over(self, reduce, method, *args, weighted=False):
        """``reduce`` of the list of what a method of the model, given `args`, says of parts of the
        rows."""
        asked = (self.model, reduce, method, args, weighted)
        found = self.blocks.map(_of_block, *asked, own=self.own)
        return reduce(found)

    def values(self, theta):
        """Log-likelihoods of each row at parameters (K, p), shape (n, K)."""
        return self.over(np.concatenate, "values", theta)

    def sums(self, theta):
        """Log-likelihoods of all rows together at parameters (K, p), shape (K,)."""
        found = self.over(sum, "sums", theta, weighted=True)
        if self.form is None:
            return found
        return found + self.form(theta)

    def expansion(self, theta):
        """The expansion of the log-likelihood of all rows together, of a linear model at parameters
        (p,)."""
        found = self.over(sum, "expansion", theta, weighted=True)
        if self.form is None:
            return found
        return found + self.form.expansion(theta)

    def slopes(self, theta):
        """Slopes of the log-likelihood of all rows together, of a linear model at parameters (K,
        p), shape (K, p)."""
        found = self.over(sum, "slopes", theta, weighted=True)
        if self.form is None:
            return found
        return found + self.form.slopes(theta)

    def moved_together(self, theta):
        """In how many rows two parameters move the log-likelihood together, shape (p, p)."""
        return self.over(sum, "moved_together", theta)

    def longest(self, root):
        """Largest length of a row of a linear model's design, in the metric of a Cholesky
        factor."""
        return self.over(max, "longest", root)

    def match(self, n_equations, n_parts, equations, *args):
        """Rows whose sums of some equations are those of all: of each block, and of their union.

        Parameters
        ----------
        n_equations : how many they are
        n_parts : independent parts of the rows of each fold, whose sums add
        equations, *args : name of a method of the model that gives them, and its arguments before X
            and y

        Returns
        -------
        places, weights, residual : of the chosen rows, places ascending; and what `recombine` says
        """
        if n_parts == 1:
            found = self._match_sample(n_equations, equations, *args)
            if found is not None:
                return found
        asked = self.model, n_parts, equations, args
        joined = self._joined(PER_EQUATION * n_equations * self.n_folds)
        found = joined.blocks.map(_matched, *asked, own=joined._own_present())
        places, weights, residual = (np.hstack(values) for values in zip(*found))
        if len(found) > 1:
            few = self.restricted(places, weights)
            chosen, weights, residual = few.match(n_equations, n_parts, equations, *args)
            places = places[chosen]
        return places, weights, float(np.max(residual))

    def _joined(self, rows):
        """The same rows, blocks of fewer joined with their neighbours, within what is read at
        once."""
        n = len(self.weights)
        most = rows_at_once(n, n * self.blocks.d)
        blocks = self.blocks.at_least(min(rows, most))
        return LikelihoodSums(self.model, blocks, self.y, self.weights, self.folds)

    def _own_present(self):
        """What each block gets, None of blocks of which no row counts."""
        found = []
        for own, start, length in zip(self.own, self.blocks.starts, self.blocks.lengths):
            any_counts = self.weights[start : start + length].any()
            found.append(own if any_counts else None)
        return found

    def _sums_of_folds(self, equations, *args):
        """Sums of some equations over the rows of each fold, shape (folds, equations)."""
        found = self.blocks.map(
            _sums_of_folds,
            self.model,
            equations,
            args,
            self.n_folds,
            own=self._own_present(),
        )
        return sum(found)

    def _match_sample(self, n_equations, equations, *args):
        """As `match`, of a sample of each fold, whose rows are given the sums of all; None where
        all are too few for that, or no weights of the sample reach these sums."""
        counts = self._counts()
        is_large = n_equations * counts.sum() >= MANY_NUMBERS
        is_many = counts.min() >= MANY * SAMPLED[0] * n_equations
        if not (is_large and is_many):
            return None
        targets = self._sums_of_folds(equations, *args)
        if not np.isfinite(targets).all():
            return None
        rng = np.random.default_rng(0)
        found = []
        for k, target in enumerate(targets):
            matched = self._reweighted(k, counts[k], target, rng, equations, args)
            if matched is None:
                return None
            found.append(matched)
        places, weights, residuals = map(np.hstack, zip(*found))
        order = np.argsort(places)
        return places[order], weights[order], float(residuals.max())

    def _counts(self):
        """How many rows of each fold count."""
        if self.folds is None:
            return np.array([self.n_present])
        return np.bincount(self.folds.codes, self.weights > 0, self.n_folds)

    def _reweighted(self, k, count, target, rng, equations, args):
        """As `match`, of a sample of the rows of a fold, of which so many count, that is given the
        target; None where that fails."""
        ends = self.weights.astype(np.float64)
        if self.folds is not None:
            ends *= self.folds.codes == k
        np.cumsum(ends, out=ends)
        for times in SAMPLED:
            size = times * len(target)
            if count < MANY * size:
                return None
            drawn, weights = stratified(ends, size, rng)
            few = self.restricted(drawn, weights)
            asked = self.model, equations, args, target
            [found] = few.blocks.map(_reweighted, *asked, own=few.own)
            if found is not None:
                chosen, weights, residual = found
                return drawn[chosen], weights, residual
        return None


def stratified(ends, size, rng):
    """Rows drawn in proportion to their weights, which are added up in `ends`, one from each of
    `size` stretches of equal weight.

    Returns
    -------
    places, weights : of rows whose weighted sums estimate those of all
    """
    total = ends[-1]
    stretch = total / size
    drawn = stretch * (np.arange(size) + rng.random(size))
    places = np.searchsorted(ends, drawn, side="right")
    # Rounding may lead beyond the last row that counts.
    last = np.searchsorted(ends, total)
    places = np.minimum(places, last)
    places, times = np.unique(places, return_counts=True)
    return places, times * stretch


def _of_block(block, model, reduce, method, args, weighted, own):
    X = block.X
    if not sparse.issparse(X):
        X = np.asarray(X)
    y, _ = own
    asked = getattr(model, method)
    step = _rows_at_once(model, X, method, args)
    found = []
    for first in range(0, len(block), step):
        part = slice(first, first + step)
        given = [model.columns(X[part]), _targets(model, y, part)]
        if weighted:
            given.append(block.weight[part])
        found.append(asked(*args, *given))
    return reduce(found)


def _targets(model, y, places):
    """What is kept of y at some places of a block, as the model takes it."""
    return None if y is None else model.targets(y[places])


def _codes(block, own):
    """The code of each row's fold."""
    _, codes = own
    return np.zeros(len(block), np.int8) if codes is None else codes


def _rows_at_once(model, X, method, args):
    """So many rows of a block are handled at once by a method of the model: PART numbers of X or of
    what the method makes of it."""
    width = len(args[0]) * max(1, model.n_outputs) if args else 1
    if method in model.one_by_one:
        width = min(args[0].shape)
    n_entries = X.size // max(1, X.shape[0])
    return max(1, PART // max(1, width, n_entries))


def _equations(block, model, equations, args, y):
    """The equations of rows of a block, a function of their places in it."""
    X = np.asarray(block.X)
    asked = getattr(model, equations)

    def features(places):
        # `take` is faster, but copies all of an array whose rows are no stretches of memory.
        some = X.take(places, axis=0) if X.flags.c_contiguous else X[places]
        columns = model.columns(some)
        return asked(*args, columns, _targets(model, y, places))

    return features


def _matched(block, model, n_parts, equations, args, own):
    weights = block.weight
    codes = _codes(block, own)
    features = _equations(block, model, equations, args, own[0])
    found = []
    folds = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    for part in (rows[k::n_parts] for rows in folds for k in range(n_parts)):
        if weights[part].any():
            chosen, w, residual = recombine(
                lambda places, part=part: features(part[places]),
                len(part),
                weights[part],
            )
            found.append((part[chosen], w, residual))
    places, w, residuals = (np.hstack(values) for values in zip(*found))
    order = np.argsort(places)
    return block.ids[places[order]], w[order], residuals.max()


def _reweighted(block, model, equations, args, target, own):
    features = _equations(block, model, equations, args, own[0])
    return reweighted(features, block.weight, target)


def _sums_of_folds(block, model, equations, args, n_folds, own):
    weights = block.weight
    codes = _codes(block, own)
    features = _equations(block, model, equations, args, own[0])
    one = features(np.zeros(1, int))
    n_entries = max(one.size, block.X[:1].size)
    step = max(1, PART // n_entries)
    found = np.zeros((n_folds, one.shape[1]))
    for k in range(n_folds):
        is_in = codes == k
        is_in &= weights > 0
        places = np.flatnonzero(is_in)
        for first in range(0, len(places), step):
            part = places[first : first + step]
            found[k] += weights[part] @ features(part)
    return found
