"""What holds for every selector of the library: scikit-learn's checks, and odd and bad input."""

import importlib
import pkgutil
import re
import warnings
from typing import NamedTuple

import handful
import numpy as np
import pandas as pd
import pytest
from handful import (
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LeastSquares,
    Logistic,
    Selector,
    StratifiedCoreset,
    UniformCoreset,
)
from handful.bilevel import Forward, ProxyCoreset
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks


def all_selectors():
    # Those of every algorithm; what experiments define for themselves is no part of the interface, and a selector that
    # hands its input to another refuses what that one refuses.
    for module in pkgutil.walk_packages(handful.__path__, "handful."):
        if not module.name.startswith(("handful_papers", "handful.data", "handful.cli")):
            importlib.import_module(module.name)
    found, queue = set(), [Selector]
    while queue:
        for cls in queue.pop().__subclasses__():
            queue.append(cls)
            library = cls.__module__.startswith("handful.") and not cls.__module__.startswith("handful_papers")
            if library and not cls.__name__.startswith("_") and cls is not ProxyCoreset:
                found.add(cls)
    return sorted(found, key=lambda cls: cls.__name__)


SELECTORS = all_selectors()

# scikit-learn's checks -----------------------------------------------------------------------------------------------

CALLS_SCORE = dict.fromkeys(
    ["check_fit_score_takes_y", "check_n_features_in_after_fitting", "check_pipeline_consistency"],
    "`score` is a hyper-parameter, the papers' word for what ranks the rows; the check calls it as a method",
)
OTHER_DRAWS = "rows removed or repeated are other rows to draw from: another coreset, equal only in expectation"
TOO_FEW = "asks for a coreset of 10 where 5 rows have a positive weight, and is told so"
ONE_LABEL = {"check_classifiers_one_label_sample_weights": TOO_FEW}
MANY_ROWS = "asks for a training score above .5 of 10 features and 200 noisy rows; 10 of these, chosen blindly, miss it"
EXPECTED_OF_PAIRS = {
    "check_sample_weight_equivalence_on_dense_data": OTHER_DRAWS,
    "check_sample_weight_equivalence_on_sparse_data": OTHER_DRAWS,
}
PAIRS = [
    (CoresetEstimator(UniformCoreset(10, random_state=0), LogisticRegression()), ONE_LABEL),
    (CoresetEstimator(BilevelCoreset(size=10, random_state=0), LogisticRegression()), ONE_LABEL),
    (CoresetEstimator(UniformCoreset(10, random_state=0), Ridge()), {"check_regressors_train": MANY_ROWS}),
    (CoresetEstimator(BilevelCoreset(LeastSquares(1e-6), size=10, random_state=0), Ridge()), {}),
]


def expected_failures(estimator):
    for pair, failures in PAIRS:
        if estimator is pair or repr(estimator) == repr(pair):
            return EXPECTED_OF_PAIRS | failures
    return CALLS_SCORE if "score" in estimator.get_params() else {}


@parametrize_with_checks(
    [cls(size=5) for cls in SELECTORS]
    + [
        BilevelCoreset(LeastSquares(), size=5),
        BilevelCoreset(size=5, rule="linear", strategy=Forward(n_start=2), weighting="optimised"),
    ]
    + [ProxyCoreset(size=5), ProxyCoreset(KCenter(), RBFSampler(), size=5)]
    + [pair for pair, _ in PAIRS],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Odd and bad input ---------------------------------------------------------------------------------------------------

WORKS, MAY_FAIL, FAILS = range(3)


class Case(NamedTuple):
    """A value for one argument; `verdict` says whether it must work, and `names` what an error about it says."""

    value: object
    verdict: int = WORKS
    names: str = ""


def odd_X(kind, X, rng, cls):
    n, d = X.shape
    row, column = rng.integers(n), rng.integers(d)
    with_value = X.copy()
    read_only = X.copy(order=rng.choice(["C", "F"]))
    read_only.flags.writeable = False
    strided = np.zeros((2 * n, 2 * d))
    strided[::2, ::2] = X
    # the squares of such values overflow or vanish in sums with others
    large = "scale|large|magnitude"
    read = FAILS if cls._reads else WORKS  # what never looks at the values takes any
    if kind in ("nan", "inf", "-inf"):
        with_value[row, column] = float(kind)
        return Case(with_value, read, "NaN" if kind == "nan" else "infinity")
    if kind == "csr":
        takes = cls._takes_sparse
        return Case(sparse.csr_matrix(X * (X > 0)), WORKS if takes else FAILS, "[Ss]parse")
    return {
        "plain": lambda: Case(X),
        "float32": lambda: Case(X.astype(np.float32)),
        "float16": lambda: Case(X.astype(np.float16)),
        "longdouble": lambda: Case(X.astype(np.longdouble)),
        "int": lambda: Case(np.rint(5 * X).astype(int)),
        "int8": lambda: Case(np.rint(5 * X).astype(np.int8)),
        "bool": lambda: Case(X > 0),
        "object": lambda: Case(X.astype(object)),
        "fortran": lambda: Case(np.asfortranarray(X)),
        "fortran float32": lambda: Case(np.asfortranarray(X, dtype=np.float32)),
        "not contiguous": lambda: Case(strided[::2, ::2]),
        "reversed": lambda: Case(X[::-1, ::-1]),
        "read-only": lambda: Case(read_only),
        "big-endian": lambda: Case(X.astype(">f8")),
        "list": lambda: Case(X.tolist()),
        "frame": lambda: Case(pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])),
        "csr array": lambda: odd_X("csr", X, rng, cls)._replace(value=sparse.csr_array(X * (X > 0))),
        "csc float32": lambda: odd_X("csr", X, rng, cls)._replace(value=sparse.csc_matrix(X.astype(np.float32))),
        "empty csr": lambda: odd_X("csr", X, rng, cls)._replace(value=sparse.csr_matrix((n, d))),
        "one feature": lambda: Case(X[:, :1]),
        "duplicates": lambda: Case(np.repeat(X[:1], n, axis=0)),
        "all zero": lambda: Case(np.zeros_like(X)),
        "two values": lambda: Case(X[rng.integers(min(2, n), size=n)]),
        "constant feature": lambda: Case(np.column_stack([X, np.full(n, 3.0)])),
        # whether 1e12 beside a penalty of 1e-3 is singular to rounding depends on the processor's order of sums
        "big offset": lambda: Case(X + 1e6, MAY_FAIL if cls is BilevelCoreset else WORKS, "singular to rounding"),
        "big offset float32": lambda: Case((X + 1e5).astype(np.float32)),
        "uneven scales": lambda: Case(X * 10.0 ** rng.integers(-6, 4, d)),
        "denormal": lambda: Case(X * 1e-310),
        "tiny": lambda: Case(X * 1e-200),
        "tiny float32": lambda: Case((X * 1e-40).astype(np.float32)),
        "1e10": lambda: Case(X * 1e10, MAY_FAIL, large),
        "1e30": lambda: Case(X * 1e30, MAY_FAIL, large),
        "1e30 float32": lambda: Case((X * 1e30).astype(np.float32), MAY_FAIL, large),
        "1e300": lambda: Case(X * 1e300, MAY_FAIL, large),
        "one huge value": lambda: Case(np.where(np.arange(n)[:, None] == row, 1e300, X), MAY_FAIL, large),
        "complex": lambda: Case(X + 1j, FAILS, "[Cc]omplex"),
        "strings": lambda: Case(np.full((n, d), "abc"), read, "abc|str"),
        "object strings": lambda: Case(np.full((n, d), "abc", dtype=object), read, "abc|str"),
        "objects": lambda: Case(np.array([[object()] * d] * n), read, "object"),
        "None": lambda: Case(None, FAILS, "2D array"),
        "1-d": lambda: Case(X[:, 0], FAILS, "2D array"),
        "3-d": lambda: Case(X[:, :, None], FAILS, "dim 3"),
        "0-d": lambda: Case(np.float64(3), FAILS, "2D array|[Ss]calar"),
        "no rows": lambda: Case(X[:0], FAILS, r"0 sample\(s\)"),
        "no columns": lambda: Case(X[:, :0], FAILS, r"0 feature\(s\)"),
    }[kind]()


X_KINDS = """plain plain plain float32 float16 longdouble int int8 bool object fortran fortran_float32 not_contiguous
reversed read-only big-endian list frame csr csr_array csc_float32 empty_csr one_feature duplicates all_zero two_values
constant_feature big_offset big_offset_float32 uneven_scales denormal tiny tiny_float32 1e10 1e30 1e30_float32 1e300
one_huge_value nan inf -inf complex strings object_strings objects None 1-d 3-d 0-d no_rows no_columns"""


def odd_y(kind, code, rng, cls, two_classes):
    n = len(code)
    if not cls._needs_y:  # a selector that does not look at y may let it pass
        fails, classes = MAY_FAIL, MAY_FAIL
    else:
        fails, classes = FAILS, FAILS if two_classes else MAY_FAIL
    if kind in ("nan", "inf"):
        value = code.astype(float)
        value[rng.integers(n)] = float(kind)
        return Case(value, fails, "NaN|infinity")
    classifies = get_tags(cls()).classifier_tags is not None
    strings_fail = WORKS if two_classes or classifies or not cls._needs_y else FAILS
    return {
        "plain": lambda: Case(code),
        "signs": lambda: Case(2.0 * code - 1),
        "strings": lambda: Case(np.where(code, "ham", "spam"), strings_fail, "numeric|ham|Unknown label"),
        "object strings": lambda: Case(
            np.where(code, "ham", "spam").astype(object), strings_fail, "numeric|ham|Unknown label"
        ),
        "bool": lambda: Case(code > 0),
        "int8": lambda: Case(code.astype(np.int8)),
        "float32": lambda: Case(code.astype(np.float32)),
        "list": lambda: Case(code.tolist()),
        "series": lambda: Case(pd.Series(code, index=np.arange(n) + 7)),
        "column": lambda: Case(code[:, None]),
        "None": lambda: Case(None, FAILS if cls._needs_y else WORKS, "y is None|y to be passed"),
        "one class": lambda: Case(np.ones(n, int), classes, "class"),
        "three classes": lambda: Case(np.arange(n) % 3, classes if n > 2 else MAY_FAIL, "class"),
        "real": lambda: Case(rng.normal(size=n), classes, "class|label"),
        "huge": lambda: Case(code * 1e300, MAY_FAIL, "scale|large|magnitude|label"),
        "mixed": lambda: Case(np.array([1, "a"] * n, dtype=object)[:n], fails, "type|str|numeric|label"),
        "two columns": lambda: Case(np.column_stack([code, code]), fails, "1d array|soft targets"),
        "too long": lambda: Case(np.append(code, 1), FAILS, "inconsistent numbers of samples"),
        "complex": lambda: Case(code + 1j, fails, "[Cc]omplex"),
    }[kind]()


Y_KINDS = """plain plain plain signs strings object_strings bool int8 float32 list series column None one_class
three_classes real huge mixed two_columns too_long complex nan inf"""


def odd_weight(kind, n, rng):
    w = rng.exponential(size=n) + 0.1
    sparse_w = np.where(np.arange(n) % 4 == 3, 0.0, w)
    with_value = w.copy()
    if kind in ("nan", "inf", "-1"):
        with_value[rng.integers(n)] = float(kind)
        return Case(with_value, FAILS, {"nan": "NaN", "inf": "infinity", "-1": "negative"}[kind])
    extreme = "sample_weight"
    return {
        "None": lambda: Case(None),
        "plain": lambda: Case(w),
        "some zero": lambda: Case(sparse_w),
        "int": lambda: Case(rng.integers(1, 5, n)),
        "bool": lambda: Case(np.ones(n, bool)),
        "float32": lambda: Case(w.astype(np.float32)),
        "list": lambda: Case(w.tolist()),
        "series": lambda: Case(pd.Series(w)),
        "uneven": lambda: Case(10.0 ** rng.uniform(-6, 6, n)),
        "1e30": lambda: Case(w * 1e30),
        "1e-30": lambda: Case(w * 1e-30),
        "1e308": lambda: Case(np.full(n, 1e308), MAY_FAIL, extreme),
        "1e-310": lambda: Case(w * 1e-310, MAY_FAIL, extreme),
        "all zero": lambda: Case(np.zeros(n), FAILS, "zero for all"),
        "too short": lambda: Case(w[:-1], FAILS, "sample_weight"),
        "two columns": lambda: Case(np.column_stack([w, w]), FAILS, "sample_weight"),
        "scalar": lambda: Case(2.0, FAILS, "sample_weight|[Ss]calar|0-dim"),
        "strings": lambda: Case(["abc"] * n, FAILS, "abc|str"),
        "complex": lambda: Case(w + 1j, FAILS, "[Cc]omplex"),
    }[kind]()


WEIGHT_KINDS = """None None None plain some_zero int bool float32 list series uneven 1e30 1e-30 1e308 1e-310 all_zero
too_short two_columns scalar strings complex nan inf -1"""


def odd_size(kind, n, cls, two_classes):
    over = WORKS if cls._repeats else FAILS
    return {
        "two": lambda: Case(2),
        "half": lambda: Case(max(2, n // 2)),
        "numpy": lambda: Case(np.int64(2)),
        "all": lambda: Case(n),
        "one": lambda: Case(
            1, MAY_FAIL if two_classes or cls is StratifiedCoreset else WORKS, "size must be at least (2|the number of)"
        ),
        "zero": lambda: Case(0, FAILS, "size must be an integer of at least 1, got size=0"),
        "negative": lambda: Case(-3, FAILS, "size must be an integer of at least 1, got size=-3"),
        "too many": lambda: Case(n + 1, over, f"size must be at most .* got size={n + 1}"),
        "bool": lambda: Case(True, FAILS, "size must be an integer of at least 1, got size=True"),
        "float": lambda: Case(2.0, FAILS, r"size must be an integer of at least 1, got size=2\.0"),
        "string": lambda: Case("5", FAILS, "size must be an integer of at least 1, got size='5'"),
        "None": lambda: Case(None, FAILS, "size must be an integer of at least 1, got size=None"),
    }[kind]()


SIZE_KINDS = """two two two half half numpy all one zero negative too_many bool float string None"""


def kinds(names):
    return st.sampled_from([name.replace("_", " ") for name in names.split()])


@st.composite
def options(draw, cls):
    # What else there is to choose, with values that suit a few rows.
    if cls is BilevelCoreset:
        problem = draw(st.sampled_from([None, Logistic(1.0), LeastSquares(), LeastSquares(fit_intercept=False)]))
        return dict(
            problem=problem,
            rule=draw(st.sampled_from(["linear", "quadratic"])),
            weighting=draw(st.sampled_from(["binary", "optimised", "corrective"])),
            strategy=Forward(draw(st.sampled_from([1, 3])), n_start=draw(st.sampled_from([None, 1]))),
            robust=draw(st.booleans()),
        )
    parameters = cls().get_params()
    choices = {"weighting": ["binary", "cells"], "n_clusters": [1, 3], "radius": [0.1, 100.0]}
    return {name: draw(st.sampled_from(values)) for name, values in choices.items() if name in parameters}


@pytest.mark.filterwarnings("ignore:all .* points are of the random start")
@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.__name__)
def test_odd_input_works_or_is_named(cls):
    tally = {"worked": 0, "refused": 0}

    @settings(deadline=None, max_examples=250, derandomize=True, database=None)
    @given(
        options(cls), st.integers(0, 2**32 - 1), kinds(X_KINDS), kinds(Y_KINDS), kinds(WEIGHT_KINDS), kinds(SIZE_KINDS)
    )
    def throw(options, seed, X_kind, y_kind, weight_kind, size_kind):
        rng = np.random.default_rng(seed)
        selector = cls(size=2, random_state=seed, **options)
        classifier = get_tags(selector).classifier_tags
        two_classes = classifier is not None and not classifier.multi_class
        if cls is BilevelCoreset:  # more classes are fine, but one is none
            two_classes = not isinstance(options["problem"], LeastSquares)
        n, d = int(rng.integers(2, 30)), int(rng.integers(1, 12))
        X = rng.normal(size=(n, d))
        code = rng.permutation(np.arange(n) % 2)
        cases = [
            odd_X(X_kind, X, rng, cls),
            odd_y(y_kind, code, rng, cls, two_classes),
            odd_weight(weight_kind, n, rng),
            odd_size(size_kind, n, cls, two_classes),
        ]
        if cls is BilevelCoreset and y_kind == "three classes":
            cases[1] = cases[1]._replace(verdict=MAY_FAIL)
        available = n if weight_kind != "some zero" else n - n // 4
        if not isinstance(cases[3].value, (int, np.integer)) or cases[3].value <= available or cls._repeats:
            positive = np.arange(n) % 4 != 3 if weight_kind == "some zero" else np.ones(n, bool)
            if two_classes and len(set(code[positive])) < 2:
                cases[2] = cases[2]._replace(verdict=MAY_FAIL, names="class|same label")
        else:
            cases[3] = Case(cases[3].value, FAILS, f"size must be at most .* got size={cases[3].value}")
        selector.set_params(size=cases[3].value)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", DataConversionWarning)  # a column vector y, as in scikit-learn
            warnings.filterwarnings("ignore", "invalid value encountered in cast", module="sklearn")  # labels of 1e300
            error = refusal(selector, *(case.value for case in cases[:3]))
        if error:
            reasons = [case.names for case in cases if case.verdict != WORKS]
            assert any(re.search(reason, str(error)) for reason in reasons), f"{error!r} for {reasons}"
            tally["refused"] += 1
            return
        assert all(case.verdict != FAILS for case in cases), [case.names for case in cases if case.verdict == FAILS]
        tally["worked"] += 1
        check_coreset(selector, n, cases[2].value)

    throw()
    assert min(tally.values()) >= 20, tally  # of 250: both ends must be seen


def refusal(selector, X, y, sample_weight):
    # The error by which `fit` refuses the input, or None. LinAlgError is a ValueError, but names nothing of the input.
    try:
        selector.fit(X, y, sample_weight=sample_weight)
    except np.linalg.LinAlgError:
        raise
    except (TypeError, ValueError) as error:
        return error


def check_coreset(selector, n, sample_weight):
    indices, weights = selector.indices_, selector.weights_
    sample_weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    total = sample_weight.sum()
    assert indices.shape == weights.shape
    assert 1 <= len(indices) <= selector.size  # fewer only where repeated draws are added up
    assert indices.min() >= 0
    assert indices.max() < n
    assert np.isfinite(weights).all()
    assert weights.min() >= 0
    assert (sample_weight[indices] > 0).all()
    if selector._repeats:
        assert weights.sum() > 0
    else:
        assert len(np.unique(indices)) == len(indices) == selector.size
        if not isinstance(
            selector, UniformCoreset | StratifiedCoreset
        ):  # whose weights add up to the total in expectation
            assert weights.sum() == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.__name__)
def test_rows_in_ascending_order_are_no_ranking(cls):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.repeat([0, 1], 100)
    fits = [cls(size=12, random_state=seed).fit(X, y).indices_ for seed in range(3)]
    assert cls()._ranks == any((np.diff(indices) < 0).any() for indices in fits)
