"""Generated input for every public class and function; `make fuzz` throws thousands, here are sixty each.

Also: the same digits for C, Fortran, strided, read-only and memory-mapped input, after pickling, cloning and a second
fit, and the same answer for one thread and two.
"""

import pickle

import numpy as np
import pytest
from fuzz import run, soak, table
from fuzz.throw import finite, throw
from sklearn.base import clone
from threadpoolctl import threadpool_limits

ENTRIES = table.entries()
INPUTS = 60
# Their inputs take more than 50 ms each: networks are trained, mixtures fitted.
SLOW = {
    "handful.active.BilevelQuery": 20,
    "handful.active.mixmatch.MixMatch": 6,
    "handful.active.supervised.SupervisedNetwork": 10,
    "handful.bilevel.GaussianMixture": 20,
    "handful.bilevel.Network": 10,
    "handful.bilevel.TrainerCoreset": 10,
    "handful.bilevel.proxies.CNTK": 20,
    "handful.continual.vcl.VCL": 15,
}


def test_every_public_name_is_in_the_table_or_says_why_not():
    public, known = table.public(), set(ENTRIES) | set(table.EXEMPT)
    assert sorted(set(public) - known) == [], "give it a row in its room of tests/fuzz, or a reason in EXEMPT"
    assert sorted(known - set(public)) == []


@pytest.mark.filterwarnings("ignore:all .* points are of the random start")
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_an_input_works_or_is_refused_by_name(name):
    for i in range(SLOW.get(name, INPUTS)):
        throw(ENTRIES[name], name, i)


def test_the_judge_sees_what_it_is_for():
    assert not finite({"a": [np.array([1.0, np.nan])]})
    assert finite((np.array(["a"]), np.arange(3), 1.5))


def test_an_input_that_ends_its_process_is_a_surprise_and_costs_no_other():
    worker = run.Worker()
    answers = worker.answers

    def until_killed():
        for n, answer in enumerate(answers()):
            if n == 4:
                worker.process.kill()
            yield answer

    worker.answers = until_killed
    state = dict(done=0, worked=0, refused=0, surprises=[])
    name, workers = "handful.linalg.project_simplex", [worker]
    run._run(name, 5000, state, workers)
    [(at, message)] = state["surprises"]
    assert "ended the process with status -9" in message
    assert 2 <= state["done"] == at + 1 == state["worked"] + state["refused"] + 1
    assert workers == []


# The same digits -----------------------------------------------------------------------------------------------------


def estimators():
    from handful import (
        VCGMM,
        BilevelCoreset,
        KCenter,
        KMeansPlusPlus,
        LightweightCoreset,
        LinearSVM,
        LogisticSensitivity,
        MergeReduce,
        SVMCoreset,
        UniformCoreset,
    )
    from handful.baselines import FRCL, ForgettingEvents, Hardest, Herding, ICaRL, MaxEntropy, StratifiedCoreset
    from handful.bilevel import OptimalDesign
    from handful.bilevel.proxies import RBF, Nystrom
    from handful.clustering import MiniBatchKMeans
    from handful.dictionary import MeasurementSelector
    from handful.sensitivity import MixtureSensitivity
    from handful.streaming import ClassBalancedReservoir, Reservoir

    selectors = [BilevelCoreset, FRCL, ForgettingEvents, Hardest, Herding, ICaRL, KCenter, KMeansPlusPlus]
    selectors += [LightweightCoreset, LogisticSensitivity, MaxEntropy, MixtureSensitivity, OptimalDesign]
    selectors += [SVMCoreset, StratifiedCoreset, UniformCoreset, ClassBalancedReservoir, Reservoir]
    yield from (cls(8, random_state=0) if cls not in (BilevelCoreset, OptimalDesign) else cls(size=8, random_state=0)
                for cls in selectors)  # fmt: skip
    yield from (LinearSVM(), VCGMM(3, random_state=0), MiniBatchKMeans(3, n_steps=20, random_state=0))
    yield MergeReduce(UniformCoreset(), size=8, leaf_size=50, random_state=0)
    yield Nystrom(RBF(0.1), n_landmarks=20, random_state=0)
    yield MeasurementSelector(size=3)


ESTIMATORS = list(estimators())


def digits(estimator):
    """All numbers that the estimator has learned."""
    names = ("indices_", "weights_", "coef_", "cluster_centers_", "projection_", "measurements_", "eigenvalues_")
    found = {name: np.asarray(getattr(estimator, name)) for name in names if hasattr(estimator, name)}
    assert found
    return found


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), name


def data(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def layouts(X, folder):
    strided = np.zeros((2 * len(X), 2 * X.shape[1]))
    strided[::2, ::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    np.save(folder / "X.npy", X)
    return {
        "fortran": np.asfortranarray(X),
        "strided": strided[::2, ::2],
        "read-only": read_only,
        "memory-mapped": np.load(folder / "X.npy", mmap_mode="r"),
    }


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_layout_of_the_input_changes_no_digit(estimator, tmp_path):
    X, y = data()
    expected = digits(clone(estimator).fit(X, y))
    for given in layouts(X, tmp_path).values():
        assert_same(digits(clone(estimator).fit(given, y)), expected)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_pickling_cloning_and_a_second_fit_change_no_digit(estimator):
    X, y = data()
    fitted = clone(estimator).fit(X, y)
    expected = digits(fitted)
    assert_same(digits(pickle.loads(pickle.dumps(fitted))), expected)
    assert_same(digits(clone(fitted).fit(X, y)), expected)
    assert_same(digits(fitted.fit(X, y)), expected)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_number_of_threads_changes_nothing(estimator):
    import numba

    X, y = data(3000)
    found = []
    for threads in (1, 2):
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        with threadpool_limits(threads):
            found.append(digits(clone(estimator).fit(X, y)))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    for name, expected in found[0].items():  # of floats the last digit is the processor's, which splits long sums
        np.testing.assert_allclose(found[1][name], expected, rtol=0 if expected.dtype.kind == "i" else 1e-9, atol=1e-12)


# Long runs, short here -----------------------------------------------------------------------------------------------


def test_a_stream_is_held_in_constant_memory():
    assert len(soak.stream(rows=400_000)) == 2


def test_draws_have_the_stated_probabilities():
    assert soak.draws(n_draws=100_000)


def test_many_updates_keep_the_clusters_in_place():
    assert soak.updates(n_updates=100)
