import threading

import numpy as np
from handful import AnyEstimatorCoreset, UniformCoreset, running
from handful.running import one_blas_thread
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_info, threadpool_limits


def test_passes_over_the_rows_take_as_many_threads_as_the_user_gives_blas():
    for allowed in (1, 2):
        with threadpool_limits(allowed, "blas"):
            assert running.n_threads() == allowed
            with one_blas_thread():
                assert running.n_threads() == allowed


def test_overlapping_threads_leave_blas_as_they_found_it():
    # of the libraries that the context sees; a test before this one may have loaded others since
    def numbers():
        return [library.get_num_threads() for library in running._blas()]

    def set_to(numbers):
        running._set_threads(zip(running._blas(), numbers))

    entered = threading.Event()
    leave = threading.Event()

    # enters first and leaves last but one
    def other():
        with one_blas_thread():
            entered.set()
            leave.wait(10)

    before = numbers()
    try:
        set_to([2] * len(before))
        found = numbers()
        assert 2 in found
        first = threading.Thread(target=other)
        first.start()
        entered.wait(10)
        with one_blas_thread():
            leave.set()
            first.join()
            assert set(numbers()) == {1}
        assert numbers() == found
    finally:
        set_to(before)


def threads_of(api):
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == api}


def test_every_selector_chooses_with_one_thread_of_blas():
    seen = []

    class Watching(UniformCoreset):
        def _select(self, X, y, sample_weight, rng):
            seen.append(threads_of("blas"))
            return super()._select(X, y, sample_weight, rng)

    X = np.random.default_rng(0).normal(size=(400, 2))
    with threadpool_limits(2, "blas"):
        Watching(5).fit(X)
        assert threads_of("blas") == {2}
    assert seen == [{1}]


def test_trials_on_few_rows_take_one_thread_of_openmp():
    seen = []

    class Watching(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append((threads_of("openmp"), threads_of("blas")))
            return super().fit(X, y, sample_weight=sample_weight)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    with threadpool_limits(2):
        AnyEstimatorCoreset(Watching(), size=10, n_draws=1, n_exchanges=2).fit(X, X[:, 0] > 0)
        assert threads_of("openmp") == {2}
    assert seen == [({1}, {1})] * len(seen)
    assert len(seen) > 3
