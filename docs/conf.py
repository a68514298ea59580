"""How sphinx builds the site: `make docs`. All of it opens from the file system; no page fetches
anything."""

import re
import sys
from pathlib import Path

from sphinx.errors import ExtensionError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import handful  # noqa: E402
from latex2mathml.converter import convert  # noqa: E402
from pages import (  # noqa: E402 (lies beside this file)
    FIGURE,
    fetched,
    for_the_site,
    link_names,
    pictures,
    prose,
    values,
    write_pages,
)

project = "handful"
author = "the handful developers"
release = handful.__version__
copyright = "2026, the handful developers"
html_title = "handful"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
napoleon_google_docstring = False
# Attributes are fields of their class, and no entries of the index.
napoleon_use_ivar = True
exclude_patterns = ["_build", "howto/README.md"]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https", "mailto"]
nb_execution_mode = "cache"
# those come executed, from figures/
nb_execution_excludepatterns = ["notebooks/*/*"]
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
# a warning of a run stands in the executed notebook, and says nothing to a reader here
nb_output_stderr = "remove"

autodoc_member_order = "bysource"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"

linkcheck_anchors = False
linkcheck_timeout = 30


def _check_offline(app, error):
    if error is None and app.builder.format == "html" and (wrong := fetched(app.outdir)):
        raise ExtensionError("these pages would fetch from the network:\n" + "\n".join(wrong))


# what sphinx, its theme and pygments write, and what who cannot see or has no mouse needs
ACCESSIBLE = {
    'role="heading"><': 'role="heading" aria-level="2"><',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': (
        '<div tabindex="0" role="group" aria-label="Table" class="table-wrapper'
    ),
    "<div "
    'class="cell_output': '<div tabindex="0" role="group" aria-label="Output" class="cell_output',
    "<p><img ": f"{FIGURE}<img ",
    '<th class="head"><p></p></th>': "<td></td>",
    "<th></th>": "<td></td>",
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    '<div id="search-results"></div>': (
        '<h1>Search</h1><div id="search-results" aria-live="polite"></div>'
    ),
}


def _make_accessible(app, error):
    if error is not None or app.builder.format != "html":
        return
    unknown = set(ACCESSIBLE)
    for path in Path(app.outdir).rglob("*.html"):
        text = new = path.read_text(encoding="utf-8")
        for written, needed in ACCESSIBLE.items():
            new = new.replace(written, needed)
            if needed in new:
                unknown.discard(written)
        # pandas'
        new = re.sub(
            r'<th ([^>]*class="(?:blank|row_heading)[^>]*)>(?:&nbsp;)?</th>', r"<td \1></td>", new
        )
        new = prose(values(pictures(path, new)))
        if new != text:
            path.write_text(new, encoding="utf-8")
    if unknown:
        raise ExtensionError(
            "no page holds any more what ACCESSIBLE replaces:\n" + "\n".join(sorted(unknown))
        )


def _skip_others(app, what, name, thing, skip, options):
    """Leave out what sklearn or torch document, such as get_params, and set_params, which is
    sklearn's with other messages; `fit` of our own base classes stays."""
    thing = getattr(thing, "fget", None) or thing
    own = (getattr(thing, "__module__", None) or "handful").startswith("handful")
    return skip or not own or name == "set_params"


BESIDE_FUNCTION = re.compile(r"<mi>[a-z]{2,}</mi>(?=<m[in]>)|</m[in]>(?=<mi>[a-z]{2,}</mi>)")


def _formula(display):
    def visit(self, node):
        # The spaces of LaTeX around the name of a function: n log n, not nlogn. A wide one is
        # scrolled by keys, too.
        # latex2mathml knows no \arg.
        latex = node.astext().replace(r"\arg\min", r"\operatorname{argmin}")
        made = convert(latex, display=display).replace(
            ' display="block"', ' display="block" tabindex="0"'
        )
        made = BESIDE_FUNCTION.sub(r'\g<0><mspace width="0.1667em"></mspace>', made)
        if "\\" in made:
            raise ExtensionError(
                f"MathML shows a command of this formula as it stands: {node.astext()}"
            )
        self.body.append(made)
        # its text has been written
        node.clear()

    return visit, None


def _source(app, docname, source):
    source[0] = for_the_site(source[0])


def setup(app):
    """Called by sphinx: the generated pages, our docstrings, MathML, and the checks at the end."""
    write_pages(HERE)
    app.connect("source-read", _source)
    app.connect("autodoc-skip-member", _skip_others)
    app.connect("doctree-read", link_names)
    app.connect("build-finished", _check_offline)
    app.connect("build-finished", _make_accessible)
    app.add_html_math_renderer("mathml", _formula("inline"), _formula("block"))
    return {"parallel_read_safe": True}
