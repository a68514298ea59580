"""Frames of polars and arrow in, the same out, and the same rows as from numpy."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest
from handful import (
    VCGMM,
    BilevelCoreset,
    CoresetEstimator,
    KCenter,
    LinearSVM,
    MergeReduce,
    StratifiedCoreset,
    UniformCoreset,
    compare,
)
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

X, y = load_breast_cancer(return_X_y=True)
X = (X / X.std(axis=0))[:, :5]
NAMES = list("abcde")
FRAMES = {"polars": (pl.DataFrame(X, schema=NAMES), pl.Series("y", y))}
if find_spec("pyarrow"):
    import pyarrow as pa

    FRAMES |= {
        "arrow": (
            pa.table({name: X[:, j] for j, name in enumerate(NAMES)}),
            pa.chunked_array([y[:300], y[300:]]),
        ),
        "arrow array": (pa.table({name: X[:, j] for j, name in enumerate(NAMES)}), pa.array(y)),
    }
every_frame = pytest.mark.parametrize("frame", FRAMES)


@every_frame
@pytest.mark.parametrize(
    "selector",
    [StratifiedCoreset(9), StratifiedCoreset(9, by="e"), BilevelCoreset(size=9)],
    ids=lambda s: type(s).__name__,
)
def test_a_selector_gives_rows_in_the_type_that_it_got(selector, frame):
    F, labels = FRAMES[frame]
    selector.set_params(random_state=0)
    data = X
    if getattr(selector, "by", None) == "e":
        data = pd.DataFrame(X, columns=NAMES)
        data["e"] = words = np.where(y, "sick", "well")
        whole = {name: X[:, j] for j, name in enumerate("abcd")} | {"e": words}
        F = pl.DataFrame(whole) if isinstance(F, pl.DataFrame) else pa.table(whole)
    expected = selector.fit(data, y).indices_
    few, few_labels, _ = selector.fit(F, labels).take(F, labels)
    assert selector.indices_.tolist() == expected.tolist()
    assert selector.feature_names_in_.tolist() == NAMES
    assert type(few) is type(F)
    assert type(few_labels) is type(labels)
    assert np.asarray(few_labels).tolist() == y[expected].tolist()
    np.testing.assert_array_equal(np.asarray(few["a"]), X[expected, 0])
    with pytest.raises(ValueError, match="got 3 rows: take from the data it was fitted on"):
        selector.take(labels[:3])
    with pytest.raises(ValueError, match=r"got 1138 rows: take from the data it was fitted on"):
        selector.take(np.concatenate([X, X]))


@every_frame
def test_estimators_streams_and_comparisons_take_frames(frame):
    F, labels = FRAMES[frame]
    model = CoresetEstimator(UniformCoreset(60, random_state=0), LogisticRegression())
    assert model.fit(F, labels).score(F, labels) == model.fit(X, y).score(X, y)
    assert LinearSVM().fit(F, labels).score(F, labels) == LinearSVM().fit(X, y).score(X, y)
    assert VCGMM(3, random_state=0).fit(F).score(F) == pytest.approx(
        VCGMM(3, random_state=0).fit(X).score(X)
    )
    stream = MergeReduce(UniformCoreset(), size=20, leaf_size=100, random_state=0)
    np.testing.assert_array_equal(stream.fit(F, labels).rows()[0], stream.fit(X, y).rows()[0])
    options = dict(sizes=[30], seeds=2, verbose=False)
    found, plain = (
        compare(KCenter(), LogisticRegression(), *data, **options).frame
        for data in ((F, labels), (X, y))
    )
    # as much as the seconds of the choice pay for
    of_the_clock = ["best of draws", "more uniform rows"]
    found, plain = (one[~one["method"].isin(of_the_clock)] for one in (found, plain))
    assert found["score"].tolist() == plain["score"].tolist()
