"""Texts, images and whatever else has rows, for what never reads them (imbalanced-learn#164, #698,
#966)."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from handful import (
    AnyEstimatorCoreset,
    CoresetEstimator,
    KCenter,
    MergeReduce,
    StratifiedCoreset,
    UniformCoreset,
    compare,
    suspects,
)
from handful.active import KCenterQuery
from handful.blocks import Blocks
from handful.continual import ReplayBuffer
from handful.streaming import ClassBalancedReservoir, Reservoir, ReservoirCoreset
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

N = 120
TEXTS = [f"{'good' if i % 2 else 'bad'} film {i}" for i in range(N)]
IMAGES = np.arange(N * 8 * 8 * 3, dtype=np.float32).reshape(N, 8, 8, 3)
Y = np.arange(N) % 2
FORMS = {
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "array": np.array(TEXTS),
    "objects": np.array(TEXTS, dtype=object),
    "series": pd.Series(TEXTS, index=np.arange(N)[::-1]),
    "strings": pd.array(TEXTS, dtype="string"),
    "categories": pd.Categorical(TEXTS),
    "paths": [Path(f"img/{i}.jpg") for i in range(N)],
    "names of arrays": [f"img/{i}.npy" for i in range(N)],
    "images": IMAGES,
    "list of images": list(IMAGES),
    "dictionaries": [{"text": text} for text in TEXTS],
    "tokens": [text.split()[: 1 + i % 3] for i, text in enumerate(TEXTS)],
}
each_form = pytest.mark.parametrize("rows", FORMS.values(), ids=FORMS)


def same(found, rows, indices):
    assert type(found) is type(rows)
    expected = [rows.iloc[i] if hasattr(rows, "iloc") else rows[i] for i in indices]
    assert len(found) == len(indices)
    for one, other in zip(list(found), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@each_form
@pytest.mark.parametrize(
    "selector", [UniformCoreset(20, random_state=0), StratifiedCoreset(20, random_state=0)]
)
def test_what_never_reads_rows_takes_any_and_gives_them_back_as_they_came(selector, rows):
    expected = selector.fit(np.zeros((N, 1)), Y).indices_
    found = selector.fit(rows, Y)
    np.testing.assert_array_equal(found.indices_, expected)
    taken, labels, _ = found.take(rows, Y)
    same(taken, rows, expected)
    np.testing.assert_array_equal(labels, Y[expected])
    same(found.coreset_.take(rows)[0], rows, expected)


@each_form
@pytest.mark.parametrize(
    "stream",
    [
        Reservoir(20, random_state=0),
        ClassBalancedReservoir(20, random_state=0),
        MergeReduce(UniformCoreset(), size=20, leaf_size=30, random_state=0),
        ReservoirCoreset(UniformCoreset(), size=20, random_state=0),
    ],
    ids=lambda stream: type(stream).__name__,
)
def test_a_stream_that_never_reads_rows_takes_any(stream, rows):
    part = slice(0, 50), slice(50, N)
    stream = stream.fit(rows[part[0]], Y[part[0]]).partial_fit(rows[part[1]], Y[part[1]])
    held, labels, _ = stream.rows()
    chosen = stream.indices_
    expected = [rows.iloc[i] if hasattr(rows, "iloc") else rows[i] for i in chosen]
    for one, other in zip(list(held), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(labels, Y[chosen])


@pytest.mark.parametrize(
    "rows", [FORMS[name] for name in ("list", "array", "images", "list of images", "dictionaries")]
)
def test_a_memory_of_tasks_takes_any_rows(rows):
    memory = ReplayBuffer(UniformCoreset(), size=20, random_state=0).add(rows, Y).add(rows, Y)
    held, labels, _ = memory.rows()
    chosen = np.concatenate([task.indices for task in memory.memories_])
    for one, i in zip(list(held), chosen, strict=True):
        np.testing.assert_array_equal(one, rows[i])
    np.testing.assert_array_equal(labels, Y[chosen])


class Words(ClassifierMixin, BaseEstimator):
    """A classifier of texts or images: it knows the class of the first entry."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.X_ = X
        self.said_ = Counter(np.asarray(y).tolist()).most_common(1)[0][0]
        return self

    def predict(self, X):
        return np.full(len(X), self.said_)


PIPE = make_pipeline(TfidfVectorizer(), LogisticRegression())
each_text = pytest.mark.parametrize(
    "rows", [FORMS[name] for name in ("list", "array", "objects", "series")]
)


@each_text
def test_pipelines_of_texts_are_compared_and_have_coresets_and_suspects(rows):
    found = compare(UniformCoreset(), PIPE, rows, Y, sizes=[20], seeds=1, verbose=False).frame
    assert not found["error"].any()
    few = AnyEstimatorCoreset(PIPE, size=20, random_state=0).fit(rows, Y)
    same(few.take(rows)[0], rows, few.indices_)
    assert len(suspects(PIPE, rows, Y, random_state=0).take(5, rows)) == 5


@pytest.mark.parametrize("rows", [TEXTS, FORMS["array"], FORMS["series"], IMAGES, list(IMAGES)])
def test_an_estimator_of_texts_or_images_trains_on_chosen_ones(rows):
    model = CoresetEstimator(StratifiedCoreset(20, random_state=0), Words()).fit(rows, Y)
    same(model.estimator_.X_, rows, model.selector_.indices_)
    assert len(model.predict(rows)) == N


# --- lists of numbers stay what they were, and what reads rows says what it lacks


def test_lists_of_numbers_and_tables_in_lists_come_as_arrays():
    few = UniformCoreset(5, random_state=0).fit(np.zeros((N, 1)))
    for rows in (
        [[i, i + 1.0] for i in range(N)],
        list(range(N)),
        list(np.arange(N * 2.0).reshape(N, 2)),
        [["a"]] * N,
    ):
        taken = few.take(rows)[0]
        assert isinstance(taken, np.ndarray)
        np.testing.assert_array_equal(taken, np.asarray(rows)[few.indices_])


def test_what_reads_rows_refuses_words_and_says_how_files_are_named(tmp_path):
    objects = np.array(TEXTS, dtype=object)
    gaps = [None, *TEXTS[1:]]
    for rows in (TEXTS, tuple(TEXTS), np.array(TEXTS), objects, gaps, FORMS["paths"]):
        with pytest.raises(
            ValueError, match=r"X must hold rows of numbers, but its rows are .*TfidfVectorizer"
        ):
            KCenter(5).fit(rows, Y)
        with pytest.raises(
            ValueError, match=r"^features must hold rows of numbers, .*fit_transform\(features\)"
        ):
            KCenterQuery().query(5, features=rows, labelled=np.zeros((1, 2)))
    names = []
    for i in range(2):
        names.append(str(tmp_path / f"X{i}.npy"))
        np.save(names[-1], np.random.default_rng(i).normal(size=(30, 2)))
    fitted = KCenter(5, random_state=0).fit(Blocks(names))
    expected = KCenter(5, random_state=0).fit([Path(name) for name in names]).indices_
    np.testing.assert_array_equal(fitted.indices_, expected)
    model = CoresetEstimator(KCenter(5), LogisticRegression())
    for refused in (
        lambda: KCenter(5).fit(names),
        lambda: MergeReduce(KCenter()).fit(names),
        lambda: model.fit(names, [0, 1]),
    ):
        with pytest.raises(
            ValueError, match=r"name files by Paths, \[Path\(name\) for name in X\], or Blocks\(X\)"
        ):
            refused()


def test_a_column_of_numbers_is_still_no_table():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        UniformCoreset(5).fit(np.arange(100.0))
    with pytest.raises(ValueError, match="by='a' must be a column of X, but rows of shape"):
        StratifiedCoreset(5, by="a").fit(TEXTS)


def test_a_stream_refuses_rows_of_another_shape_or_kind():
    stream = Reservoir(20, random_state=0).fit(IMAGES)
    for other in (IMAGES[:, :4], TEXTS, IMAGES[:, 0, 0]):
        with pytest.raises(ValueError, match="the chunk has"):
            stream.partial_fit(other)
