"""How rows in blocks are chosen from, against the same steps by hand."""

import numpy as np
import pytest
from handful import KCenter, SVMCoreset, UniformCoreset
from handful.blocks import Blocks, uniform_rows
from handful.coreset import SizedSelector
from handful.plans import Compress, DrawShares

N = 600
ROWS = 200


class Plain(SizedSelector):
    """Uniform draws, with a plan that a test chooses."""

    _draws = True

    def _select(self, X, y, sample_weight, rng):
        return UniformCoreset._select(self, X, y, sample_weight, rng)


def planned(plan, size=20):
    selector = Plain(size, random_state=0)
    # an attribute of the object, as `clone` would not keep it
    selector._plan = plan
    return selector


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 2))


def test_each_block_draws_its_share_of_the_weight(X, rng):
    """To the next whole number, and in all `size` rows."""
    w = rng.random(N) * np.repeat([1, 2, 5], ROWS)
    selector = planned(DrawShares(rows_per_column=1))
    indices = selector.fit(Blocks(X, None, w, rows=ROWS)).indices_
    due = 20 * w.reshape(3, ROWS).sum(axis=1) / w.sum()
    drawn = np.bincount(indices // ROWS, minlength=3)
    assert drawn.sum() == 20
    assert (np.abs(drawn - due) < 1).all()


def test_what_is_compressed_is_chosen_from_a_uniform_sample_as_large_as_a_block(X):
    blocks = Blocks(X, rows=ROWS)
    found = planned(Compress()).fit(blocks)
    sample = uniform_rows(blocks, ROWS, np.random.default_rng(0))
    by_hand = Plain(20, random_state=0).fit(sample.X, sample_weight=sample.weight)
    np.testing.assert_array_equal(found.indices_, sample.ids[by_hand.indices_])
    np.testing.assert_array_equal(found.weights_, by_hand.weights_)


def test_a_center_stands_for_the_rows_around_it_in_its_block_and_counts_alike_in_the_end(X):
    found = KCenter(5, random_state=0).fit(Blocks(X, rows=ROWS))
    np.testing.assert_allclose(found.weights_, N / 5)
    cells = KCenter(5, weighting="cells", random_state=0).fit(Blocks(X, rows=ROWS))
    np.testing.assert_array_equal(found.indices_, cells.indices_)


def test_no_block_draws_more_rows_than_count_in_it_and_sums_are_kept(rng):
    X = rng.normal(size=(400, 3))
    y = (np.arange(400) % 2).astype(int)
    w = np.ones(400)
    w[:100] = 0
    w[:5] = 1000
    blocks = Blocks(X, y, w, rows=100)
    found = []
    for seed in range(100):
        few = SVMCoreset(20, sampling="systematic", random_state=seed).fit(blocks)
        assert len(set(few.indices_.tolist())) == 20
        assert set(range(5)) <= set(few.indices_.tolist())
        found.append(few.weights_ @ X[few.indices_, 0])
    assert abs(np.mean(found) - w @ X[:, 0]) < 4 * np.std(found) / np.sqrt(100)
    with pytest.raises(ValueError, match="size must be at most the number of rows, got size=400"):
        SVMCoreset(400, sampling="systematic").fit(blocks)
