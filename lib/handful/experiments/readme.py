"""The README's table of results, written from the records so that no number in it is typed in."""

from pathlib import Path

from handful.experiments.gather import agree, catalogue, claims, collect, tally

BEGIN = "<!-- results: begin; written by `handful readme --write`, do not edit -->"
END = "<!-- results: end -->"
COMMITTED = ("paper", "laptop")  # quick results are build output: a fresh clone has none


def readme_table(profile_order=COMMITTED, *, figures):
    """Markdown tables of all items of the four papers: notebook, minutes, our number, the paper's, verdict.

    The number shown is the item's first claim; the verdict sums up the paper's claims, or ours where it makes none.

    Parameters
    ----------
    profile_order : profiles to look for results at, the preferred one first
    figures : pathlib.Path, the folder of results
    """
    results = collect(figures, tuple(profile_order))
    lines = []
    for paper in catalogue():
        lines += [f"**{paper.title}** ({paper.source})", ""]
        lines += ["| item | notebook | minutes | ours | paper | verdict |", "|---|---|---|---|---|---|"]
        lines += [_row(item, results) for item in paper.items]
        lines += [""]
    return "\n".join(lines)


def update_readme(text, table):
    """The README's text with the table between its two markers. ValueError unless each is there once."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"README.md must hold these two lines once, in this order:\n{BEGIN}\n{END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table.strip()}\n\n{END}{rest.split(END)[1]}"


def _row(item, results):
    label = f"{item.item}: {item.title}" if item.item else item.title
    if not item.notebook:
        return _cells(label, "not yet", "", "", "", "")
    notebook = f"[{item.notebook}](notebooks/{item.name}.ipynb)"
    mine = [r for r in results if r.name == item.name]
    if not mine:
        return _cells(label, notebook, "", "not yet run", "", "")
    found = claims(mine)
    found = [c for c in found if c.item == item.item] or found
    time = f"{mine[0].minutes} ({mine[0].profile})"
    if not found:
        return _cells(label, notebook, time, "see figure", "", "")
    found = [c for c in found if not c.own] or found
    counts = tally(found)
    verdict = next(iter(counts)) if len(found) == 1 else ", ".join(f"{n} {agree(v, n)}" for v, n in counts.items())
    return _cells(label, notebook, time, found[0].ours, found[0].paper, verdict)


def _cells(*cells):
    return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"


def check_readme(path, *, figures, write=False):
    """Whether README.md holds the table that the records give; with `write`, put it there.

    Returns
    -------
    bool : True if it was up to date already
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    new = update_readme(text, readme_table(figures=figures))
    if write and new != text:
        path.write_text(new, encoding="utf-8")
    return new == text
