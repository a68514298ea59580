"""Rows of the table: everything that chooses rows of a data set, at once or from a stream."""

import handful.baselines
import numpy as np
import pytest
from handful import (
    BilevelCoreset,
    Coreset,
    CoresetEstimator,
    CoresetSampler,
    KCenter,
    KMeansPlusPlus,
    LeastSquares,
    Logistic,
    MergeReduce,
    Selector,
    UniformCoreset,
    WeightedFit,
    compare,
)
from handful.baselines import StratifiedCoreset
from handful.bilevel import Forward, OptimalDesign, ProxyCoreset, TrainerCoreset
from handful.continual import Memory, ReplayBuffer
from handful.resampling import WeightedLabels
from handful.sensitivity import SVMCoreset
from handful.streaming import ClassBalancedReservoir, DynamicMergeReduce, Reservoir
from handful.torch_data import WeightedSubset
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from fuzz.kinds import (
    FAILS,
    MAY_FAIL,
    WORKS,
    Case,
    boolean,
    choice,
    integer,
    labels,
    made,
    matrix,
    number,
    same,
    seed,
    weights,
)
from fuzz.kinds import size as sizes
from fuzz.throw import call, entry, parameters

BY_NAME = {
    "size": sizes(),
    "random_state": seed(),
    "verbose": same(False),
    "memory": same(None),
    "n_sweeps": integer(0, good=(1, 2)),
    "n_candidates": integer(good=(1, 5)),
    "noise": number(least=1e-10, most=1e10, good=(1e-3, 1.0)),
    "n_epochs": integer(good=(1, 2)),
    "batch_size": integer(good=(1, 8)),
    "learning_rate": number(above=0, good=(0.1, 1.0)),
    "normalise": boolean(),
    "weighting": choice("binary", "cells"),
    "n_components": integer(good=(1, 2)),
    "n_clusters": integer(good=(1, 3)),
    "radius": number(above=0, good=(0.1, 100.0)),
    "prior_precision": number(above=0, good=(0.01, 1.0)),
    "design": choice("A", "V"),
    "repeat": boolean(),
    "fit_intercept": boolean(),
    "l2": number(above=0, good=(0.01, 1.0), none=True),
    "xi": number(above=0, below=1, good=(0.1, 0.5)),
    "sampling": choice("multinomial", "systematic"),
    "window": integer(good=(3, 50), none=True),
    "leaf_size": integer(good=(1, 3, 10)),
    "n_slots": integer(good=(1, 2, 4), none=True),
}
BILEVEL = dict(
    problem=choice(None, Logistic(1.0), LeastSquares(), LeastSquares(fit_intercept=False), names="problem|Problem"),
    rule=choice("linear", "quadratic"),
    weighting=choice("auto", "binary", "optimised", "corrective"),
    strategy=choice("forward", Forward(1, n_start=1), Forward(3), names="strategy|Strategy"),
    outer=choice("train"),
    ihvp=choice("auto", names="ihvp"),
    robust=boolean(),
)


def _not_none(case):
    return Case(KCenter()) if case.value is None else case


def _clusters(world, name, odd):
    wrong = [0, -1, 2.5, "nonsense", None, True, [3]]
    return Case(world.pick(wrong), FAILS, name) if odd else Case(world.pick(["auto", "log", 1, 3]))


TREES = "nan 1e300 one_huge_value"  # scikit-learn's trees take the first, and warn at the others
OWN = {
    BilevelCoreset: BILEVEL,
    OptimalDesign: dict(rule=choice("exact", "linear")),
    SVMCoreset: dict(
        rule=choice("mixture", "tight", "paper"),
        n_clusters=_clusters,
    ),
    StratifiedCoreset: dict(by=same(None)),
    ProxyCoreset: dict(
        selector=lambda world, name, odd: _not_none(choice(KCenter(), KMeansPlusPlus())(world, name, odd)),
        proxy=choice(None, RBFSampler(n_components=5, random_state=0), names="proxy|transform"),
    ),
}


def all_selectors():
    """Every selector of the library; what experiments define for themselves is no part of the interface."""
    found, queue = set(), [Selector]
    while queue:
        for cls in queue.pop().__subclasses__():
            queue.append(cls)
            if cls.__module__.startswith("handful.") and not cls.__name__.startswith("_"):
                found.add(cls)
    return sorted(found, key=lambda cls: cls.__name__)


def fit(cls, arguments, world):
    """`cls` with its options, fitted."""
    data = {name: arguments.get(name) for name in ("X", "y", "sample_weight")}
    selector = call(cls, arguments, world).fit(data["X"], data["y"], data["sample_weight"])
    if isinstance(selector, handful.baselines.ForgettingEvents):  # a row that was never learned counts as infinite
        selector.events_ = np.nan_to_num(selector.events_, posinf=-1.0)  # NaN for a row of weight zero
    return selector


def check_coreset(selector, arguments, world):
    """Indices and weights as every selector promises them."""
    n, sample_weight = world.n, arguments.get("sample_weight")
    indices, weights = selector.indices_, selector.weights_
    sample_weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    total = sample_weight.sum()
    assert indices.shape == weights.shape
    assert 1 <= len(indices) <= selector.size  # fewer only where repeated draws are added up
    assert indices.min() >= 0
    assert indices.max() < n
    assert weights.min() >= 0
    assert (sample_weight[indices] > 0).all()
    if selector._repeats:
        assert weights.sum() > 0
    else:
        assert len(np.unique(indices)) == len(indices) == selector.size
        if not isinstance(
            selector, (UniformCoreset, SVMCoreset, StratifiedCoreset)
        ):  # where weights add up to the total in expectation
            assert weights.sum() == pytest.approx(total, rel=1e-9)


def _selector(cls):
    made = cls(KCenter()) if cls is ProxyCoreset else cls()
    needs, classifier = made._needs_y, get_tags(made).classifier_tags
    two = classifier is not None and not classifier.multi_class

    def two_classes(world):
        if cls is BilevelCoreset:  # more classes are fine, but one is none
            problem = world.cases.get("problem", Case(None)).value
            return problem is None or isinstance(problem, Logistic)
        return two

    def adjust(world):
        y, rest = world.cases.get("y"), world.cases
        if cls is BilevelCoreset and y is not None and y.verdict == FAILS and "class" in y.names:
            several = len(np.unique(np.asarray(y.value))) > 1 if y.value is not None else False
            rest["y"] = y._replace(verdict=MAY_FAIL) if several and np.ndim(y.value) == 1 else y
        if isinstance(getattr(rest.get("problem"), "value", None), LeastSquares):  # takes any numbers, and no words
            rest["y"] = rest["y"]._replace(
                verdict=MAY_FAIL if np.ndim(rest["y"].value) == 1 else rest["y"].verdict,
                names="|".join(filter(None, [rest["y"].names, r"\by\b"])),
            )
        # a classifier that asks for one point of each class
        if (two or cls in (BilevelCoreset, StratifiedCoreset)) and "size" in rest and rest["size"].value == 1:
            rest["size"] = rest["size"]._replace(verdict=MAY_FAIL, names="size must be at least 2|size")
        if cls is StratifiedCoreset and rest["y"].value is not world.code and rest["size"].verdict == WORKS:
            rest["size"] = rest["size"]._replace(verdict=MAY_FAIL, names="size must be at least the number of strata")
        if getattr(rest.get("sampling"), "value", "") == "systematic":
            rest["size"] = rest["size"]._replace(verdict=max(rest["size"].verdict, MAY_FAIL), names="size")

    offset = MAY_FAIL if cls in (BilevelCoreset, OptimalDesign) else WORKS
    return entry(
        cls,
        BY_NAME,
        run=fit,
        check=check_coreset,
        adjust=adjust,
        X=matrix(cls._takes_sparse, offset=offset, reads=cls._reads),
        y=labels(two_classes, needs, classifier is not None),
        sample_weight=weights,
        size=sizes(repeats=cls._repeats, least=2 if two or cls in (BilevelCoreset, StratifiedCoreset) else 1),
        **OWN.get(cls, {}),
    )


# Streams --------------------------------------------------------------------------------------------------------------


def stream(cls, arguments, world):
    """`cls` after two chunks, with the rows it holds."""
    memory = call(cls, arguments, world)
    data = [arguments.get(name) for name in ("X", "y", "sample_weight")]
    if isinstance(memory, Reservoir):
        data = data[:2]
    add = memory.insert if isinstance(memory, DynamicMergeReduce) else memory.partial_fit
    add(*data)
    add(*data)
    return memory.rows(), memory.coreset_.indices, memory.coreset_.weights, memory


def check_stream(result, arguments, world):
    (X, _, weights), indices, _, memory = result
    n_slots = getattr(memory, "n_slots", None)
    held = memory.size * (1 if n_slots is None else n_slots + 1)
    assert X.shape[0] == len(weights) == len(indices)
    assert 1 <= len(weights) <= held
    assert indices.min() >= 0
    assert indices.max() < 2 * world.n
    assert weights.min() >= 0


def _stream(cls, needs_y=False, **more):
    def adjust(world):
        w = world.cases.get("sample_weight")
        if w is not None and "zero for all" in w.names:  # a chunk of a stream may have no row that counts
            world.cases["sample_weight"] = w._replace(verdict=MAY_FAIL, names="positive weight")

    return entry(
        cls,
        BY_NAME,
        run=stream,
        check=check_stream,
        adjust=adjust,
        X=matrix(
            True, without="no_rows 1-d None 0-d list", may="1e300 one_huge_value csr csr_array csc_float32 empty_csr"
        ),
        y=labels(False, needs_y, True),
        size=integer(good=(1, 2, 5, 40)),
        **more,
    )


def _memory_of_tasks(cls, arguments, world):
    buffer = call(cls, arguments, world)
    for _ in range(2):
        buffer.add(arguments["X"], arguments["y"])
    return buffer.rows()


def _subset(cls, arguments, world):
    import torch

    data = torch.utils.data.TensorDataset(torch.as_tensor(world.X))
    chosen = cls(data, arguments["indices"], arguments["weights"])
    return [chosen[i] for i in range(len(chosen))]


def _take(cls, arguments, world):
    return cls(arguments["indices"], arguments["weights"]).take(arguments["X"])


def _indices(world, name, odd):
    n, rng = world.n, world.rng
    good = rng.integers(n, size=world.d)
    if not odd:
        return Case(good)
    wrong = [
        -1 - good,
        good + 0.5,
        good + 10**6,
        good[:, None],
        good[:-1],
        good.astype(str),
        np.full(len(good), np.nan),
    ]
    return Case(world.pick(wrong), FAILS, "ind|row|shape")


def _weights_of(world, name, odd):
    good = world.rng.random(world.d) + 0.1
    if not odd:
        return Case(world.pick([good, good.tolist(), good.astype(np.float32), np.ones(world.d, int)]))
    wrong = [
        -good,
        np.full(world.d, np.nan),
        np.full(world.d, np.inf),
        np.append(good, 1.0),
        good.astype(str),
        good[:, None],
        good + 1j,
    ]
    return Case(world.pick(wrong), FAILS, "weight")


def _estimate(cls, arguments, world):
    selector = arguments["selector"]
    if "size" in arguments and hasattr(selector, "set_params"):
        selector = selector.set_params(size=arguments["size"])
    fitted = cls(selector, arguments["estimator"]).fit(arguments["X"], arguments["y"], arguments.get("sample_weight"))
    return fitted.predict(world.X[:, : fitted.n_features_in_]) if fitted.n_features_in_ <= world.d else fitted.selector_


def entries():
    found = {}
    for cls in all_selectors():
        if cls is TrainerCoreset:
            continue  # a row of its own
        room = ".".join(cls.__module__.split(".")[:2])
        found[f"{room}.{cls.__name__}"] = _selector(cls)
    found["handful.bilevel.TrainerCoreset"] = entry(
        TrainerCoreset,
        BY_NAME,
        run=fit,
        check=check_coreset,
        most_rows=12,
        selector=same(BilevelCoreset()),
        estimator=same(LogisticRegression()),
        n_draws=integer(0, good=(0, 1, 2)),
        n_exchanges=integer(0, good=(0, 1, 2)),
        scoring=choice(None, "accuracy", names="scor"),
        **dict.fromkeys(("proxy", "n_held_out", "memory")),
        X=made(lambda world: world.X),
        y=made(lambda world: world.code),
        size=sizes(least=2),
    )
    streaming = "handful.streaming"
    selectors = choice(UniformCoreset(), KCenter(), names="selector|fit")
    found[f"{streaming}.MergeReduce"] = _stream(MergeReduce, selector=selectors, sample_weight=weights)
    found[f"{streaming}.DynamicMergeReduce"] = _stream(DynamicMergeReduce, selector=selectors, sample_weight=weights)
    found[f"{streaming}.Reservoir"] = _stream(Reservoir)
    found[f"{streaming}.ClassBalancedReservoir"] = _stream(ClassBalancedReservoir, True)
    found["handful.continual.ReplayBuffer"] = entry(
        ReplayBuffer,
        BY_NAME,
        run=_memory_of_tasks,
        selector=choice(KCenter(), KMeansPlusPlus(), names="selector|fit"),  # which read the rows
        size=integer(good=(2, 3)),
        X=matrix(
            without="csr csr_array csc_float32 empty_csr 1-d 3-d list frame object strings object_strings objects None "
            "0-d no_rows no_columns"
        ),
        y=made(lambda world: world.code),
    )
    found["handful.continual.Memory"] = entry(
        Memory,
        BY_NAME,
        X=made(lambda w: w.X),
        y=made(lambda w: w.code),
        indices=made(lambda w: np.arange(w.n)),
        run=lambda cls, a, w: call(cls, a, w).first(1),
    )
    found["handful.Coreset"] = entry(
        Coreset,
        BY_NAME,
        run=_take,
        indices=_indices,
        weights=_weights_of,
        X=matrix(
            True, without="None 0-d no_rows nan inf -inf complex strings object_strings objects 1-d 3-d no_columns"
        ),
    )
    found["handful.torch_data.WeightedSubset"] = entry(
        WeightedSubset, BY_NAME, run=_subset, dataset=same(None), indices=_indices, weights=_weights_of
    )
    found["handful.CoresetEstimator"] = entry(
        CoresetEstimator,
        BY_NAME,
        run=_estimate,
        size=None,
        random_state=None,
        X=matrix(True, without=TREES),
        y=labels(False, True, True, without="mixed"),
        sample_weight=weights,
        selector=choice(UniformCoreset(2), names="selector|fit"),
        estimator=choice(DecisionTreeClassifier(max_depth=1), names="estimator|fit"),
    )
    found["handful.CoresetSampler"] = entry(
        CoresetSampler,
        BY_NAME,
        run=_resample,
        check=_check_resample,
        selector=choice(KCenter(2), KMeansPlusPlus(2), names="selector|fit"),
        X=matrix(True),
        y=labels(False, True, True, without="complex nan inf mixed two_columns"),  # the selector may not read them
    )
    found["handful.WeightedFit"] = entry(
        WeightedFit,
        BY_NAME,
        run=_weighted_fit,
        estimator=choice(DecisionTreeClassifier(max_depth=1), names="estimator|fit|sample_weight"),
        X=matrix(True, without=TREES),
        y=_weighted_labels,
    )
    found["handful.compare"] = entry(
        compare,
        BY_NAME,
        run=_compare,
        check=_check_compare,
        selectors=_selectors,
        estimator=choice(DecisionTreeClassifier(max_depth=1), DecisionTreeClassifier()),
        X=matrix(True, without=TREES),
        y=labels(False, True, True),
        sizes=_sizes,
        scoring=choice(None, "accuracy", names="scor"),
        seeds=_seeds,
        test_size=_held_out,
        test=None,
        verbose=None,
        adjust=_few_rows,
    )
    return found


def _resample(cls, arguments, world):
    rows, labels = cls(arguments["selector"]).fit_resample(arguments["X"], arguments["y"])
    return rows.shape[0], labels.labels, labels.weights


def _check_resample(result, arguments, world):
    n_rows, labels, weights = result
    assert n_rows == len(labels) == len(weights) == 2
    assert (weights >= 0).all()


def _weighted_fit(cls, arguments, world):
    return cls(arguments["estimator"]).fit(arguments["X"], arguments["y"]).predict(arguments["X"])


def _weighted_labels(world, name, odd):
    weights = world.rng.exponential(size=world.n)
    if not odd:
        return Case(WeightedLabels(world.code, weights))
    if world.rng.random() < 0.5:
        return Case(WeightedLabels(np.where(world.code, "ham", "spam"), weights.astype(np.float32)))
    return Case(world.pick([world.code, None, "abc", (world.code, weights)]), FAILS, "labels without weights")


def _compare(function, arguments, world):
    found = function(**arguments, verbose=False)
    return found, found.summary()


def _check_compare(result, arguments, world):
    found, summary = result
    scored = found.frame[found.frame["error"] == ""]
    assert len(scored)
    assert np.isfinite(scored[["score", "choose_seconds", "train_seconds"]].to_numpy()).all()
    assert {"all rows", "uniform"} <= set(summary["method"])
    assert (scored["n_rows"] <= world.n).all()


def _selectors(world, name, odd):
    if not odd:
        return Case(world.pick([UniformCoreset(), KCenter(), [KCenter()], {"mine": KCenter()}]))
    return Case(world.pick([None, 5, [None], {"a": 3}, "abc", [KCenter(), KCenter()], KCenter]), FAILS, "selector")


def _sizes(world, name, odd):
    if not odd:
        return Case(world.pick([[2], (1, 2), np.array([2])]))
    wrong = [5, "abc", [0], [2.5], [10**6], [None], [], [True], {}, np.ones((2, 2)), object()]
    return Case(world.pick(wrong), FAILS, "size")


def _seeds(world, name, odd):
    if not odd:
        return Case(world.pick([1, 2, [3], [0, 7], np.int64(1)]))
    return Case(world.pick([0, -1, None, "a", [], [-1], [0.5], 1.5, True, [None], object(), [[1]]]), FAILS, "seed")


def _held_out(world, name, odd):
    if not odd:
        return Case(world.pick([0.5, 0.3]))
    return Case(world.pick([0, -1, 1.0, 2.0, "a", 10**6, float("nan"), [0.5]]), FAILS, "test_size")


def _few_rows(world):
    """Words that errors may say of few rows, of no rows, and of labels that the estimator's score does not take."""
    X, y = world.cases["X"], world.cases["y"]
    world.cases["X"] = X._replace(names=f"{X.names}|inconsistent numbers of samples")
    names = "|".join(filter(None, [y.names, "class|size|strat|score"]))
    may = MAY_FAIL if world.n < 12 else WORKS
    world.cases["y"] = y._replace(verdict=max(y.verdict, may), names=names)


__all__ = ["BY_NAME", "entries", "parameters"]
