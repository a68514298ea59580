import threading

import numpy as np
import pytest
from handful.linalg import (
    alias_records,
    draw_alias,
    one_blas_thread,
    project_restricted_simplex,
    project_simplex,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from qp_oracle import qp_projection
from threadpoolctl import threadpool_info, threadpool_limits

vectors = st.lists(st.floats(-10, 10), min_size=1, max_size=12).map(np.array)


@settings(deadline=None, max_examples=200)
@given(vectors, st.floats(0, 1))
def test_algorithm_3_is_the_quadratic_program_of_lemma_6(w, gamma):
    x = project_restricted_simplex(w, gamma)
    assert x.sum() == pytest.approx(1, abs=1e-12)
    assert (x >= 0).all()
    assert x[-1] >= gamma - 1e-12
    np.testing.assert_allclose(x, qp_projection(np.eye(len(w)), w, gamma), atol=2e-6)  # the solver's own accuracy


@settings(deadline=None, max_examples=100)
@given(vectors, st.floats(0, 5))
def test_simplex_projection_meets_its_optimality_conditions(w, z):
    x = project_simplex(w, z)
    assert x.sum() == pytest.approx(z, abs=1e-9)
    positive = x > 0
    shift = (w - x)[positive]
    if positive.any():  # one threshold for all entries that stay, none of the others above it
        assert np.ptp(shift) < 1e-9
        assert (w[~positive] <= shift[0] + 1e-9).all()


def test_alias_table_holds_the_distribution_exactly():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 1000):
        p = rng.gamma(0.3, size=n)
        p[rng.random(n) < 0.2] = 0
        p[0] += 0.1
        p /= p.sum()
        records = alias_records(p)
        own = (records >> np.uint64(32)).astype(float) / 2**32
        alias = (records & np.uint64(0xFFFFFFFF)).astype(int)
        held = own / n
        np.add.at(held, alias, (1 - own) / n)
        np.testing.assert_allclose(held, p, atol=2**-32)
        assert (np.array([draw_alias(records, u) for u in rng.random(2000)]) < n).all()


def test_alias_draws_follow_the_table_and_never_leave_it():
    rng = np.random.default_rng(1)
    p = np.array([0.5, 0.0, 0.3, 0.2])
    records = alias_records(p)
    draws = np.array([draw_alias(records, u) for u in rng.random(40_000)])
    share = np.bincount(draws, minlength=4) / len(draws)
    assert share[1] == 0
    assert (np.abs(share - p) <= 4 * np.sqrt(p * (1 - p) / len(draws))).all()
    three = alias_records(np.full(3, 1 / 3))  # 3 u rounds up to 3 for the greatest u below one
    assert draw_alias(three, np.nextafter(1.0, 0.0)) == 2


def test_overlapping_threads_leave_blas_as_they_found_it():
    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    def set_to(number):  # by a thread that ends: threadpoolctl obeys one thread at a time, for as long as it lives
        setter = threading.Thread(target=threadpool_limits, args=(number,), kwargs={"user_api": "blas"})
        setter.start()
        setter.join()

    entered, leave = threading.Event(), threading.Event()

    def other():  # enters first and leaves last but one
        with one_blas_thread():
            entered.set()
            leave.wait(10)

    before = max(threads())
    try:
        set_to(2)
        first = threading.Thread(target=other)
        first.start()
        entered.wait(10)
        with one_blas_thread():
            leave.set()
            first.join()
            assert threads() == {1}
        assert threads() == {2}
    finally:
        set_to(before)
