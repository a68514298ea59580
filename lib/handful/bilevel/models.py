"""The selection that suits a problem, and the rows that its outer loss is about."""

import numpy as np
from scipy import sparse

from handful.bilevel.generic import Rows
from handful.bilevel.joint import AlternatingSelection, Joint, JointSelection
from handful.bilevel.linear import LinearSelection
from handful.bilevel.passes import DataPasses
from handful.bilevel.problems import LinearProblem, Problem
from handful.bilevel.softmax import SELECTION_TOL, WEIGHTS_TOL, SoftmaxSelection
from handful.checks import check_magnitude

NEEDED = ("losses", "gradients", "hessian")  # of a Problem
OUTER = ("train", "train+validation", "validation")


def check_problem(problem):
    """Refuse what cannot be selected for.

    Raises
    ------
    TypeError
        for a `Problem` that lacks methods
    ValueError
        for what is no problem, and parameters that make no sense
    """
    if not isinstance(problem, (LinearProblem, Problem, Joint)):
        raise ValueError(
            f"problem must be a Logistic or a LeastSquares or another Problem or a Joint of them, got {problem!r}."
        )
    missing = _missing(problem) if isinstance(problem, Problem) else []
    if missing:
        raise TypeError(
            f"{type(problem).__name__} must implement {', '.join(NEEDED)} to be selected for, and lacks "
            f"{', '.join(missing)}: see handful.bilevel.Problem."
        )
    problem.check()
    for part, _ in parts(problem):
        if part is not problem:
            check_problem(part)


def _missing(problem):
    # the methods that selection needs and the base class leaves open; a selection of its own needs what it likes
    if type(problem).selection is not Problem.selection:
        return []
    methods = {name: getattr(problem, name) for name in NEEDED}
    return [name for name, method in methods.items() if getattr(method, "__func__", None) is getattr(Problem, name)]


def parts(problem):
    """``(problem, factor of its outer loss)`` for every problem that is meant."""
    return problem.parts() if isinstance(problem, Joint) else [(problem, 1.0)]


def outer_rows(X, sample_weight, outer, validation):
    """The rows of the outer loss and the candidates among them, which come first.

    Parameters
    ----------
    X, sample_weight : the training rows, which are the candidates unless their weight is zero
    outer : "train", "train+validation" or "validation"
    validation : ``(X, weights)`` of further rows, or None

    Returns
    -------
    X, weights in the outer loss, rows that may not be chosen
    """
    absent = np.flatnonzero(sample_weight == 0)
    if outer == "train":
        return X, sample_weight, absent
    more, weights = validation
    n = X.shape[0]
    if sparse.issparse(X):
        stacked = sparse.vstack([X, more], format="csr")
    else:
        stacked = np.empty((n + more.shape[0], X.shape[1]), dtype=X.dtype, order="F" if X.flags.f_contiguous else "C")
        stacked[:n], stacked[n:] = X, more
    own = sample_weight if outer == "train+validation" else np.zeros(n)
    return stacked, np.concatenate([own, weights]), np.concatenate([absent, np.arange(n, stacked.shape[0])])


def selection_for(problem, X, y, u, absent, capacity, rng, *, ihvp, robust=False, weighted=False):
    """An empty selection for `problem` over the rows of the outer loss.

    Parameters
    ----------
    X, u, absent : as `outer_rows` gives them
    y : targets as the user gave them, or None
    capacity : the largest number of points that the coreset will have on the way
    rng : numpy.random.Generator
    ihvp : Ihvp
    robust : whether to join the problem's variants
    weighted : whether weights will be optimised, for which losses are compared: inner problems are solved further

    Raises
    ------
    ValueError
        for targets that the problem can't have, and where there are no variants
    """
    models, factors, data = [], [], {}
    for part, factor in parts(problem):
        target = part.encode(y)
        for variant in _variants(part) if robust else [part]:
            models.append(_selection(variant, X, target, u, absent, capacity, rng, ihvp, data, weighted))
            factors.append(factor)
    if isinstance(problem, Joint) and problem.alternate:
        return AlternatingSelection(models, factors)
    return models[0] if len(models) == 1 and factors == [1.0] else JointSelection(models, factors)


def _variants(problem):
    if not isinstance(problem, LinearProblem):
        raise ValueError(
            f"robust=True knows variants of linear problems only, not of {problem!r}: use a Joint of yours."
        )
    return problem.variants()


def _selection(problem, X, target, u, absent, capacity, rng, ihvp, data, weighted):
    if not isinstance(problem, LinearProblem):
        if sparse.issparse(X) and not problem.takes_sparse:
            raise ValueError(f"{type(problem).__name__} takes no sparse X: use X.toarray().")
        return problem.selection(Rows(X, target, u, absent), rng, ihvp)
    check_magnitude(target, "y", X.dtype)
    if target.ndim == 2:
        target = np.ascontiguousarray(target, dtype=X.dtype)
        return SoftmaxSelection(
            problem, Rows(X, target, u, absent), rng, ihvp, WEIGHTS_TOL if weighted else SELECTION_TOL
        )
    if problem.kind in data:
        passes = data[problem.kind].twin()
    else:
        passes = data[problem.kind] = DataPasses(X, target, u, problem.kind)
    return LinearSelection(problem, passes, capacity, rng, absent, ihvp)


def class_labels(problem, y):
    """Class of every row as an integer, or None for problems without classes."""
    for part, _ in parts(problem):
        if part.classifies:
            target = part.encode(y)
            return np.argmax(target, axis=1) if np.ndim(target) == 2 else np.unique(target, return_inverse=True)[1]
    return None
