"""Labels are kept as places among those that there are."""

import numpy as np
import pandas as pd
import pytest
from handful.matching.likelihoods import Labels

KINDS = {
    "integers": np.array([3, -1, 3, 7, -1]),
    "floats": np.array([0.5, 2.0, 0.5, 0.5, 2.0]),
    "truths": np.array([True, False, True, True, False]),
    "words": np.array(["no", "yes, of course", "no", "maybe", "no"]),
    "objects": np.array(["b", "a", "b", "c", "a"], dtype=object),
    "a column": pd.Series(["b", "a", "b", "c", "a"], dtype="category"),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_labels_are_written_out_as_they_were(kind):
    y = KINDS[kind]
    labels = Labels.of(y)
    assert labels.codes.dtype.itemsize == 1
    assert labels.classes.tolist() == sorted(set(y))
    assert labels.written_out().tolist() == list(y)
    for cut in (0, 1, 3):
        parts = [y[:cut], y[cut:]]
        joined = Labels.joined([Labels.of(part) for part in parts])
        assert joined.written_out().tolist() == list(y)
        assert joined.classes.tolist() == sorted(set(y))


def test_labels_of_rows_that_do_not_count_are_no_class():
    y = np.array([5, 9, 2, 5, 0])
    counts = np.array([True, False, True, True, False])
    labels = Labels.of(y, counts)
    assert labels.classes.tolist() == [2, 5]
    assert labels.written_out()[counts].tolist() == [5, 2, 5]
    none = Labels.of(y[:2], np.zeros(2, dtype=bool))
    joined = Labels.joined([none, labels])
    assert joined.classes.tolist() == [2, 5]
    assert joined.written_out()[2:][counts].tolist() == [5, 2, 5]


def test_many_labels_take_two_bytes():
    y = np.random.default_rng(0).integers(0, 1000, 5000)
    labels = Labels.joined([Labels.of(part) for part in np.array_split(y, 7)])
    assert labels.codes.dtype == np.uint16
    np.testing.assert_array_equal(labels.written_out(), y)
