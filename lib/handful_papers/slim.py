"""Executed notebooks small and plain enough to be committed, so that a code host shows them."""

import base64
import io
import json
import re

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
