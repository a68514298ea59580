"""Executed notebooks small and plain enough to be committed, so that a code host shows them."""

import base64
import io
import json
import re
from pathlib import Path

from handful_papers.provenance import write_atomically

LIMIT = 150_000  # bytes of all outputs together; code hosts refuse to render much more
_COLOURS = 64  # of a picture in a notebook; the figures beside it have all
_PATH = re.compile(r"(?:/[\w.+-]+)+/(?=(?:data|lib|notebooks|site-packages)/)")  # where a checkout or environment lies


def slim(text, *, limit=LIMIT):
    """An executed notebook without traces of the machine, its pictures in few colours, its outputs within `limit`.

    The largest outputs give way to a line that says so, until the rest is small enough.

    Parameters
    ----------
    text : str, the notebook's JSON
    limit : int, bytes of all outputs together

    Returns
    -------
    str
    """
    notebook = json.loads(text)
    notebook["metadata"] = {k: v for k, v in notebook["metadata"].items() if k in ("kernelspec", "language_info")}
    told, outputs = set(), []
    for cell in notebook["cells"]:
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k == "tags" and v}
        if cell["cell_type"] == "code":
            cell["outputs"] = [kept for output in cell["outputs"] if (kept := _plain(output, told)) is not None]
            outputs += cell["outputs"]
    while sum(map(_size, outputs)) > limit:
        largest = max(outputs, key=_size)
        note = f"An output of {_size(largest) / 1000:,.0f} kB is left out here; a run of this notebook shows it.\n"
        largest.clear()
        largest |= {"output_type": "stream", "name": "stdout", "text": [note]}
    return _to_json(notebook)


def same_prose(copy, source, *, write=False):
    """Whether the text cells of an executed copy are those of its notebook.

    Text may be mended after a run. A copy with other cells than the notebook counts as the same: it needs a new run.

    Parameters
    ----------
    copy, source : paths of the executed copy and of the notebook
    write : whether to put the notebook's text into the copy where it differs
    """
    executed, notebook = (json.loads(Path(path).read_text(encoding="utf-8")) for path in (copy, source))
    cells = [c for c in executed["cells"] if "injected-parameters" not in c["metadata"].get("tags", [])]
    if [c["cell_type"] for c in cells] != [c["cell_type"] for c in notebook["cells"]]:
        return True
    same = True
    for cell, original in zip(cells, notebook["cells"]):
        text = "".join(original["source"])
        if cell["cell_type"] == "markdown" and "".join(cell["source"]) != text:
            cell["source"], same = text.splitlines(keepends=True), False
    if write and not same:
        write_atomically(copy, _to_json(executed))
    return same


def _to_json(notebook):
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _plain(output, told):
    """An output without paths of the machine; None for what was told before, such as the second of equal warnings."""
    output = json.loads(_PATH.sub("", json.dumps(output, ensure_ascii=False)))
    output.pop("metadata", None) if output["output_type"] == "stream" else output.update(metadata={})
    if output.get("name") == "stderr":
        text = "".join(output["text"])
        if text in told:
            return None
        told.add(text)
    data = output.get("data", {})
    if "image/png" in data:
        data["image/png"] = _few_colours(data["image/png"])
    return output


def _few_colours(encoded):
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode("".join(encoded)))) as picture:
        small, buffer = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE), io.BytesIO()
    small.save(buffer, format="png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode() + "\n"


def _size(output):
    return len(json.dumps(output, ensure_ascii=False).encode())
