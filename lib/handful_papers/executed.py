"""Executed notebooks as files: what is kept of a run, and whether a file is one."""

import base64
import io
import json
import re

# Where a checkout, an environment or a kernel's cells lie.
_HERE = re.compile(
    r"(?:/[\w.+-]+)+/"
    r"(?:(?=(?:data|figures|lib|notebooks|site-packages)/)|ipykernel_\d+/\d+\.py:\d+: )"
)
# Colours of a picture in an executed notebook; the figures beside it have all.
_SHADES = 64


def read_notebook(path):
    """A notebook; ValueError names a file that does not hold one."""
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:
        # Of a damaged file nbformat raises whatever comes first.
        raise ValueError(f"{path} is no notebook: {error!r:.200}") from error
    return notebook


def tidy(notebook):
    """An executed notebook as text: no traces of the machine or the run, no repeated warnings,
    small pictures.

    No picture is left out.
    """
    known = ("kernelspec", "language_info")
    notebook.metadata = {key: value for key, value in notebook.metadata.items() if key in known}
    warned = set()
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = {"tags": tags} if tags else {}
        outputs = [_tidy_output(output) for output in cell.get("outputs", ())]
        kept = [output for output in outputs if not _is_repeated(output, warned)]
        if cell["cell_type"] == "code":
            cell["outputs"] = kept
            cell["execution_count"] = cell.get("execution_count")
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _tidy_output(output):
    picture = output.get("data", {}).pop("image/png", None)
    output = json.loads(_HERE.sub("", json.dumps(output, ensure_ascii=False)))
    if picture:
        output["data"]["image/png"] = _fewer_colours(picture)
    return output


def _is_repeated(output, warned):
    """Whether a warning was given before; what is new is added to `warned`."""
    text = "".join(output.get("text", "")) if output.get("name") == "stderr" else ""
    repeated = text in warned
    if text:
        warned.add(text)
    return repeated


def _fewer_colours(encoded):
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode("".join(encoded)))) as picture:
        if picture.mode == "P":
            return encoded
        small = picture.convert("RGB").quantize(_SHADES, dither=Image.Dither.NONE)
        buffer = io.BytesIO()
    small.save(buffer, format="png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode() + "\n"
