"""`load`: one door to every data set, whether it is a file, ships with scikit-learn or is
generated."""

import numpy as np
from sklearn import datasets as sklearn_datasets

from handful.checks import as_generator
from handful.data import files, synthetic
from handful.data.dataset import Dataset
from handful.data.registry import ENTRIES, entry


def _made(name, *, random_state=0, **options):
    if name == "sample_patches":
        images = sklearn_datasets.load_sample_images().images
        return {
            "X": np.concatenate([synthetic.image_patches(image, **options) for image in images])
        }
    return dict(zip("Xy", getattr(synthetic, name)(**options, rng=as_generator(random_state))))


def load(name, *, classes=None, verbose=False, **options):
    """The data set called `name`.

    Files are looked for in the repository's `data/` (a cache folder of the user's if there is
    none), then in the folder that $HANDFUL_DATA names, then at the address where they were
    published; every file is checked. No other data set is ever put in its place.

    Parameters
    ----------
    name : str
        The data set; `status` lists them.
    classes : sequence or None, default=None
        Labels to keep, such as ``load("digits", classes=(4, 9))``; None keeps all.
    verbose : bool, default=False
        Whether to show a progress bar while downloading.
    **options : dict
        Options of generated sets and patches, such as ``load("pathological", separation=100,
        random_state=1)``; see `handful.data.synthetic`.

    Returns
    -------
    Dataset
        Its rows, labels, test rows and source.

    Raises
    ------
    ValueError
        for an unknown name or class
    MissingDataError
        if the data set is not on this machine and can't be downloaded; the message says how to get
        it
    BadFileError
        if a file does not hold what the registry says; the message names the file
    """
    about = entry(name)
    sha256 = None
    names = about.feature_names
    if about.kind == "generated" or name == "sample_patches":
        arrays = _made(name, **options)
    elif options:
        raise TypeError(f"{name!r} is no generated set and takes no option {', '.join(options)}.")
    elif about.kind == "scikit-learn":
        bunch = getattr(sklearn_datasets, f"load_{name}")()
        arrays = {"X": bunch.data, "y": bunch.target}
        names = bunch.feature_names
    else:
        arrays, sha256 = files.read(about, verbose=verbose)
    sha256 = sha256 or files.content_sha256(*arrays.values())
    four = {
        key: arrays.pop(key, arrays.pop(f"{key}_train", None))
        for key in ("X", "y", "X_test", "y_test")
    }
    facts = dict(feature_names=tuple(map(str, names)), positive=about.positive, extra=arrays)
    data = Dataset(**four, name=name, sha256=sha256, about=about, **facts)
    return data if classes is None else data.only(classes)


def status():
    """A data frame of all data sets, by name: where each is now, rows x features, level, licence
    and source.

    Needs pandas, which `load` does not. Looks whether files are there, without reading them.
    `level` is "complete", "16 % of covtype" or "generated".
    """
    import pandas as pd

    return pd.DataFrame.from_dict(states(), orient="index").rename_axis("name")


def states():
    """What `status` shows, as a dict of dicts."""
    rows = {}
    for name, about in sorted(ENTRIES.items()):
        count = (
            f"{about.rows:,}"
            + (f" + {about.test_rows:,}" if about.test_rows else "")
            + f" x {about.features:,}"
        )
        level = about.level(about.rows + about.test_rows)
        rows[name] = dict(
            where=_where(about), shape=count, level=level, licence=about.licence, source=about.url
        )
    return rows


def _where(about):
    if about.kind != "file":
        return about.kind
    wanted = [raw["filename"] for raw in about.raw]
    if about.sha256 and (files.find(f"{about.name}.npz") or not wanted):
        wanted = [f"{about.name}.npz"]
    found = list(map(files.find, wanted))
    if not all(found):
        return "to be downloaded" if about.raw else "not here: ready-made file only"
    return "data folder" if found[0].parent == files.data_folder() else "HANDFUL_DATA"
