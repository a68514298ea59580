"""Names of files: a Path is a path, a string may be a pattern; files that cannot be read, and types
that differ."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from handful import KCenter, MergeReduce, UniformCoreset
from handful.blocks import Blocks
from sklearn.base import clone

pq = pytest.importorskip(
    "pyarrow.parquet", reason="pyarrow comes with the extra handful[distributed]"
)
# what macOS leaves beside each file on some disks
JUNK = b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(200)


@pytest.fixture
def X(rng):
    return rng.normal(size=(60, 3))


def save(path, X):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".parquet":
        pd.DataFrame(X, columns=list("abc")).to_parquet(path)
    else:
        with open(path, "wb") as file:
            np.save(file, X)
    return path


def read(named):
    return np.concatenate([np.asarray(block.X) for block in Blocks(named)])


# --- a Path is a path, a string may be a pattern (polars#14733, polars#12876, ilastik#2391)

NAMES = [
    "run[1].npy",
    "fold [ab].npy",
    "a[1]/X.npy",
    "X.NPY",
    "X*.npy",
    "what?.npy",
    "part[0].parquet",
    "P.Parquet",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "form", [str, Path, lambda path: [path], lambda path: (path,), os.fsencode]
)
def test_a_file_that_is_there_is_read_whatever_its_name_holds(name, form, X, tmp_path):
    path = save(tmp_path / name, X)
    # what the pattern would match
    for other in ("run1.npy", "fold a.npy", "X1.npy", "whats.npy", "part0.parquet"):
        save(path.parent / other, X + 1)
    np.testing.assert_array_equal(read(form(path)), X)
    expected = KCenter(5, random_state=0).fit(X).indices_
    np.testing.assert_array_equal(KCenter(5, random_state=0).fit(form(path)).indices_, expected)
    taken = KCenter(5, random_state=0).fit(X).take(form(path))[0]
    np.testing.assert_array_equal(np.asarray(taken), X[expected])


def test_a_folder_whose_name_holds_brackets_is_read(X, tmp_path):
    save(tmp_path / "run[1]" / "X0.npy", X), save(tmp_path / "run[1]" / "X1.NPY", X + 1)
    for named in (tmp_path / "run[1]", str(tmp_path / "run[1]")):
        np.testing.assert_array_equal(read(named), np.concatenate([X, X + 1]))


def test_a_path_that_only_fits_as_a_pattern_is_read_as_one_with_a_warning(X, tmp_path):
    save(tmp_path / "X1.npy", X)
    with pytest.warns(
        FutureWarning, match=r"there is no .*X\*.npy; it is read as a pattern.*give str\(path\)"
    ):
        assert Blocks(tmp_path / "X*.npy").n == len(X)
    assert Blocks(str(tmp_path / "X*.npy")).n == len(X)
    save(tmp_path / "X*.npy", X[:7])
    assert Blocks(tmp_path / "X*.npy").n == Blocks(str(tmp_path / "X*.npy")).n == 7
    with pytest.raises(ValueError, match=r"at '.*none.npy'; there is no such file or folder\.$"):
        Blocks(tmp_path / "none.npy")


def test_files_of_another_kind_are_counted(tmp_path):
    for i in range(2):
        (tmp_path / f"X{i}.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"got 0 at '.*\*\.csv', though 2 other files fit; write"):
        Blocks(str(tmp_path / "*.csv"))


def test_patterns_may_stand_for_folders_and_files_come_by_number(X, tmp_path):
    for run in (10, 2, 1):
        for i in (10, 9):
            save(tmp_path / f"run{run}" / f"X{i}.npy", X + 100 * run + i)
    expected = np.concatenate([X + 100 * run + i for run in (1, 2, 10) for i in (9, 10)])
    for pattern in ("run*/X*.npy", "**/*.npy", "run*/X[0-9]*.npy"):
        np.testing.assert_array_equal(read(str(tmp_path / pattern)), expected)


def test_home_is_understood(X, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    save(tmp_path / "rows" / "X0.npy", X)
    for named in (
        "~/rows",
        "~/rows/X*.npy",
        "~/rows/X0.npy",
        Path("~/rows/X0.npy"),
        [Path("~/rows/X0.npy")],
    ):
        np.testing.assert_array_equal(read(named), X)


# --- hidden files, as pandas, pyarrow and dask skip them
# (duckdb#16466, SpikeInterface#4027, spatialdata#1013)


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_hidden_files_are_skipped_in_folders_and_patterns(suffix, X, tmp_path):
    save(tmp_path / f"X0{suffix}", X)
    for name in (f"._X0{suffix}", f".part{suffix}", f"_temporary{suffix}"):
        (tmp_path / name).write_bytes(JUNK)
    (tmp_path / ".ipynb_checkpoints").mkdir()
    for folder in ("_temporary", ".snapshot"):
        save(tmp_path / folder / f"X1{suffix}", X)
    for name in ("_SUCCESS", "_metadata"):
        (tmp_path / name).write_bytes(JUNK)
    for named in (tmp_path, str(tmp_path / f"*{suffix}"), str(tmp_path / "**" / f"*{suffix}")):
        np.testing.assert_array_equal(read(named), X)


def test_a_hidden_file_that_is_named_is_read(X, tmp_path):
    save(tmp_path / "_rows.npy", X)
    for named in (tmp_path / "_rows.npy", str(tmp_path / "_rows.npy"), str(tmp_path / "_r*.npy")):
        np.testing.assert_array_equal(read(named), X)
    with pytest.raises(ValueError, match=r"names that begin with . or _ are skipped"):
        Blocks(tmp_path)


# --- what cannot be read is named


def broken(tmp_path, X):
    whole = save(tmp_path / "whole.npy", X).read_bytes()
    frame = save(tmp_path / "whole.parquet", X).read_bytes()
    yield from [
        ("junk.npy", JUNK),
        ("empty.npy", b""),
        ("short.npy", whole[:-9]),
        ("head.npy", whole[:20]),
    ]
    yield from [
        ("junk.parquet", JUNK),
        ("empty.parquet", b""),
        ("short.parquet", frame[: len(frame) // 2]),
    ]


def test_a_broken_file_is_named_with_what_is_wrong(X, tmp_path):
    for name, content in broken(tmp_path, X):
        (tmp_path / name).write_bytes(content)
        for named in (tmp_path / name, [tmp_path / f"whole{Path(name).suffix}", tmp_path / name]):
            with pytest.raises(ValueError, match=f"{name} cannot be read"):
                KCenter(5).fit(named)
    np.save(tmp_path / "objects.npy", np.array([{}, None]))
    np.save(tmp_path / "number.npy", np.array(3.0))
    np.savez(tmp_path / "several.npz", X=X)
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    (tmp_path / "folder.npy").mkdir()
    for name in ("objects.npy", "number.npy", "several.npy"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            Blocks(tmp_path / name)
    for named in (str(tmp_path / "f*.npy"), [tmp_path / "folder.npy"], [tmp_path / "gone.npy"]):
        with pytest.raises(ValueError, match=r"(folder|gone).npy is no file"):
            Blocks(named)


def test_a_file_that_breaks_after_it_was_named_is_named(X, tmp_path):
    for name in ("X0.npy", "X0.parquet"):
        blocks = Blocks(save(tmp_path / name, X))
        (tmp_path / name).write_bytes(JUNK)
        with pytest.raises(ValueError, match=name):
            blocks.take([0])


def test_files_of_other_kinds_are_refused_by_name(X, tmp_path):
    save(tmp_path / "X.npy", X), save(tmp_path / "X.parquet", X)
    (tmp_path / "X.csv").write_text("a,b,c\n1,2,3\n")
    for named in (tmp_path / "X.csv", str(tmp_path / "X.csv"), [tmp_path / "X.csv"]):
        with pytest.raises(
            ValueError, match=r"files of arrays \(.npy\) or frames \(.parquet\), got .*X.csv"
        ):
            Blocks(named)
    with pytest.raises(ValueError, match=r"of one kind, got .*X.npy and .*X.parquet"):
        Blocks(tmp_path)
    with pytest.raises(ValueError, match=r"s3://bucket/X.npy.*dask"):
        Blocks("s3://bucket/X.npy")


# --- types that differ


def test_arrays_of_other_types_are_refused_with_the_file(X, tmp_path):
    save(tmp_path / "X0.npy", X), save(tmp_path / "y0.npy", np.arange(60) % 2)
    others = [X.astype(np.float32), X.round().astype(int), X.astype(str), X > 0]
    for other in others:
        save(tmp_path / "X1.npy", other), save(tmp_path / "y1.npy", np.arange(60) % 2)
        with pytest.raises(
            ValueError,
            match=r"X1.npy has rows of \S+ and shape \(3,\), but .*X0.npy has rows of flo",
        ):
            UniformCoreset(5).fit(str(tmp_path / "X*.npy"), str(tmp_path / "y*.npy"))
    save(tmp_path / "X1.npy", X)
    for other in (
        np.arange(60) % 2.0,
        np.arange(60) > 3,
        np.arange(60).astype(str),
        np.zeros((60, 2), int),
    ):
        save(tmp_path / "y1.npy", other)
        with pytest.raises(
            ValueError, match=r"y1.npy has rows of .*, but .*y0.npy has rows of int64"
        ):
            UniformCoreset(5).fit(str(tmp_path / "X*.npy"), str(tmp_path / "y*.npy"))


def test_words_of_other_lengths_are_of_one_type(X, tmp_path):
    y = np.concatenate([np.repeat("no", 60), np.repeat("perhaps", 60)])
    for i in range(2):
        (
            save(tmp_path / f"X{i}.npy", X),
            save(tmp_path / f"y{i}.npy", y[60 * i : 60 * (i + 1)].astype(["<U2", "<U7"][i])),
        )
    few = UniformCoreset(9, random_state=0).fit(str(tmp_path / "X*.npy"), str(tmp_path / "y*.npy"))
    found = few.take(str(tmp_path / "X*.npy"), str(tmp_path / "y*.npy"))[1]
    np.testing.assert_array_equal(found, y[few.indices_])


def frames(n=40):
    first = pd.DataFrame(
        {"n": np.arange(n), "f": np.arange(n) / 2, "w": [f"w{i}" for i in range(n)]}
    )
    return first.assign(
        c=pd.Categorical(np.where(np.arange(n) % 2, "u", "v")), t=pd.date_range("2020", periods=n)
    )


OTHER_TYPES = {
    "n": lambda column: column.astype(float),
    "f": lambda column: column.astype(np.float32),
    "w": lambda column: np.arange(len(column)),
    "c": lambda column: column.astype(str),
    "t": lambda column: column.dt.tz_localize("Europe/Paris"),
}


@pytest.mark.parametrize("column", OTHER_TYPES)
def test_columns_of_other_types_are_refused_by_name(column, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    first = frames()
    second = first.assign(**{column: OTHER_TYPES[column](first[column])})
    first.to_parquet(tmp_path / "p0.parquet"), second.to_parquet(tmp_path / "p1.parquet")
    with pytest.raises(
        ValueError, match=rf"column '{column}' of .*p1.parquet is .*, but of .*p0.parquet"
    ):
        UniformCoreset(5).fit(tmp_path)
    others = [name for name in first if name != column]
    assert Blocks(tmp_path, columns=others).n == 2 * len(first)
    lazy = dd.from_map(lambda i: [first, second][i], [0, 1], meta=first[:0])
    with pytest.raises(
        ValueError, match=f"block 1 has column '{column}' of .*, but block 0 has it of"
    ):
        UniformCoreset(5).fit(lazy)
    with pytest.raises(ValueError, match=r"block 1 has (y of .*|\w+ in y), but block 0 has"):
        UniformCoreset(5).fit(lazy[others], lazy[column])


@pytest.mark.parametrize("form", ["parquet", "dask"])
def test_categories_of_other_levels_stay_categories_of_all_levels(form, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    parts = [pd.DataFrame({"c": pd.Categorical(list(words) * 20)}) for words in ("ab", "bc", "d")]
    for part in parts:
        part["y"] = part["c"]
    whole = np.concatenate([part["c"].astype(str) for part in parts])
    for i, part in enumerate(parts):
        part.to_parquet(tmp_path / f"{i}.parquet")
    lazy = dd.from_map(lambda i: parts[i], [0, 1, 2], meta=parts[0][:0])
    given = (lazy[["c"]], lazy["y"]) if form == "dask" else (tmp_path, "y")
    few = UniformCoreset(40, random_state=0).fit(*given)
    X_small, y_small, _ = few.take(*given)
    for column in (X_small["c"], y_small):
        assert isinstance(column.dtype, pd.CategoricalDtype)
        np.testing.assert_array_equal(column.astype(str), whole[few.indices_])
    ordered = [part.assign(c=part["c"].cat.as_ordered()) for part in parts]
    lazy = dd.from_map(lambda i: ordered[i], [0, 1, 2], meta=ordered[0][:0])
    with pytest.raises(
        ValueError, match="column 'c' of ordered categories b < c, but block 0 has it of ordered"
    ):
        UniformCoreset(5).fit(lazy[["c"]])


def test_integers_with_missing_values_are_what_pandas_makes_of_all_files(tmp_path):
    import pyarrow as pa

    parts = [
        {"n": [1, 2, 3], "b": [True, False, True]},
        {"n": [4, None, 6], "b": [None, True, False]},
    ]
    for i, part in enumerate(parts):
        pq.write_table(pa.table(part), tmp_path / f"{i}.parquet")
    whole = pd.read_parquet(tmp_path)
    for rows in ([0, 1], [1, 5, 4]):
        found = Blocks(tmp_path).take(rows).X.reset_index(drop=True)
        pd.testing.assert_frame_equal(found, whole.iloc[rows].reset_index(drop=True))


def test_partitions_without_rows_have_no_type(X):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abc")).assign(label=np.arange(60) % 2)
    empty = frame[:0].astype(object)
    lazy = dd.from_map(lambda i: [empty, frame, empty, frame][i], [0, 1, 2, 3], meta=frame[:0])
    few = KCenter(5, random_state=0).fit(lazy[list("abc")], lazy["label"])
    found, labels, _ = few.take(lazy[list("abc")], lazy["label"])
    assert {str(dtype) for dtype in found.dtypes} == {"float64"}
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(found, np.concatenate([X, X])[few.indices_])


def test_streams_of_files_refuse_other_types_by_name_too(X, tmp_path):
    save(tmp_path / "X0.npy", X), save(tmp_path / "X1.npy", X.round().astype(int))
    with pytest.raises(ValueError, match=r"X1.npy has rows of int64"):
        clone(MergeReduce(KCenter(), size=5)).fit(tmp_path)


def test_rows_of_dask_frames_go_by_their_places_as_in_memory(rng):
    dd = pytest.importorskip("dask.dataframe")
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    order = rng.permutation(200)
    y = (X["a"] > 0).astype(int).iloc[order]
    X = X.iloc[order].reset_index(drop=True)
    blocks = Blocks(dd.from_pandas(X, npartitions=2), dd.from_pandas(y, npartitions=2, sort=False))
    for rows in blocks:
        np.testing.assert_array_equal(rows.y, (rows.X["a"] > 0).astype(int))
    # cut at other places, of the same index
    y = y.reset_index(drop=True)
    blocks = Blocks(dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=2))
    assert sum(len(rows) for rows in blocks) == 200
    for rows in blocks:
        np.testing.assert_array_equal(rows.y, (rows.X["a"] > 0).astype(int))


@pytest.mark.parametrize("n", [90, 130])
@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("place", [1, 2])
def test_a_dask_series_of_another_length_is_refused(n, sort, place):
    dd = pytest.importorskip("dask.dataframe")
    X = dd.from_pandas(pd.DataFrame({"a": np.arange(100.0)}), npartitions=3)
    given = [X, None, None]
    given[place] = dd.from_pandas(pd.Series(np.ones(n)), npartitions=3, sort=sort)
    with pytest.raises(ValueError, match=("y", "sample_weight")[place - 1] + " must have"):
        list(Blocks(*given))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(columns=[]), "one column of X at least"),
        (dict(columns=["a", "a"]), "each column once, got a, a"),
        (dict(y="b", sample_weight="b"), "each column once, got b, b"),
        (dict(y="b", columns=["a", "b"]), "each column once, got a, b, b"),
    ],
)
def test_columns_of_a_file_that_are_named_twice_or_none_are_refused(options, message, tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "b": [0, 1]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=message):
        Blocks(tmp_path / "rows.parquet", **options)


@pytest.mark.parametrize("form", ["array", "frame", "npy", "dask array", "dask frame"])
def test_columns_of_what_is_no_parquet_file_are_refused_with_the_way_out(form, X, tmp_path):
    frame = pd.DataFrame(X, columns=list("abc"))
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    given, way_out = {
        "array": (X, r"X\[:, columns\]"),
        "frame": (frame, r"X\[columns\]"),
        "npy": (save(tmp_path / "X.npy", X), "an X of these columns"),
        "dask array": (da.from_array(X), r"X\[:, columns\]"),
        "dask frame": (dd.from_pandas(frame, npartitions=2), r"X\[columns\]"),
    }[form]
    with pytest.raises(ValueError, match=rf"columns=\['a'\]: .*{way_out}\.$"):
        Blocks(given, columns=["a"])


@pytest.mark.parametrize("form", ["parquet", "dask array", "bag"])
def test_rows_of_what_comes_in_pieces_of_its_own_are_refused(form, X, tmp_path):
    da = pytest.importorskip("dask.array")
    bag = pytest.importorskip("dask.bag")
    given = {
        "parquet": save(tmp_path / "X.parquet", X),
        "dask array": da.from_array(X),
        "bag": bag.from_sequence([X], npartitions=1),
    }[form]
    with pytest.raises(
        ValueError, match=r"rows must be None for .* got rows=7: .*their (row|part)"
    ):
        Blocks(given, rows=7)


def test_what_is_not_there_is_told_from_a_pattern_that_nothing_fits(tmp_path):
    with pytest.raises(ValueError, match=r"got 0 at '.*rows'; there is no such file"):
        UniformCoreset(5).fit(str(tmp_path / "rows"))
    with pytest.raises(ValueError, match=r"got 0 at '.*\.npy'\.$"):
        Blocks(str(tmp_path / "*.npy"))
    with pytest.raises(ValueError, match=r"got 0 at .*; names that begin"):
        Blocks(tmp_path)


def test_the_index_of_a_frame_in_a_table_of_arrow_is_no_feature(X):
    import pyarrow as pa

    frame = pd.DataFrame(X, columns=list("abc"))
    shuffled = frame.sample(frac=1, random_state=0)
    for table, name in (
        (pa.Table.from_pandas(shuffled), "__index_level_0__"),
        (pa.Table.from_pandas(frame.set_index("b")), "b"),
    ):
        for call in (KCenter(5).fit, UniformCoreset(5).fit, Blocks):
            with pytest.raises(ValueError, match=f"index .* column of this table, {name}, "):
                call(table)
        without = table.drop_columns([name])
        chosen = KCenter(5, random_state=0).fit(without)
        assert chosen.n_features_in_ == without.num_columns
        expected = KCenter(5, random_state=0).fit(table.to_pandas())
        np.testing.assert_array_equal(chosen.indices_, expected.indices_)
    assert KCenter(5).fit(pa.Table.from_pandas(frame)).n_features_in_ == 3


@pytest.mark.parametrize("statistics", [True, False])
def test_integers_with_gaps_are_floats_also_where_the_file_keeps_no_statistics(
    statistics, tmp_path
):
    import pyarrow as pa

    for name, last, kind in (("gaps", None, "f"), ("whole", 6, "i")):
        table = pa.table({"a": [1, 2, 3, 4, 5, last]})
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=3, write_statistics=statistics)
        assert [block.X["a"].dtype.kind for block in Blocks(path)] == [kind, kind]
