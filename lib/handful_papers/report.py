"""The report: a static site of all claims, figures and notebooks, without a server or a network."""

import inspect
import os
import re
import struct
from functools import cache
from pathlib import Path

import numpy as np

from handful_papers import provenance
from handful_papers.catalogue import ROOMS, catalogue
from handful_papers.check import COMMITTED, stale
from handful_papers.claims import declared
from handful_papers.gather import claims, collect, damaged, failures, minutes, tally, tally_text
from handful_papers.levels import LEVELS
from handful_papers.notebooks import read_notebook
from handful_papers.verdicts import FAILS, RULES, number

_TEMPLATES = Path(__file__).with_name("templates")
_SHOWN = 1.4  # pixels of our figures (200 a inch) per CSS pixel


def build_report(figures):
    """Write the site into a folder of results.

    ``index.html`` is the first screen, ``claims.html`` the table of all claims, ``<paper>.html`` one page a paper with
    a card for each notebook; each notebook is a page under ``notebooks/``, as executed where it was.

    Parameters
    ----------
    figures : pathlib.Path, the folder of results

    Returns
    -------
    pathlib.Path of the first page
    """
    figures = Path(figures).resolve()
    figures.mkdir(parents=True, exist_ok=True)
    results, failed, root = collect(figures), failures(figures), provenance.find_root()
    stated = claims(results)
    cards = {paper.key: _cards(paper, results, stated) for paper in catalogue()}
    shown = {card["name"] for mine in cards.values() for card in mine if card["results"]}
    executed = [r.executed for r in results if r.executed] + [f["executed"] for f in failed if f["executed"]]
    sources = {name: root / "notebooks" / f"{name}.ipynb" for name in sorted(shown) if root}
    sources = {name: path for name, path in sources.items() if path.is_file()}
    pages = {path: _page_of(path, figures) for path in executed}
    pages |= {path: figures / "notebooks" / "source" / f"{name}.html" for name, path in sources.items()}
    for path, page in pages.items():
        _notebook_page(path, page, figures, shown, sources)
    old = stale(figures, root / "notebooks") if root else []
    rules = {claim.id: claim for paper in catalogue() for i in paper.items for claim in declared(i.paper, i.notebook)}
    shared = {
        "papers": catalogue(),
        "cards": cards,
        "stated": stated,
        "stale": old,
        "n_committed": sum(r.profile in COMMITTED for r in results),
        "reasons": {(s.name, s.profile): s.reason for s in old},
        "sources": sources,
        "link": lambda path: _relative(pages.get(path, path), figures),
        "size": _css_size,
        "algorithms": lambda mine: _algorithms(mine, sources),
        "code": _code(),
        "judged": lambda claim: _judged(claim.row, rules.get(claim.id)),
        "pictured": _pictured,
        "in_ranges": _in_ranges,
        "short": _short,
        "minutes": minutes,
        "tally": tally,
        "tally_text": tally_text,
    }
    _write(
        figures / "index.html",
        "index.html",
        **shared,
        failed=failed,
        damaged=damaged(figures),
        items=_items(cards),
        map=_map(cards),
        surprises=_surprises(stated),
        rules={name: inspect.getdoc(rule).split("\n\nParameters")[0] for name, rule in RULES.items()},
    )
    _write(figures / "claims.html", "claims.html", **shared)
    for paper in catalogue():
        _write(figures / f"{paper.key}.html", "paper.html", **shared, paper=paper)
    return figures / "index.html"


def _cards(paper, results, stated):
    """A dict for each notebook of a paper: its items, its results (the largest first) and its claims."""
    mine = [r for r in results if r.paper == paper.key]
    return [
        {
            "name": name,
            "items": [i for i in paper.items if i.name == name],
            "results": [r for r in mine if r.name == name],
            "claims": [c for c in stated if c.result.name == name],
        }
        for name in dict.fromkeys([item.name for item in paper.items] + [r.name for r in mine])
    ]


def _items(cards):
    """The kind of data of each table and figure, "" where a part of it was not run: some take several notebooks."""
    kinds = {}
    for key, mine in cards.items():
        for card in mine:
            for item in card["items"]:
                kind = card["results"][0].kind if card["results"] else ""
                kinds.setdefault((key, item.label), []).append(kind)
    return ["" if "" in parts else max(parts, key=LEVELS.index) for (_, label), parts in kinds.items() if label]


def _map(cards):
    """paper -> kind of data -> list of (name, item, its claims that were judged on such data).

    The name is the item's label, and its title, too, where several notebooks make a part of it.
    """
    found = {key: {kind: [] for kind in LEVELS} for key in cards}
    for paper in catalogue():
        notebooks = {card["name"]: card for card in cards[paper.key]}
        labels = [item.label for item in paper.items]
        for item in paper.items:
            named = [item.label] if item.label and labels.count(item.label) == 1 else [item.label, item.title]
            name = ": ".join(filter(None, named))
            mine = [c for c in notebooks[item.name]["claims"] if c.item == item.label]
            kinds = {c.result.kind for c in mine} or {r.kind for r in notebooks[item.name]["results"][:1]}
            for kind in kinds:
                found[paper.key][kind].append((name, item, [c for c in mine if c.result.kind == kind]))
    return found


def _algorithms(mine, sources):
    """Pairs of an algorithm of a paper, as "Algorithm 1", and a list of (notebook, id of a cell, label) that show it.

    These are the notebooks that name it below a heading "... in the open", or else all that name it.
    """
    named = {}
    for card in (card for card in mine if card["results"]):
        path, heading = card["results"][0].executed or sources.get(card["name"]), ""
        for cell in read_notebook(path).cells if path else ():
            for line in cell["source"].splitlines() if cell["cell_type"] == "markdown" else ():
                heading = line if line.startswith("#") else heading
                for algorithm in re.findall(r"\bAlgorithm \d+", line):
                    open_or_not = named.setdefault(algorithm, ({}, {}))
                    found = (path, cell.get("id"), card["results"][0].label)
                    open_or_not["in the open" not in heading].setdefault(path, found)
    return [(name, list((shown or told).values())) for name, (shown, told) in sorted(named.items())]


def _surprises(stated, count=3):
    """The papers' claims that do not hold and whose number is farthest from the printed one, one of each item."""

    def factor(claim):
        ours, paper = claim.row["ours"], claim.row["paper"]
        return max(ours / paper, paper / ours) if isinstance(paper, (int, float)) and min(ours, paper) > 0 else 0.0

    failed = sorted((c for c in stated if not c.own and c.verdict == FAILS), key=factor, reverse=True)
    farthest = {}
    for claim in failed:
        if factor(claim) > 1:
            farthest.setdefault((claim.result.name, claim.item), claim)
    return list(farthest.values())[:count]


def _code():
    """notebook -> (path, text) of the module that takes the numbers of its claims from its rows."""
    paths = {item.name: ROOMS / item.paper / "items" / f"{item.notebook}.py" for p in catalogue() for item in p.items}
    return {name: (_relative(path, ROOMS.parents[1]), path.read_text("utf-8")) for name, path in paths.items()}


def _judged(row, claim):
    """The rule of a claim in words, whether it averages logarithms, and (setting, seeds, mean, spread) as text."""
    log = claim is not None and claim.numbers.get("scale") == "log"
    rule = "" if claim is None else ", ".join([f"Rule {claim.rule}", *(f"{k} = {v}" for k, v in claim.numbers.items())])
    rows = []
    for setting, values in row["settings"].items():
        values = np.log(values) if log else np.asarray(values)
        found = [values.mean(), *([values.std(ddof=1)] if len(values) > 1 else [])]
        mean, *spread = [number(float(v)) for v in (np.exp(found) if log else found)]
        rows.append((setting, len(values), mean, *(spread or [""])))
    return rule, log, rows


def _pictured(card, result):
    """What the first picture of a card shows, for who does not see it: its subject, and what it says of two claims."""
    shown = [c for c in card["claims"] if c.result is result and c.ours != "–"][:2]
    about = "; ".join(item.about for item in card["items"]) or result.title
    return ". ".join([about, *(f"{c.text}: {c.verdict} ({c.ours})" for c in shown)])


def _in_ranges(seeds):
    """Seeds as a reader wants them: "0 to 9", "3, 5"."""
    whole = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _short(value):
    """A value of a record with its numbers at four digits."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_short(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return number(value)


def _page_of(executed, figures):
    """The page of an executed notebook: under ``notebooks/``, whether its copy lies there or beside its record."""
    page = executed.relative_to(figures).with_suffix(".html")
    return figures / page if page.parts[0] == "notebooks" else figures / "notebooks" / page


def _notebook_page(path, page, figures, shown, sources):
    """A notebook as a page, written again only if the notebook or our looks are newer; `shown`: those with a card."""
    newest = max(file.stat().st_mtime for file in (path, *_TEMPLATES.iterdir(), Path(__file__)))
    if page.is_file() and page.stat().st_mtime > newest:
        return
    from handful_papers.notebook_pages import notebook_body  # imports nbconvert, which takes a second

    name = f"{path.parent.name}/{path.stem}"
    _write(
        page,
        "notebook.html",
        name=name,
        profile=path.parents[1].name if path.is_relative_to(figures) else "",
        home=_relative(figures, page.parent),
        card=f"{path.parent.name}.html#{path.stem}" if name in shown else "",
        raw=_relative(path, page.parent),
        body=notebook_body(path, sources.get(name, path)),
    )


def _relative(path, folder):
    return Path(os.path.relpath(path, folder)).as_posix()


def _css_size(png):
    """Width and height at which a PNG is shown, in CSS pixels: as large as its type is on the page."""
    with open(png, "rb") as file:
        width, height = struct.unpack(">II", file.read(24)[16:])  # the IHDR chunk comes first in every PNG
    return round(width / _SHOWN), round(height / _SHOWN)


def _write(page, template, **values):
    provenance.write_atomically(page, _templates().get_template(template).render(**values))


@cache
def _templates():
    from jinja2 import Environment, FileSystemLoader

    return Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
