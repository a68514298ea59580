"""The registry, what ships with scikit-learn, what is generated, and what comes before training."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from handful.data import level, load, split, standardise, status, store, zero_one
from handful.data.formats import FORMATS
from handful.data.registry import ENTRIES
from handful.data.synthetic import gaussian_mixture, image_patches, pathological, spoken_tones
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
    assert entry.url.startswith("https://") or entry.kind == "generated"
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
    if entry.sha256:  # no stamp counts for it, so what is built from the originals must be known in full
        assert content == set(entry.content)
        assert content >= {name for raw in entry.raw for name in raw.arrays} | (set() if entry.raw else {"X"})
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


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_limits_that_leave_room_and_no_more(name):
    entry = ENTRIES[name]
    array_bytes = (entry.rows + entry.test_rows) * entry.features * np.dtype(entry.dtype).itemsize
    assert array_bytes < entry.ready_bytes < 2 * array_bytes + 300 * (entry.rows + entry.test_rows) + 2_000_000
    assert (entry.max_bytes > 0) == bool(entry.raw)
    if entry.raw and entry.name != "speech_commands_noise":  # a small part of the archive
        assert entry.max_bytes < 20 * array_bytes


def test_every_part_names_the_whole_and_its_rows():
    parts = {name: (entry.of, entry.of_rows) for name, entry in ENTRIES.items() if not entry.complete}
    assert parts == {
        "cifar10": ("cifar10_full", 60_000),
        "cod_rna": ("cod-rna with cod-rna.r", 59_535 + 271_617 + 157_413),
        "covtype_subset": ("covtype", 581_012),
        "digits": ("UCI's optical digits", 3_823 + 1_797),
        "susy_subset": ("SUSY", 5_000_000),
        "w8a": ("w8a with w8a.t", 49_749 + 14_951),
    }
    for name, (of, rows) in parts.items():
        assert ENTRIES[name].rows + ENTRIES[name].test_rows < rows == ENTRIES[name].published_rows
        if of in ENTRIES:
            assert ENTRIES[of].complete
            assert ENTRIES[of].published_rows == rows


@pytest.mark.parametrize("name", ENTRIES)
def test_the_classes_are_listed_and_hold_the_positive_one(name):
    entry = ENTRIES[name]
    assert list(entry.classes) == sorted(set(entry.classes))
    assert entry.positive is None or entry.positive in entry.classes
    if entry.kind != "file":
        labels = [] if (y := load(name).y) is None or y.dtype.kind == "f" else np.unique(y).tolist()
        assert not entry.classes or list(entry.classes) == labels


def test_an_unknown_name_is_an_error_that_offers_the_nearest():
    with pytest.raises(ValueError, match="no data set called 'phising': did you mean 'phishing'"):
        load("phising")


@pytest.mark.parametrize("name", [None, 3, ["iris"]])
def test_a_name_that_is_no_text_is_an_error(name):
    with pytest.raises(ValueError, match="no data set called"):
        load(name)


def test_what_scikit_learn_ships_takes_no_option():
    with pytest.raises(TypeError, match="'digits' is read from a file and takes no option n"):
        load("digits", n=100)


def test_a_file_takes_no_generator_options():
    with pytest.raises(TypeError, match="'phishing' is read from a file and takes no option random_state"):
        load("phishing", random_state=1)


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
    sums = {load("pathological", random_state=seed, **o).sha256 for seed in (0, 1) for o in ({}, {"gap": 1.0})}
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
    with pytest.raises(ValueError, match=r"n_components must be an integer of at least 1 .* got n_components=0"):
        gaussian_mixture(10, 2, 0, rng=rng)


@pytest.mark.parametrize("channels", [None, 3])
def test_patches_are_the_windows_of_the_image(channels, rng):
    image = rng.integers(0, 256, size=(11, 9) if channels is None else (11, 9, 3), dtype=np.uint8)
    patches = image_patches(image, size=4, stride=3)
    naive = [image[i : i + 4, j : j + 4].ravel() for i in range(0, 8, 3) for j in range(0, 6, 3)]
    np.testing.assert_array_equal(patches, naive)
    assert patches.dtype == image.dtype


def test_a_patch_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match=r"size must be in 1\.\.4 for an image of 4 x 6, got size=5"):
        image_patches(np.zeros((4, 6)), size=5)


def test_sample_patches_take_a_size():
    china = load_sample_images().images[0]
    data = load("sample_patches", size=16, stride=16)
    np.testing.assert_array_equal(data.X[0], china[:16, :16].ravel())
    assert data.X.shape == (2 * (427 // 16) * (640 // 16), 768)
    assert len(data.feature_names) == 768


@pytest.mark.parametrize(
    ("make", "options", "complaint"),
    [
        (pathological, dict(n=4.0), "n must be an integer"),
        (pathological, dict(n=10**40), "n must be an integer"),
        (pathological, dict(n=True), "n must be an integer"),
        (pathological, dict(separation=np.nan), "separation must be a finite number"),
        (pathological, dict(separation=1e200), "separation must be"),
        (pathological, dict(spread=-1), "spread must be"),
        (pathological, dict(gap="1"), "gap must be"),
        (gaussian_mixture, dict(n=10.5), "n must be an integer"),
        (gaussian_mixture, dict(n_features=0), "n_features must be"),
        (gaussian_mixture, dict(overlap=-1), "overlap must be"),
        (gaussian_mixture, dict(overlap=np.inf), "overlap must be"),
        (gaussian_mixture, dict(overlap=1e45, dtype=np.float32), "float32 cannot hold the points of overlap"),
        (gaussian_mixture, dict(imbalance=0), "imbalance must be"),
        (gaussian_mixture, dict(imbalance=1e-3), "imbalance must be .* smaller exponents overflow"),
        (gaussian_mixture, dict(tail=0), "tail must be"),
        (gaussian_mixture, dict(tail=1e-9), "tail must be"),
        (gaussian_mixture, dict(dtype=int), "dtype must be float32 or float64"),
        (spoken_tones, dict(n=20.0), "n must be an integer"),
        (spoken_tones, dict(n_classes=1), r"n_classes must be in 2\.\.20"),
        (spoken_tones, dict(sampling_rate=200_000), "sampling_rate in 8,000"),
        (image_patches, dict(size=2.0), "size must be an integer"),
        (image_patches, dict(size=0), "size must be an integer"),
        (image_patches, dict(stride=-1), "stride must be an integer"),
        (image_patches, dict(image=np.zeros(4)), "image must have shape"),
        (image_patches, dict(image=np.zeros((4, 4, 3, 2))), "image must have shape"),
    ],
)
def test_generators_name_the_argument_that_they_cannot_use(make, options, complaint, rng):
    usual = {
        pathological: dict(n=10, rng=rng),
        gaussian_mixture: dict(n=10, n_features=2, n_components=3, rng=rng),
        spoken_tones: dict(n=20, rng=rng),
        image_patches: dict(image=np.zeros((8, 8)), size=2),
    }[make]
    with pytest.raises(ValueError, match=complaint):
        make(**usual | options)


@pytest.mark.parametrize("make", [pathological, lambda n, rng: gaussian_mixture(n, 2, 3, rng=rng), spoken_tones])
@pytest.mark.parametrize("wrong", [None, 0, np.random.RandomState(0)])
def test_generators_take_a_generator_and_nothing_else(make, wrong):
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        make(20, rng=wrong)


# --- how much of what was published


def test_level_says_all_a_part_or_generated():
    iris, part, made = load("iris"), load("digits"), load("pathological")
    assert (iris.rows, iris.of, iris.share, iris.level) == (150, "iris", 1.0, "complete")
    assert (part.rows, part.of, part.level) == (1797, "UCI's optical digits", "32 % of UCI's optical digits")
    assert part.share == pytest.approx(1797 / 5620)
    assert (made.of, made.published_rows, made.share, made.level) == ("pathological", None, None, "generated")
    assert "published rows: complete" in iris.describe()


def test_share_counts_the_rows_that_are_left():
    data = load("iris")
    assert load("iris", classes=(0, 1)).level == "67 % of iris"
    assert split(data, random_state=0).level == "complete"  # its test set counts
    halves = split(split(data, random_state=0, test_size=0.5), random_state=0, test_size=0.2, official=False)
    assert halves.share == 0.5  # the first test set was left aside
    assert data.take([3, 1]).rows == 2
    np.testing.assert_array_equal(data.take([3, 1]).X, data.X[[3, 1]])
    assert data.take(data.y == 0).rows == 50


@pytest.mark.parametrize(
    "rows", [2.5, [0.5], "a", None, [[0]], [150], [-151], [True, False], np.array(["a"]), [10**40], 3, {}]
)
def test_rows_that_are_not_there_are_not_taken(rows):
    with pytest.raises(ValueError, match="rows must be positions"):
        load("iris").take(rows)


def test_taking_no_rows_leaves_none():
    assert load("iris").take([]).X.shape == (0, 4)
    with pytest.raises(ValueError, match="'iris' has no test set"):
        load("iris").take([], test=True)


@pytest.mark.parametrize(
    ("rows", "of_rows", "words"),
    [
        (5, 5, "complete"),
        (7, 5, "complete"),
        (9_999, 10_000, "99 % of all"),
        (92_962, 581_012, "16 % of all"),
        (30_000, 5_000_000, "0.6 % of all"),
        (1, 5_000_000, "2e-05 % of all"),
        (3, None, "generated"),
    ],
)
def test_a_part_never_rounds_to_all_or_nothing(rows, of_rows, words):
    assert level("all", rows, of_rows) == words


def test_status_tells_the_level():
    levels = {row.name: row.level for row in status()}
    assert levels["covtype_subset"] == "16 % of covtype"
    assert levels["susy_subset"] == "0.6 % of SUSY"
    assert levels["mnist"] == "complete"
    assert levels["spoken_tones"] == "generated"


# --- classes and labels


def test_a_pair_of_classes_keeps_their_rows_in_order():
    data, bunch = load("digits", classes=(4, 9)), load_digits()
    pair = np.isin(bunch.target, (4, 9))
    np.testing.assert_array_equal(data.X, bunch.data[pair])
    np.testing.assert_array_equal(data.y, bunch.target[pair])
    assert data.name == "digits[4,9]"
    np.testing.assert_array_equal(data.binary().y, bunch.target[pair] == 9)
    np.testing.assert_array_equal(data.binary(positive=4).y, bunch.target[pair] == 4)


@pytest.mark.parametrize("classes", [(4, 10), (), (4, 4), 4, "49", ("4",), (np.nan,)])
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


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        ([np.nan, 1.0], "must be finite, got nan at row 0"),
        ([[0, 1], [1, 0]], r"must have shape \(n,\)"),
        (np.array([1, "a", None], dtype=object), "labels of one kind"),
        ([], "the 0 labels"),
    ],
)
def test_zero_one_refuses_what_are_no_labels(y, complaint):
    with pytest.raises(ValueError, match=complaint):
        zero_one(y)


@pytest.mark.parametrize("positive", [np.array([0, 1]), [], "1", np.nan, [1]])
def test_zero_one_refuses_a_positive_that_is_no_label(positive):
    with pytest.raises(ValueError, match="positive must be one of the labels"):
        zero_one([0, 1], positive)


def test_only_a_dataset_is_split():
    with pytest.raises(TypeError, match="data must be a Dataset, as load gives it, got ndarray"):
        split(np.eye(3))


def test_zero_one_takes_a_column_of_a_frame():
    assert zero_one(pd.Series(["no", "yes", "no"], index=[7, 8, 9])).tolist() == [0, 1, 0]


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


def test_further_values_stay_with_their_rows_through_splits_and_classes():
    data = load("iris")
    data = replace(data, extra={"row": np.arange(150)})
    once = split(data, random_state=0)
    pair = once.only((0, 2))
    again = split(once, random_state=1, official=False)
    for parts in (once, pair, again):
        np.testing.assert_array_equal(parts.X, data.X[parts.extra["row"]])
        np.testing.assert_array_equal(parts.X_test, data.X[parts.extra["row_test"]])
    assert set(np.unique(pair.y_test)) == {0, 2}
    assert set(again.extra) == {"row", "row_test"}


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


@pytest.mark.parametrize("power", [-1050, -1000, -500, 500, 1000, 1022])
@pytest.mark.parametrize("order", ["C", "F"])
def test_standardise_does_not_depend_on_the_unit(power, order, rng):
    X, other = rng.uniform(-1, 1, size=(500, 3)), rng.uniform(-1, 1, size=(7, 3))
    X[:, 2] = 0.3
    unit = np.ldexp(1.0, [power, 0, power])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = standardise(np.asarray(X * unit, order=order), other * unit)
    # The smallest numbers that there are have few digits: these are what is left of X and other.
    kept = [a * unit / unit for a in (X, other)]
    for a, b in zip(got, standardise(np.asarray(kept[0], order=order), kept[1])):
        np.testing.assert_array_equal(a[:, :2], b[:, :2])
    assert (got[0][:, 2] == 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e200, 1.7e308])
def test_columns_of_any_magnitude_get_mean_0_and_deviation_1(scale, rng):
    (got,) = standardise(scale * rng.uniform(-1, 1, size=(1000, 4)))
    np.testing.assert_allclose(got.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(got.std(axis=0), 1)


def test_standardise_takes_frames(rng):
    X = pd.DataFrame({"a": rng.integers(0, 9, size=50), "b": rng.normal(size=50), "c": rng.random(50) < 0.5})
    X.index = X.index + 100
    train, test = X[:40], X[40:]
    for got, wanted in zip(
        standardise(train, test), standardise(train.to_numpy(np.float64), test.to_numpy(np.float64)), strict=True
    ):
        np.testing.assert_allclose(got, wanted)
    with pytest.raises(ValueError, match=r"others\[0\] must have the columns of X, in their order"):
        standardise(train, test[["b", "a", "c"]])


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        ([np.array([[1.0], [np.nan]])], {}, "Input X contains NaN"),
        ([np.eye(2), np.array([[np.inf, 0]])], {}, r"Input others\[0\] contains infinity"),
        ([np.eye(2), np.eye(3)], {}, r"others\[0\] must have the 2 columns of X, got 3"),
        ([np.arange(3.0)], {}, "Expected 2D array"),
        ([np.eye(2)], dict(dtype=int), "dtype must be float32 or float64"),
        ([np.eye(2)], dict(order="K"), "order must be C or F"),
        ([1e-300 * np.eye(2), np.full((1, 2), 1e300)], {}, r"others\[0\] is so far from X in row 0, column 0"),
        ([np.eye(2), np.full((1, 2), 1e200)], dict(dtype=np.float32), "so far from X"),
        ([None], {}, "X must have at least 1 row to standardise by, got None"),
        ([np.array([["a"]])], {}, "arrays of bytes/strings"),
    ],
)
def test_standardise_refuses_what_has_no_finite_answer(arguments, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        standardise(*arguments, **options)


def test_standardise_needs_a_row():
    with pytest.raises(ValueError, match="at least 1 row"):
        standardise(np.empty((0, 3)))


def test_the_content_checksum_sees_order_shape_and_type():
    a = np.arange(6).reshape(2, 3)
    assert store.content_sha256(a) == store.content_sha256(np.asfortranarray(a))
    others = [a[::-1], a.reshape(3, 2), a.astype(np.int32), a + 1]
    assert len({store.content_sha256(o) for o in [a, *others]}) == 5
