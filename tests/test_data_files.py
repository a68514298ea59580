"""Files: the look-up order, the checks, and downloads in the published formats from a server on 127.0.0.1."""

import bz2
import functools
import gzip
import hashlib
import os
import pickle
import socket
import threading
import time
import types
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from handful.data import BadFileError, MissingDataError, download, fetch, fingerprint, load, status, store, verify
from handful.data.formats import decode
from handful.data.registry import ENTRIES, Entry, Raw
from published import as_cifar, as_csv, as_idx, as_libsvm, as_spoken_digits, as_tar, as_wave, as_zip

# --- tiny data sets in each format

_rng = np.random.default_rng(0)
X8 = _rng.integers(0, 256, size=(20, 3072), dtype=np.uint8)
Y8 = _rng.integers(0, 10, size=20)
X4 = np.round(_rng.normal(size=(30, 4)), 3) + 0.0
X4[::3, 1] = 0  # sparse formats leave zeros out
Y4 = np.where(np.arange(30) % 3, 1, -1)
SOUND = {"1_theo_0": _rng.integers(-99, 99, 7), "0_theo_11": [5, 6], "0_theo_2": [1], "0_anna_3": [9]}

FORMATS = {
    "libsvm": (dict(features=4), {"tiny": as_libsvm(X4, Y4)}, {"X": X4, "y": Y4}),
    "libsvm.bz2": (dict(features=4), {"tiny.bz2": bz2.compress(as_libsvm(X4, Y4))}, {"X": X4, "y": Y4}),
    "libsvm, two files": (
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
        {"tiny.csv": as_csv(X4, Y4, header="ID,a,b,c,d,Y", ids=True)},
        {"X": X4, "y": Y4},
    ),
    "table, no label": (dict(features=4), {"tiny.txt": as_csv(X4, delimiter="  ")}, {"X": X4}),
    "table in a zip": (
        dict(features=4, options=dict(delimiter=",", label=-1, member="t.csv")),
        {"tiny.zip": as_zip({"readme.txt": b"not this", "t.csv": as_csv(X4, Y4)})},
        {"X": X4, "y": Y4},
    ),
    "cifar-binary": (
        dict(features=3072, dtype="uint8"),
        {"tiny.tar.gz": as_cifar(X8[:15], Y8[:15], X8[15:], Y8[15:])},
        {"X_train": X8[:15], "y_train": Y8[:15], "X_test": X8[15:], "y_test": Y8[15:]},
    ),
    "spoken-digits": (
        dict(features=4, dtype="int16"),
        {"tiny.zip": as_spoken_digits(SOUND)},
        {
            "X": np.array([[9, 0, 0, 0], [1, 0, 0, 0], [5, 6, 0, 0], SOUND["1_theo_0"][:4]], np.int16),
            "y": np.array([0, 0, 0, 1]),
            "speaker": np.array(["anna", "theo", "theo", "theo"]),
            "index": np.array([3, 2, 11, 0]),
            "n_samples": np.array([1, 1, 2, 7]),
        },
    ),
}


def make_entry(case, base_url, **changes):
    """The registry's entry for one of FORMATS, published at `base_url`."""
    about, files, arrays = FORMATS[case]
    about = {"dtype": "float64", **about}
    options = about.pop("options", {})
    names = list(arrays)
    per_file = len(names) // len(files)
    format_ = case.split(",")[0].split(".")[0].split(" ")[0]
    raw = [
        Raw(f"{base_url}/{f}", format_, tuple(names[i * per_file : (i + 1) * per_file]), f, options=options)
        for i, f in enumerate(files)
    ]
    facts = dict(
        name="tiny",
        kind="file",
        title="a tiny set",
        url="https://example.org",
        licence="none",
        rows=len(arrays["X"] if "X" in arrays else arrays["X_train"]),
        test_rows=len(arrays.get("X_test", ())),
        max_bytes=10**6,
        raw=tuple(raw),
        content={name: store.content_sha256(values) for name, values in arrays.items()},
    )
    return Entry(**facts | about | changes)


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder and keeps a list of requests.

    Below /cut/ it promises the whole file and sends half, /huge/ announces a terabyte, /endless/ and /drip/ announce
    nothing and send until the client hangs up: as fast as they can, or one byte at a time.
    """

    requests = None

    def do_GET(self):
        self.requests.append(self.path)
        kind = self.path.split("/")[1]
        if kind in ("huge", "endless", "drip"):
            return self._never_end(kind)
        if kind != "cut":
            return super().do_GET()
        with open(f"{self.directory}/{self.path.removeprefix('/cut/')}", "rb") as file:
            content = file.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def _never_end(self, kind):
        self.send_response(200)
        if kind == "huge":
            self.send_header("Content-Length", str(10**12))
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                self.wfile.write(b"1" if kind == "drip" else bytes(1 << 16))
                time.sleep(0.01 if kind == "drip" else 0)
        except OSError:  # the client has hung up
            self.requests.append("hung up")

    def log_message(self, *args):
        """Silence."""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder served on 127.0.0.1, with `.publish(files)`, `.url` and `.requests`."""
    folder = tmp_path / "published"
    folder.mkdir()
    handler = type("CountingHandler", (Handler,), {"requests": []})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    httpd.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.requests = handler.requests
    httpd.publish = lambda files: [(folder / name).write_bytes(content) for name, content in files.items()]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield httpd
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder, and no HANDFUL_DATA."""
    folder = tmp_path / "data"
    monkeypatch.setattr(store, "data_folder", lambda: folder)
    monkeypatch.delenv("HANDFUL_DATA", raising=False)
    return folder


@pytest.fixture
def register(monkeypatch):
    """Put an entry into the registry for the length of a test."""
    return lambda entry: monkeypatch.setitem(ENTRIES, entry.name, entry)


@pytest.fixture
def closed_port():
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


def ready_made(folder, name="tiny", **arrays):
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", **(arrays or {"X": X4, "y": Y4}))
    return folder / f"{name}.npz"


# --- downloads


@pytest.mark.parametrize("case", FORMATS)
def test_a_published_file_is_read_as_it_was_written(case, server, home, register):
    server.publish(FORMATS[case][1])
    register(make_entry(case, server.url))
    data = load("tiny")
    expected = dict(FORMATS[case][2])
    got = {"X": data.X, "y": data.y, "X_test": data.X_test, "y_test": data.y_test} | data.extra
    for name, values in got.items():
        wanted = expected.pop(name, expected.pop(f"{name}_train", None))
        assert (values is None) == (wanted is None), name
        if wanted is not None:
            np.testing.assert_array_equal(values, wanted, err_msg=name, strict=True)
    assert not expected


@pytest.mark.parametrize("case", FORMATS)
def test_a_second_load_touches_no_network(case, server, home, register, capfd):
    server.publish(FORMATS[case][1])
    register(make_entry(case, server.url))
    first = load("tiny")
    assert len(server.requests) == len(FORMATS[case][1])
    again = load("tiny")
    assert len(server.requests) == len(FORMATS[case][1])
    np.testing.assert_array_equal(first.X, again.X, strict=True)
    assert first.sha256 == again.sha256 == store.file_sha256(home / "tiny.npz")
    assert left_in(home) == ["tiny.npz"]
    assert capfd.readouterr() == ("", "")


def test_a_server_that_undoes_the_compression_on_the_way_does_no_harm(server, home, register):
    server.publish({name: gzip.decompress(content) for name, content in FORMATS["idx"][1].items()})
    register(make_entry("idx", server.url))
    np.testing.assert_array_equal(load("tiny").X, X8[:15, :6])


@pytest.mark.parametrize("share", [0.5, 0.98])
@pytest.mark.parametrize("case", FORMATS)
def test_a_truncated_file_is_refused_by_name_and_not_kept(case, share, server, home, register):
    files = FORMATS[case][1]
    last = list(files)[-1]
    server.publish(files | {last: files[last][: int(share * len(files[last]))]})
    register(make_entry(case, server.url))
    with pytest.raises(BadFileError, match=f"^{last} "):
        load("tiny")
    assert left_in(home) == []


def test_a_broken_transfer_is_an_error_that_names_the_file(server, home, register):
    server.publish(FORMATS["libsvm"][1])
    register(make_entry("libsvm", f"{server.url}/cut"))
    with pytest.raises(MissingDataError, match=r"/cut/tiny could not be downloaded whole"):
        load("tiny")
    assert left_in(home) == []


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_file_with_the_wrong_checksum_is_refused_by_name(by_hand, server, home, register):
    content = FORMATS["libsvm"][1]["tiny"]
    server.publish({"tiny": content})
    if by_hand:
        home.mkdir()
        (home / "tiny").write_bytes(content)
    raw = Raw(f"{server.url}/tiny", "libsvm", ("X", "y"), "tiny", sha256="0" * 64)
    register(make_entry("libsvm", server.url, raw=(raw,)))
    with pytest.raises(BadFileError, match=r"tiny( \(downloaded from http.*, not kept\))? has the wrong checksum"):
        load("tiny")
    assert left_in(home) == (["tiny"] if by_hand else [])  # a download is not kept, a file of the user's is
    right = replace(raw, sha256=hashlib.sha256(content).hexdigest())
    register(make_entry("libsvm", server.url, raw=(right,), content={}))
    np.testing.assert_array_equal(load("tiny").X, X4)


@pytest.mark.parametrize("change", ["a value", "a label", "the order of rows"])
def test_other_content_than_the_registry_knows_is_refused(change, server, home, register):
    X, y = X4.copy(), Y4.copy()
    if change == "a value":
        X[-1, -1] += 0.001
    elif change == "a label":
        y[-1] *= -1
    else:
        X, y = X[::-1], y[::-1]
    server.publish({"tiny": as_libsvm(X, y)})
    register(make_entry("libsvm", server.url))
    with pytest.raises(BadFileError, match=r"^tiny .*does not hold the [Xy] of 'tiny'"):
        load("tiny")
    assert left_in(home) == []


def test_content_may_be_known_of_the_first_rows_only(server, home, register):
    server.publish(FORMATS["libsvm"][1])
    register(make_entry("libsvm", server.url, content={"X[:7]": store.content_sha256(X4[:7])}))
    assert load("tiny").X.shape == X4.shape
    (home / "tiny.npz").unlink()
    register(make_entry("libsvm", server.url, content={"X[:7]": store.content_sha256(X4[:8])}))
    with pytest.raises(BadFileError, match=r"X\[:7\]"):
        load("tiny")


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..\\evil"])
def test_an_archive_that_reaches_outside_its_folder_is_refused(name, server, home, register, tmp_path):
    batches = {f"data_batch_{i}.bin": X8[:1].tobytes() + b"\0" for i in range(1, 6)}
    server.publish({"tiny.tar.gz": as_tar({name: b"evil", **batches})})
    register(make_entry("cifar-binary", server.url))
    with pytest.raises(BadFileError, match=r"^tiny\.tar\.gz .*outside the archive's folder"):
        load("tiny")
    assert "evil" not in left_in(tmp_path)
    server.publish({"tiny.zip": as_zip({f"{name}/recordings/0_a_0.wav": as_wave([1])})})
    register(make_entry("spoken-digits", server.url))
    with pytest.raises(BadFileError, match=r"^tiny\.zip .*outside the archive's folder"):
        load("tiny")


@pytest.mark.parametrize(
    ("case", "files", "complaint"),
    [
        ("idx", {"train-images.gz": gzip.compress(b"<html>no such file</html>")}, "no IDX header"),
        ("idx", {"train-images.gz": gzip.compress(bytes([0, 0, 8, 3, 0]))}, "header is cut short"),
        ("idx", {"train-images.gz": as_idx(X8[:4, :6].reshape(4, 2, 3))}, r"must have shape \(15, 6\)"),
        ("libsvm", {"tiny": b"<html>no such file</html>"}, "libsvm"),
        ("libsvm", {"tiny": b"+1 9:1\n"}, "libsvm"),
        ("table", {"tiny.csv": b"ID,a,b,c,d,Y\n1,2,3,x,5,1\n"}, "table"),
        ("table in a zip", {"tiny.zip": as_zip({"other.csv": b"1"})}, "t.csv"),
        (
            "cifar-binary",
            {"tiny.tar.gz": as_tar({"data_batch_1.bin": bytes(3073)})},
            "lacks data_batch_2.bin",
        ),
        ("cifar-binary", {"tiny.tar.gz": as_tar({"data_batch_1.bin": bytes(99)})}, "99 bytes"),
        ("spoken-digits", {"tiny.zip": as_zip({"recordings/0_a_0.wav": as_wave([1], 44100)})}, "8000 Hz"),
        ("spoken-digits", {"tiny.zip": as_zip({"readme": b""})}, "no recordings"),
    ],
)
def test_what_is_not_in_the_promised_format_is_an_error_that_says_so(case, files, complaint, server, home, register):
    server.publish(files)
    register(make_entry(case, server.url))
    with pytest.raises(BadFileError, match=f"(?s)^{next(iter(files))} .*{complaint}"):
        load("tiny")


def test_without_a_network_the_error_says_how_to_get_the_data(closed_port, home, register):
    register(make_entry("libsvm, two files", closed_port))
    with pytest.raises(MissingDataError) as caught:
        load("tiny")
    for help_ in ("'tiny'", "HANDFUL_DATA", "tiny.npz", f"{closed_port}/tiny.t", str(home)):
        assert help_ in str(caught.value)
    assert left_in(home) == []


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("huge", "announces 1,000,000,000,000 bytes, the registry allows 1,000,000"),
        ("endless", "more than the 1,000,000"),
    ],
)
def test_more_bytes_than_the_registry_allows_are_not_downloaded(kind, complaint, server, home, register):
    register(make_entry("libsvm", f"{server.url}/{kind}"))
    with pytest.raises(BadFileError, match=f"^tiny .*{complaint}"):
        load("tiny")
    assert left_in(home) == []


def test_a_server_that_sends_byte_by_byte_is_given_up(server, home, register, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.5)
    register(make_entry("libsvm", f"{server.url}/drip"))
    started = time.perf_counter()
    with pytest.raises(
        MissingDataError, match=r"could not be downloaded whole \(it sent 0 bytes, then fewer than 16,384"
    ):
        load("tiny")
    assert time.perf_counter() - started < 5
    assert left_in(home) == []


def test_what_a_killed_download_left_is_cleared_by_a_later_one(server, home, register):
    server.publish(FORMATS["libsvm"][1])
    register(make_entry("libsvm", server.url))
    old, new, other = (home / name for name in (".tiny-killed", ".tiny-running", ".small-killed"))
    for folder, days in ((old, 4), (new, 2), (other, 4)):
        folder.mkdir(parents=True)
        (folder / "tiny").write_bytes(b"half")
        os.utime(folder, times=(time.time() - days * 24 * 3600,) * 2)
    load("tiny")
    assert left_in(home) == [".small-killed", ".tiny-running", "tiny", "tiny", "tiny.npz"]


def test_a_progress_bar_runs_to_the_announced_size(server, home, register, capfd):
    server.publish(FORMATS["libsvm"][1])
    register(make_entry("libsvm", server.url))
    load("tiny", verbose=True)
    assert "tiny: 100%" in capfd.readouterr().err


def test_an_address_that_leads_from_https_to_http_is_refused(home, register, monkeypatch):
    class Response:
        url, headers = "http://example.org/tiny", types.MappingProxyType({})
        __enter__ = raise_for_status = lambda self: self

        def __exit__(self, *error):
            """Nothing to close."""

    monkeypatch.setattr(download.requests, "get", lambda *args, **options: Response())
    register(make_entry("libsvm", "https://example.org"))
    with pytest.raises(MissingDataError, match="leads from https to http://example"):
        load("tiny")


def test_a_data_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(server, home, register):
    server.publish(FORMATS["libsvm"][1])
    home.write_text("a file where the folder should be")
    register(make_entry("libsvm", server.url))
    with pytest.raises(MissingDataError, match=r"'tiny' could not be built in .*make it writable, or set"):
        load("tiny")


def test_an_address_that_is_gone_is_an_error_that_names_it(server, home, register):
    register(make_entry("libsvm", server.url))
    with pytest.raises(MissingDataError, match=f"{server.url}/tiny could not be downloaded .*404"):
        load("tiny")


def test_a_set_that_exists_only_ready_made_says_so(home):
    with pytest.raises(MissingDataError, match=r"HANDFUL_DATA to a folder that holds covtype_subset\.npz.*whole"):
        load("covtype_subset")


def test_an_original_put_there_by_hand_is_read(closed_port, home, register):
    home.mkdir()
    (home / "tiny").write_bytes(FORMATS["libsvm"][1]["tiny"])
    register(make_entry("libsvm", closed_port))
    np.testing.assert_array_equal(load("tiny").X, X4)


def test_a_bad_original_put_there_by_hand_is_named_and_left_alone(closed_port, home, register):
    home.mkdir()
    (home / "tiny").write_bytes(FORMATS["libsvm"][1]["tiny"][:-5])
    register(make_entry("libsvm", closed_port))
    with pytest.raises(BadFileError, match=f"^{home / 'tiny'} "):
        load("tiny")
    assert left_in(home) == ["tiny"]


# --- ready-made files


def test_handful_data_is_looked_through_before_the_network(closed_port, home, register, tmp_path, monkeypatch):
    path = ready_made(tmp_path / "mine")
    register(make_entry("libsvm", closed_port, sha256=store.file_sha256(path)))
    monkeypatch.setenv("HANDFUL_DATA", str(path.parent))
    data = load("tiny")
    np.testing.assert_array_equal(data.X, X4)
    assert data.sha256 == store.file_sha256(path)
    assert fetch("tiny") == path
    assert left_in(home) == []


def test_the_data_folder_goes_before_handful_data(closed_port, home, register, tmp_path, monkeypatch):
    ours, theirs = ready_made(home), ready_made(tmp_path / "mine", X=X4 + 1, y=Y4)
    register(make_entry("libsvm", closed_port, sha256=store.file_sha256(ours)))
    monkeypatch.setenv("HANDFUL_DATA", str(theirs.parent))
    np.testing.assert_array_equal(load("tiny").X, X4)


def test_a_ready_made_file_with_the_wrong_checksum_is_named_and_left_alone(
    server, home, register, tmp_path, monkeypatch
):
    server.publish(FORMATS["libsvm"][1])
    path = ready_made(tmp_path / "mine", X=X4, y=-Y4)
    register(make_entry("libsvm", server.url, sha256="0" * 64))
    monkeypatch.setenv("HANDFUL_DATA", str(path.parent))
    with pytest.raises(BadFileError, match=f"^{path} has the wrong checksum"):
        load("tiny")
    assert path.exists()
    assert server.requests == []


def test_a_file_that_went_bad_after_it_was_built_is_noticed(server, home, register):
    server.publish(FORMATS["libsvm"][1])
    register(make_entry("libsvm", server.url))
    load("tiny")
    content = bytearray((home / "tiny.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (home / "tiny.npz").write_bytes(content)
    with pytest.raises(BadFileError, match=f"^{home / 'tiny.npz'} has the wrong checksum"):
        load("tiny")


@pytest.mark.parametrize("content", [{}, {"X[:7]": store.content_sha256(X4[:7]), "y": store.content_sha256(Y4)}])
def test_a_ready_made_file_of_unknown_checksum_is_not_trusted(content, closed_port, home, register):
    ready_made(home)
    register(make_entry("libsvm", closed_port, content=content))
    with pytest.raises(BadFileError, match="only built from its originals"):
        load("tiny")


@pytest.mark.parametrize("where", ["data folder", "HANDFUL_DATA"])
def test_a_stamp_does_not_overrule_the_registry(where, closed_port, home, register, tmp_path, monkeypatch):
    folder = home if where == "data folder" else tmp_path / "mine"
    right = ready_made(tmp_path / "right")
    flipped = ready_made(folder, X=X4, y=-Y4)
    flipped.with_name("tiny.npz.sha256").write_text(store.file_sha256(flipped))
    if folder != home:
        monkeypatch.setenv("HANDFUL_DATA", str(folder))
    for content in ({}, {"X": store.content_sha256(X4), "y": store.content_sha256(Y4)}):
        register(make_entry("libsvm", closed_port, sha256=store.file_sha256(right), content=content))
        with pytest.raises(BadFileError, match=f"^{flipped} has the wrong checksum"):
            load("tiny")


def test_a_stamp_counts_only_in_the_data_folder_and_only_as_long_as_it_is_right(
    server, home, register, tmp_path, monkeypatch
):
    content = FORMATS["libsvm"][1]["tiny"]
    server.publish({"tiny": content})
    raw = Raw(f"{server.url}/tiny", "libsvm", ("X", "y"), "tiny", sha256=hashlib.sha256(content).hexdigest())
    register(make_entry("libsvm", server.url, raw=(raw,), content={}))
    load("tiny")
    np.testing.assert_array_equal(load("tiny").X, X4)
    assert left_in(home) == ["tiny.npz", "tiny.npz.sha256"]
    assert len(server.requests) == 1
    home.rename(tmp_path / "mine")
    monkeypatch.setenv("HANDFUL_DATA", str(tmp_path / "mine"))
    with pytest.raises(BadFileError, match=f"^{tmp_path / 'mine' / 'tiny.npz'} has the wrong checksum"):
        load("tiny")
    (tmp_path / "mine").rename(home)
    monkeypatch.delenv("HANDFUL_DATA")
    ready_made(home, X=X4, y=-Y4)
    with pytest.raises(BadFileError, match=f"^{home / 'tiny.npz'} has the wrong checksum"):
        load("tiny")


def test_a_file_of_another_checksum_counts_if_it_holds_what_the_registry_knows(closed_port, home, register):
    path = ready_made(home)
    register(make_entry("libsvm", closed_port, sha256="0" * 64))
    np.testing.assert_array_equal(load("tiny").y, Y4)
    np.savez(path, X=X4, y=Y4, more=Y4)
    with pytest.raises(BadFileError, match="does not know the content of all its arrays"):
        load("tiny")


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        (dict(X=X4, y=-Y4), "does not hold the y of 'tiny'"),
        (dict(X=X4[:, :3], y=Y4), r"X must have shape \(30, 4\), got \(30, 3\)"),
        (dict(X=X4, y=Y4[1:]), r"y must have shape \(30,\), got \(29,\)"),
        (dict(X=X4, y=Y4 * 1.5), "the labels are -1, 1"),
        (dict(X=X4, y=np.where(Y4 > 0, "a", "b")), "y must hold numbers"),
        (dict(X=np.where(X4 == 0, np.nan, X4), y=Y4), r"X\[0, 1\] is nan: float64 cannot hold it"),
        (dict(X=X4 * 1e300 * 1j, y=Y4), "must hold numbers"),
        (dict(y=Y4), "holds the arrays y"),
        (dict(X=X4, X_train=X4, y=Y4), "holds the arrays X, X_train, y"),
    ],
)
def test_the_content_is_checked_even_where_the_checksum_is_right(arrays, complaint, closed_port, home, register):
    path = ready_made(home, **arrays)
    register(make_entry("libsvm", closed_port, sha256=store.file_sha256(path), classes=(-1, 1)))
    with pytest.raises(BadFileError, match=f"^{path} cannot be read: .*{complaint}"):
        load("tiny")


def test_features_that_the_dtype_cannot_hold_are_refused(closed_port, home, register):
    path = ready_made(home, X=np.full((30, 4), 300), y=Y4)
    register(make_entry("libsvm", closed_port, dtype="uint8", content={}, sha256=store.file_sha256(path)))
    with pytest.raises(BadFileError, match=r"X\[0, 0\] is 300: uint8 cannot hold it"):
        load("tiny")


def test_a_file_much_larger_than_its_arrays_is_refused_unread(closed_port, home, register):
    path = ready_made(home)
    register(make_entry("libsvm", closed_port, sha256=store.file_sha256(path)))
    with open(path, "ab") as file:
        file.truncate(10**9)
    with pytest.raises(BadFileError, match="cannot be read: it has 1,000,000,000 bytes"):
        load("tiny")


class Evil:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("form", ["object array in a npz", "bare pickle"])
def test_nothing_is_unpickled_even_with_the_right_checksum(form, closed_port, home, register, tmp_path):
    evil = Evil(tmp_path / "evil")
    if form == "bare pickle":
        home.mkdir()
        path = home / "tiny.npz"
        path.write_bytes(pickle.dumps(evil))
    else:
        path = ready_made(home, X=np.array([[evil]], dtype=object))
    register(make_entry("libsvm", closed_port, sha256=store.file_sha256(path)))
    with pytest.raises(BadFileError, match=f"^{path} cannot be read"):
        load("tiny")
    assert not evil.path.exists()


def test_a_handful_data_that_is_no_folder_is_an_error(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_DATA", str(tmp_path / "typo"))
    with pytest.raises(MissingDataError, match=r"HANDFUL_DATA is .*typo.* not a folder"):
        load("phishing")


def test_the_coded_images_come_back_as_they_were():
    planes = X8.reshape(-1, 3, 32, 32).transpose(1, 0, 2, 3).astype(np.int64)
    coded = np.stack([planes[0] - planes[1], planes[1], planes[2] - planes[1]])
    for axis in (2, 3):
        coded = np.diff(coded, axis=axis, prepend=0)
    assert (decode({"D_train": (coded % 256).astype(np.uint8)})["X_train"] == X8).all()


def test_status_says_where_each_set_is(home, tmp_path, monkeypatch):
    ready_made(home, "a9a")
    ready_made(tmp_path / "mine", "phishing")
    monkeypatch.setenv("HANDFUL_DATA", str(tmp_path / "mine"))
    where = {row.name: row.where for row in status()}
    assert where.keys() == ENTRIES.keys()
    assert where["a9a"] == "data folder"
    assert where["phishing"] == "HANDFUL_DATA"
    assert where["mnist"] == "to be downloaded"
    assert where["susy_subset"] == "not here: ready-made file only"
    assert where["digits"] == "scikit-learn"
    assert next(row.shape for row in status() if row.name == "a9a") == "32,561 + 16,281 x 123"


def test_fetch_refuses_what_has_no_file(home):
    with pytest.raises(ValueError, match="'digits' needs no fetching: its kind is scikit-learn"):
        fetch("digits")


def test_verify_tells_right_wrong_and_missing_files_apart(closed_port, home, register, tmp_path, monkeypatch):
    path = ready_made(home)
    register(make_entry("libsvm", closed_port, sha256=store.file_sha256(path)))
    assert verify(["tiny", "mnist"]) == [("tiny", "right", path, ""), ("mnist", "not here", None, "to be downloaded")]
    ready_made(home, X=X4, y=-Y4)
    (row,) = verify(["tiny"])
    assert row[:3] == ("tiny", "wrong", path)
    assert row.message.startswith(f"{path} has the wrong checksum")
    assert {row.name for row in verify()} == {name for name, entry in ENTRIES.items() if entry.kind == "file"}
    with pytest.raises(ValueError, match="'digits' has no file to verify: its kind is scikit-learn"):
        verify(["digits"])
    with pytest.raises(ValueError, match="names must be a list"):
        verify("tiny")


def test_the_fingerprint_follows_what_decides_the_values_and_nothing_else(server, home, register):
    server.publish(FORMATS["libsvm"][1])
    tiny = make_entry("libsvm", server.url, content={})
    register(tiny)
    unbuilt = fingerprint("tiny")
    load("tiny")
    built = fingerprint("tiny")
    assert len({unbuilt, built}) == 2  # the registry alone could not tell what was built
    register(replace(tiny, title="another title", notes="more notes", url="https://example.com"))
    assert fingerprint("tiny") == built
    for change in (dict(sha256="0" * 64), dict(content={"y": "1" * 64}), dict(rows=29), dict(positive=1)):
        register(replace(tiny, **change))
        assert fingerprint("tiny") != built
    known = make_entry("libsvm", server.url, sha256="0" * 64)
    register(known)
    before = fingerprint("tiny")
    store._beside(home / "tiny.npz").unlink()
    assert fingerprint("tiny") == before
