"""The registry, what ships with scikit-learn, what is generated, and what comes before training."""

import numpy as np
import pytest
from handful.data import load, split, standardise, store, zero_one
from handful.data.formats import FORMATS
from handful.data.registry import ENTRIES
from handful.data.synthetic import gaussian_mixture, image_patches, pathological
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images
from sklearn.preprocessing import StandardScaler

HERE = [name for name, entry in ENTRIES.items() if entry.kind != "file"]
FILES = [name for name, entry in ENTRIES.items() if entry.kind == "file"]
HEX = set("0123456789abcdef")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# --- the registry


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_has_title_licence_address_and_shape(name):
    entry = ENTRIES[name]
    assert entry.kind in ("file", "scikit-learn", "generated")
    assert entry.title
    assert entry.licence
    assert entry.url.startswith(("https://", "http://")) or entry.kind == "generated"
    assert entry.rows > 0
    assert entry.features > 0
    assert len(entry.feature_names) in (0, entry.features)


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_a_checksum(name):
    entry = ENTRIES[name]
    raw_sums = [raw.sha256 for raw in entry.raw]
    content = {key.partition("[")[0] for key in entry.content}
    for raw in entry.raw:  # each original is checked as it comes, or by what is in it
        assert raw.sha256 or content >= set(raw.arrays), f"{raw.url} would not be checked"
    assert entry.sha256 or entry.raw
    for digest in filter(None, [entry.sha256, *raw_sums, *entry.content.values()]):
        assert len(digest) == 64
        assert set(digest) <= HEX


@pytest.mark.parametrize("name", [name for name in FILES if ENTRIES[name].raw])
def test_every_original_has_a_reader_and_a_name_of_its_own(name):
    names = [raw.filename for raw in ENTRIES[name].raw]
    assert len(set(names)) == len(names)
    for raw in ENTRIES[name].raw:
        assert raw.format in FORMATS
        assert raw.url.startswith("https://")
        assert "/" not in raw.filename


def test_an_unknown_name_is_an_error_that_offers_the_nearest():
    with pytest.raises(ValueError, match="no data set called 'phising': did you mean 'phishing'"):
        load("phising")


def test_a_file_takes_no_generator_options():
    with pytest.raises(TypeError, match="'phishing' is read from a file and takes no option seed"):
        load("phishing", seed=1)


# --- what ships with scikit-learn or is generated


@pytest.mark.parametrize("name", HERE)
def test_what_needs_no_file_has_the_shape_that_the_registry_states(name):
    data, entry = load(name), ENTRIES[name]
    assert data.X.shape == (entry.rows, entry.features)
    assert data.X.dtype == entry.dtype
    assert len(data.feature_names) == entry.features
    assert data.y is None or data.y.shape == (entry.rows,)
    assert data.X_test is None
    assert data.sha256 == load(name).sha256
    for fact in (entry.title, entry.url, entry.licence, data.sha256, f"{entry.rows:,} rows"):
        assert fact in data.describe()


def test_shipped_sets_are_scikit_learns():
    data, bunch = load("breast_cancer"), load_breast_cancer()
    np.testing.assert_array_equal(data.X, bunch.data)
    np.testing.assert_array_equal(data.y, bunch.target)
    assert data.feature_names[:2] == ("mean radius", "mean texture")


def test_the_checksum_tells_generated_sets_apart():
    sums = {load("pathological", seed=seed, **o).sha256 for seed in (0, 1) for o in ({}, {"gap": 1.0})}
    assert len(sums) == 4


def test_pathological_has_two_far_clusters_and_a_close_pair(rng):
    X, y = pathological(1000, separation=100, spread=1, gap=1, rng=rng)
    assert (y == 1).sum() == (y == -1).sum() == 500
    np.testing.assert_array_equal(X[-2:], [[0.5, 0], [-0.5, 0]])
    assert y[-2:].tolist() == [1, -1]
    assert (y[:-2] * X[:-2, 0] > 90).all()
    for label in (1, -1):
        cluster = X[:-2][y[:-2] == label]
        np.testing.assert_allclose(cluster.mean(axis=0), [100 * label, 0], atol=4 / np.sqrt(499))
        np.testing.assert_allclose(cluster.std(axis=0), 1, atol=4 / np.sqrt(2 * 499))


@pytest.mark.parametrize("n", [2, 5])
def test_pathological_needs_an_even_number(n, rng):
    with pytest.raises(ValueError, match=f"n must be even and at least 4 .* got {n}"):
        pathological(n, rng=rng)


def test_gaussian_mixture_has_the_spread_that_was_asked_for(rng):
    X, component = gaussian_mixture(20_000, 3, 4, overlap=0.5, rng=rng)
    assert np.bincount(component).min() > 4500
    for k in range(4):
        np.testing.assert_allclose(X[component == k].std(axis=0), 0.5, rtol=4 / np.sqrt(2 * 4500))


def test_a_pareto_mixture_is_unbalanced_and_a_t_mixture_has_heavy_tails(rng):
    X, component = gaussian_mixture(20_000, 3, 100, overlap=1, tail=3, imbalance=1.0, dtype=np.float32, rng=rng)
    sizes = np.bincount(component, minlength=100)
    assert sizes.max() > 10 * np.median(sizes)
    assert X.dtype == np.float32
    far = np.abs(X - np.median(X, axis=0)).max()
    plain, _ = gaussian_mixture(20_000, 3, 100, overlap=1, rng=rng)
    assert far > 2 * np.abs(plain - np.median(plain, axis=0)).max()


def test_gaussian_mixture_refuses_no_components(rng):
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1, got n_components=0"):
        gaussian_mixture(10, 2, 0, rng=rng)


@pytest.mark.parametrize("channels", [None, 3])
def test_patches_are_the_windows_of_the_image(channels, rng):
    image = rng.integers(0, 256, size=(11, 9) if channels is None else (11, 9, 3), dtype=np.uint8)
    patches = image_patches(image, size=4, stride=3)
    naive = [image[i : i + 4, j : j + 4].ravel() for i in range(0, 8, 3) for j in range(0, 6, 3)]
    np.testing.assert_array_equal(patches, naive)
    assert patches.dtype == image.dtype


def test_a_patch_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match=r"size must be in 1\.\.4 for an image of 4 x 6 .* got size=5"):
        image_patches(np.zeros((4, 6)), size=5)


def test_sample_patches_take_a_size():
    china = load_sample_images().images[0]
    data = load("sample_patches", size=16, stride=16)
    np.testing.assert_array_equal(data.X[0], china[:16, :16].ravel())
    assert data.X.shape == (2 * (427 // 16) * (640 // 16), 768)
    assert len(data.feature_names) == 768


# --- classes and labels


def test_a_pair_of_classes_keeps_their_rows_in_order():
    data, bunch = load("digits", classes=(4, 9)), load_digits()
    pair = np.isin(bunch.target, (4, 9))
    np.testing.assert_array_equal(data.X, bunch.data[pair])
    np.testing.assert_array_equal(data.y, bunch.target[pair])
    assert data.name == "digits[4,9]"
    np.testing.assert_array_equal(data.binary().y, bunch.target[pair] == 9)
    np.testing.assert_array_equal(data.binary(positive=4).y, bunch.target[pair] == 4)


@pytest.mark.parametrize("classes", [(4, 10), ()])
def test_a_class_that_is_not_there_is_refused(classes):
    with pytest.raises(ValueError, match="classes must be labels of 'digits', which has the classes"):
        load("digits", classes=classes)


def test_classes_and_binary_labels_need_labels():
    with pytest.raises(ValueError, match="'sample_patches', which has no labels"):
        load("sample_patches", classes=(1,))
    with pytest.raises(ValueError, match="'sample_patches' has no labels"):
        load("sample_patches").binary()


def test_binary_labels_of_a_test_set_follow_those_of_the_training_part():
    data = split(load("digits"), random_state=0).binary(positive=3)
    full = split(load("digits"), random_state=0)
    np.testing.assert_array_equal(data.y, full.y == 3)
    np.testing.assert_array_equal(data.y_test, full.y_test == 3)
    assert data.binary().y is not None  # 1 is the positive label from now on


def test_zero_one_calls_the_larger_of_two_labels_one():
    assert zero_one([-1, 1, -1]).tolist() == [0, 1, 0]
    assert zero_one(np.array(["b", "a"])).tolist() == [1, 0]
    assert zero_one([1, 2, 7], positive=2).tolist() == [0, 1, 0]


@pytest.mark.parametrize(("y", "positive"), [([1, 2, 3], None), ([1, 1], None), ([1, 2], 3)])
def test_zero_one_refuses_to_guess(y, positive):
    with pytest.raises(ValueError, match="positive must"):
        zero_one(y, positive)


# --- split


def test_a_random_split_is_stratified_complete_and_repeatable():
    data = load("digits")
    parts = split(data, test_size=0.2, random_state=3)
    assert len(parts.X_test) == pytest.approx(0.2 * len(data.X), abs=1)
    both = np.vstack([np.column_stack([parts.X, parts.y]), np.column_stack([parts.X_test, parts.y_test])])
    whole = np.column_stack([data.X, data.y])
    np.testing.assert_array_equal(both[np.lexsort(both.T)], whole[np.lexsort(whole.T)])
    np.testing.assert_allclose(np.bincount(parts.y_test), 0.2 * np.bincount(data.y), atol=1)
    np.testing.assert_array_equal(parts.X, split(data, test_size=0.2, random_state=3).X)
    assert not np.array_equal(parts.y_test, split(data, test_size=0.2, random_state=4).y_test)
    assert data.X_test is None


def test_an_official_test_set_is_kept_unless_told_otherwise():
    data = split(load("wine"), random_state=0)
    assert split(data, random_state=1) is data
    inner = split(data, test_size=0.5, random_state=1, official=False)
    assert len(inner.X) + len(inner.X_test) == len(data.X)


@pytest.mark.parametrize("name", ["diabetes", "sample_patches"])
def test_targets_and_missing_labels_split_without_classes(name):
    data = load(name)
    parts = split(data, random_state=0)
    assert len(parts.X) + len(parts.X_test) == len(data.X)
    assert (parts.y_test is None) == (data.y is None)


# --- standardise


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_standardise_is_scikit_learns_scaler(dtype, order, rng):
    X, other = (rng.integers(0, 250, size=(n, 5)).astype(dtype) for n in (9000, 7))
    scaler = StandardScaler().fit(X.astype(np.float64))
    got = standardise(X, other, None, dtype=np.float32, order=order)
    for array, original in zip(got, (X, other)):
        np.testing.assert_allclose(array, scaler.transform(original.astype(np.float64)), rtol=1e-5, atol=1e-6)
        assert array.dtype == np.float32
        assert array.flags[f"{order}_CONTIGUOUS"]
    assert got[2] is None


def test_a_constant_column_becomes_zero_and_keeps_its_unit_elsewhere():
    X = np.full((50, 2), 0.1)
    X[:, 1] = np.arange(50)
    train, test = standardise(X, X + 3)
    assert (train[:, 0] == 0).all()
    np.testing.assert_allclose(test[:, 0], 3)


def test_a_column_far_from_zero_is_standardised_without_cancellation(rng):
    unit = rng.normal(size=(1000, 1))
    np.testing.assert_allclose(standardise(unit + 1e7)[0], standardise(unit)[0], atol=1e-6)


def test_standardise_needs_a_row():
    with pytest.raises(ValueError, match="at least 1 row"):
        standardise(np.empty((0, 3)))


def test_the_content_checksum_sees_order_shape_and_type():
    a = np.arange(6).reshape(2, 3)
    assert store.content_sha256(a) == store.content_sha256(np.asfortranarray(a))
    others = [a[::-1], a.reshape(3, 2), a.astype(np.int32), a + 1]
    assert len({store.content_sha256(o) for o in [a, *others]}) == 5
