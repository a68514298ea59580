"""The real data sets, where HANDFUL_DATA names a folder of them, read anew from files as their
authors publish them."""

import os

import numpy as np
import pytest
from handful.data import files, load
from handful.data.registry import ENTRIES
from published import as_csv, as_libsvm, as_spoken_digits, as_zip


def published_form(data):
    """The bytes of each original of `data`, in the order of the registry, written anew from its
    arrays."""
    X = data.X
    y = data.y
    extra = data.extra
    # LIBSVM's text has 0.18257, of which float32 keeps more digits than there are
    if data.name == "phishing":
        return [as_libsvm(np.round(X.astype(np.float64), 5), y)]
    if data.name == "fsdd":
        names = [f"{d}_{s}_{i}" for d, s, i in zip(y, extra["speaker"], extra["index"])]
        # the recordings longer than a second are lost in the ready-made file: they get zeros for
        # the rest
        longest = np.pad(X, ((0, 0), (0, extra["n_samples"].max() - X.shape[1])))
        sounds = [row[:length] for row, length in zip(longest, extra["n_samples"])]
        return [as_spoken_digits(dict(sorted(zip(names, sounds))))]
    if data.name == "htru2":
        return [as_zip({"Readme.txt": b"", "HTRU_2.csv": as_csv(X, y)})]
    if data.name == "credit_default":
        return [as_csv(X, y, header=",".join(["ID", *data.feature_names, "Y"]), ids=True)]
    return [as_csv(X, y, delimiter="\t")]


# each in a form of its own
SMALL = ("birch_5x5", "credit_default", "fsdd", "htru2", "phishing")
HERE = [name for name in SMALL if os.environ.get("HANDFUL_DATA") and files.find(f"{name}.npz")]


@pytest.mark.parametrize("name", HERE)
def test_the_real_set_is_the_same_from_its_originals(name, tmp_path, monkeypatch):
    real = load(name)
    monkeypatch.setattr(files, "data_folder", lambda: tmp_path)
    monkeypatch.delenv("HANDFUL_DATA")
    for raw, content in zip(ENTRIES[name].raw, published_form(real), strict=True):
        (tmp_path / raw["filename"]).write_bytes(content)
    again = load(name)
    for array in ("X", "y", "X_test", "y_test"):
        if getattr(real, array) is not None:
            np.testing.assert_array_equal(getattr(again, array), getattr(real, array), strict=True)
