"""The registry, what ships with scikit-learn or is generated, and what comes before training."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from handful.data import load
from handful.data.dataset import split, standardise
from handful.data.formats import reader_of
from handful.data.registry import ENTRIES
from handful.data.synthetic import image_patches
from sklearn import datasets as sklearn_datasets
from sklearn.preprocessing import StandardScaler

HERE = [name for name, about in ENTRIES.items() if about.kind != "file"]


# Sets of which no checksum is known; a run's record keeps that of what it read.
UNKNOWN = ("cod_rna_full", "song", "susy")


def test_every_entry_has_title_licence_shape_and_a_checksum_for_every_file():
    for about in ENTRIES.values():
        assert about.title and about.licence and about.rows > 0 and about.features > 0  # noqa: PT018
        assert about.kind == "generated" or about.url.startswith(("https://", "http://"))
        assert about.kind != "file" or about.sha256 or about.raw
        assert not about.of or about.of_rows > about.rows
        for raw in about.raw:
            # What a checksum of the file is known of may come over a line that anybody can change.
            assert raw["url"].startswith("https://") or "sha256" in raw
            assert callable(reader_of(raw["format"]))
            assert "/" not in raw["filename"]
            known = {name.partition("[")[0] for name in about.content}
            has_checksum = "sha256" in raw or known >= set(raw["arrays"])
            assert has_checksum != (about.name in UNKNOWN)


@pytest.mark.parametrize("name", HERE)
def test_what_needs_no_file_has_the_shape_that_the_registry_states(name):
    data = load(name)
    about = ENTRIES[name]
    assert data.X.shape == (about.rows, about.features)
    assert data.X.dtype == about.dtype
    assert data.sha256 == load(name).sha256
    assert len(data.describe().splitlines()) >= 5


def test_shipped_sets_are_scikit_learns_and_generated_ones_take_options():
    for name in ("breast_cancer", "digits"):
        X, y = getattr(sklearn_datasets, f"load_{name}")(return_X_y=True)
        data = load(name)
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, y)
        assert data.feature_names == tuple(
            getattr(sklearn_datasets, f"load_{name}")().feature_names
        )
    assert load("pathological", random_state=1).sha256 != load("pathological").sha256
    assert load("gaussian_mixture", n=50, n_features=3).X.shape == (50, 3)
    assert load("sample_patches", size=4).X.shape[1] == 48
    with pytest.raises(TypeError, match="'iris' is no generated set and takes no option n"):
        load("iris", n=3)


@pytest.mark.parametrize("name", ["irs", None, 3, ["iris"]])
def test_an_unknown_name_is_an_error_that_lists_the_names(name):
    with pytest.raises(
        ValueError, match=r"there is no data set called .*: the names are a9a, .*iris"
    ):
        load(name)


# --- generators


@pytest.mark.parametrize("channels", [None, 3])
def test_patches_are_the_windows_of_the_image(channels, rng):
    image = rng.integers(
        0, 256, size=(9, 11) if channels is None else (9, 11, channels), dtype=np.uint8
    )
    windows = [image[i : i + 4, j : j + 4].ravel() for i in range(0, 6, 3) for j in range(0, 8, 3)]
    np.testing.assert_array_equal(image_patches(image, size=4, stride=3), windows)
    with pytest.raises(ValueError, match="window shape cannot be larger"):
        image_patches(image, size=10)


# --- classes, splits, scales


def test_classes_keep_their_rows_in_order_and_binary_labels_follow():
    digits = load("digits")
    pair = load("digits", classes=(4, 9))
    kept = np.isin(digits.y, (4, 9))
    np.testing.assert_array_equal(pair.X, digits.X[kept])
    np.testing.assert_array_equal(pair.binary().y, digits.y[kept] == 9)
    np.testing.assert_array_equal(pair.binary(4).y, digits.y[kept] == 4)
    assert pair.name == "digits[4,9]"
    assert pair.binary().y.dtype == np.int64
    parts = split(pair, random_state=0)
    np.testing.assert_array_equal(parts.binary().y_test, parts.y_test == 9)
    np.testing.assert_array_equal(parts.only([9]).X_test, parts.X_test[parts.y_test == 9])
    marked = replace(parts, extra={"row": np.arange(len(parts.X)), "row_test": parts.y_test})
    assert set(marked.only([9]).extra["row_test"]) == {9}
    alike = replace(marked, X=parts.X_test, y=parts.y_test[::-1], extra={"row_test": parts.y_test})
    assert set(alike.only([9]).extra["row_test"]) == {9}
    for classes in [(4, 10), (), (4, 4), ("4",)]:
        with pytest.raises(ValueError, match="classes must be labels of 'digits'"):
            load("digits", classes=classes)
    for data in (digits, load("sample_patches"), pair):
        with pytest.raises(ValueError, match="positive must be one of the labels"):
            data.binary(5 if data is pair else None)


def test_a_random_split_is_stratified_complete_and_repeatable():
    data = load("breast_cancer")
    data = replace(data, extra={"row": np.arange(569), "moment": np.ones(30)})
    one, two = (split(data, test_size=0.2, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.extra["row"], two.extra["row"])
    assert sorted([*one.extra["row"], *one.extra["row_test"]]) == list(range(569))
    np.testing.assert_array_equal(data.X[one.extra["row_test"]], one.X_test)
    assert one.y_test.mean() == pytest.approx(data.y.mean(), abs=0.01)
    assert len(one.X_test) == 114
    # not a value for each row
    assert len(one.extra["moment"]) == 30
    assert split(one) is one
    assert len(split(one, official=False, random_state=0).X) < len(one.X)
    # targets, and no labels
    for name in ("diabetes", "sample_patches"):
        parts = split(load(name), test_size=40, random_state=0)
        assert len(parts.X_test) == 40
        assert (parts.y_test is None) == (name == "sample_patches")


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_standardise_is_scikit_learns_scaler_in_float64(dtype, order, rng):
    X = rng.integers(0, 200, size=(500, 4)).astype(dtype)
    # constant in X, not elsewhere
    X[:, 1] = 7
    other = X[:20] + np.arange(20, dtype=dtype)[:, None]
    scaler = StandardScaler().fit(X.astype(np.float64))
    for to in ("float32", "float64"):
        out, of_other, nothing = standardise(X, other, None, dtype=to, order=order)
        assert nothing is None
        assert out.dtype == to
        assert out.flags[f"{order}_CONTIGUOUS"]
        np.testing.assert_allclose(out, scaler.transform(X.astype(np.float64)), atol=1e-6)
        np.testing.assert_allclose(
            of_other, scaler.transform(other.astype(np.float64)), rtol=1e-6, atol=1e-6
        )
        np.testing.assert_allclose(of_other[:, 1], np.arange(20), atol=1e-6)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_frame_is_standardised_as_its_array(dtype, rng):
    X = (rng.normal(size=(1000, 2)) + 3e4).astype(dtype)
    frame = pd.DataFrame(X, columns=["a", "b"])
    for one, other in zip(standardise(X, X[:9]), standardise(frame, frame[:9])):
        np.testing.assert_allclose(one, other, atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        standardise(frame, frame[["b", "a"]])
