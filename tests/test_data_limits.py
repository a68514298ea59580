"""Hostile and damaged files: whatever a file holds, its reader gives arrays or one sentence, within bounded memory."""

import bz2
import gzip
import io
import math
import re
import tarfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from handful.data.bounded import read_npz, tar_members
from handful.data.formats import FORMATS, READ_ERRORS
from handful.data.registry import ENTRIES, Entry
from published import as_cifar, as_csv, as_idx, as_libsvm, as_spoken_digits, as_tar, as_wave, as_zip

_rng = np.random.default_rng(0)
X4, Y4 = np.round(_rng.normal(size=(30, 4)), 3), np.where(np.arange(30) % 3, 1, -1)
X8, Y8 = _rng.integers(0, 256, size=(6, 3072), dtype=np.uint8), np.arange(6)
TENFOLD = 10_000_000  # bytes that pack to a thousandth, ten times what the entries below allow


def entry(**facts):
    """An entry of 30 x 4 numbers with labels -1 and +1 that allows a million bytes."""
    return Entry("tiny", "file", "", "", "", **dict(rows=30, features=4, classes=(-1, 1), max_bytes=10**6) | facts)


SPEECH = {"yes/a_nohash_0.wav": as_wave([1, 2], 16000), "testing_list.txt": b"", "validation_list.txt": b""}
SOUND = as_spoken_digits({"0_theo_0": [1, 2], "1_theo_1": [3]})
# format: a good file, its entry, the reader's options
GOOD = {
    "libsvm": (as_libsvm(X4, Y4), entry(), {}),
    "idx": (as_idx(X8), entry(), {}),
    "table": (as_csv(X4, Y4), entry(), dict(delimiter=",", label=-1)),
    "cifar-binary": (as_cifar(X8[:5], Y8[:5], X8[5:], Y8[5:]), entry(features=3072, test_rows=1), {}),
    "spoken-digits": (SOUND, entry(), {}),
    "speech-commands": (as_tar(SPEECH), entry(), {}),
}


def read(tmp_path, format_, content, about=None, **options):
    path = tmp_path / "file"
    path.write_bytes(content)
    _, usual, fixed = GOOD[format_]
    return FORMATS[format_](path, usual if about is None else about, **fixed | options)


def sparse_tar(name, size):
    """A tar of one member of GNU's old sparse kind: `size` bytes of nothing, none of which the archive holds."""
    info = tarfile.TarInfo(name)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = b"%011o\0" % size  # the real size, as the header of that kind has it
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


# --- files that unpack to a thousand times their size

_ZEROS = bytes(TENFOLD)
BOMBS = {
    "libsvm in gzip": ("libsvm", gzip.compress(b"1 1:1\n" * (TENFOLD // 6)), "more than the 1,000,000 bytes"),
    "libsvm, one line, in bzip2": ("libsvm", bz2.compress(_ZEROS), "more than the 1,000,000 bytes"),
    "table in gzip": ("table", gzip.compress(b"1,1,1,1,1\n" * (TENFOLD // 10)), "more than the 1,000,000 bytes"),
    "idx behind a header of 2**32": (
        "idx",
        gzip.compress(b"\0\0\x08\x02" + b"\xff" * 8 + _ZEROS),
        r"promises shape \(4294967295, 4294967295\)",
    ),
    "cifar in one long batch": (
        "cifar-binary",
        as_tar({"data_batch_1.bin": _ZEROS}),
        "more than the 1,000,000 bytes",
    ),
    "cifar behind what nobody asked for": ("cifar-binary", as_tar({"readme": _ZEROS}), "more than the 1,000,000 bytes"),
    "cifar, sparse": ("cifar-binary", sparse_tar("test_batch.bin", 10**9), "unpacks to more than the 1,000,000 bytes"),
    "speech, sparse": ("speech-commands", sparse_tar("yes/a.wav", 10**9), "unpacks to more than the 1,000,000 bytes"),
    "digits": ("spoken-digits", None, "unpacks to more than the 1,000,000 bytes"),
    "table in a zip": ("table", None, "unpacks to more than the 1,000,000 bytes"),
}


def packed_zip(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_unpacks_to_a_thousand_times_its_size_is_refused_before_it_fills_the_memory(bomb, tmp_path):
    format_, content, complaint = BOMBS[bomb]
    options = dict(member="t.csv") if bomb == "table in a zip" else {}
    content = packed_zip({"recordings/0_a_0.wav": _ZEROS, "t.csv": _ZEROS}) if content is None else content
    about = entry(features=3072) if format_ == "cifar-binary" else None
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=complaint):
            read(tmp_path, format_, content, about, **options)
        assert tracemalloc.get_traced_memory()[1] < 9_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("format_", GOOD)
def test_a_file_that_is_itself_too_large_is_refused_unread(format_, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(GOOD[format_][0])
    with open(path, "ab") as file:
        file.truncate(10**9)
    with pytest.raises(ValueError, match="has 1,000,000,000 bytes, the registry allows 1,000,000"):
        FORMATS[format_](path, GOOD[format_][1], **GOOD[format_][2])


# --- values and labels in text


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (b"nan 1:1", "has the label nan; the labels are -1, 1"),
        (b"1.7 1:1", r"has the label 1\.7; the labels are -1, 1"),
        (b"300 1:1", "has the label 300; the labels are -1, 1"),
        (b"1 2:nan", "has the value nan, which float64 cannot hold"),
        (b"1 2:1e400", "has the value inf, which float64 cannot hold"),
    ],
)
def test_a_bad_label_or_value_of_libsvm_is_refused_with_its_line(row, complaint, tmp_path):
    lines = [b"# a comment", b"1 1:0.5 3:1", b"", b"-1 4:2 # another", row, b"1 1:1"]
    with pytest.raises(ValueError, match=f"^line 5 {complaint}"):
        read(tmp_path, "libsvm", b"\n".join(lines) + b"\n")


@pytest.mark.parametrize(("row", "complaint"), [(b"1 1:0.5", r"value 0\.5, which uint8"), (b"1 1:256", "value 256.0")])
def test_a_value_that_the_dtype_cannot_hold_is_refused_with_its_line(row, complaint, tmp_path):
    with pytest.raises(ValueError, match=f"^line 2 has the {complaint}"):
        read(tmp_path, "libsvm", b"1 1:1\n" + row, entry(dtype="uint8"))


def test_labels_are_whole_numbers_where_the_registry_lists_none(tmp_path):
    _, y = read(tmp_path, "libsvm", b"300 1:1\n-7 2:1\n", entry(classes=()))
    assert y.tolist() == [300, -7]
    with pytest.raises(ValueError, match=r"^line 1 has the label 1\.7; labels are whole numbers"):
        read(tmp_path, "libsvm", b"1.7 1:1\n", entry(classes=()))


@pytest.mark.parametrize("packed", [False, True])
def test_a_bad_label_or_value_of_a_table_is_refused_with_its_line(packed, tmp_path):
    for row, complaint in {
        b"1,nan,1,1,1": "value nan",
        b"1,1,1,1,7": "label 7",
        b"1,1,1,1,nan": "label nan",
    }.items():
        text = b"a,b,c,d,y\n\n1,1,1,1,-1\n# a comment\n" + row + b"\n1,1,1,1,1\n"
        options = dict(skip_rows=1) | (dict(member="t.csv") if packed else {})
        with pytest.raises(ValueError, match=f"^line 5 has the {complaint}"):
            read(tmp_path, "table", as_zip({"t.csv": text}) if packed else text, **options)


@pytest.mark.parametrize("text", [b"", b"\n\n", b"1,2\n", b"1,2,3,4,5,1\n"])
def test_a_table_of_another_width_is_refused(text, tmp_path):
    with pytest.raises(ValueError, match="must have 5 columns, got"):
        read(tmp_path, "table", text)


def test_a_recording_of_a_number_that_no_integer_holds_is_none(tmp_path):
    with pytest.raises(ValueError, match=r"holds no recordings"):
        read(tmp_path, "spoken-digits", as_zip({f"recordings/0_a_{10**30}.wav": as_wave([1])}))


# --- archives


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_devices_and_folders_of_an_archive_are_passed_over(kind, tmp_path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("data_batch_1.bin")
        info.type, info.linkname = kind, "/etc/hostname"
        archive.addfile(info)
    path = tmp_path / "a.tar"
    path.write_bytes(file.getvalue())
    assert list(tar_members(path, 10**6)) == []


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:\\evil", "C:evil"])
def test_members_outside_the_archives_folder_are_refused(name, tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(as_tar({name: b"evil"}))
    with pytest.raises(ValueError, match="outside the archive's folder: refused"):
        list(tar_members(path, 10**6))
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar"]


# --- ready-made files


def npz(**members):
    """A packed npz of name -> bytes of a npy file."""
    return io.BytesIO(packed_zip({f"{name}.npy": content for name, content in members.items()}))


def npy(header, content=b"", version=(1, 0)):
    """A npy file whose header says what it is told to say."""
    text = repr(header).encode() if isinstance(header, dict) else header
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text + content


def described(shape, descr="<f8"):
    return {"descr": descr, "fortran_order": False, "shape": shape}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (npy(described((10**9, 10**6))), r"promises 8,000,000,000,000,000 bytes \(shape \(1000000000, 1000000\)\)"),
        (npy(described((2,)), bytes(8)), "promises 16 bytes .* holds 8"),
        (npy(described((1,)), bytes(800)), "promises 8 bytes .* holds 800"),
        (npy(described((-1, -1)), bytes(8)), "shape"),
        (npy(described((1,), "|O"), bytes(8)), "must hold numbers or text, got dtype object"),
        (npy(described((1,), [("a", "<f8")]), bytes(8)), "must hold numbers or text"),
        (npy(described((1,), "<M8[s]"), bytes(8)), "must hold numbers or text"),
        (npy(described((1,), "<f8"), bytes(8), version=(9, 0)), "version"),
        (npy(b"__import__('os').system('echo')"), "malformed"),
        (npy(b"(" * 5000), "header"),
        (b"not numpy at all", "magic"),
        (b"", "magic"),
        (bytes(2 * TENFOLD // 10), "unpacks to more than the 1,000,000 bytes"),
    ],
)
def test_a_header_that_does_not_fit_its_file_is_refused_before_an_array_is_made(content, complaint):
    tracemalloc.start()
    try:
        with pytest.raises(READ_ERRORS, match=complaint):
            read_npz(npz(X=content), 10**6)
        assert tracemalloc.get_traced_memory()[1] < 9_000_000
    finally:
        tracemalloc.stop()


def test_a_name_that_occurs_twice_is_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("X.npy", npy(described((1,)), bytes(8)))
    with pytest.raises(ValueError, match=r"holds 'X\.npy' twice"):
        read_npz(file, 10**6)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read_as_it_was(save):
    arrays = dict(a=X4, b=np.asfortranarray(X8), c=np.array(["x", "yy"]), d=np.zeros((0, 3)), e=np.float32(2), f=Y4 > 0)
    file = io.BytesIO()
    save(file, **arrays)
    got = read_npz(file, 10**6)
    assert got.keys() == arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(got[name], values, strict=True)
        assert got[name].flags.writeable


# --- damage


def damaged(content, rng):
    """The bytes with a few of them changed, cut out, repeated or put in."""
    content = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, length = (int(rng.integers(len(content) + 1)) for _ in range(2))
        kind, length = rng.integers(4), min(length, int(rng.integers(1, 64)))
        piece = rng.integers(256, size=length, dtype=np.uint8).tobytes()
        if kind == 0:
            content[at : at + length] = piece
        elif kind == 1:
            del content[at : at + length]
        elif kind == 2:
            content[at:at] = content[max(0, at - length) : at]
        else:
            content[at:at] = piece
    return bytes(content)


@pytest.mark.parametrize("packed", ["as published", "gzip", "bzip2"])
@pytest.mark.parametrize("format_", GOOD)
def test_a_damaged_file_gives_arrays_or_one_of_the_errors_that_readers_may_raise(format_, packed, tmp_path):
    content = GOOD[format_][0]
    n_errors = n_read = 0
    for seed in range(60):
        worse = damaged(content, np.random.default_rng(seed))
        worse = {"gzip": gzip.compress, "bzip2": bz2.compress}.get(packed, bytes)(worse)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                arrays = read(tmp_path, format_, worse)
        except READ_ERRORS as error:
            n_errors += bool(str(error))
        except Exception as error:
            pytest.fail(f"seed {seed}: {error!r}")
        else:
            n_read += all(isinstance(a, np.ndarray) and a.dtype.kind in "biufU" for a in arrays)
    assert n_errors + n_read == 60
    assert n_errors > 10


def test_a_damaged_ready_made_file_gives_arrays_or_one_of_the_errors_that_readers_may_raise():
    n_errors = n_read = 0
    for seed in range(400):
        file = io.BytesIO()
        (np.savez_compressed if seed % 2 else np.savez)(file, X=X4, y=Y4)
        try:
            arrays = read_npz(io.BytesIO(damaged(file.getvalue(), np.random.default_rng(seed))), 10**6)
        except READ_ERRORS as error:
            n_errors += bool(str(error))
        except Exception as error:
            pytest.fail(f"seed {seed}: {error!r}")
        else:
            n_read += all(math.prod(a.shape) < 10**6 for a in arrays.values())
    assert n_errors + n_read == 400
    assert n_errors > 100


# --- docs/security.md


def test_the_sets_that_rest_on_a_stamp_are_these():
    files = {name: about for name, about in ENTRIES.items() if about.kind == "file" and about.sha256 is None}
    unknown = {
        name: {key for raw in about.raw for key in raw.arrays} - set(about.content) for name, about in files.items()
    }
    assert {name for name, arrays in unknown.items() if arrays} == {
        "covtype",
        "speech_commands",
        "speech_commands_noise",
        "cifar10_full",
    }
    assert unknown["cifar10_full"] == {"X_test", "y_test"}
    assert {"X_test[:1000]", "y_test[:1000]"} < set(ENTRIES["cifar10_full"].content)


def test_every_line_of_the_security_page_names_a_test_that_exists():
    here = Path(__file__).parent
    text = (here.parent / "docs" / "security.md").read_text(encoding="utf-8")
    defined = {name for path in here.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    named = re.findall(r"`(test_\w+)`", text)
    assert set(named) <= defined
    points = re.split(r"\n- ", text)[1:]
    assert len(points) >= 10
    assert all("`test_" in point for point in points)
