"""What each row does to each prediction, and which rows are suspect: influence, out-of-fold
loss."""

import warnings
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils import check_consistent_length, indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import type_of_target

from handful.checks import (
    MAX_SEED,
    as_generator,
    check_array,
    check_in_memory,
    check_integer,
    check_labels,
    check_memory,
    check_same_names,
    check_X_y,
    training_named,
)
from handful.coreset import take_rows
from handful.matching.likelihoods import LinearLikelihood
from handful.models.base import OuterRows
from handful.models.glm import GLM
from handful.models.linear import LeastSquares, Logistic
from handful.models.problem import check_problem
from handful.options import explained
from handful.running import Bar
from handful.tables import readable
from handful.trainers import kind_of, seed_unset
from handful.types import Seed, Table

# rows whose leverages are computed at a time
BLOCK = 256
# of the gradient at which a training ends, in units of the one at zero
TOL = 1e-10
# of a label: forests give 0, of which the logarithm is infinite
LEAST_PROBABILITY = 1e-12


class LinearTraining:
    """Rows and test rows of a Logistic or LeastSquares as attribution needs them, checked.

    Rows of the design `A` are those of `linear`, the intercept last, and have k outputs, in which
    `link` gives the losses' gradients and Hessians. Parameters are matrices, shape (p, k).
    """

    def __init__(self, problem, X, y, X_test, y_test):
        if hasattr(problem, "fit"):
            raise TypeError(
                f"problem must be a Logistic or a LeastSquares, got the estimator {problem!r}: in "
                "place of "
                f"LogisticRegression(C=C) give Logistic(l2=1 / (C * {len(y)})), in place of "
                "Ridge(alpha) "
                f"LeastSquares(l2=alpha / {len(y)}). For any estimator, suspects ranks rows by "
                "their losses."
            )
        check_problem(problem)
        if not isinstance(problem, Logistic | LeastSquares):
            raise TypeError(
                f"attribution knows Logistic and LeastSquares, got {type(problem).__name__}."
            )
        dtypes = [np.float64, np.float32]
        given = X, X_test
        X, y = check_X_y(X, y, dtype=dtypes, y_numeric=not problem.classifies)
        X_test, y_test = check_X_y(
            X_test, y_test, "y_test", dtype=X.dtype, y_numeric=not problem.classifies
        )
        if X_test.shape[1] != X.shape[1]:
            raise ValueError(
                f"X_test must have the {X.shape[1]} columns of X, got {X_test.shape[1]}."
            )
        check_same_names(*given)
        self.problem = problem
        self.d = X.shape[1]
        rows = LinearLikelihood(problem, y)
        test = LinearLikelihood(problem, y_test, rows.classes, "y_test")
        self.A = rows.design(X)
        self.A_test = rows.design(X_test)
        self.targets = rows.target, test.target
        self.Y, self.Y_test = (target.astype(X.dtype) for target in self.targets)
        self.linear = rows.linear
        self.k = rows.n_outputs
        self.link = rows.link

    def move_to_mean(self):
        """Move the columns, and the targets of a regression, to their mean, where that changes
        nothing but the intercept of a trained model: it keeps the digits of those far from zero."""
        if self.problem.fit_intercept and not self.problem.penalise_intercept:
            mean = self.A[:, : self.d].mean(axis=0, dtype=np.float64)
            self.A[:, : self.d] -= mean
            self.A_test[:, : self.d] -= mean
            if not self.problem.classifies:
                middle = self.targets[0].mean(axis=0)
                self.Y, self.Y_test = (
                    (target - middle).astype(self.A.dtype) for target in self.targets
                )

    def turn_to_span(self):
        """Give both tables in an orthonormal basis of what the rows span, where there are more
        columns than that: no gradient of a trained model leaves it, and a Hessian without the
        directions in which no row lies keeps its digits, however small the penalty."""
        if self.d <= len(self.A):
            return
        rows = self.A[:, : self.d].astype(np.float64)
        _, lengths, basis = np.linalg.svd(rows, full_matrices=False)
        is_spanned = lengths > self.d * np.finfo(self.A.dtype).eps * lengths[0]
        basis = basis[is_spanned]
        self.A, self.A_test = (
            np.column_stack([A[:, : self.d] @ basis.T, A[:, self.d :]])
            for A in (self.A, self.A_test)
        )
        self.d = len(basis)
        self.Y, self.Y_test = (Y.astype(np.float64) for Y in (self.Y, self.Y_test))

    def train(self):
        """The parameters at which the gradient of the mean loss and its penalty is zero, and the
        factored Hessian.

        The Hessian is that of n times the mean, shape (k p, k p), output by output.
        """
        (n, p) = self.A.shape
        n_parameters = self.k * p
        way = "reduce the columns first, to principal components for example"
        check_memory(f"a Hessian of {n_parameters:,} parameters", 4 * 8 * n_parameters**2, way)
        rows = OuterRows(self.A[:, : self.d], self.Y, np.ones(n), np.zeros(0, int))
        # nothing is drawn
        model = GLM(self.problem, rows, np.random.default_rng(0), tol=TOL)
        model.add_rows(range(n))
        model.fit()
        W = model.coefficients.astype(self.A.dtype)
        return W, cho_factor(self.hessian(W))

    def hessian(self, W):
        """The Hessian of the sum of the losses and n times the penalty, shape (k p, k p), output by
        output."""
        (n, p) = self.A.shape
        k = self.k
        second = self.link.hessians(self.link.mean(self.A @ W))
        penalised = self.linear.penalised(self.d)
        H = self.linear.hessian(second, self.A, np.ones(n))
        H = H + np.diag(n * self.problem.l2 * penalised)
        # intercepts that rise together change nothing, and no gradient points there
        if k > 1 and not penalised[-1]:
            H.reshape(k, p, k, p)[:, -1, :, -1] += n / k**2
        return H


@explained
def influence(
    problem: Any, X: Table, y: Table, X_test: Table, y_test: Table, *, rescaled: bool = True
) -> np.ndarray:
    """By how much the loss of each test row rises if a row is left out of the training: influence
    functions, exact.

    The sign: a positive score is of a row that helps. The unit: that of the test row's loss (nats;
    half squared units of y), for one row left out, where the penalty keeps its strength beside the
    sum of losses (n times `l2`).

    The loss is taken as linear in the parameters. Their change is -H^-1 times the row's gradient
    with the Hessian H of all rows (Koh and Liang 2017); `rescaled` takes the row out of H, too, by
    its leverage (Rubinstein and Hopkins, arXiv 2506.06656): then the change is one Newton step from
    all rows to all but one, exact for `LeastSquares`.

    Parameters
    ----------
    problem : Logistic or LeastSquares
        What is trained.
    X, y : arrays of shape (n, d) and (n,)
        Rows and labels or targets that are trained on.
    X_test, y_test : arrays of shape (t, d) and (t,)
        Rows whose losses are asked for.
    rescaled : bool, default=True
        Whether the row is taken out of the Hessian, too.

    Returns
    -------
    array of shape (n, t)
        Of each training row, by how much the loss of each test row rises without it.

    Raises
    ------
    TypeError
        for another problem
    ValueError
        for rows that the problem refuses, labels in `y_test` that `y` does not hold, and columns
        of `X_test` that are named otherwise than those of X
    MemoryError
        where the Hessian would not fit, of parameters squared, or of rows where these are fewer

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from handful import Logistic, influence
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> scores = influence(Logistic(1e-2), X[100:], y[100:], X[:100], y[:100])
    >>> scores.shape
    (469, 100)
    >>> worst = scores.mean(axis=1).argmin()  # the row without which the test loss would fall most
    """
    check_in_memory("influence", X, y, X_test, y_test)
    model = LinearTraining(problem, X, y, X_test, y_test)
    model.move_to_mean()
    model.turn_to_span()
    W, factor = model.train()
    A = model.A
    k = model.k
    p = A.shape[1]
    P = model.link.mean(A @ W)
    # of the row's gradient: outer(x, moved)
    moved = P - model.Y
    if rescaled:
        inverse = cho_solve(factor, np.eye(k * p)).reshape(k, p, k, p)
        for start in range(0, len(A), BLOCK):
            rows = slice(start, start + BLOCK)
            reach = np.einsum("ip,apbq,iq->iab", A[rows], inverse, A[rows], optimize=True)
            bent = np.eye(k) - model.link.hessians(P[rows]) @ reach
            moved[rows] = np.linalg.solve(bent, moved[rows][:, :, None])[:, :, 0]
    slopes = model.link.mean(model.A_test @ W) - model.Y_test  # (t, k)
    V = cho_solve(factor, np.einsum("tp,tk->kpt", model.A_test, slopes).reshape(k * p, -1)).reshape(
        k, p, -1
    )
    return sum(moved[:, [a]] * (A @ V[a]) for a in range(k))


@dataclass(frozen=True)
class Suspects:
    """A ranking of rows by suspicion. It is no index: ``X[found.indices_[:20]]`` or
    ``found.take(20, X)`` gives rows.

    Attributes
    ----------
    indices_ : int array, shape (n,), positions of rows from the most suspect to the least
    scores_ : float array, shape (n,), of the rows in their own order; large is suspect
    """

    indices_: np.ndarray
    scores_: np.ndarray

    def __repr__(self):
        first = ", ".join(f"{i} ({self.scores_[i]:.3g})" for i in self.indices_[:10])
        more = ", ..." if len(self.indices_) > 10 else ""
        return (
            f"Suspects of {len(self.indices_)} rows, the most suspect first, with scores: "
            f"{first}{more}"
        )

    def take(self, size: int, *data: Any) -> Any:
        """The `size` most suspect rows of each of `data`, in the type in which it came: a frame
        keeps its own index.

        Parameters
        ----------
        size : int
        data : X, y, or whatever has a row for each that was ranked

        Returns
        -------
        list, or what was given if it is one thing

        Raises
        ------
        ValueError
            without data, for data of other numbers of rows, and for a size that is not one
        """
        check_integer("size", size, most=len(self.indices_))
        if not data:
            raise ValueError(
                f"take gives rows of data, as in take({size}, X, y); indices_[:{size}] are their "
                "places."
            )
        check_consistent_length(self.indices_, *data)
        taken = [take_rows(one, self.indices_[:size]) for one in data]
        return taken[0] if len(taken) == 1 else taken


@explained
def suspects(
    estimator: Any, X: Table, y: Table, *, n_folds: int = 5, random_state: Seed = None
) -> Suspects:
    """Rank the rows by how suspect their labels or targets are: by the loss under a model that did
    not see the row.

    A classifier's loss is minus the logarithm of the label's probability in nats (what cleanlab
    calls self-confidence); minus its margin where it gives no probabilities; whether it predicts
    another label, 1 or 0, where it only predicts labels; a regressor's is half the squared error. A
    forest with ``bootstrap=True`` and whatever else has out-of-bag predictions is trained once, on
    all rows, and asked for those. Others, and a pipeline around a forest, are trained `n_folds`
    times. A model that fits the data well finds more: compare
    several by what you know of a few labels.

    Parameters
    ----------
    estimator : classifier, regressor or Pipeline of scikit-learn, Logistic or LeastSquares
        What is trained; of a problem, the estimator that trains it.
    X : array, data frame or whatever the estimator takes
        The n rows.
    y : array of shape (n,)
        Labels or targets.
    n_folds : int, default=5
        Parts held out in turn, at least 2; classes keep their shares.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the folds, and the estimator if its own is None.

    Returns
    -------
    Suspects
        Its `indices_`, the most suspect row first, and `scores_`; its `take` gives the rows.

    Raises
    ------
    ValueError
        for labels that are not one a row, one class, the targets of a regression beside a
        classifier, a class of fewer rows than folds, and for too few trees to have an out-of-bag
        prediction of each row
    TypeError
        for what is no classifier or regressor

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from handful import suspects
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> y[:20] = 1 - y[:20]
    >>> found = suspects(RandomForestClassifier(min_samples_leaf=5), X, y, random_state=0)
    >>> bool((found.indices_[:20] < 20).mean() > 0.5)  # of rows drawn by chance: 0.04
    True
    >>> X_worst, y_worst = found.take(20, X, y)  # to look at
    >>> X_worst.shape
    (20, 30)
    """
    rng = as_generator(random_state)
    is_problem = isinstance(estimator, Logistic | LeastSquares)
    is_trainer = not isinstance(estimator, type) and kind_of(estimator) in (
        "classifier",
        "regressor",
    )
    if not (is_problem or is_trainer):
        raise TypeError(
            "estimator must be a classifier or a regressor, as scikit-learn's ClassifierMixin or "
            "RegressorMixin with BaseEstimator makes it, or a Logistic problem, got "
            f"{shorten(repr(estimator), 80)}."
        )
    check_in_memory("suspects", X, y)
    if np.ndim(y) != 1:
        raise ValueError(f"y must hold one label a row, shape (n,), got shape {np.shape(y)}.")
    check_labels(y)
    X = readable(X)
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_consistent_length(X, y)
    check_integer("n_folds", n_folds, least=2, why="parts held out in turn")
    if is_problem:
        estimator.check()
        estimator = estimator.estimator(len(y) * (1 - 1 / n_folds))
    model = clone(estimator)
    own = estimator.get_params()
    fold_seed = int(rng.integers(MAX_SEED))
    seed_unset(model, int(rng.integers(MAX_SEED)))
    # scores of classes, not of their pairs
    pairwise = [name for name in model.get_params() if name.endswith("decision_function_shape")]
    model.set_params(**dict.fromkeys(pairwise, "ovr"))
    classes = _classes_of(y) if kind_of(estimator) == "classifier" else None
    with training_named(estimator, X, "suspects({}, X, y)"):
        if "oob_score" in own and own.get("bootstrap", True):
            predicted = _out_of_bag(model, X, y, classes)
        else:
            predicted = _out_of_fold(model, X, y, classes, n_folds, fold_seed)
    if classes is None:
        missed = np.ravel(predicted).astype(np.float64) - np.asarray(y, dtype=np.float64)
        scores = 0.5 * missed**2
    else:
        scores = -predicted[np.arange(len(y)), classes[1]]
    return Suspects(np.argsort(-scores, kind="stable"), scores)


def _classes_of(y):
    # The classes and the number of each label's.
    if type_of_target(y).startswith("continuous"):
        raise ValueError(
            "y holds the targets of a regression, and the estimator is a classifier: give a "
            "regressor."
        )
    labels, numbers = np.unique(y, return_inverse=True)
    if len(labels) < 2:
        raise ValueError(
            f"y holds one class only, {labels.tolist()}: there is nothing to tell it from."
        )
    return labels, numbers


def _out_of_bag(model, X, y, classes):
    warm = {"warm_start": False} if "warm_start" in model.get_params() else {}
    model.set_params(oob_score=True, **warm)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Some inputs do not have OOB")
        try:
            model.fit(X, y)
        except UserWarning as missing:
            name = type(model).__name__
            raise ValueError(
                f"some rows are in every bag of {name}: give n_estimators=100 or more."
            ) from missing
    if classes is None:
        return model.oob_prediction_
    return np.log(np.maximum(model.oob_decision_function_, LEAST_PROBABILITY))


def _out_of_fold(model, X, y, classes, n_folds, seed):
    # Predictions, or for each class the logarithm of its probability (its lead over the best other
    # without any). importing it takes a while
    from sklearn.model_selection import KFold, StratifiedKFold

    check_integer("n_folds", n_folds, least=2, most=len(y), why="parts held out in turn")
    options = dict(shuffle=True, random_state=seed)
    if classes is None:
        return _predicted(model, X, y, KFold(n_folds, **options), lambda _: "predict")[0]
    labels = classes[0]
    counts = np.bincount(classes[1])
    if counts.min() < n_folds:
        label = labels[counts.argmin()]
        few = counts.min()
        way_out = f"give n_folds={few}" if few > 1 else "leave its rows out"
        bagged = "give a forest as the estimator, which needs no folds"
        if "bootstrap" in model.get_params():
            bagged = "give bootstrap=True, which needs no folds"
        raise ValueError(
            f"class {label.item() if hasattr(label, 'item') else label!r} has {few} of "
            f"{len(y)} rows, fewer than n_folds={n_folds}: {way_out}, or {bagged}."
        )
    z, method = _predicted(model, X, y, StratifiedKFold(n_folds, **options), _method_of)
    if method == "predict_proba":
        return np.log(np.maximum(z, LEAST_PROBABILITY))
    if method == "predict":
        return (np.asarray(z)[:, None] == labels).astype(float) - 1.0
    if _is_logistic(model):
        return log_softmax(z if z.ndim == 2 else np.column_stack([np.zeros(len(z)), z]), axis=1)
    z = z if z.ndim == 2 else np.column_stack([-z, z])
    first, second = -np.sort(-z, axis=1)[:, :2].T
    return z - np.where(z == first[:, None], second[:, None], first[:, None])


def _method_of(fitted):
    # What tells most of the classes. Some, as a StackingClassifier, know it once they are fitted.
    has_probabilities = hasattr(fitted, "predict_proba")
    has_decisions = hasattr(fitted, "decision_function")
    if has_probabilities and not (has_decisions and _is_logistic(fitted)):
        return "predict_proba"
    # of logistic regression finite, however sure
    return "decision_function" if has_decisions else "predict"


def _predicted(model, X, y, folds, method_of):
    # What the method says that is chosen of the fitted model, and its name. scikit-learn's
    # `cross_val_predict` with a bar; but that trains on numbers in place of labels, which a
    # `class_weight` would not know
    X, y = indexable(X, y)
    held_out = []
    found = []
    with Bar(total=folds.get_n_splits(), desc="suspects", unit="fold") as bar:
        for train, held in folds.split(np.zeros(len(y)), y):
            fitted = clone(model)
            fitted.fit(*_safe_split(fitted, X, y, train))
            X_held, _ = _safe_split(fitted, X, y, held, train)
            method = method_of(fitted)
            found.append(getattr(fitted, method)(X_held))
            held_out.append(held)
            bar.update()
    return np.concatenate(found)[np.argsort(np.concatenate(held_out))], method


def _is_logistic(model):
    last = model[-1] if hasattr(model, "steps") else model
    return type(last).__name__ in ("LogisticRegression", "LogisticRegressionCV")
