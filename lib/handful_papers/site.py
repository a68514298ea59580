"""The records as tables: for the terminal, and as the site's pages on the reproduction."""

import os
import re
from collections import Counter

from handful_papers.claims import HOME, VERDICTS
from handful_papers.experiment import GENERATED, OWN, figure, ours_text, paper_text, papers, verdict_text
from handful_papers.run import COMMITTED, FIGURES, plan, records, stale

STRATA = ("on the paper's data", "reduced or stand-in data", "mathematics and timing")
REPOSITORY = HOME.parents[1]


def stratum(claim, record):
    """Which of the `STRATA` a judged claim counts in: by what it is, and by the data of its run."""
    if claim["kind"] == "check":
        return STRATA[2]
    generated = record["level"]["kind"] == GENERATED and not any(i.get("data") for i in figure(record["item"])["item"])
    return STRATA[0] if record["level"]["kind"] == OWN or generated else STRATA[1]


def tally(claims):
    """How often each verdict came, as words: "12 agree, 3 disagree, 5 cannot tell (3 noise, 2 size)"."""
    counts, told = Counter(c["verdict"] for c in claims), []
    for verdict in VERDICTS:
        reasons = Counter(c["reason"] for c in claims if c["verdict"] == verdict and c["reason"])
        why = f" ({', '.join(f'{n} {reason}' for reason, n in reasons.most_common())})" if reasons else ""
        if n := counts[verdict]:
            told.append(f"{n} {verdict if n == 1 else verdict.rstrip('s')}{why}")
    return ", ".join(told) or "no claims"


def item_rows(profiles=COMMITTED, figures=FIGURES):
    """A dict for each figure, for the largest of the profiles that it was run at, and sentences on refused records.

    Returns
    -------
    rows : list of dict with name, labels, titles, record (None where there is none), path, stale (a reason, or "")
    refused : list of str
    """
    found, refused = records(figures, profiles)
    first = {}
    for path, record in found:
        first.setdefault(record["item"], (path, record))
    rows = []
    for run in plan(profiles[-1]):
        path, record = first.get(run.name, (None, None))
        items = figure(run.name)["item"]
        why = stale(record, plan(record["profile"], [run.name])[0]) if record else ""
        labels = ", ".join(item["label"] for item in items if item["label"])
        rows.append(
            dict(
                name=run.name,
                labels=labels,
                titles="; ".join(i["title"] for i in items),
                record=record,
                path=path,
                stale=why,
            )
        )
    return rows, refused


def terminal(profiles=COMMITTED, figures=FIGURES):
    """The table of all figures as text: whose record, how old, of which data, and its verdicts."""
    rows, refused = item_rows(profiles, figures)
    lines = []
    for row in rows:
        record = row["record"]
        if record is None:
            lines.append(f"{row['name']:<36} not run at {' or '.join(profiles)}")
            continue
        state = f"stale: {row['stale']}" if row["stale"] else "current"
        verdicts = tally([c for c in record["claims"] if c["whose"] == "paper"])
        lines.append(f"{row['name']:<36} {record['profile']:<6} {state}; {record['level']['text']}; {verdicts}")
    judged = [(c, row["record"]) for row in rows if row["record"] for c in row["record"]["claims"]]
    for name in STRATA:
        mine = [c for c, record in judged if c["whose"] == "paper" and stratum(c, record) == name]
        lines.append(f"Claims of the papers {name}: {tally(mine)}")
    lines.append(f"Claims of our own: {tally([c for c, _ in judged if c['whose'] == 'own'])}")
    n_stale = sum(bool(row["stale"]) for row in rows)
    lines.append(f"{sum(row['record'] is not None for row in rows)} of {len(rows)} figures on record, {n_stale} stale.")
    return "\n".join([*(f"Left out: {sentence}" for sentence in refused), *lines])


def verdict_table(figures=FIGURES):
    """Markdown: the papers' claims by stratum and verdict, paper by paper."""
    rows, _ = item_rows(figures=figures)
    lines = _table(["paper", *STRATA, "ours (extensions, controls)"])
    for key, paper in papers().items():
        judged = [
            (c, r["record"])
            for r in rows
            if r["record"] and r["name"].startswith(f"{key}/")
            for c in r["record"]["claims"]
        ]
        theirs = [
            tally([c for c, rec in judged if c["whose"] == "paper" and stratum(c, rec) == name]) for name in STRATA
        ]
        own = tally([c for c, _ in judged if c["whose"] == "own"])
        lines.append(_cells(f"[{paper['title']}]({key}.md)", *(t if t != "no claims" else "–" for t in (*theirs, own))))
    return "\n".join(lines)


def items_table(profiles=COMMITTED, figures=FIGURES):
    """Markdown: every figure with the data of its run, its verdicts and the minutes that it took."""
    rows, _ = item_rows(profiles, figures)
    lines = _table(["item", "data of the run", "the paper's claims", "minutes (profile)"])
    for row in rows:
        label = f"{row['labels']}: {row['titles']}" if row["labels"] else row["titles"]
        link = f"[{label}](#{_target(row)})"
        if (record := row["record"]) is None:
            lines.append(_cells(link, "not run", "–", "–"))
            continue
        verdicts = tally([c for c in record["claims"] if c["whose"] == "paper"])
        time = f"{record['seconds'] / 60:.2g} ({record['profile']})"
        lines.append(_cells(link, record["level"]["text"], verdicts if verdicts != "no claims" else "–", time))
    return "\n".join(lines)


def paper_page(key, folder, figures=FIGURES):
    """Markdown: a paper's figures, each with its picture, what made it, and its claims in a table that unfolds."""
    paper, rows = papers()[key], item_rows(figures=figures)[0]
    lines = [f"# {paper['title']}", "", f"{paper['source']}. {paper['about']}.", ""]
    lines += [f"[The paper]({paper['url']})", ""] if paper.get("url") else []
    for row in (row for row in rows if row["name"].startswith(f"{key}/")):
        stem, record = row["name"].split("/")[1], row["record"]
        abouts = dict.fromkeys(f"{item['about']}." for item in figure(row["name"])["item"])
        heading = f"{row['labels']}: {row['titles']}" if row["labels"] else row["titles"]
        lines += [f"({_target(row)})=", f"## {heading}", ""]
        lines += [*abouts, ""]
        if record is None:
            lines += [f"Not run yet: `handful reproduce --profile laptop --only {stem}`.", ""]
            continue
        for name, caption in list(record["figures"].items())[:1]:
            lines += [f"![{caption}]({os.path.relpath(row['path'].with_name(f'{name}.png'), folder)})", ""]
        made = f"profile {record['profile']}, {len(record['seeds'])} seeds, {record['seconds'] / 60:.2g} minutes"
        source = f"[the executed notebook](../notebooks/{row['name']}.ipynb)"
        lines += [
            f"{source[0].upper()}{source[1:]}; data: {record['level']['text']}; {made}; commit {record['commit'][:10]}."
        ]
        lines += [f"*Stale: {row['stale']}.*"] if row["stale"] else []
        if record["reductions"]:
            lines += _folded("Other than in the paper", [f"- {_plain(s)}" for s in record["reductions"]])
        if record["claims"]:
            lines += _folded(f"Claims: {tally(record['claims'])}", _claims(record["claims"]))
        lines += [""]
    notebooks = [f"../notebooks/{row['name']}" for row in rows if row["record"] and row["name"].startswith(f"{key}/")]
    return "\n".join([*lines, "```{toctree}", ":hidden:", *notebooks, "```", ""])


def _claims(claims):
    lines = _table(["claim", "paper", "ours, 95 % interval", "verdict", "how"])
    for c in claims:
        whose = f"“{c['quote']}” ({c['where']})" if c["whose"] == "paper" else "ours"
        cells = (f"{c['text']}. {whose}", paper_text(c), ours_text(c), verdict_text(c), f"{c['measured']}: {c['why']}")
        lines.append(_cells(*map(_plain, cells)))
    return lines


def write_pages(docs):
    """Write the pages on the reproduction into the folder of the site's sources: the paths of what is there now.

    ``reproduction/items.md`` has the tables, ``reproduction/<paper>.md`` a paper's figures, ``notebooks/`` the executed
    notebooks; ``reproduction/quick.md`` the reader's own quick run, where there is one.
    """
    folder, notebooks = docs / "reproduction", docs / "notebooks"
    parts = ["# All items", "The papers' claims, by what our data can say of them.", verdict_table(), items_table()]
    pages = {folder / "items.md": "\n\n".join(parts) + "\n"}
    pages |= {folder / f"{key}.md": paper_page(key, folder) for key in papers()}
    if any((FIGURES / "quick").glob("*/*.json")):
        table = terminal(("quick",))
        intro = "What `make reproduce` left here, on small data: it shows that the code runs, and decides no claim."
        pages[folder / "quick.md"] = (
            f"---\norphan: true\n---\n# Your own quick run\n\n{intro}\n\n```text\n{table}\n```\n"
        )
    for row in item_rows()[0]:
        executed = row["path"].with_suffix(".ipynb") if row["path"] else None
        if executed and executed.is_file():
            pages[notebooks / f"{row['name']}.ipynb"] = executed.read_text(encoding="utf-8")
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # sphinx reads only what changed
            path.write_text(text, encoding="utf-8")
    for path in [*folder.glob("*.md"), *notebooks.glob("*/*.ipynb")]:
        if path not in pages:
            path.unlink()
    return list(pages)


def _target(row):
    return row["name"].replace("/", "-").replace("_", "-").lower()


def _folded(summary, lines):
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def _table(heads):
    return [_cells(*heads), "|" + "---|" * len(heads)]


def _cells(*cells):
    return "| " + " | ".join(str(c).replace("\n", " ") for c in cells) + " |"


def _plain(text):
    return re.sub(r"([|$<>*_`\[\]{}])", r"\\\1", str(text)).replace("\n", " ")
