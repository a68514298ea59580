"""Notebooks as pages that can be read from disk: maths as MathML, nothing in them that runs or fetches."""

import base64
import re
from functools import cache

import bleach
import nbformat
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

_MATHML = (
    "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mroot mrow ms mspace msqrt mstyle msub msubsup "
    "msup mtable mtd mtext mtr munder munderover"
)
_HTML = (
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 "
    "hr i img kbd li ol p pre q s small span strong sub summary sup table tbody td tfoot th thead tr u ul"
)
_ATTRIBUTES = (
    "accent align alt class colspan columnalign columnspacing display fence form height href id linethickness lspace "
    "mathvariant maxsize minsize movablelimits open rowspacing rowspan rspace scope separator start stretchy tabindex "
    "title width xmlns"
)
_UNSEEN = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)  # their text is for no reader
_BESIDE_FUNCTION = re.compile(r"<mi>[a-z]{2,}</mi>(?=<m[in]>)|</m[in]>(?=<mi>[a-z]{2,}</mi>)")
_NO_HEAD = re.compile(r"<th([^>]*)>(?:\s|&nbsp;|\xa0)*</th>")  # pandas' corners are heads of nothing
_SCROLLS = re.compile(r'<div(?= class="output_html )')  # tables: wider than a phone, to be scrolled by keys, too
_FOCUSABLE = '<div tabindex="0" role="group" aria-label="Output"'
_PICTURE = re.compile(r"(!\[[^\]]*\])\(([^():]+\.png)\)")


def notebook_body(path, source):
    """A notebook's cells as HTML: without scripts, styles of its own, or anything from the network.

    Parameters
    ----------
    path : pathlib.Path of the .ipynb
    source : pathlib.Path of the notebook that it is a run of, or itself: its pictures are named from there, and become
        part of the page
    """
    exporter, cleaner = _tools()
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _PICTURE.sub(lambda found: _embedded(*found.groups(), source.parent), cell.source)
    body, _ = exporter.from_notebook_node(notebook)
    body = cleaner.clean(_UNSEEN.sub("", body))
    return _SCROLLS.sub(_FOCUSABLE, _NO_HEAD.sub(r"<td\1></td>", body))


def _embedded(alt, name, folder):
    if not (folder / name).is_file():
        return f"{alt}({name})"  # which the cleaner takes out
    return f"{alt}(data:image/png;base64,{base64.b64encode((folder / name).read_bytes()).decode()})"


def markdown(source):
    """Markdown as HTML, its formulas as MathML; not cleaned yet."""
    return MarkdownWithMath(renderer=_Renderer()).render(source)


def formula(latex, display="inline"):
    """A formula as MathML, with the spaces of LaTeX around the name of a function: n log n, not nlogn.

    A displayed one may be wider than a phone; keys reach it, to scroll it.
    """
    html = convert(latex, display=display).replace(' display="block"', ' display="block" tabindex="0"')
    return _BESIDE_FUNCTION.sub(r'\g<0><mspace width="0.1667em"></mspace>', html)


@cache
def _tools():
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    exporter.register_filter("markdown2html", markdown)
    exporter.register_filter("clean_html", lambda html: html)  # the page is cleaned once, as a whole
    protocols = ["https", "http", "mailto", "data"]
    return exporter, bleach.Cleaner([*_HTML.split(), *_MATHML.split()], _allowed, protocols=protocols, strip=True)


class _Renderer(IPythonRenderer):
    def __init__(self):
        super().__init__(escape=False, exclude_anchor_links=True)

    def inline_math(self, body):
        return formula(body)

    def block_math(self, body):
        return formula(body, display="block")

    def latex_environment(self, name, body):
        return formula(rf"\begin{{{name}}}{body}\end{{{name}}}", display="block")


def _allowed(tag, name, value):
    if name == "src":
        return tag == "img" and value.startswith("data:image/")
    return name in _ATTRIBUTES.split() and not (name == "href" and value.lstrip().lower().startswith("data:"))
