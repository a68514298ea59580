"""The report: one static site of all claims, figures and notebooks, without a server or a network."""

import os
import re
import struct
from pathlib import Path

from handful.experiments import provenance
from handful.experiments.gather import LARGEST_FIRST, agree, catalogue, claims, collect, failures, tally

_TEMPLATES = Path(__file__).with_name("templates")
_SHOWN = 1.4  # pixels of our figures (200 a inch) per CSS pixel
# A page that needs the network to look right is no record: whatever would fetch code or style goes.
_REMOTE = re.compile(r"<script\b[^>]*\bsrc\s*=.*?</script\s*>|<link\b[^>]*>", re.IGNORECASE | re.DOTALL)


def build_report(figures):
    """Write ``<figures>/index.html`` and an HTML copy of each executed notebook.

    Parameters
    ----------
    figures : pathlib.Path, the folder of results

    Returns
    -------
    pathlib.Path of the page
    """
    figures = Path(figures).resolve()
    figures.mkdir(parents=True, exist_ok=True)
    results, failed = collect(figures), failures(figures)
    pages = {}
    for path in [r.executed for r in results] + [f["executed"] for f in failed]:
        if path and path not in pages:
            pages[path] = _notebook_page(path)
    done = _results_by_label(results)
    stated = claims(results)
    page = _render(
        "report.html",
        papers=[_paper(paper, results) for paper in catalogue()],
        claims=_by_paper(stated),
        tally=tally(c for c in stated if not c.own),
        verdicts=tally(stated),
        tally_own=tally(c for c in stated if c.own),
        failed=failed,
        n_items=len(done),
        n_done=sum(all(parts) for parts in done.values()),
        n_full=sum(all(any(r.profile != "quick" for r in part) for part in parts) for parts in done.values()),
        agree=agree,
        size=_css_size,
        link=lambda path: Path(os.path.relpath(pages.get(path, path), figures)).as_posix(),
    )
    provenance.write_atomically(figures / "index.html", page)
    return figures / "index.html"


def _paper(paper, results):
    """A paper with its results by profile and the items that have none."""
    mine = [r for r in results if r.paper == paper.key]
    profiles = [p for p in LARGEST_FIRST if any(r.profile == p for r in mine)]
    return {
        "paper": paper,
        "profiles": [(profile, [r for r in mine if r.profile == profile]) for profile in profiles],
        "missing": [item for item in paper.items if not _of(item, results)],
    }


def _results_by_label(results):
    """(paper, "Figure 2") -> the results of each of its parts: some figures take several notebooks."""
    found = {}
    for paper in catalogue():
        for item in paper.items:
            if item.item:
                found.setdefault((paper.key, item.item), []).append(_of(item, results))
    return found


def _of(item, results):
    return [r for r in results if item.name and r.name == item.name]


def _by_paper(found):
    return [(paper, mine) for paper in catalogue() if (mine := [c for c in found if c.result.paper == paper.key])]


def _notebook_page(path):
    """An executed notebook as a page of its own beside it, written again only if the notebook is newer."""
    page = path.with_suffix(".html")
    looks = max((_TEMPLATES / name).stat().st_mtime for name in ("notebook.html", "page.css"))
    if page.is_file() and page.stat().st_mtime > max(path.stat().st_mtime, looks):
        return page
    import nbformat
    from nbconvert import HTMLExporter

    notebook = nbformat.read(path, as_version=4)
    exporter = HTMLExporter(template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True)
    body, _ = exporter.from_notebook_node(notebook)
    home = Path(os.path.relpath(_figures_of(path) / "index.html", page.parent)).as_posix()
    name = f"{path.parent.name}/{path.stem}"
    html = _render("notebook.html", body=_REMOTE.sub("", body), name=name, profile=path.parent.parent.name, home=home)
    provenance.write_atomically(page, html)
    return page


def _css_size(png):
    """Width and height at which a PNG is shown, in CSS pixels: as large as its type is on the page."""
    with open(png, "rb") as file:
        width, height = struct.unpack(">II", file.read(24)[16:])  # the IHDR chunk comes first in every PNG
    return round(width / _SHOWN), round(height / _SHOWN)


def _figures_of(executed):
    return executed.parents[3]  # figures/notebooks/<profile>/<paper>/<notebook>.ipynb


def _render(template, **values):
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    source = environment.from_string((_TEMPLATES / template).read_text(encoding="utf-8"))
    return source.render(css=(_TEMPLATES / "page.css").read_text(encoding="utf-8"), **values)
