"""Batches for imbalanced classes: the protocol of notebooks/own/imbalanced_classes.ipynb."""

import numpy as np
import pytest
from handful_papers.own import imbalanced_classes as imbalanced


def _row_means(method, y, values, n_draws=400):
    sampler = imbalanced.make_sampler(method, y, batch_size=50, seed=0)
    draws = [sampler.sample() for _ in range(n_draws)]
    weighted = np.concatenate([weights * values[indices] for indices, weights in draws])
    return weighted.mean(), np.concatenate([y[indices] for indices, _ in draws]).mean(), weighted.std()


@pytest.mark.parametrize("method", [m for m in imbalanced.METHODS_SHOWN if m != "by class"])
def test_weighted_batches_estimate_the_mean_of_all_rows(method):
    y = np.repeat([0, 1], [950, 50])
    values = np.random.default_rng(0).normal(size=1000) + 5 * y
    mean, _, spread = _row_means(method, y, values)
    assert abs(mean - values.mean()) < 4 * spread / np.sqrt(400 * 50)


def test_batches_by_class_hold_each_class_as_often_as_the_other():
    y = np.repeat([0, 1], [950, 50])
    mean, share, _ = _row_means("by class", y, y.astype(float))
    assert mean == share == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(400 * 50))


def test_parts_share_no_row_and_keep_the_shares_of_the_classes():
    parts = imbalanced.prepare("breast_cancer", 0, n=300, n_test=60)
    rows = [{tuple(row) for row in X.numpy().round(5)} for X, _ in parts]
    assert [len(y) for _, y in parts] == [300, 60, 60]
    assert not rows[0] & rows[1]
    assert not rows[0] & rows[2]
    assert not rows[1] & rows[2]
    shares = [y.mean() for _, y in parts]
    assert max(shares) - min(shares) < 0.02
