"""The pages of the site that are written at each build: the reference, the measured costs, and the
reproduction."""

import importlib
import inspect
import pkgutil
import re
from html import unescape
from pathlib import Path

import handful
from handful_papers import site
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]

# What would leave the machine when a page is opened. A link that waits for a click does not.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*"""
    r"""|<link\b(?![^>]*rel=["'](?:next|prev|author|canonical))[^>]*\bhref=["'](?:https?:)?//[^"']*"""
    r"""|@import\s+[^;]*//[^;]*|\burl\(\s*["']?(?:https?:)?//[^)]*""",
    re.IGNORECASE,
)
# Pages that are written at each build are not there on a code host, so the sources link to what
# those are written from.
_WRITTEN_FROM = {
    r"lib/handful/(\w+)/__init__\.py": "reference/handful.{}.rst",
    r"figures/laptop/(\w+/\w+\.ipynb)": "notebooks/{}",
    r"figures/laptop/(\w+)": "reproduction/{}.md",
    r"lib/handful_papers/(site)\.py": "reproduction/items.md",
    r"lib/handful_papers/(claims)\.py": "reproduction/disagreements.md",
    r"benchmarks/results/(\w+)\.md": "complexity.md#{}",
}
FIGURE = '<p tabindex="0" role="group" aria-label="Figure" class="figure">'
# characters of a cell such as "75.77 ± 1.83" or "12 of 15"
LONGEST_VALUE = 24
# characters of a printed line that a telephone shows
LONGEST_PRINTED = 40
COMPLEXITY = """\
The pages of the methods state costs in rows, features, points and clusters. These tables measure
them: each comes out of one run of a script in `benchmarks/` (`make bench`), as ratios within that
run, and the JSON file beside it holds
its parameters and versions."""


def rooms():
    """The public packages of the library, by name: `handful` itself, then its rooms."""
    return [
        "handful",
        *(f"handful.{m.name}" for m in pkgutil.iter_modules(handful.__path__) if m.ispkg),
    ]


def public_names(room):
    """The classes and functions that a package offers, those that it imports on demand too, in
    order."""
    package = importlib.import_module(room)
    names = sorted(
        {*getattr(package, "__all__", ()), *(n for n in dir(package) if not n.startswith("_"))}
    )
    found = {name: getattr(package, name) for name in names}
    return [n for n, thing in found.items() if _is_ours(thing)]


def _is_ours(thing):
    module = str(getattr(thing, "__module__", ""))
    defined = inspect.isclass(thing) or inspect.isroutine(thing)
    # what loads names, not one of them
    return defined and module.startswith("handful.") and module != "handful.lazy"


def write_pages(docs):
    """Write the reference and the reproduction into the folder of the site's sources; return their
    paths."""
    pages = {docs / "reference" / f"{room}.rst": _reference(room) for room in rooms()}
    pages[docs / "complexity.md"] = _complexity(
        sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    )
    for path in set((docs / "reference").glob("*.rst")) - set(pages):
        # of a subpackage that is gone
        path.unlink()
    for path, text in pages.items():
        path.parent.mkdir(exist_ok=True)
        # sphinx reads only what is newer
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [*pages, *site.write_pages(docs)]


def for_the_site(text):
    """A page's source as the site needs it: links lead to its pages, and what is for a code host is
    left out."""
    for source, page in _WRITTEN_FROM.items():
        link = rf"\]\(((?:\.\./)*)\.\./{source}\)"
        # a file's name; else a page's, or an anchor's
        plain = page.endswith("/{}")
        text = re.sub(
            link,
            lambda m, page=page, plain=plain: (
                f"]({m[1]}{page.format(m[2] if plain else m[2].replace('_', '-'))})"
            ),
            text,
        )
    return re.sub(r"^\*On a code host.*?\n\n", "", text, flags=re.MULTILINE | re.DOTALL)


def _complexity(tables):
    """The benchmarks' tables on one page, that of the growth with n, d, m and clusters first."""
    lines = ["# Complexity, measured", "", COMPLEXITY, ""]
    for path in sorted(tables, key=lambda path: path.stem != "scaling"):
        text = re.sub(r"^#+ .*\n+", "", path.read_text(encoding="utf-8"), count=1)
        lines += [
            f"## {path.stem.replace('_', ' ').capitalize()}",
            "",
            re.sub(r"^#", "##", text, flags=re.MULTILINE),
        ]
    return "\n".join(lines)


def targets():
    """What a name of ours in running text leads to: name, or name with its room -> the full name in
    the reference."""
    found = {}
    for room in reversed(rooms()):
        for name in public_names(room):
            home = _home(getattr(importlib.import_module(room), name), name) or room
            found |= {f"{room}.{name}": f"{home}.{name}", name: f"{home}.{name}"}
    return found


def link_names(app, doctree):
    """Turn ``BilevelCoreset(size=9)`` in running text into a link to the class; sphinx calls it for
    each page."""
    from sphinx import addnodes

    known = targets()
    for literal in list(doctree.findall(lambda node: node.tagname == "literal")):
        name = re.match(r"[\w.]*", literal.astext())[0]
        capital = name.rpartition(".")[2][:1].isupper()
        if name not in known or not (capital or "." in name) or _within(literal):
            continue
        options = dict(reftype="obj", refdomain="py", reftarget=known[name], refdoc=app.env.docname)
        link = addnodes.pending_xref("", **options)
        literal.replace_self(link)
        link += literal


def _within(node):
    # titles are copied into tables of contents, where no link is resolved; a link holds no other
    while node.parent is not None:
        node = node.parent
        if node.tagname in ("title", "reference", "pending_xref", "term"):
            return True
    return False


def _reference(room):
    lines = [
        room,
        "=" * len(room),
        "",
        f".. automodule:: {room}",
        "   :no-members:",
        "",
        f".. currentmodule:: {room}",
        "",
    ]
    for name in public_names(room):
        thing = getattr(importlib.import_module(room), name)
        if (home := _home(thing, name)) and home != room:
            lines += [f"`{name} <{home}.{name}>`", f"   {_first_line(thing)}", ""]
            continue
        lines += [name, "-" * len(name), ""]
        kind, members = (
            ("class", ["   :members:", "   :inherited-members:"])
            if inspect.isclass(thing)
            else ("function", [])
        )
        lines += [f".. auto{kind}:: {name}", *members, ""]
    return "\n".join(lines)


def _home(thing, name):
    """The room whose page describes what others only re-export; "" where there is none."""
    room = ".".join(thing.__module__.split(".")[:2])
    return room if room in rooms() and name in public_names(room) else ""


def _first_line(thing):
    return inspect.getdoc(thing).splitlines()[0]


def pictures(page, text):
    """A built page's HTML in which a picture as wide as a page of print is `wide`, and a cell's has
    a frame, too.

    Shrunk to a telephone, a wide picture has letters five pixels high, and a narrow one still has
    letters of nine. The picture of a cell, whose words are its path, is said to be that.
    """

    def told(found):
        alt, source = found.groups()
        with Image.open(page.parent / source) as picture:
            # cells' pictures hold no scale: they have 150
            inches = picture.width / picture.info.get("dpi", (150,))[0]
        wide = 'class="wide" ' if inches > 6 else ""
        if alt != source:
            return f'<img {wide}alt="{alt}" src="{source}" />'
        return f'{FIGURE}<img {wide}alt="What the cell above draws" src="{source}" /></p>'

    return re.sub(r'<img alt="([^"]*)" src="([^":]+\.png)" />', told, text)


def values(text):
    """A built page's HTML in which short cells of tables that hold a number are of class `value`:
    they never break."""

    def told(found):
        options, before, cell = found.groups()
        is_value = len(cell) <= LONGEST_VALUE and any(c.isdigit() for c in cell)
        if not is_value:
            return found[0]
        if 'class="' in options:
            options = options.replace('class="', 'class="value ')
        else:
            options += ' class="value"'
        return f"<td{options}>{before}{cell}"

    return re.sub(r"<td((?: [^>]*)?)>(\s*(?:<p>)?)([^<]+)(?=(?:</p>)?\s*</td>)", told, text)


def prose(text):
    """A built page's HTML in which what notebooks print in sentences, without columns, is of class
    `prose`: its lines break where the screen ends."""

    def told(found):
        printed = unescape(re.sub(r"<[^>]+>", "", found[2]))
        has_columns = re.search(r"\S {2,}\S", printed)
        is_wide = max(map(len, printed.splitlines()), default=0) > LONGEST_PRINTED
        kind = " prose" if is_wide and not has_columns else ""
        return f'<div class="output{kind} {found[1]}<pre{found[2]}</pre>'

    output = r'<div class="output ([^>]*><div class="highlight">)<pre(.*?)</pre>'
    return re.sub(output, told, text, flags=re.DOTALL)


def fetched(site):
    """What the pages and styles of a built site would load from elsewhere, as a list of "file:
    what"."""
    files = [path for kind in ("html", "css") for path in sorted(Path(site).rglob(f"*.{kind}"))]
    return [
        f"{path.relative_to(site)}: {found[:120]}"
        for path in files
        for found in _FETCHED.findall(path.read_text(encoding="utf-8"))
    ]
