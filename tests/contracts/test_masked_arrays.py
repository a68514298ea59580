"""Masked arrays: what they hide is missing, as in a frame, and never a value."""

import numpy as np
import pytest
from contracts.test_contracts import EVERY, takes
from handful import UniformCoreset
from handful.continual import ReplayBuffer
from handful.matching import recombine
from handful.streaming import Reservoir
from handful.tables import as_array, is_missing, missing, take_rows
from sklearn.base import clone
from sklearn.utils import get_tags

IS_HIDDEN = np.arange(6) == 2
VALUES = {
    "floats": np.arange(6.0),
    "whole numbers": np.arange(6),
    "words": np.array(list("abcabc")),
    "days": np.arange(6).astype("datetime64[D]"),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_what_a_masked_array_hides_is_missing(values):
    """sherpa#695, astropy#4824: values behind a mask were fitted as if they were data."""
    hidden = np.ma.masked_array(values, mask=IS_HIDDEN)
    shown = as_array(hidden)
    assert is_missing(shown[2])
    np.testing.assert_array_equal(shown[~IS_HIDDEN], values[~IS_HIDDEN])
    np.testing.assert_array_equal(missing(hidden), IS_HIDDEN)
    np.testing.assert_array_equal(as_array(np.ma.masked_array(values)), values)


@pytest.mark.parametrize("estimator", EVERY, ids=lambda e: type(e).__name__)
def test_a_hidden_entry_is_refused_as_nan_is(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    mask = np.zeros(X.shape, dtype=bool)
    mask[5, 1] = True
    clone(estimator).fit(np.ma.masked_array(X, mask=False), y)
    if get_tags(estimator).input_tags.allow_nan:
        return
    with pytest.raises(ValueError, match="NaN"):
        clone(estimator).fit(np.ma.masked_array(X, mask=mask), y)


@pytest.mark.parametrize(
    "estimator",
    [estimator for estimator in EVERY if takes(estimator, "sample_weight")],
    ids=lambda e: type(e).__name__,
)
def test_a_hidden_weight_is_refused(estimator):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    weights = np.ma.masked_array(np.ones(60), mask=np.arange(60) == 7)
    with pytest.raises(ValueError, match="NaN"):
        clone(estimator).fit(X, y, sample_weight=weights)


def test_rows_of_a_masked_array_keep_their_mask():
    X = np.ma.masked_array(np.arange(6.0), mask=IS_HIDDEN)
    assert take_rows(X, np.array([2, 3])).mask.tolist() == [True, False]
    few = UniformCoreset(3, random_state=0).fit(np.zeros((6, 1)))
    taken, _ = few.take(X)
    np.testing.assert_array_equal(taken.mask, IS_HIDDEN[few.indices_])


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_a_memory_and_a_stream_give_what_is_hidden_back_as_missing(values):
    X = np.arange(6.0)[:, None]
    y = np.ma.masked_array(values, mask=IS_HIDDEN)
    memory = ReplayBuffer(UniformCoreset(), size=12, random_state=0).add(X, y).add(X, y)
    for held in (memory, Reservoir(6).fit(X, y)):
        rows, labels, _ = held.rows()
        np.testing.assert_array_equal(missing(labels), rows[:, 0] == 2)


def test_a_memory_gives_hidden_features_back_as_missing():
    X = np.arange(6.0)[:, None]
    hidden = np.ma.masked_array(X, mask=X > 3)
    rows, _, _ = ReplayBuffer(UniformCoreset(), size=6).add(hidden, view=X).rows()
    assert sorted(rows[~np.isnan(rows)]) == [0, 1, 2, 3]
    assert len(rows) == 6


def test_weights_in_the_place_of_n_are_refused():
    features = np.ones((5, 1))
    with pytest.raises(ValueError, match="by name"):
        recombine(features, np.ones(5))
