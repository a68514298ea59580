"""What holds for every selector of the library: scikit-learn's checks; test_contracts has the
relations."""

import importlib
import pkgutil

import handful
import numpy as np
import pytest
from handful import (
    VCGMM,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LeastSquares,
    LightweightCoreset,
    LinearSVM,
    MatchedCoreset,
    MergeReduce,
    Selector,
    SVMCoreset,
    UniformCoreset,
)
from handful.bilevel import AnyEstimatorCoreset, ProxyCoreset
from handful.clustering import MiniBatchKMeans
from handful.coreset import SizedSelector
from handful.dictionary import L2, MeasurementSelector
from handful.proxies import RBF, Nystrom, TreeLeaves
from handful.streaming import ClassBalancedReservoir, Reservoir, ReservoirCoreset
from handful.streaming.stream_memory import StreamMemory
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks


def of_the_library(base):
    """The public classes of the library below a base class, in every module that may hold one."""
    for module in pkgutil.walk_packages(handful.__path__, "handful."):
        if not module.name.startswith(("handful.data", "handful.cli")):
            importlib.import_module(module.name)
    found = set()
    queue = [base]
    while queue:
        below = queue.pop().__subclasses__()
        queue += below
        found |= {
            cls
            for cls in below
            if cls.__module__.startswith("handful.") and not cls.__name__.startswith("_")
        }
    return found


# A selector that hands its input to another refuses what that one refuses; matched rows are as many
# as are needed.
OTHERS = {SizedSelector, ProxyCoreset, AnyEstimatorCoreset, MatchedCoreset}
SELECTORS = sorted(of_the_library(Selector) - OTHERS, key=lambda cls: cls.__name__)


def test_every_selector_can_be_imported_from_its_room():
    rooms = {
        cls.__name__: importlib.import_module(".".join(cls.__module__.split(".")[:2]))
        for cls in SELECTORS
    }
    assert [name for name, room in rooms.items() if name not in room.__all__] == []


# scikit-learn's checks ---------------------------------------------------------------------------

CHECKED = [
    *(cls(size=5) for cls in SELECTORS),
    SVMCoreset(size=5, rule="tight", sampling="systematic"),
    ProxyCoreset(KCenter(), RBFSampler(), size=5),
    AnyEstimatorCoreset(LogisticRegression(), size=5, n_draws=1),
    MatchedCoreset(random_state=0),
    CoresetEstimator(MatchedCoreset(LeastSquares(), at="path"), Ridge()),
    LinearSVM(),
    Nystrom(RBF(0.1), n_landmarks=20),
    TreeLeaves(RandomTreesEmbedding(9, max_depth=3), n_components=4),
    MergeReduce(LightweightCoreset(), size=5, leaf_size=10, n_slots=2),
    ReservoirCoreset(KCenter(), size=5, n_held=20),
    Reservoir(5),
    ClassBalancedReservoir(5),
    MeasurementSelector(size=1),
    MeasurementSelector(recovery=L2(), size=1, rule="linear"),
]
# Rows that are repeated in place of weighted, then shuffled, are other rows to draw from; in the
# same order they are the same, which test_contracts asks. The checks of `predict_proba` want four
# columns.
DRAWN = [
    CoresetEstimator(BilevelCoreset(size=5, random_state=0), LogisticRegression()),
    CoresetEstimator(BilevelCoreset(LeastSquares(1e-6), size=10, random_state=0), Ridge()),
    CoresetEstimator(UniformCoreset(10), KMeans(3), random_state=0),
    VCGMM(3),
    VCGMM(4, coreset_size=50, init="afkmc2"),
    MiniBatchKMeans(n_clusters=3, n_steps=100, random_state=0),
]
BY_WEIGHT = "check_sample_weight_equivalence_on"


@parametrize_with_checks(CHECKED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        (one, c)
        for drawn in DRAWN
        for one, c in estimator_checks_generator(drawn)
        if BY_WEIGHT not in str(c)
    ],
)
def test_scikit_learn_checks_of_what_draws(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.__name__)
def test_rows_in_ascending_order_are_no_ranking(cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.repeat([0, 1], 100)
    fits = [cls(size=12, random_state=seed).fit(X, y).indices_ for seed in range(3)]
    ascending = not any((np.diff(indices) < 0).any() for indices in fits)
    assert not (ascending and cls()._ranks)


# All estimators ----------------------------------------------------------------------------------


def test_every_public_estimator_passes_scikit_learns_checks():
    found = {cls for cls in of_the_library(BaseEstimator) if hasattr(cls, "fit")}
    assert found - {Selector, SizedSelector, StreamMemory} == {type(one) for one in CHECKED + DRAWN}
