"""Files: the look-up order, the checks, and downloads in the published formats from a server on
127.0.0.1."""

import functools
import gzip
import io
import pickle
import socket
import sys
import threading
import zipfile
from dataclasses import replace
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from handful.data import files, load
from handful.data.files import BadFileError, MissingDataError
from handful.data.formats import read_npz
from handful.data.loaders import status
from handful.data.registry import ENTRIES, Entry
from published import as_cifar, as_csv, as_idx, as_libsvm, as_spoken_digits, as_tar, as_wave, as_zip
from pyarrow import parquet, table
from scipy.io import savemat
from scipy.sparse import csr_array

_rng = np.random.default_rng(0)
X8 = _rng.integers(0, 256, size=(20, 3072), dtype=np.uint8)
Y8 = _rng.integers(0, 10, size=20)
X4 = np.round(_rng.normal(size=(30, 4)), 3) + 0.0
# sparse formats leave zeros out
X4[::3, 1] = 0
Y4 = np.where(np.arange(30) % 3, 1, -1)
SOUND = {
    "1_theo_0": _rng.integers(-99, 99, 7),
    "0_theo_11": [5, 6],
    "0_theo_2": [1],
    "0_anna_3": [9],
}
WORDS = {
    "yes/b_nohash_0": [1, 2],
    "no/a_nohash_0": [3],
    "no/c_nohash_1": [4, 5, 6, 7, 8],
    "yes/a_nohash_0": [9],
}
LEAST = [-5, 0]
GREATEST = [20, 400]
WHOLE = np.column_stack(
    [_rng.integers(LEAST, GREATEST, size=(30, 2)), _rng.integers(2, size=(30, 2))]
)


def _speech():
    members = {f"./{name}.wav": as_wave(sound, 16000) for name, sound in WORDS.items()}
    members |= {"./_background_noise_/hum.wav": as_wave(range(9), 16000), "./LICENSE": b"CC BY"}
    lists = {
        "./validation_list.txt": b"no/a_nohash_0.wav\n",
        "./testing_list.txt": b"yes/a_nohash_0.wav\n",
    }
    return as_tar(members | lists)


def _matlab(tmp):
    savemat(tmp / "m.mat", {"X": csr_array(X4), "y": Y4[:, None].astype(float)})
    return (tmp / "m.mat").read_bytes()


def _parquet():
    columns = {"ID": np.arange(len(Y4))} | dict(zip("abcd", X4.T)) | {"Y": Y4}
    file = io.BytesIO()
    parquet.write_table(table(columns), file, compression="brotli")
    return file.getvalue()


# format -> registry's facts, the originals, the arrays that they give
FORMATS = {
    "libsvm": (
        dict(features=4),
        {"tiny": as_libsvm(X4[:20], Y4[:20]), "tiny.t": as_libsvm(X4[20:], Y4[20:])},
        {"X_train": X4[:20], "y_train": Y4[:20], "X_test": X4[20:], "y_test": Y4[20:]},
    ),
    "idx": (
        dict(features=6, dtype="uint8"),
        {
            "train-images.gz": as_idx(X8[:15, :6].reshape(15, 2, 3)),
            "train-labels.gz": as_idx(Y8[:15]),
            "t10k-images.gz": as_idx(X8[15:, :6].reshape(5, 2, 3)),
            "t10k-labels.gz": as_idx(Y8[15:]),
        },
        {"X_train": X8[:15, :6], "y_train": Y8[:15], "X_test": X8[15:, :6], "y_test": Y8[15:]},
    ),
    "table": (
        dict(features=4, options=dict(delimiter=",", skip_rows=1, drop=[0], label=-1)),
        {"tiny.csv.gz": gzip.compress(as_csv(X4, Y4, header="ID,a,b,c,d,Y", ids=True))},
        {"X": X4, "y": Y4},
    ),
    "table, no label": (dict(features=4), {"tiny.txt": as_csv(X4, delimiter="  ")}, {"X": X4}),
    "table in a zip": (
        dict(features=4, options=dict(delimiter=",", label=-1, member="t.csv")),
        {"tiny.zip": as_zip({"readme.txt": b"not this", "t.csv": as_csv(X4, Y4)})},
        {"X": X4, "y": Y4},
    ),
    "table, scaled": (
        dict(
            features=4,
            dtype="int16",
            options=dict(delimiter=",", label=-1, least=LEAST, greatest=GREATEST),
        ),
        {
            "tiny.csv": as_csv(
                np.round((WHOLE - [*LEAST, 0, 0]) / ([*np.subtract(GREATEST, LEAST), 1, 1]), 6),
                np.abs(Y4),
            )
        },
        {"X": WHOLE.astype(np.int16), "y": np.abs(Y4)},
    ),
    "parquet in a zip": (
        dict(features=4, options=dict(member="t.parquet", drop=["ID"], label="Y")),
        {"tiny.whl": as_zip({"readme.txt": b"not this", "t.parquet": _parquet()})},
        {"X": X4, "y": Y4},
    ),
    "matlab": (dict(features=4), {"tiny.mat": _matlab}, {"X": X4, "y": (Y4 > 0).astype(int)}),
    "cifar-binary": (
        dict(features=3072, dtype="uint8"),
        {"tiny.tar.gz": as_cifar(X8[:15], Y8[:15], X8[15:], Y8[15:])},
        {"X_train": X8[:15], "y_train": Y8[:15], "X_test": X8[15:], "y_test": Y8[15:]},
    ),
    "spoken-digits": (
        dict(features=4, dtype="int16"),
        {"tiny.zip": as_spoken_digits(SOUND)},
        {
            "X": np.array(
                [[9, 0, 0, 0], [1, 0, 0, 0], [5, 6, 0, 0], SOUND["1_theo_0"][:4]], np.int16
            ),
            "y": np.array([0, 0, 0, 1]),
            "speaker": np.array(["anna", "theo", "theo", "theo"]),
            "index": np.array([3, 2, 11, 0]),
            "n_samples": np.array([1, 1, 2, 7]),
        },
    ),
    "speech-commands": (
        dict(features=4, dtype="int16"),
        {"tiny.tar.gz": _speech()},
        {
            "X_train": np.array([[3, 0, 0, 0], [4, 5, 6, 7], [1, 2, 0, 0]], np.int16),
            "y_train": np.array([0, 0, 1]),
            "X_test": np.array([[9, 0, 0, 0]], np.int16),
            "y_test": np.array([1]),
            "validation": np.array([1, 0, 0]),
        },
    ),
    "speech-commands, noise": (
        dict(features=4, dtype="int16", options=dict(noise=True)),
        {"tiny.tar.gz": _speech()},
        {"X": np.arange(8, dtype=np.int16).reshape(2, 4), "source": np.array([0, 0])},
    ),
}


READERS = {
    case: f"handful_papers.readers:read_{name}"
    for case, name in (
        ("table, scaled", "scaled_table"),
        ("parquet in a zip", "parquet"),
        ("matlab", "matlab"),
        ("spoken-digits", "spoken_digits"),
        ("speech-commands", "speech_commands"),
        ("speech-commands, noise", "speech_commands"),
    )
}


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder and keeps a list of requests; below /cut/ it promises the whole file and
    sends half."""

    def do_GET(self):
        self.requests.append(self.path)
        if not self.path.startswith("/cut/"):
            return super().do_GET()
        with open(f"{self.directory}/{self.path.removeprefix('/cut/')}", "rb") as file:
            content = file.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """(folder, address, requests so far) of a server."""
    folder = tmp_path / "server"
    requests = []
    folder.mkdir()
    handler = functools.partial(
        type("Kept", (Handler,), {"requests": requests}), directory=str(folder)
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}", requests
        running.shutdown()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder, and no HANDFUL_DATA."""
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(files, "data_folder", lambda: tmp_path / "home")
    monkeypatch.delenv("HANDFUL_DATA", raising=False)
    return tmp_path / "home"


@pytest.fixture
def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def register(monkeypatch, tmp_path):
    """Puts a tiny data set into the registry and its originals into a folder; gives name -> bytes
    of these."""

    def make(case, address, folder=None, *, checksums=False, **changes):
        about, originals, arrays = FORMATS[case]
        about = {"dtype": "float64", **about}
        options = about.pop("options", {})
        names = list(arrays)
        originals = {
            n: content(tmp_path) if callable(content) else content
            for n, content in originals.items()
        }
        each = len(names) // len(originals)
        raw = [
            dict(
                url=f"{address}/{n}",
                filename=n,
                format=READERS.get(case, case.split(",")[0].split(" ")[0]),
                options=options,
            )
            | dict(arrays=names[i * each : (i + 1) * each])
            | (dict(sha256=sha256(content).hexdigest()) if checksums else {})
            for i, (n, content) in enumerate(originals.items())
        ]
        rows = len(arrays.get("X", arrays.get("X_train")))
        facts = dict(rows=rows, test_rows=len(arrays.get("X_test", ())), raw=raw)
        content = (
            {}
            if checksums
            else {name: files.content_sha256(values) for name, values in arrays.items()}
        )
        text = dict(
            name="tiny", kind="file", title="a tiny set", url="https://example.org", licence="none"
        )
        monkeypatch.setitem(
            ENTRIES, "tiny", Entry(**text | facts | about | dict(content=content) | changes)
        )
        for n, content in originals.items() if folder is not None else ():
            (folder / n).write_bytes(content)
        return originals

    return make


def same(data, arrays):
    found = {"X": data.X, "y": data.y, "X_test": data.X_test, "y_test": data.y_test} | data.extra
    for name, values in arrays.items():
        np.testing.assert_array_equal(found[name.removesuffix("_train")], values)
    assert data.y is None or data.y.dtype == np.int64


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("case", FORMATS)
def test_a_published_file_is_read_as_it_was_written_and_downloaded_once(
    case, checksums, server, home, register
):
    folder, address, requests = server
    originals = register(case, address, folder, checksums=checksums)
    assert status()["where"]["tiny"] == "to be downloaded"
    first = load("tiny")
    again = load("tiny")
    same(first, FORMATS[case][2])
    assert len(requests) == len(originals) == len(list(home.iterdir()))
    assert first.sha256 == again.sha256
    assert status()["where"]["tiny"] == "data folder"


def test_originals_of_one_array_are_its_parts_in_their_order(home, register):
    register("libsvm", "https://example.org", home)
    about = ENTRIES["tiny"]
    parts = tuple(raw | dict(arrays=["X", "y"]) for raw in about.raw)
    ENTRIES["tiny"] = replace(about, rows=30, test_rows=0, raw=parts, content={})
    same(load("tiny"), {"X": X4, "y": Y4})


@pytest.mark.parametrize("change", [dict(rows=29), dict(features=5)])
def test_another_number_of_rows_or_features_is_refused_without_a_checksum(change, home, register):
    register("table in a zip", "https://example.org", home, **change)
    ENTRIES["tiny"] = replace(ENTRIES["tiny"], content={})
    with pytest.raises(BadFileError, match=r"tiny\.zip hold 30 rows of 4 features, and 'tiny' has"):
        load("tiny")


@pytest.mark.parametrize("case", FORMATS)
def test_a_truncated_download_is_refused_by_name_and_not_kept(case, server, home, register):
    folder, address, _ = server
    name, content = next(iter(register(case, address, folder).items()))
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(
        BadFileError,
        match=rf"{name} is not what the registry says of 'tiny' \(downloaded and not kept",
    ):
        load("tiny")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize(
    "order", [np.arange(30), np.arange(30)[::-1]], ids=["a value", "the order of rows"]
)
def test_other_content_than_the_registry_knows_is_refused(order, checksums, server, home, register):
    folder, address, _ = server
    register("table, no label", address, folder, checksums=checksums)
    X = X4[order]
    X[3, 2] += 1e-3 * (order[0] == 0)
    (folder / "tiny.txt").write_bytes(as_csv(X, delimiter="  "))
    with pytest.raises(BadFileError, match="SHA-256"):
        load("tiny")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("address", ["closed port", "gone", "broken off"])
def test_what_cannot_be_downloaded_is_an_error_that_says_how_to_get_it(
    address, server, home, register, closed_port
):
    folder, served, _ = server
    register(
        "libsvm",
        {"closed port": closed_port, "gone": f"{served}/gone", "broken off": f"{served}/cut"}[
            address
        ],
        folder,
    )
    with pytest.raises(
        MissingDataError,
        match=rf"could not be downloaded .*: put tiny and tiny.t into {home} or into",
    ):
        load("tiny")
    assert list(home.iterdir()) == []


def test_a_file_put_there_by_hand_is_read_and_a_bad_one_is_named_and_left_alone(
    home, register, closed_port
):
    register("libsvm", closed_port, home)
    same(load("tiny"), FORMATS["libsvm"][2])
    (home / "tiny.t").write_bytes(b"+1 1:nonsense\n")
    with pytest.raises(
        BadFileError, match=rf"{home / 'tiny.t'} is not what .*left as it is: remove it"
    ):
        load("tiny")
    assert (home / "tiny.t").read_bytes() == b"+1 1:nonsense\n"


def test_without_the_reproduction_its_readers_are_missed_before_anything_is_downloaded(
    server, home, register, monkeypatch
):
    folder, address, requests = server
    register("matlab", address, folder)
    monkeypatch.setitem(sys.modules, "handful_papers.readers", None)
    with pytest.raises(
        ImportError, match=r"read_matlab reads these files, which is part of the project's checkout"
    ):
        load("tiny")
    assert not requests


def ready_made(folder, **arrays):
    """Writes tiny.npz into a folder, and gives its checksum."""
    np.savez(folder / "tiny.npz", **arrays)
    return sha256((folder / "tiny.npz").read_bytes()).hexdigest()


def test_a_ready_made_file_is_found_in_the_data_folder_then_in_handful_data(
    home, register, tmp_path, monkeypatch
):
    checksum = ready_made(tmp_path, X=X4.astype(np.float32), y=Y4.astype(np.int8))
    register("table", "http://127.0.0.1:9", sha256=checksum, raw=(), content={})
    with pytest.raises(MissingDataError, match=r"only its ready-made file .* put tiny.npz into"):
        load("tiny")
    assert status()["where"]["tiny"] == "not here: ready-made file only"
    monkeypatch.setenv("HANDFUL_DATA", str(tmp_path))
    assert status()["where"]["tiny"] == "HANDFUL_DATA"
    data = load("tiny")
    assert (data.sha256, data.X.dtype, data.y.dtype) == (checksum, np.float64, np.int64)
    # is looked at first
    (home / "tiny.npz").write_bytes(b"another file")
    with pytest.raises(
        BadFileError,
        match=rf"{home / 'tiny.npz'} is not what .*its SHA-256 is .*, expected {checksum}",
    ):
        load("tiny")
    assert (home / "tiny.npz").read_bytes() == b"another file"
    monkeypatch.setenv("HANDFUL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(
        MissingDataError, match=r"HANDFUL_DATA is .*nowhere.*, which is not a folder"
    ):
        load("tiny")


class Evil:
    """Raises when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize("form", ["object array", "bare pickle"])
def test_nothing_is_unpickled_even_with_the_right_checksum(form, home, register):
    if form == "object array":
        checksum = ready_made(home, X=np.array([Evil()], dtype=object))
    else:
        (home / "tiny.npz").write_bytes(pickle.dumps(Evil()))
        checksum = sha256((home / "tiny.npz").read_bytes()).hexdigest()
    register("table", "http://127.0.0.1:9", sha256=checksum)
    with pytest.raises(BadFileError, match="allow_pickle"):
        load("tiny")


def test_nothing_of_an_archive_lands_on_disk(server, home, register, tmp_path):
    folder, address, _ = server
    register("table in a zip", address, folder)
    with zipfile.ZipFile(folder / "tiny.zip", "a") as archive:
        archive.writestr("../evil", b"evil")
    before = set(tmp_path.rglob("*"))
    same(load("tiny"), FORMATS["table in a zip"][2])
    assert set(tmp_path.rglob("*")) - before == {home / "tiny.zip"}


def test_the_coded_images_come_back_as_they_were(home, register):
    planes = X8.reshape(20, 3, 32, 32).transpose(1, 0, 2, 3).copy()
    planes[[0, 2]] -= planes[1]
    # differences along rows and columns, modulo 256
    for axis in (2, 3):
        planes = np.diff(planes, axis=axis, prepend=np.uint8(0))
    checksum = ready_made(
        home, D_train=planes[:, :15], y_train=Y8[:15], D_test=planes[:, 15:], y_test=Y8[15:]
    )
    register("cifar-binary", "http://127.0.0.1:9", sha256=checksum)
    same(load("tiny"), FORMATS["cifar-binary"][2])


def test_features_of_two_decimals_come_back_from_their_hundredths(tmp_path):
    X = np.round(X4, 2)
    np.savez(tmp_path / "tiny.npz", hundredths=np.rint(100 * X).astype(np.int32), y=Y4)
    arrays = read_npz(tmp_path / "tiny.npz", None)
    assert sorted(arrays) == ["X", "y"]
    np.testing.assert_array_equal(arrays["X"], X)
