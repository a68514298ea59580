"""The table of all items in notebooks/index.ipynb, written from the records so that no number in it is typed in."""

import json

from handful_papers.catalogue import catalogue
from handful_papers.gather import agree, claims, collect, tally

COMMITTED = ("paper", "laptop")  # quick results are build output: a fresh clone has none


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


def update_index(text, *, figures):
    """The notebook of contents with its cell tagged `items` as the records give it. ValueError unless one is."""
    notebook = json.loads(text)
    tagged = [cell for cell in notebook["cells"] if "items" in cell["metadata"].get("tags", ())]
    if len(tagged) != 1:
        raise ValueError(f"notebooks/index.ipynb must hold one cell tagged `items`, got {len(tagged)}.")
    table = items_section(figures=figures).strip().replace("](notebooks/", "](")
    tagged[0]["source"] = table.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def check_index(path, *, figures, write=False):
    """Whether notebooks/index.ipynb holds what the records give; with `write`, put it there.

    Returns
    -------
    bool : True if it was up to date already
    """
    text = path.read_text(encoding="utf-8")
    new = update_index(text, figures=figures)
    if write and new != text:
        path.write_text(new, encoding="utf-8")
    return new == text


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
