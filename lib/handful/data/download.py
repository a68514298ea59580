"""Downloads that end: within a number of bytes, and not slower than a slow line."""

import queue
import threading

import requests
from tqdm import tqdm

TIMEOUT = 30  # seconds in which an answer, and from then on each CHUNK, has to arrive
CHUNK = 1 << 14  # bytes


class TooLargeError(ValueError):
    """A server sends, or announces, more bytes than the file may have."""


class DownloadError(OSError):
    """A file could not be downloaded whole; the message says why."""


def download(url, path, max_bytes, *, verbose=False):
    """Write what `url` serves to `path`.

    Parameters
    ----------
    url : str
    path : pathlib.Path, in a folder that the caller clears after a failure
    max_bytes : int, the most that the file may have
    verbose : bool, a progress bar

    Raises
    ------
    TooLargeError
        if there are more than `max_bytes`: at once where the server announces it.
    DownloadError
        if the address does not answer, breaks off, leads from https to http, or needs more than `TIMEOUT` seconds for
        the answer or for any `CHUNK` bytes.
    """
    chunks, stop = queue.Queue(maxsize=64), threading.Event()
    # A thread of its own, because a server that sends one byte now and then never lets a read time out.
    threading.Thread(target=_receive, args=(url, max_bytes, chunks, stop), daemon=True).start()
    received = 0
    try:
        with open(path, "wb") as file, tqdm(unit="B", unit_scale=True, desc=path.name, disable=not verbose) as bar:
            while (chunk := chunks.get(timeout=TIMEOUT)) is not None:
                if isinstance(chunk, Exception):
                    raise chunk
                if isinstance(chunk, int):
                    bar.total = chunk
                    continue
                received += len(chunk)
                if received > max_bytes:
                    raise TooLargeError(f"it sends more than the {max_bytes:,} bytes that the registry allows.")
                file.write(chunk)
                bar.update(len(chunk))
    except queue.Empty:
        raise DownloadError(f"it sent {received:,} bytes, then fewer than {CHUNK:,} in {TIMEOUT} s.") from None
    finally:
        stop.set()


def _receive(url, max_bytes, chunks, stop):
    """Put the announced length (where there is one), then the bytes, then None, into the queue; or the error."""
    try:
        with requests.get(url, stream=True, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"}) as response:
            response.raise_for_status()
            if url.startswith("https:") and not response.url.startswith("https:"):
                raise DownloadError(f"it leads from https to {response.url}.")
            length, received = response.headers.get("Content-Length", ""), 0
            if length.isdecimal():
                if int(length) > max_bytes:
                    raise TooLargeError(f"it announces {int(length):,} bytes, the registry allows {max_bytes:,}.")
                _put(chunks, int(length), stop)
            for chunk in response.iter_content(CHUNK):
                received += len(chunk)
                if stop.is_set():
                    return
                _put(chunks, chunk, stop)
            if length.isdecimal() and received < int(length) and "Content-Encoding" not in response.headers:
                raise DownloadError(f"it announced {int(length):,} bytes and sent {received:,}.")
            _put(chunks, None, stop)
    except (TooLargeError, DownloadError) as error:
        _put(chunks, error, stop)
    except (OSError, ValueError) as error:  # all of requests' own are OSErrors, some addresses are ValueErrors
        _put(chunks, DownloadError(f"{type(error).__name__}: {error}"), stop)


def _put(chunks, item, stop):
    while not stop.is_set():
        try:
            return chunks.put(item, timeout=1)
        except queue.Full:
            continue
