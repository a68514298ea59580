"""What holds for every selector of the library: scikit-learn's checks; test_contracts has the relations."""

import ast
import importlib
import pkgutil
from pathlib import Path

import handful
import numpy as np
import pytest
from handful import (
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LeastSquares,
    MatchedCoreset,
    Selector,
    SVMCoreset,
    UniformCoreset,
)
from handful.bilevel import AnyEstimatorCoreset, ProxyCoreset
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks


def import_all():
    """Import every module of the library that may hold an estimator."""
    for module in pkgutil.walk_packages(handful.__path__, "handful."):
        if not module.name.startswith(("handful.data", "handful.cli")):
            importlib.import_module(module.name)


def all_selectors():
    # Those of every algorithm; what experiments define for themselves is no part of the interface, and a selector that
    # hands its input to another refuses what that one refuses. Matched rows are as many as the equations need.
    import_all()
    found, queue = set(), [Selector]
    while queue:
        for cls in queue.pop().__subclasses__():
            queue.append(cls)
            library = cls.__module__.startswith("handful.") and not cls.__module__.startswith("handful_papers")
            if (
                library
                and not cls.__name__.startswith("_")
                and cls not in (ProxyCoreset, AnyEstimatorCoreset, MatchedCoreset)
            ):
                found.add(cls)
    return sorted(found, key=lambda cls: cls.__name__)


SELECTORS = all_selectors()


def test_every_selector_can_be_imported_from_its_room():
    rooms = {cls.__name__: importlib.import_module(".".join(cls.__module__.split(".")[:2])) for cls in SELECTORS}
    assert [name for name, room in rooms.items() if name not in room.__all__] == []


# scikit-learn's checks -----------------------------------------------------------------------------------------------

MATCHED = CoresetEstimator(MatchedCoreset(LeastSquares(), at="path"), Ridge())
PAIRS = [  # a classifier, a regressor, a clusterer
    CoresetEstimator(BilevelCoreset(size=5, random_state=0), LogisticRegression()),
    CoresetEstimator(BilevelCoreset(LeastSquares(1e-6), size=10, random_state=0), Ridge()),
    CoresetEstimator(UniformCoreset(10), KMeans(3), random_state=0),
]


@parametrize_with_checks(
    [cls(size=5) for cls in SELECTORS]
    + [SVMCoreset(size=5, rule="tight", sampling="systematic"), ProxyCoreset(KCenter(), RBFSampler(), size=5)]
    + [AnyEstimatorCoreset(LogisticRegression(), size=5, n_draws=1), MatchedCoreset(random_state=0), MATCHED]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Rows that are repeated in place of weighted are other rows to draw from: only MATCHED ends at the same model.
BY_WEIGHT = "check_sample_weight_equivalence_on"


@pytest.mark.parametrize(
    ("estimator", "check"),
    [(one, c) for pair in PAIRS for one, c in estimator_checks_generator(pair) if BY_WEIGHT not in str(c)],
)
def test_scikit_learn_checks_of_pairs(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.__name__)
def test_rows_in_ascending_order_are_no_ranking(cls):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.repeat([0, 1], 100)
    fits = [cls(size=12, random_state=seed).fit(X, y).indices_ for seed in range(3)]
    ascending = not any((np.diff(indices) < 0).any() for indices in fits)
    assert not (ascending and cls()._ranks)


# All estimators ------------------------------------------------------------------------------------------------------

CHECKED_BY = "parametrize_with_checks", "estimator_checks_generator"
EXEMPT = {
    "StreamMemory": "the base of the streams, which are checked",
}


def test_every_public_estimator_passes_scikit_learns_checks_somewhere_in_these_tests():
    import_all()
    found, queue = set(), [BaseEstimator]
    while queue:
        for cls in queue.pop().__subclasses__():
            queue.append(cls)
            ours = cls.__module__.startswith("handful.")
            if ours and hasattr(cls, "fit") and not issubclass(cls, Selector) and not cls.__name__.startswith("_"):
                found.add(cls.__name__)
    checked = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            asks = isinstance(node, ast.Call) and getattr(node.func, "id", "") in CHECKED_BY
            if asks or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "ESTIMATORS"):
                checked |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    checked.add("CoresetEstimator")  # in the pairs of this module
    assert found - checked == set(EXEMPT), "estimators that are not checked, or exempt without need"
