"""Figure 13: the tree of coresets, read off a run."""

import numpy as np
import pytest
from handful import MergeReduce, UniformCoreset
from handful_papers.bico.fig13_merge_reduce import algorithm_3, record_run


def run(slots, n_steps):
    rng = np.random.default_rng(0)
    buffer = MergeReduce(UniformCoreset(), size=6, leaf_size=20, n_slots=slots, random_state=0)
    return record_run(buffer, [(rng.normal(size=(20, 2)), None) for _ in range(n_steps)])


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_the_buffer_holds_what_the_printed_algorithm_says(slots):
    _, held = run(slots, 30)
    assert [[last - first + 1 for first, last in now] for now in held] == algorithm_3(slots, 30)


def test_seven_steps_with_three_slots_build_the_coresets_of_the_figure():
    built, held = run(3, 7)
    assert [(b.step, b.name) for b in built if b.weight > 1] == [
        (4, "C12"),
        (5, "C34"),
        (6, "C56"),
        (7, "C1234"),
    ]
    assert [b.name for b in built if b.weight == 1] == [f"C{i}" for i in range(1, 8)]
    assert held[-1] == [(1, 4), (5, 6), (7, 7)]


def test_a_merged_coreset_holds_points_of_its_parents_alone():
    built, _ = run(3, 12)
    by_span = {(b.first, b.last): b for b in built}
    merged = [b for b in built if b.parents]
    assert len(merged) == 9
    for b in merged:
        assert b.parents[0][0] == b.first
        assert b.parents[1] == (b.parents[0][1] + 1, b.last)
        assert len(b.ids) == 6
        assert ((b.first - 1) * 20 <= b.ids).all()
        assert (b.ids < b.last * 20).all()
        known = [by_span[p].ids for p in b.parents if len(by_span[p].ids)]
        # both were in the buffer for a while
        if len(known) == 2:
            assert set(b.ids) <= set(np.concatenate(known))
