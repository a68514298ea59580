"""The README's sections of results, written from the records so that no number in them is typed in."""

import json
from pathlib import Path

from handful_papers.catalogue import catalogue
from handful_papers.gather import agree, claims, collect, tally, tally_text

COMMITTED = ("paper", "laptop")  # quick results are build output: a fresh clone has none
SECTIONS = ("tally", "items", "peers")


def tally_section(*, figures, profiles=COMMITTED):
    """One sentence on all claims of the papers, then a row a paper.

    Parameters
    ----------
    figures : pathlib.Path, the folder of results
    profiles : where to look for results, the preferred one first
    """
    results = collect(figures, tuple(profiles))
    stated = claims(results)
    papers, own = [c for c in stated if not c.own], [c for c in stated if c.own]
    lines = [
        f"Of {len(papers)} claims of four papers, {tally_text(tally(papers))}. "
        f"Of {len(own)} further claims of our own (extensions and controls), {tally_text(tally(own))}.",
        "",
        "| paper | what it gives | its claims | items, by the data of our runs |",
        "|---|---|---|---|",
    ]
    for paper in catalogue():
        mine = [c for c in papers if c.result.paper == paper.key]
        mine = mine or [c for c in own if c.result.paper == paper.key]  # the room of our own notebooks
        kinds = [r.level.partition(":")[0] for r in results if r.paper == paper.key]
        data = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
        lines.append(_cells(f"**{paper.title}** ({paper.source})", paper.about, tally_text(tally(mine)), data))
    return "\n".join(lines)


def items_section(*, figures, profiles=COMMITTED):
    """Tables of all items: what was measured, the paper's number, ours, the data of the run, the verdicts.

    The number shown is the item's first claim; the verdicts are those of the paper's claims, or ours where it makes
    none.
    """
    results = collect(figures, tuple(profiles))
    lines = []
    for paper in catalogue():
        lines += [f"**{paper.title}** ({paper.source})", ""]
        lines += ["| item | measured | paper | ours | data | verdicts | minutes |", "|---|---|---|---|---|---|---|"]
        lines += [_row(item, results) for item in paper.items]
        lines += [""]
    return "\n".join(lines)


def peers_section(*, figures):
    """The benchmark against what one would pick instead, as ``make bench`` left it beside the `figures`."""
    table = figures.parent / "benchmarks" / "results" / "peers.md"
    return table.read_text(encoding="utf-8").partition("\n\n")[2]  # without the heading


def update_readme(text, *, figures):
    """The README's text with each section between its two markers. ValueError unless each marker is there once."""
    for name, section in zip(SECTIONS, (tally_section, items_section, peers_section)):
        begin, end = markers(name)
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
            raise ValueError(f"README.md must hold these two lines once, in this order:\n{begin}\n{end}")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{section(figures=figures).strip()}\n\n{end}{rest.split(end)[1]}"
    return text


def update_index(text, *, figures):
    """The notebook of contents with its cell tagged `items` as the records give it. ValueError unless one is."""
    notebook = json.loads(text)
    tagged = [cell for cell in notebook["cells"] if "items" in cell["metadata"].get("tags", ())]
    if len(tagged) != 1:
        raise ValueError(f"notebooks/index.ipynb must hold one cell tagged `items`, got {len(tagged)}.")
    table = items_section(figures=figures).strip().replace("](notebooks/", "](")
    tagged[0]["source"] = table.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def markers(name):
    """The two lines between which a section stands."""
    return f"<!-- {name}: begin; written by `handful readme --write`, do not edit -->", f"<!-- {name}: end -->"


def check_readme(path, *, figures, write=False):
    """Whether README.md and notebooks/index.ipynb hold what the records give; with `write`, put it there.

    Returns
    -------
    bool : True if it was up to date already
    """
    path, same = Path(path), True
    for page, update in ((path, update_readme), (path.parent / "notebooks" / "index.ipynb", update_index)):
        text = page.read_text(encoding="utf-8")
        new = update(text, figures=figures)
        same &= new == text
        if write and new != text:
            page.write_text(new, encoding="utf-8")
    return same


def _row(item, results):
    label = f"{item.label}: {item.title}" if item.label else item.title
    label = f"[{label}](notebooks/{item.name}.ipynb)"
    mine = [r for r in results if r.name == item.name]
    if not mine:
        return _cells(label, "not yet run", "", "", "", "", "")
    time = f"{mine[0].minutes} ({mine[0].profile})"
    found = [c for c in claims(mine) if c.item == item.label]
    if not found:
        return _cells(label, "see the figure", "", "", mine[0].level, "", time)
    judged = [c for c in found if not c.own] or found
    first = judged[0]
    counts = tally(judged)
    verdicts = first.verdict if len(judged) == 1 else ", ".join(f"{n} {agree(v, n)}" for v, n in counts.items())
    return _cells(label, first.measured, first.paper, first.ours, mine[0].level, verdicts, time)


def _cells(*cells):
    return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"
