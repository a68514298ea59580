"""The real data sets, where HANDFUL_DATA names a folder of them: published facts, and originals read anew."""

import os
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from handful.data import files, load
from handful.data.registry import ENTRIES
from published import as_cifar, as_csv, as_idx, as_libsvm, as_spoken_digits, as_zip

PUBLISHED = {  # facts that the data sets' own pages state, or that their papers do
    "a9a": lambda d: (
        (d.y == 1).sum() == 7841
        and (d.y_test == 1).sum() == 3846
        and np.isclose(np.count_nonzero(d.X, axis=1).mean(), 13.869, atol=1e-3)
    ),
    "bike_poisson": lambda d: (
        (d.X[:, 0] == 1).all()
        and np.allclose(d.X[:, 1:].mean(axis=0), 0, atol=1e-6)
        and d.y.min() >= 0
        and d.extra["stan_cov"].shape == (9, 9)
        and np.abs(np.linalg.norm(d.extra["stan_mean"])) > 0
    ),
    "birch_5x5": lambda d: d.X.shape == (10000, 2) and d.y is None,
    "cifar10": lambda d: (
        (np.bincount(d.y) == 5000).all()
        and np.allclose(_by_channel(d.X, np.mean), [0.4914, 0.48216, 0.44653], atol=1e-5)
        and np.allclose(_by_channel(d.X, np.std), [0.24703, 0.24349, 0.26159], atol=1e-5)
        and d.y[:5].tolist() == [6, 9, 9, 4, 1]
        and d.y_test[:5].tolist() == [3, 8, 8, 0, 6]
        and d.X[0, :3].tolist() == [59, 43, 50]
    ),
    "cod_rna": lambda d: (
        np.unique(d.y, return_counts=True)[1].tolist() == [39690, 19845]
        and np.unique(d.y_test, return_counts=True)[1].tolist() == [181078, 90539]
    ),
    "covtype_subset": lambda d: (
        np.allclose(np.bincount(d.y)[1:3] / len(d.y), [0.3646, 0.4876], atol=1e-4)
        and (d.X[:, 10:14].sum(axis=1) == 1).all()
        and (d.X[:, 14:].sum(axis=1) == 1).all()
    ),
    "credit_default": lambda d: d.y.sum() == 6636 and set(d.X[:, 1]) == {1, 2},
    "fsdd": lambda d: (
        (np.bincount(d.y) == 300).all()
        and np.unique(d.extra["speaker"]).tolist() == ["george", "jackson", "lucas", "nicolas", "theo", "yweweler"]
        and (np.bincount(d.extra["index"]) == 60).all()
        and (d.extra["n_samples"] > 8000).sum() == 20
    ),
    "htru2": lambda d: np.bincount(d.y).tolist() == [16259, 1639],
    "mnist": lambda d: (
        np.isclose(d.X.mean(), 33.3184, atol=1e-4)
        and np.isclose(d.X.std(), 78.5675, atol=1e-4)
        and d.y[:5].tolist() == [5, 0, 4, 1, 9]
    ),
    "phishing": lambda d: (
        np.bincount(d.y).tolist() == [4898, 6157]
        and (np.count_nonzero(d.X, axis=1) == 30).all()
        and set(np.unique(d.X)) == {0, np.float32(0.18257)}
    ),
    "skin_nonskin": lambda d: np.bincount(d.y)[1:].tolist() == [50859, 194198] and d.X[0].tolist() == [74, 85, 123],
    "susy_subset": lambda d: np.isclose(d.y.mean(), 0.458, atol=0.005) and len(np.unique(d.X, axis=0)) == 30000,
    "w8a": lambda d: (d.y == 1).sum() == 1479 and np.isclose(np.count_nonzero(d.X, axis=1).mean(), 11.65, atol=0.01),
}


def _by_channel(X, statistic):
    return [statistic(X[:, i : i + 1024]) / 255 for i in (0, 1024, 2048)]


@pytest.fixture
def real(request):
    """The real data set of the test's `name`."""
    name = request.getfixturevalue("name")
    if not os.environ.get("HANDFUL_DATA"):
        pytest.skip("HANDFUL_DATA is not set")
    if files.find(f"{name}.npz") is None:
        pytest.skip(f"HANDFUL_DATA has no {name}.npz")
    return load(name)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_real_set_is_as_published(name, real):
    assert PUBLISHED[name](real)


def published_form(data):
    """The bytes of each original of `data`, in the order of the registry, written anew from its arrays."""
    X, y, extra = data.X, data.y, data.extra
    test = data.X_test, data.y_test
    if data.name in ("a9a", "cod_rna"):
        return [as_libsvm(X, y), as_libsvm(*test)]
    if data.name in ("phishing", "w8a"):
        # LIBSVM's text has 0.18257, of which float32 keeps more digits than there are
        return [as_libsvm(np.round(X.astype(np.float64), 5), y)]
    if data.name == "mnist":
        images = [a.reshape(-1, 28, 28) for a in (X, test[0])]
        return [as_idx(a) for a in (images[0], y, images[1], test[1])]
    if data.name == "cifar10":
        return [as_cifar(X, y, *test)]
    if data.name == "fsdd":
        names = [f"{d}_{s}_{i}" for d, s, i in zip(y, extra["speaker"], extra["index"])]
        # the recordings longer than a second are lost in the ready-made file: they get zeros for the rest
        longest = np.pad(X, ((0, 0), (0, extra["n_samples"].max() - X.shape[1])))
        sounds = [row[:length] for row, length in zip(longest, extra["n_samples"])]
        return [as_spoken_digits(dict(sorted(zip(names, sounds))))]
    if data.name == "htru2":
        return [as_zip({"Readme.txt": b"", "HTRU_2.csv": as_csv(X, y)})]
    if data.name == "credit_default":
        return [as_csv(X, y, header=",".join(["ID", *data.feature_names, "Y"]), ids=True)]
    return [as_csv(X, y, delimiter="\t")]


@pytest.mark.parametrize("name", [name for name in PUBLISHED if ENTRIES[name].raw and "subset" not in name])
def test_the_real_set_is_the_same_from_its_originals(name, real, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "data_folder", lambda: tmp_path)
    monkeypatch.delenv("HANDFUL_DATA")
    for raw, content in zip(ENTRIES[name].raw, published_form(real), strict=True):
        (tmp_path / raw["filename"]).write_bytes(content)
    again = load(name)
    for array in ("X", "y", "X_test", "y_test"):
        if getattr(real, array) is not None:
            np.testing.assert_array_equal(getattr(again, array), getattr(real, array), strict=True)


def test_the_registry_says_of_rows_and_parts_what_the_manifest_of_the_real_files_says():
    path = Path(os.environ.get("HANDFUL_DATA", "")) / "MANIFEST.toml"
    if not path.is_file():
        pytest.skip("HANDFUL_DATA has no MANIFEST.toml")
    manifest = tomllib.loads(path.read_text(encoding="utf-8"))
    names = [name for name in manifest if name in ENTRIES]
    assert len(names) >= 12
    for name in names:
        about, known = ENTRIES[name], manifest[name]
        assert (about.sha256, about.features) == (known["sha256"], known["features"])
        numbers = [int(number) for number in re.findall(r"\d+", str(known["rows"]))]
        assert numbers[:2] == [about.rows, about.test_rows] or numbers[0] == about.rows
        if name == "w8a":  # complete as a file; its note says that the test file is missing
            assert "w8a.t (14,951 rows) is not included" in known["notes"]
            assert about.published_rows == 49_749 + 14_951
        else:
            assert (not about.of) == known["complete"], name
        if len(numbers) > 1 and "of" in str(known["rows"]):  # "92962 (of 581012)"; CIFAR-10's counts test images
            whole = numbers[-1] + (about.rows if name == "cifar10" else 0)
            assert about.published_rows == whole, name
