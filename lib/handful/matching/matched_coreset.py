"""MatchedCoreset: rows whose weighted log-likelihoods are those of all rows where it counts."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from handful.blocks import Blocks, as_blocks
from handful.checks import (
    Accepts,
    ConvergenceError,
    as_array,
    as_real,
    check_labels,
    check_magnitude,
    check_rows,
    check_sample_weight,
    check_size,
    check_vector,
    is_blocks,
    validate_data,
    without_absent,
)
from handful.coreset import Selector
from handful.matching.differences import evenly
from handful.matching.draws import stacked, tested
from handful.matching.folds import (
    FINER,
    CurveReport,
    along,
    curve_reports,
    far_apart,
    folds_of_rows,
    models_without,
    n_optima,
    path_sample,
    places_of_sample,
    sample_of,
    strengths,
    where_to_match,
)
from handful.matching.group_match import LOCAL_DRAWS, GroupMatch
from handful.matching.groups import n_terms_of
from handful.matching.held_out import N_HELD_OUT, HeldOut
from handful.matching.importance_check import DrawsReport, check_log_weights
from handful.matching.laplace import LaplaceReport, nearer
from handful.matching.likelihood_sums import LikelihoodSums
from handful.matching.likelihoods import Labels, likelihood
from handful.matching.path import optima_of_penalties, path_excess
from handful.matching.pilot import INFLATION, ON_SEGMENT, find_pilot, jittered, starting_points
from handful.matching.pilot_faults import check_alone, flat_parameters, jumping
from handful.matching.priors import posterior_of, prior_of
from handful.matching.quadratic import FormMatch
from handful.matching.recombine import pursue
from handful.matching.sparse_pilot import sparse_pilot
from handful.matching.sparse_rows import ProbedRows, SparseRows
from handful.models import Logistic, Problem
from handful.models.linear import PENALTY_OF_PROBLEM, LinearProblem
from handful.models.links import LogisticLink, PoissonLink, SquaredLink
from handful.options import Count, Positive
from handful.plans import Plan
from handful.rows import Rows
from handful.running import one_blas_thread, tell_once, warn
from handful.tables import dense, holds_integers, join_rows, take_rows
from handful.types import Seed, Table

# Where a smaller share of these draws counts, the posterior is not the pilot's, and draws of a
# chain are matched instead.
MIN_EFFECTIVE_SHARE = 0.5
# Rows are worth choosing if they are at most this share of all.
MAX_ROW_SHARE = 1 / 3
# Sums that are missed by no more, relative, are kept.
KEPT = 1e-8
# Equations are doubled where the divergence is more than so many times what it may be.
FAR_OFF = 4.0
# Otherwise they grow by this factor, so that their number hardly hangs on the draws.
NEARBY_STEP = 1.25
# With a quadratic form: the divergence above which draws on the rows are not even of use with
# weights, and the variance of the log weights of a Gaussian from which the posterior is too far.
MOST_WITH_WEIGHTS = 0.5
FAR_FROM_GAUSSIAN = 20.0
# A jump of the log-likelihood is looked for near so many points around the start.
N_LOOKS = 8
# What follows from a jump.
OF_JUMPS = (
    ", so that it has no slope there, and draws around a mode say nothing of it: make it smooth (a "
    "steep sigmoid), or sum such a parameter out"
)
# Below so many rows a handful hardly pays.
FEW_ROWS = 10_000
# Blocks are joined up to so many entries.
PER_BLOCK = 1 << 20
# More equations are not taken unasked, as time grows with their cube.
MAX_EQUATIONS = 3001
# From more equations groups are looked for, whose recombinations are many but small.
MANY_EQUATIONS = 1001
# Of at most so many parameters no groups are looked for.
FEW_PARAMETERS = 50
# A dense matrix with more columns is taken for one of indicators if at most this share of its
# entries is not zero.
MOST_NONZERO = 0.25
# More equations are not pursued by fewer rows, as each row that joins solves for all weights.
MAX_PURSUIT_EQUATIONS = 701
# Pursuit chooses among the matched rows of so many parts of the rows.
PURSUIT_PARTS = 4
# With more outputs than this, parameters are counted before optima are sought.
MANY_OUTPUTS = 20
# The penalties that are matched, as multiples of the problem's.
PENALTY_FACTORS = (0.1, 1.0, 10.0)
# The range over which a penalty is tuned, as multiples of the problem's.
TUNED_FACTORS = (0.01, 10.0)
# The range of penalties along which few rows stand for all as a loss.
STAND_IN_FACTORS = (0.01, 100.0)
# Share of `tol` that the error of a cross-validated curve may reach.
CURVE_SHARE = 0.1


class _SumOverBlocks(Plan):
    """Equations of the rows are summed over all blocks, as over rows in memory."""

    def select(self, selector, blocks, rng):
        return selector._select(blocks, None, None, rng)

    def rows_per_block(self, selector, blocks):
        return PER_BLOCK // blocks.d


class MatchedCoreset(Selector):
    """Rows that *are* the data: their weighted log-likelihood equals that of all rows where it
    counts.

    N sums over the data are kept exactly by N weighted rows (`recombine`). Which sums, `at` says:

    - ``at="path"``: gradients at the optima of several penalties. Trained on the rows, the model is
      that of all rows at these penalties, to rounding, and nearly in between (`excess` bounds it);
      least squares at every penalty.
    - ``at="posterior"``: log-likelihoods at draws around the modes of the posterior, and for models
      of one linear predictor their gradient and curvature at the mode; where the posterior is far
      from a Gaussian, at draws that short chains make on rows chosen so. Sampling on the rows, with
      weights, samples the posterior of all rows; `kl_` estimates how nearly, `check` says it of the
      draws.
      Of models with groups, such as an intercept for each of thousands of schools, the parameters
      of a group occur in its own rows alone, so that the sums, and the rows, grow with the groups
      and not with their square. Linear models give their design as a CSR matrix with a column for
      each group; of a function it is found which of its parameters move which rows.
    - an array of parameters, shape (K, p): log-likelihoods there, draws of a short chain for
      example.

    With `folds` each fold keeps its own sums, and the curve of a cross-validation over penalties is
    that of all rows: log-likelihoods and gradients are matched along the paths of L2 and of L1
    penalties, so that models with either, or with both, may be tuned. `take` then also gives the
    fold of each row, for `sklearn.model_selection.PredefinedSplit`.

    Close relatives match moments (data squashing; DuMouchel, Volinsky, Johnson, Cortes and Pregibon
    1999), expectations by reweighting (Owen 2003), or log-likelihoods approximately (Campbell and
    Broderick 2019).

    Parameters
    ----------
    problem : Problem or callable, default=Logistic()
        What will be trained or sampled: `Logistic` (binary or multinomial), `LeastSquares`,
        `Poisson` or another `Problem`, whose losses are then log-likelihoods with a minus, in nats;
        or a function of parameters (K, p), X (k, d) and y (k,), or of the first two where there is
        no y, that gives log-likelihoods (K, k) in float64 as a numpy, torch or JAX array; -inf or
        NaN where the parameters are impossible. It gets integers where all of X are, and y of shape
        (k, columns) where y has several, such as a time and an event.
    at : {"path", "posterior"} or array of shape (K, p), default="path"
        Which sums are kept, see above.
    size : int or None, default=None
        Most rows; None takes what the equations need: for "posterior" two for each of its p (p +
        3) / 2 first- and second-order terms (fewer where columns never occur together), and more
        until `kl_` is at most `tol`. Fewer rows than terms, or than parameters in the array, come
        as near as matching pursuit finds; the path refuses them.
    folds : int, array of shape (n,) or None, default=None
        For "path" of linear problems: into how many folds the rows are drawn, each with its share
        of each class; or the fold of each row, for groups for example: any labels, or integers of
        which -1 is in no test set. None keeps sums of all rows together. Solvers by single rows,
        such as scikit-learn's "saga", do not converge on rows of such different weights.
    penalties : array or None, default=None
        For "path"; a tenth of the problem's `l2`, this, and ten times this by default. With `folds`
        the range that is tuned goes from the least to the largest of them, from a hundredth of `l2`
        to ten times this by default; L1 penalties are matched over all that leave a coefficient.
    prior : float, array of shape (p,) or callable, default=1.0
        For "posterior": deviation of a Gaussian prior of mean zero on each parameter, the
        intercept's too; or a function of parameters (K, p) that gives log densities (K,).
    remainder : {"quadratic"} or None, default=None
        For "posterior" with more than about a hundred parameters, whose products no few rows keep:
        "quadratic" draws rows by the size of their terms of higher order, and `form_` adds what
        they lack of slope and curvature. Whoever samples adds `form_` to the log density.
    start : array of shape (p,) or (S, p), or None, default=None
        Where the search for modes starts; a function as `problem` needs it, a `Problem` of your own
        says by its `start` what it is by default.
    tol : float, default=1e-3
        Largest `kl_`, in nats, at which more draws are not asked for; with `folds` ten times the
        largest `curve_error_`, above which more models are matched while the rows pay.
    random_state : int, Generator, RandomState or None, default=None
        Draws the parameters.

    Attributes
    ----------
    indices_ : int array, shape (m,), ascending
    weights_ : float array, shape (m,); they add up to n (nearly, by pursuit), and are uneven
    residual_ : largest error of a matched sum, relative, about 1e-13; more where `size` is too
        small for exact sums
    kl_ : "posterior": estimated divergence (nats) of the rows' posterior from that of all rows, by
        draws that were not matched; NaN where too few of them count, for other `at`, and for
        `LeastSquares`, whose sums are kept exactly where `size` has room. With groups: half the
        variance of what the rows miss, at draws of the Gaussian at the mode; with `remainder`,
        near the mean
    modes_ : "posterior": shape (M, p), the modes found, the highest first; not for `LeastSquares`
    laplace_ : "posterior": what the Gaussian at the modes, or where that does not suffice one moved
        to the mean of the posterior, gives with importance weights, and whether that suffices
        (`handful.matching.laplace.LaplaceReport`); None for other `at`, and for `LeastSquares`
    folds_ : with `folds`, int array, shape (m,), the fold of each chosen row; `row_folds_` of
        shape (n,) holds that of every row
    curve_error_ : with `folds`, the largest difference of a mean held-out loss (nats) from that of
        all rows, by one pass over these, at penalties between those that were matched
    form_ : with `remainder`, the `handful.matching.quadratic.QuadraticForm` that belongs to the
        rows, a function of parameters (K, p) that gives (K,); None without. `weights_` then add up
        to the share of n that the form leaves to them
    parameters_ : shape (K, p), where the rows were matched; None for `LeastSquares` whose sums of
        squares are, at all parameters
    n_equations_ : sums that were matched
    classes_ : `Logistic`: labels, sorted

    Notes
    -----
    A cross-validated curve is kept for the log-likelihood, and so for `log_loss`, the squared error
    and the deviance of Poisson, all with `sample_weight`. Accuracy and other scores are not kept,
    and neither is a loss with class weights: give these as `sample_weight` to `fit`, and match
    again.

    Parameters of a linear model are its coefficients, then the intercept; of several classes those
    of each class in turn; `LeastSquares` has the logarithm of the noise's deviation last. The rows
    are no sample: nothing but the likelihood may be computed from them. Fewer rows than features
    are the ground of `BilevelCoreset`.

    Examples
    --------
    >>> from handful import Logistic, MatchedCoreset
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X[:, :5] - X[:, :5].mean(0)) / X[:, :5].std(0)
    >>> rows = MatchedCoreset(Logistic(l2=1e-2), at="path").fit(X, y)
    >>> X_small, y_small, w = rows.take(X, y)
    >>> few = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-8)
    >>> few = few.fit(X_small, y_small, sample_weight=w)
    >>> every = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-8).fit(X, y)
    >>> len(y_small), float(abs(few.coef_ - every.coef_).max().round(4))
    (19, 0.0)
    """

    problem: Problem | Callable[..., Any] | None = None
    _: KW_ONLY
    at: Literal["path", "posterior"] | ArrayLike = "path"
    size: Count | None = None
    folds: ArrayLike | None = None
    penalties: ArrayLike | None = None
    prior: ArrayLike | Callable[..., Any] = 1.0
    remainder: Literal["quadratic"] | None = None
    start: ArrayLike | None = None
    tol: Positive = 1e-3
    random_state: Seed = None

    _ranks = False
    # the folds of all rows
    _sees_absent = True
    _plan = _SumOverBlocks()
    _elsewhere = PENALTY_OF_PROBLEM

    def take(self, X: Table, *arrays: Any) -> list[Any]:
        """As `Selector.take`; with `folds` followed by the fold of each row, shape (m,)."""
        taken = super().take(X, *arrays)
        return taken if self.folds is None else [*taken, self.folds_]

    @property
    def _at(self):
        """`at`, or "array" where parameters are given."""
        return self.at if isinstance(self.at, str) else "array"

    @property
    def _may_have_groups(self):
        is_linear = isinstance(self._problem(), LinearProblem)
        is_plain = self.folds is None and self.remainder is None
        return self._at == "posterior" and is_linear and is_plain

    def log_likelihood(self, draws: Any, X: Table, y: Table = None) -> np.ndarray:
        """Log-likelihoods, shape (S, n), of draws (S, p) at any rows, as ArviZ takes them for
        leave-one-out.

        Draws of `LeastSquares` without the logarithm of the noise's deviation, which comes last,
        are of the deviation 1.
        """
        self._check_order("log_likelihood(draws, X, y)", draws, X, y)
        return self._given(X, y, None).values(stacked(draws)).T

    def check(
        self,
        draws: Any,
        X: Table,
        y: Table = None,
        sample_weight: Table = None,
        *,
        prior: Any = None,
    ) -> DrawsReport:
        """Whether draws made on the rows are draws from the posterior of all rows, by one pass over
        these.

        Parameters
        ----------
        draws : shape (S, p) or (chains, S, p), each chain in its order
        X, y, sample_weight : what `fit` got
        prior : the prior of the draws, as the option of that name, which it is by default for
            ``at="posterior"``; otherwise, without it, only the rows are checked
            With a CSR matrix X also the deviations at each draw, shape (S, p) or (chains, S, p), as
            a hierarchical model draws them

        Returns
        -------
        `DrawsReport`: print it. What each verdict on the rows asks for, `check_log_weights` says.
            The draws are tested by Stein's identities with the posterior on the rows under this
            prior: those that fail are refused whatever the rows

        Raises
        ------
        ValueError
            for less than 100 draws, draws of another length than the parameters, and fewer rows
            than `fit` got
        """
        check_is_fitted(self, "indices_")
        self._check_order("check(draws, X, y)", draws, X, y)
        theta = stacked(draws)
        rows = self._of_fit(X, y, sample_weight)
        few = self._chosen(rows)
        with one_blas_thread():
            with np.errstate(invalid="ignore"):
                report = check_log_weights(rows.sums(theta) - few.sums(theta))
            if self._at == "path" and report.verdict == "refuse":
                warn(
                    "these rows were matched along a path of penalties, and not at the posterior, "
                    "where draws are: choose rows by MatchedCoreset(..., at='posterior')."
                )
            if prior is None and self._at != "posterior":
                return report.with_draws(None, "give check the prior of the draws")
            if self._jumps:
                return report.with_draws(None, self._jumps)
            if not np.isfinite(report.variance):
                return report.with_draws(None, "some are impossible")
            shape = as_array(draws).shape
            chains = shape[0] if len(shape) > 2 else 1
            known = getattr(self, "modes_", None)
            start = self.start if known is None else known[:1]
            if prior is None:
                prior = self.prior
            return report.with_draws(*tested(few, theta, chains, prior, start))

    def excess(
        self, X: Table, y: Table = None, sample_weight: Table = None, tol: float = 1e-4
    ) -> float:
        """An upper bound of what training on the rows loses at any penalty from the lowest of
        `penalties` to the highest; by default from a tenth of the problem's to ten times it.

        Parameters
        ----------
        X, y, sample_weight : what `fit` got
        tol : where the bound falls below this it is not made sharper; that of `LeastSquares`, in
            squared units of y, is computed at once, and as it is

        Returns
        -------
        float, also kept in `excess_`: mean loss on all rows, penalty included, above its minimum;
            proven for `Logistic` of two classes, `Poisson` with log link and `LeastSquares`

        Raises
        ------
        ValueError
            for other problems
        """
        check_is_fitted(self, "indices_")
        rows = self._of_fit(X, y, sample_weight).moved("path")
        l2 = self._penalties()
        link = getattr(rows.model, "link", None)
        if type(link) not in (LogisticLink, PoissonLink, SquaredLink):
            raise ValueError(
                "excess is proven for two classes, Poisson with log link, and least squares only."
            )
        few = rows.restricted(self.indices_, self.weights_)
        with one_blas_thread():
            self.excess_ = path_excess(rows, few, l2.min(), l2.max(), tol)
        return self.excess_

    def check_model(
        self, model: Any, X: Table, y: Table = None, sample_weight: Table = None
    ) -> CurveReport:
        """What a cross-validation of one model on the rows would have said on all rows, by one pass
        over these.

        Parameters
        ----------
        model : a scikit-learn estimator of the linear problem, with the penalty that was found; it
            is cloned, and trained on the matched rows of all folds but one, for each fold
        X, y, sample_weight : what `fit` got

        Returns
        -------
        `CurveReport`: print it

        Raises
        ------
        ValueError
            without `folds`, and for a model that leaves no `coef_` of the problem's shape
        """
        check_is_fitted(self, "indices_")
        self._check_order("check_model(model, X, y)", model, X, y)
        if self.folds is None:
            raise ValueError("check_model must have folds: MatchedCoreset(..., folds=5).fit(X, y).")
        X_few, y_few, w, _ = self.take(X, y)
        rows = self._of_fit(X, y, sample_weight).moved(self.at)
        no_classes = np.zeros(len(rows.weights), int)
        folds = folds_of_rows(self.row_folds_, no_classes, rows.weights, None)
        rows = rows.with_folds(folds)
        few = rows.restricted(self.indices_, self.weights_)
        found = []
        for k in folds.tested:
            kept = np.flatnonzero(few.folds.codes != k)
            trained = clone(model).fit(
                take_rows(X_few, kept), take_rows(y_few, kept), sample_weight=w[kept]
            )
            found.append(self._parameters_of(trained, rows))
        with one_blas_thread():
            models = rows.model.inner(np.array(found))[None]
            return curve_reports(rows, sample_of(rows), few, models)[0]

    def _check_order(self, call, first, X, y):
        """ValueError where X is no table of the fit's columns, and an argument beside it is that
        of the fit."""
        if is_blocks(X, y):
            return
        shapes = [
            np.shape(given) if isinstance(given, list | tuple) or hasattr(given, "shape") else ()
            for given in (first, X, y)
        ]
        of_fit = getattr(self, "n_samples_fit_", None), getattr(self, "n_features_in_", None)
        has_columns = shapes[1][1:] == of_fit[1:]
        if of_fit in shapes and not has_columns:
            raise ValueError(
                f"the order of the arguments is {call}; got shapes {', '.join(map(str, shapes))}, "
                f"and fit saw an X of shape {of_fit}."
            )

    def _parameters_of(self, trained, rows):
        wanted = rows.model.n_outputs, rows.blocks.d
        found = as_array(getattr(trained, "coef_", []))
        coefficients = np.atleast_2d(found)
        if coefficients.shape != wanted:
            raise ValueError(
                f"the model must be linear in the columns of X, with coef_ of shape {wanted}, got "
                f"{type(trained).__name__} with {coefficients.shape}."
            )
        if not self._problem().fit_intercept:
            return coefficients.ravel()
        intercepts = np.broadcast_to(trained.intercept_, wanted[0])
        return np.column_stack([coefficients, intercepts]).ravel()

    def _problem(self):
        return Logistic() if self.problem is None else self.problem

    def _chosen(self, rows):
        """The chosen ones of all rows, with their weights and their form."""
        if self.remainder is None:
            return rows.restricted(self.indices_, self.weights_)
        return rows.restricted(self.indices_, self.weights_, self.form_)

    @property
    def _accepts(self):
        problem = self._problem()
        y = "optional"
        if getattr(problem, "needs_y", not callable(self.problem)):
            y = "two classes" if getattr(problem, "classifies", False) else "targets"
        dtypes = (np.float64, np.int64) if callable(self.problem) else (np.float64,)
        return Accepts(y, sparse=self._may_have_groups, dtypes=dtypes)

    @property
    def _by_scale(self):
        return self._at == "path"

    def _check_targets(self, y):
        likelihood(self._problem(), y)

    def _check_input(self, X, y, sample_weight):
        reset = not hasattr(self, "indices_")
        takes_columns = callable(self.problem)
        given = X
        if takes_columns and np.ndim(y) == 2 and np.shape(y)[1] > 1:
            # A function may take several numbers a row, such as a time and an event.
            check_labels(y)
            several = as_real(y, "y")
            X, _ = self._check_X_y(X, several[:, 0], reset=reset)
            y = several
        else:
            X, y = self._check_X_y(X, y, reset=reset)
        weights = check_sample_weight(sample_weight, X.shape[0])
        if sparse.issparse(X):
            check_magnitude(X.data, "X", np.float64)
            return X, y, weights
        check_magnitude(X, "X", np.float64)
        # One layout, one rounding.
        dtype = np.int64 if takes_columns and holds_integers(given) else None
        return np.ascontiguousarray(X, dtype), y, weights

    def _select_one_class(self, X, sample_weight, rng):
        # What such rows say of a model hangs on the classes beside theirs.
        warn(
            f"a part of {X.shape[0]} rows has one class only: its rows are drawn by weight and not "
            "matched, so that sums over them are kept on average only. In a stream take a "
            "larger leaf_size, or a ReservoirCoreset."
        )
        return super()._select_one_class(X, sample_weight, rng)

    def _in_a_stream(self):
        for option in ("folds", "remainder"):
            if getattr(self, option) is not None:
                raise ValueError(
                    f"{option} must be None in a stream, whose rows come once: fit all rows, from "
                    "files or Blocks if need be."
                )
        return self

    def _penalties(self):
        problem = self._problem()
        if not hasattr(problem, "l2"):
            raise ValueError(
                "at='path' needs a problem whose penalty has the strength l2, an option that "
                f"{type(problem).__name__} lacks: take at='posterior'."
            )
        own = self.penalties
        if own is None:
            own = [problem.l2 * factor for factor in PENALTY_FACTORS]
        if np.ndim(own) == 0:
            raise ValueError(f"penalties must be a list of numbers: give penalties=[{own}].")
        ascending = np.sort(check_vector(own, "penalties"))
        penalties = ascending[::-1]
        if penalties[-1] <= 0:
            raise ValueError(f"penalties must be positive, got {penalties[-1]:g}.")
        return penalties

    def _given(self, X, y, sample_weight):
        # Rows that come after the fit.
        if not is_blocks(X, y, sample_weight):
            return self._rows(*self._check_input(X, y, sample_weight))
        blocks = as_blocks(X, y, sample_weight)
        if blocks.like is not None and hasattr(self, "indices_"):
            validate_data(self, blocks.like, reset=False, skip_check_array=True)
        return self._rows(blocks, None, None)

    def _noted(self, rows):
        # What `_of_fit` compares with.
        self._total_weight = rows.weights.sum()
        return rows

    def _of_fit(self, X, y, sample_weight):
        # The rows of the fit, given once more.
        rows = self._given(X, y, sample_weight)
        self._check_n_samples(len(rows.weights))
        given, of_fit = rows.weights.sum(), self._total_weight
        if not np.isclose(given, of_fit, rtol=1e-6, atol=0):
            raise ValueError(
                f"the weights of these rows add up to {given:.7g}, and those of the rows of the "
                f"fit to {of_fit:.7g}: give the X, y and sample_weight that fit got."
            )
        return rows

    def _rows(self, X, y, sample_weight):
        if isinstance(X, Blocks):
            X = X.at_least(self._plan.rows_per_block(self, X))
            y, sample_weight = self._sides(X)
        else:
            y = without_absent(y, sample_weight)
        classes = getattr(self, "classes_", None)
        model, y = likelihood(self._problem(), y, classes)
        kind = SparseRows if sparse.issparse(X) else LikelihoodSums
        return kind(model, X, y, sample_weight)

    def _sides(self, blocks):
        """Targets, or `Labels`, and weights of all rows in blocks. Weights that are all one take no
        memory, a label takes a byte."""
        problem = self._problem()
        classifies = getattr(problem, "classifies", False)
        parts = blocks.map(_sides_of_block, problem if classifies else None)
        ys, weights = map(list, zip(*parts))
        del parts
        if all(w is None for w in weights):
            sample_weight = np.broadcast_to(1.0, blocks.n)
        else:
            each = [np.ones(n) if w is None else w for w, n in zip(weights, blocks.lengths)]
            sample_weight = check_sample_weight(join_rows(each), blocks.n)
        if classifies and ys[0] is not None:
            return Labels.joined(ys), sample_weight
        return without_absent(join_rows(ys), sample_weight), sample_weight

    def stand_in(self, blocks: Any, n_beside: int, rng: Any) -> tuple[Rows, Rows] | None:
        """Few rows whose mean loss is that of all rows near the optima of penalties of both kinds.

        Parameters
        ----------
        blocks : `Blocks` of dense rows with one target each
        n_beside : how many rows are drawn beside them, uniformly
        rng : Generator

        Returns
        -------
        few, beside : `Rows` with their weights; None where so many sums would be matched that it
            does not pay
        """
        sums = self._rows(blocks, None, None)
        l2 = self._problem().l2
        least, most = (l2 * factor for factor in STAND_IN_FACTORS)
        wanted = min(MAX_EQUATIONS, MAX_ROW_SHARE * sums.n_present)
        d = blocks.d
        n_moments = (d + 2) * (d + 3) // 2
        has_moments = sums.model.squares and n_moments <= wanted
        n_slopes = (1 + n_optima(least, most)) * sums.model.n_outputs * d
        if not has_moments and n_slopes > wanted:
            return None
        sums = sums.moved("path")
        drawn = sums.drawn(n_beside, rng)
        of_sample = np.zeros(0, int) if has_moments else places_of_sample(sums)
        beside, some = sums.blocks.take(np.hstack([drawn, of_sample])).cut(len(drawn))
        beside = replace(beside, weight=beside.weight * (sums.n_present / len(drawn)))
        if has_moments:
            return _matched_rows(sums, n_moments, "second_moments"), beside
        sample = sums.restricted(of_sample, sums.weights[of_sample], taken=some)
        pairs = strengths(sample, least, most)
        optima = where_to_match(sums, sample, pairs, along(sample, pairs))
        n_equations = sums.model.n_tangents(optima)
        return _matched_rows(sums, n_equations, "tangents_at", optima), beside

    def _select(self, X, y, sample_weight, rng):
        self.classes_ = None
        self.laplace_ = None
        self.form_ = None
        # With which parameters the log-likelihood jumps, in words, or nothing.
        self._jumps = ""
        X, found = self._grouped(X, y, sample_weight, rng)
        if found:
            return found
        rows = self._noted(self._rows(X, y, sample_weight)).moved(self.at)
        if self.size is not None:
            check_size(self.size, rows.n_present, len(rows.weights))
        self.kl_ = float("nan")
        self.parameters_ = None
        self.classes_ = rows.model.classes
        n_columns = rows.blocks.d + 2
        n_moments = n_columns * (n_columns + 1) // 2
        if self.remainder is not None:
            self._check_remainder(rows)
        if self.folds is not None:
            return self._tuned(rows, n_moments, rng)
        if self._at == "array":
            return self._at_parameters(rows, stacked(self.at, "at"))
        if self.at not in ("path", "posterior"):
            raise ValueError(
                f"at must be 'path', 'posterior' or an array of parameters, got at={self.at!r}."
            )
        has_room = self.size is None or self.size >= n_moments
        if rows.model.squares and (has_room or self.at == "posterior"):
            found = self._second_moments(rows, n_moments)
        elif self.at == "posterior":
            return self._posterior(rows, rng)
        else:
            found = self._path(rows)
        self._warn_of_many(rows, len(found[0]))
        return found

    def _second_moments(self, rows, n_moments):
        found = self._match(rows, n_moments, "second_moments")
        if self.size is not None and self.residual_ > KEPT:
            self._warn(f"{self.size} rows are fewer than the {n_moments} second moments")
        return found

    def _warn_of_many(self, rows, m):
        n = rows.n_present
        if self.size is not None or m <= MAX_ROW_SHARE * n:
            return
        instead = "BilevelCoreset takes as few as you say"
        if self._at == "posterior":
            instead = "else sample on all rows"
        elif self.folds is not None:
            instead = "else tune on all rows"
        warn(
            f"it hardly pays: {m} of {n} rows are kept, for {self.n_equations_} sums. For fewer "
            f"rows take {self._fewer_sums(rows)}; {instead}."
        )

    def _fewer_sums(self, rows):
        """What asks for fewer sums, in words, but what was done already."""
        ways = ["fewer columns of X"]
        if rows.n_folds > 2:
            ways.append("fewer folds")
        at_penalties = self._at == "path" and self.parameters_ is not None
        if at_penalties and len(self._penalties()) > 1:
            of_one_path = self.folds is None
            fewer = "fewer penalties (penalties=[l2])"
            ways.append(fewer if of_one_path else "a narrower range of penalties")
        return " or ".join(ways)

    def _wants_for_groups(self, n_outputs):
        """What groups ask for and is not so, as a message lists it."""
        wants = []
        if n_outputs != 1:
            wants.append(f"a model of one linear predictor, not of {n_outputs}")
        if self.size is not None:
            wants.append(f"no size, not size={self.size}")
        if callable(self.prior):
            wants.append("a prior of deviations, not a function")
        return wants

    def _grouped(self, X, y, sample_weight, rng):
        """X as the other ways take it, and None; or X, and the rows of a model with groups, where
        these ask for fewer sums."""
        in_memory = not isinstance(X, Blocks)
        if not (in_memory and self._may_have_groups and mostly_zero(X)):
            return X, None
        rows = self._noted(self._rows(sparse.csr_array(X), y, sample_weight))
        wanted = 2 * n_terms_of(rows.pattern) + 1
        most = min(MAX_EQUATIONS, MAX_ROW_SHARE * rows.n_present)
        if wanted <= most and not self._are_cheaper(rows, wanted):
            return dense(X), None
        wants = self._wants_for_groups(rows.model.n_outputs)
        if wants:
            if sparse.issparse(X):
                raise ValueError(
                    f"X is sparse, and of its {X.shape[1]} columns sums over groups that occur "
                    f"together are matched, which takes {' and '.join(wants)}. Or give X.toarray()."
                )
            return X, None
        if not rows.groups.are_small:
            raise ValueError(
                "these columns have no groups that are small enough: "
                f"{len(rows.groups.shared)} are shared by many rows, and "
                f"{rows.groups.width} belong together with these; a group may have some "
                "tens of columns. Take fewer columns, or BilevelCoreset(...)."
            )
        self.classes_ = rows.model.classes
        p = rows.pattern.shape[1]
        found, why = self._by_groups(rows, np.zeros((1, p)), rng)
        self._warn(why)
        return X, found

    def _are_cheaper(self, rows, wanted):
        """Whether the groups of rows ask for fewer sums than so many, if those are many."""
        return wanted > MANY_EQUATIONS and rows.groups.n_equations < wanted

    def _probed(self, rows, starts):
        """Rows of a likelihood whose parameters have groups that ask for fewer sums, and where the
        search for its mode starts; None, None for others."""
        is_other = rows.model.n_outputs or self.size is not None
        if is_other or starts.shape[1] <= FEW_PARAMETERS:
            return None, None
        tried = np.vstack([jittered(starts[0]), starts])
        tried = possible(rows, tried)
        probed = ProbedRows.around(rows, tried[0]) if len(tried) else None
        if probed is None or not probed.groups.are_small:
            return None, None
        wanted = 2 * n_terms_of(probed.pattern) + 1
        if not self._are_cheaper(probed, wanted):
            return None, None
        check_shared(probed.pattern.sum(0), rows.n_present)
        return probed, np.vstack([starts, tried])

    def _by_groups(self, rows, starts, rng):
        """The rows of a model with groups, and why they may miss its posterior, or nothing."""
        began = time.perf_counter()
        n = rows.n_present
        prior = prior_of(rows.model, self.prior, starts)
        pilot = sparse_pilot(rows, prior, starts)
        self.modes_ = pilot.mode[None]
        matched = GroupMatch(rows, pilot, rng)
        theta = pilot.draws(N_HELD_OUT, rng)
        held = HeldOut.of(rows, prior, theta, pilot.log_density)
        laplace = LaplaceReport.of(rows, held, began)
        self.laplace_ = nearer(laplace, rows, prior, pilot)
        for n_draws in LOCAL_DRAWS:
            places, weights, self.residual_ = matched.match(n_draws)
            self.kl_ = held.missed(rows.restricted(places, weights))
            m = len(places)
            if self.kl_ <= self.tol or m > MAX_ROW_SHARE * n:
                break
        self.n_equations_ = matched.n_matched
        local = matched.local[:n_draws]
        self.parameters_ = np.vstack([local, matched.common])
        self._look_for_jumps(rows, np.vstack([starts[:1], self.modes_]))
        self._advise(n, m)
        why = ""
        if m > MAX_ROW_SHARE * n:
            why = f"it hardly pays: {m} of {n} rows are kept, as the groups have few rows each"
        elif not self.kl_ <= self.tol:
            why = f"the estimated divergence is {self.kl_:.2g}, and not at most tol={self.tol:g}"
        return (places, weights), why

    def _warn(self, why):
        if why:
            warn(f"{why}; these rows may miss the posterior: `check` says it of the draws.")

    def _at_parameters(self, rows, theta):
        if self.size is not None:
            most = max(self.size, MAX_PURSUIT_EQUATIONS) - 1
            theta = evenly(theta, most)
        if not rows.model.n_outputs:
            check_alone(rows, theta[:1])
            self._look_for_jumps(rows, evenly(theta, N_LOOKS))
            self._warn(self._jumps and self._jumps + OF_JUMPS)
        self.parameters_ = theta
        return self._match(rows, 1 + len(theta), "values_at", theta)

    def _path(self, rows):
        if not rows.model.has_slopes:
            raise ValueError(
                "at='path' is for problems such as Logistic, LeastSquares and Poisson; for a "
                "function take 'posterior'."
            )
        start = starting_points(rows, self.start)[0]
        n = rows.n_present
        if rows.model.n_outputs > MANY_OUTPUTS and len(start) >= n:
            raise ValueError(
                f"{rows.model.n_outputs} outputs have {len(start)} parameters, no fewer than the "
                f"{n} rows: all would be kept. For targets of a regression take LeastSquares(...), "
                "for few rows BilevelCoreset(...)."
            )
        start = rows.model.inner(start[None])[0]
        optima = optima_of_penalties(rows, self._penalties(), start)
        self.parameters_ = rows.model.outer(optima)
        return self._match(rows, 1 + optima.size, "gradients_at", optima, exactly=True)

    def _tuned(self, rows, n_moments, rng):
        if self._at != "path" or not rows.model.n_outputs:
            raise ValueError(
                "folds are for at='path' of Logistic, LeastSquares and Poisson; for another "
                f"likelihood, or at={self.at!r}, match each fold by itself."
            )
        codes = np.zeros(len(rows.weights), int)
        if rows.model.classes is not None:
            is_single = rows.y.shape[1] == 1
            codes = rows.y[:, 0].astype(int) if is_single else rows.y.argmax(1)
        folds = folds_of_rows(self.folds, codes, rows.weights, rng)
        self.row_folds_ = folds.labels[folds.codes]
        rows = rows.with_folds(folds)
        if self.penalties is None:
            low, high = (self._problem().l2 * factor for factor in TUNED_FACTORS)
        else:
            high, *_, low = np.repeat(self._penalties(), 2)
        sample = sample_of(rows)
        part = path_sample(sample)
        pairs = strengths(part, low, high, FINER)
        optima = along(part, pairs)
        matched, checked = far_apart(part, pairs, optima, n_optima(low, high) - 1)
        beside = [pairs[g] for g in checked], optima[checked]
        if rows.model.squares and (self.size is None or self.size >= rows.n_folds * n_moments):
            found = self._match(rows, n_moments, "second_moments")
            self._check_curve(rows, sample, found, *beside)
        else:
            pairs = [pairs[g] for g in matched]
            optima = where_to_match(rows, sample, pairs, optima[matched])
            found = self._match_curve(rows, sample, optima, *beside)
        self._warn_of_many(rows, len(found[0]))
        return found

    def _match_curve(self, rows, sample, optima, *beside):
        """Rows matched at optima, and then also where their curve was the furthest from that of all
        rows, until it is near."""
        most = self.size or MAX_ROW_SHARE * np.count_nonzero(rows.weights)
        while True:
            self.parameters_ = rows.model.outer(optima)
            n_equations = rows.model.n_tangents(optima)
            found = self._match(rows, n_equations, "tangents_at", optima, exactly=True)
            worst = self._check_curve(rows, sample, found, *beside)
            optima = np.vstack([optima, worst])
            too_many = rows.n_folds * rows.model.n_tangents(optima) > most
            if self.curve_error_ <= CURVE_SHARE * self.tol or too_many:
                return found

    def _check_curve(self, rows, sample, found, pairs, starts):
        """Set `curve_error_`, the largest at some pairs of penalties, near whose optima the starts
        are; the mean of the folds' models, shape (1, p), where it is largest."""
        few = rows.restricted(*found)
        models = models_without(few, pairs, starts)
        errors = [abs(report.error) for report in curve_reports(rows, sample, few, models, pairs)]
        self.folds_ = self.row_folds_[found[0]]
        self.curve_error_ = max(errors)
        return models[np.argmax(errors)].mean(0, keepdims=True)

    def _posterior(self, rows, rng):
        starts = starting_points(rows, self.start)
        if not rows.model.n_outputs:
            check_alone(rows, np.vstack([starts[:1], jittered(starts[0])]))
        probed, tried = None, None
        if self.remainder is None:
            probed, tried = self._probed(rows, starts)
        try:
            if self.remainder is not None:
                found, why = self._with_form(rows, rng)
            elif probed is None:
                found, why = self._by_terms(rows, rng)
            else:
                found, why = self._by_groups(probed, tried, rng)
        except ConvergenceError as error:
            self._look_for_jumps(rows if probed is None else probed, starts)
            if not self._jumps:
                raise
            raise ConvergenceError(f"no mode was found: {self._jumps}{OF_JUMPS}.") from error
        if self._jumps:
            self.kl_ = float("nan")
            self.laplace_ = self.laplace_.doubted(self._jumps)
            why = self._jumps + OF_JUMPS
        self._warn(why)
        return found

    def _look_for_jumps(self, rows, near):
        """Set what is said of a log-likelihood that jumps near some parameters (S, p)."""
        jumps = jumps_of(rows, near)
        if len(jumps):
            self._jumps = f"the log-likelihood jumps with {rows.model.named(jumps)}"

    def _pilot(self, rows, n):
        """As `find_pilot`, of n rows that count; sets `modes_`."""
        found = find_pilot(rows, self.prior, self.start)
        pilot, _, counts = found
        self.modes_ = rows.model.outer(pilot.modes)
        check_shared(np.diag(counts), n)
        starts = starting_points(rows, self.start)
        self._look_for_jumps(rows, np.vstack([starts, self.modes_]))
        return found

    def _by_terms(self, rows, rng):
        """Rows that are matched in first- and second-order terms or at as many draws, and why they
        may miss the posterior, or nothing."""
        began = time.perf_counter()
        n = rows.n_present
        pilot, log_prior, counts = self._pilot(rows, n)
        pairs = np.argwhere(np.tril(counts > 0))
        n_terms = len(counts) + len(pairs)
        theta = pilot.draws(N_HELD_OUT, rng)
        held = HeldOut.of(rows, log_prior, theta, pilot.log_density)
        laplace = LaplaceReport.of(rows, held, began)
        self.laplace_ = nearer(laplace, rows, log_prior, pilot)
        self._advise(n, 2 * n_terms + 1)
        found = self._until_near(rows, pilot, log_prior, pairs, held, rng)
        # where all rows are kept nothing is missed
        why = self._doubts(rows, n, n_terms) if len(found[0]) < n else ""
        flat = [] if rows.model.n_outputs else flat_parameters(rows, log_prior, pilot)
        if flat:
            why = (
                f"the posterior is flat along a direction of {rows.model.named(flat)}: give a "
                "proper prior, or fix one of them"
            )
        return found, why

    def _check_remainder(self, rows):
        """ValueError where a quadratic form has no place."""
        if self._at != "posterior" or self.folds is not None:
            raise ValueError("remainder is for at='posterior', without folds.")
        if rows.model.squares:
            raise ValueError(
                "remainder must be None for LeastSquares, whose log-likelihood is a quadratic form "
                "itself: the posterior of its coefficients is a Gaussian."
            )
        if not rows.model.has_slopes:
            raise ValueError(
                "remainder='quadratic' needs slopes: give a Problem, or a model of NumPyro or "
                "PyMC (from_numpyro, from_pymc), for a function."
            )

    def _with_form(self, rows, rng):
        """Rows that are drawn, beside the form that they ask for, and why they may miss the
        posterior, or nothing."""
        began = time.perf_counter()
        n = rows.n_present
        pilot, log_prior, counts = self._pilot(rows, n)
        matched = FormMatch(rows, log_prior, pilot, rng)
        self.laplace_ = LaplaceReport.of(rows, matched.held, began)
        matched_at = matched.center + matched.moves
        self.parameters_ = rows.model.outer(matched_at)
        p = len(counts)
        self.n_equations_ = (p + 1) * (p + 2) // 2
        self.residual_ = 0.0
        most = max(1, int(MAX_ROW_SHARE * n))
        m = self.size
        if m is None:
            least = min(p, most)
            wanted = matched.n_rows(self.tol)
            m = int(np.clip(wanted, least, most))
        self._advise(n, m)
        while True:
            places, weights, form, self.kl_ = matched.match(m)
            is_near = self.size is not None or self.kl_ <= self.tol
            if is_near or m == most:
                break
            m = min(most, int(NEARBY_STEP * m) + 1)
        self.form_ = form.of(rows.model.inner)
        return (places, weights), self._doubts_of_form(len(pilot.modes))

    def _doubts_of_form(self, n_modes):
        """Why rows and a quadratic form may miss the posterior, or nothing."""
        if n_modes > 1:
            return f"a quadratic form is for one mode, and {n_modes} were found"
        if not self.laplace_.variance <= FAR_FROM_GAUSSIAN:
            return (
                "the posterior is too far from a Gaussian for a quadratic form (variance "
                f"{self.laplace_.variance:.2g} of its log weights; centre what is scaled by a "
                "deviation that is drawn, too)"
            )
        allowed = self.tol
        if self.size is not None:
            allowed = max(self.tol, MOST_WITH_WEIGHTS)
        if not self.kl_ <= allowed:
            return f"the estimated divergence is {self.kl_:.2g}, and not at most {allowed:g}"
        return ""

    def _until_near(self, rows, pilot, log_prior, pairs, held, rng):
        """Rows that are matched at more and more draws, until the divergence is at most `tol`."""
        n_terms = pilot.modes.shape[1] + len(pairs)
        may_keep = int(MAX_ROW_SHARE * rows.n_present)
        most = min(MAX_EQUATIONS, max(3, may_keep))
        n_equations = self._first_equations(n_terms, most)
        may_chain = (self.size or n_equations) > n_terms
        # The rows whose posterior a chain draws from, where the pilot is too far from it.
        few = None
        while True:
            if few is None:
                found = self._match_pilot(rows, pilot, pairs, n_equations, rng)
            else:
                posterior = posterior_of(few, log_prior)
                n_matched = max(0, n_equations - 2)
                draws = pilot.chain(posterior, N_HELD_OUT + n_matched, rng)
                theta, matched = np.split(draws, [N_HELD_OUT])
                held = HeldOut.of(rows, log_prior, theta, posterior)
                found = self._match_draws(rows, pilot, matched)
            now = rows.restricted(*found)
            self.kl_, n_effective = held.kl(now)
            is_far = n_effective < MIN_EFFECTIVE_SHARE * N_HELD_OUT
            if few is None and may_chain and is_far:
                few = now
                continue
            if few is not None:
                few = now
            more = self._more_equations(n_equations)
            is_near = self.size is not None or not self.kl_ > self.tol
            if is_near or more > most:
                return found
            n_equations = more

    def _first_equations(self, n_terms, most):
        """How many equations are tried first, of a posterior of so many first- and second-order
        terms."""
        n_equations = self.size or min(2 * n_terms + 1, most)
        may_pursue = 2 * n_terms < MAX_PURSUIT_EQUATIONS
        if n_equations < n_terms and may_pursue:
            return 2 * n_terms + 1
        return n_equations

    def _more_equations(self, n_equations):
        """How many are tried after so many, which were too few, perhaps far too few."""
        is_far_off = self.kl_ > FAR_OFF * self.tol
        factor = 2 if is_far_off else NEARBY_STEP
        return int(factor * n_equations)

    def _match_pilot(self, rows, pilot, pairs, n_equations, rng):
        """Rows matched at draws of the pilot, and in gradient and curvature at its mode where there
        is room for these terms."""
        n_terms = pilot.modes.shape[1] + len(pairs)
        has_room = n_terms + 2 < n_equations <= (self.size or n_equations)
        expand = rows.model.has_curvatures and has_room
        n_draws = max(0, n_equations - 2 - n_terms * expand)
        theta = pilot.draws(n_draws, rng, inflation=INFLATION, on_segment=ON_SEGMENT)
        if not expand:
            return self._match_draws(rows, pilot, theta)
        theta = possible(rows, theta)
        matched_at = np.vstack([pilot.mode, theta])
        self.parameters_ = rows.model.outer(matched_at)
        return self._match(rows, n_equations, "expansion_at", pilot.mode, pairs, theta)

    def _match_draws(self, rows, pilot, theta):
        """Rows matched at the highest mode and at draws."""
        theta = possible(rows, theta)
        matched_at = np.vstack([pilot.mode, theta])
        self.parameters_ = rows.model.outer(matched_at)
        n_equations = 1 + len(matched_at)
        return self._match(rows, n_equations, "values_at", matched_at)

    def _advise(self, n, m):
        """Say where a handful of about m of n rows does not pay, once in a process."""
        if self.laplace_.suffices and not self._jumps:
            if not getattr(self.problem, "is_printed", False):
                tell_once("laplace", f"MatchedCoreset: {self.laplace_}.")
        elif n < FEW_ROWS:
            tell_once(
                "few rows",
                f"MatchedCoreset: of {n} rows a chain on all of them costs little more than one "
                f"on about {m}; below some {FEW_ROWS:,} rows a handful hardly pays.",
            )

    def _doubts(self, rows, n, n_terms):
        """Why the rows may miss the posterior, or nothing."""
        m = self.size or self.n_equations_
        if 2 * n_terms > MAX_ROW_SHARE * n:
            why = f"it hardly pays: {2 * n_terms} equations would be wanted for {n} rows"
            return why + self._instead(rows)
        if m < n_terms + 2:
            few = f"{m} rows are fewer than the {n_terms} first- and second-order terms and two"
            return few + self._instead(rows)
        if self.size is None and not self.kl_ <= self.tol:
            return f"the estimated divergence is {self.kl_:.2g}, and not at most tol={self.tol:g}"
        return ""

    def _instead(self, rows):
        """What takes so many parameters, where there is something."""
        p = self.modes_.shape[1]
        if rows.model.has_slopes and p > FEW_PARAMETERS:
            return " (remainder='quadratic' takes so many parameters)"
        return ""

    def _match(self, rows, n_equations, equations, *args, exactly=False):
        n_each = n_equations
        n_equations *= rows.n_folds
        size = self.size or n_equations
        needed = n_equations
        self.n_equations_ = n_equations
        # their rank may be lower
        if n_equations <= 4 * size:
            n_parts = max(1, size // n_equations)
            places, weights, self.residual_ = rows.match(n_each, n_parts, equations, *args)
            needed = len(places)
        if needed <= size:
            return places, weights
        if exactly or n_equations > MAX_PURSUIT_EQUATIONS:
            raise ValueError(
                f"size must be at least {needed} to keep these {n_equations} sums exactly, got "
                f"size={size}: take more rows, {self._fewer_sums(rows)}, or BilevelCoreset, which "
                "makes the most of so few."
            )
        places, weights, _ = rows.match(n_each, PURSUIT_PARTS, equations, *args)
        kept = rows.restricted(places, weights)
        features = kept.over(np.concatenate, equations, *args)
        chosen, weights, self.residual_ = pursue(features, weights, size)
        return places[chosen], weights


def _matched_rows(sums, n_equations, equations, *args):
    # The rows that keep the sums of so many equations.
    places, weights, _ = sums.match(n_equations, 1, equations, *args)
    return replace(sums.blocks.take(places), weight=weights)


def _sides_of_block(block, classifier):
    check_rows(block.X)
    y = block.y
    weight = block.weight
    if y is not None:
        check_labels(y, several=classifier is None, of=classifier)
        # A column of a frame is asked by its labels, an array by places.
        y = as_array(y) if classifier is None else Labels.of(np.ravel(y), weight > 0)
    return y, None if (weight == 1).all() else weight


def jumps_of(rows, near):
    """Numbers of the parameters with which the log-likelihood jumps near some parameters (S, p),
    and around the first of them; those of all groups are looked at together."""
    if rows.model.n_outputs:
        return []
    ones = np.ones(near.shape[1])
    has_groups = isinstance(rows, ProbedRows)
    directions = rows.groups.directions(ones) if has_groups else np.diag(ones)
    around = jittered(near[0], N_LOOKS)
    jumps = jumping(rows, np.vstack([near, around]), directions)
    has_jump = directions[jumps].any(0)
    return np.flatnonzero(has_jump).tolist()


def check_shared(counts, n):
    """ValueError if parameters act in hardly a row each, of the counts of rows in which each acts,
    of n."""
    n_rare = np.count_nonzero(counts < min(3, n))
    if n_rare > max(3, n / 20):
        raise ValueError(
            "parameters that belong to one or two rows each, such as a latent variable for every "
            "row, are not supported: sample on all rows."
        )


def mostly_zero(X):
    """Whether a matrix is sparse, or so many of its columns are indicators that it should be."""
    if sparse.issparse(X):
        return True
    if X.shape[1] <= FEW_PARAMETERS:
        return False
    return np.count_nonzero(X) < MOST_NONZERO * X.size


def possible(rows, theta):
    """Parameters (K, p) at which all rows are possible: a function may have a bounded support."""
    if rows.model.n_outputs or not len(theta):
        return theta
    return theta[np.isfinite(rows.sums(theta))]
