"""The records as tables: for the terminal, and as the site's pages on the reproduction."""

import json
import os
import re
from collections import Counter

from handful_papers.claims import AGREES, DISAGREES, VERDICTS
from handful_papers.committed import COMMITTED, FIGURES, records
from handful_papers.entries import figure_entry, papers
from handful_papers.levels import GENERATED, OWN, PART
from handful_papers.parameters import NOTEBOOKS
from handful_papers.run import items_of, plan, stale
from handful_papers.texts import claims_table, number_text, ours_text, paper_text, verdict_text
from handful_papers.verification import doubts, sources, unverified

QUICK = (
    "Quick runs test the code; verdicts are those of profile laptop: `handful report` prints them."
)
EXTENTS = AS_PRINTED, REDUCED, REPLACED = ("as printed", "reduced", "replaced")
# What the columns of the terminal's table are, as a row of it.
HEADS = dict(
    name="name",
    time="minutes",
    stale="",
    unverified="",
    doubts=(),
    data="data of the run",
    verdicts="the paper's claims",
)
STRATA = (
    "on the paper's data, or drawn as it says",
    "on other data or with another model",
    "of mathematics and timing",
    "ours",
)


def extents(record):
    """What a run has of the paper's (data, size, model): one of `EXTENTS` each. Size: rows, steps,
    grids and seeds."""
    about = figure_entry(record["item"])
    kind = record["level"]["kind"]
    whole = kind == OWN or (
        kind == GENERATED and not any(item.get("data") for item in about["item"])
    )
    of_run = AS_PRINTED if whole else REDUCED if kind == PART else REPLACED
    size = REDUCED if record["reductions"] else AS_PRINTED
    return about.get("data", of_run), size, about.get("model", AS_PRINTED)


def stratum(claim, record):
    """Which of the `STRATA` a judged claim counts in: by whose it is, what it is, and the data and
    model of its run."""
    if claim["whose"] == "own":
        return STRATA[3]
    if claim["kind"] == "check":
        return STRATA[2]
    data, _, model = extents(record)
    return STRATA[0] if data == model == AS_PRINTED else STRATA[1]


def tally(claims):
    """How often each verdict came, as words: "12 agree, 3 disagree, 5 cannot tell (3 noise, 2
    size)"; "–" for none."""
    told = []
    for verdict in VERDICTS:
        mine = [c for c in claims if c["verdict"] == verdict]
        reasons = Counter(c["reason"] for c in mine if c["reason"]).most_common()
        why = f" ({', '.join(f'{n} {reason}' for reason, n in reasons)})" if reasons else ""
        told += (
            [f"{len(mine)} {verdict if len(mine) == 1 else verdict.rstrip('s')}{why}"]
            if mine
            else []
        )
    return ", ".join(told) or "–"


def item_rows(profiles=COMMITTED, figures=FIGURES):
    """A dict for each figure, for the largest of the profiles that it was run at, and sentences on
    refused records.

    A claim for which the largest run has no number, as it left out what the claim is about, is that
    of the next smaller run.

    Returns
    -------
    rows : list of dict with name, title, record and its path (None where there is none), stale (a
        reason, or ""), unverified (reasons, words) and doubts (a list of them) of all its runs,
        claims, runs (path and record of each run that gave some of them, the largest first), run_of
        (its record by each claim's id), and what tables say of it: data, verdicts of the paper's
        claims, time
    refused : list of str
    """
    found, refused = records(figures, profiles)
    rows = []
    for name in items_of(profiles):
        runs = [(path, record) for path, record in found if record["item"] == name]
        path, record = runs[0] if runs else (None, None)
        items = figure_entry(name)["item"]
        labels = ", ".join(filter(None, (i["label"] for i in items)))
        title = "; ".join(i["title"] for i in items)
        row = dict(
            name=name,
            title=f"{labels}: {title}" if labels else title,
            record=record,
            path=path,
            claims=[],
            runs=[],
            run_of={},
        )
        row |= dict(stale="", unverified="", doubts=[], data="not run", verdicts="–", time="–")
        if record:
            row |= _claims_of(runs)
            row["stale"] = stale(record, plan(record["profile"], [name])[0])
            row["unverified"] = "; ".join(_by_profile(runs, lambda *run: [unverified(*run)]))
            row["doubts"] = _by_profile(runs, lambda _, record: doubts(record))
            minutes = number_text(float(f"{record['seconds'] / 60:.2g}"))
            row |= dict(data=record["level"]["text"], time=f"{minutes} ({record['profile']})")
            row["verdicts"] = tally([c for c in row["claims"] if c["whose"] == "paper"])
        rows.append(row)
    return rows, refused


def _by_profile(runs, reasons):
    """Reasons against the runs of a figure, those against a smaller one under its profile's name; a
    list without empty ones."""
    largest = runs[0][1]["profile"]
    return [
        told if record["profile"] == largest else f"at profile {record['profile']}: {told}"
        for path, record in runs
        for told in reasons(path, record)
        if told
    ]


def _claims_of(runs):
    """claims, runs and run_of of a row of `item_rows`, from all runs of a figure, the largest
    first."""
    claims = []
    run_of = {}
    for claim in runs[0][1]["claims"]:
        having = [
            (judged, record)
            for _, record in runs
            for judged in record["claims"]
            if judged["id"] == claim["id"] and judged["ours"] is not None
        ]
        judged, run_of[claim["id"]] = having[0] if having else (claim, runs[0][1])
        claims.append(judged)
    giving = [runs[0][1], *run_of.values()]
    return dict(
        claims=claims,
        runs=[(path, record) for path, record in runs if record in giving],
        run_of=run_of,
    )


def by_stratum(rows):
    """Stratum -> tally of the claims of these rows."""
    judged = _judged(rows)
    return {name: tally([claim for where, claim in judged if where == name]) for name in STRATA}


def summary(rows):
    """What a reader wants to know of the claims of the papers that are reproduced, as a paragraph:
    how many agree, on which data, by what rules.

    Parameters
    ----------
    rows : list of dict, of `item_rows`
    """
    judged = _judged(_of_reproduced_papers(rows))
    counts = []
    for name in STRATA[:3]:
        found = Counter(claim["verdict"] for where, claim in judged if where == name)
        counts += [found[verdict] for verdict in VERDICTS]
    told = (
        "The four papers' claims that agree, disagree and cannot be told: {}, {} and {} on their "
        "own data, or data drawn as they say; {}, {} and {} on less or other data, or with another "
        "model; {}, {} and {} of mathematics and timing."
    ).format(*counts)
    of_papers = [claim for where, claim in judged if where != STRATA[3]]
    agreeing = [claim["id"] for claim in of_papers if claim["verdict"] == AGREES]
    softened = _softened(rows)
    milder = [name for name in agreeing if name in softened]
    if milder:
        told += (
            f" Of the {len(agreeing)} that agree, {len(milder)} do so by a rule that was made "
            f"milder after its result was known ({', '.join(milder)})."
        )
    return told


def _of_reproduced_papers(rows):
    """Those of some rows whose figure is of a paper that is reproduced here, and not ours or of a
    public benchmark."""
    reproduced = {key for key, paper in papers().items() if "short" in paper}
    return [row for row in rows if row["name"].split("/")[0] in reproduced]


def _judged(rows):
    """(stratum, claim) of each judged claim of some rows."""
    return [
        (stratum(claim, row["run_of"][claim["id"]]), claim)
        for row in rows
        for claim in row["claims"]
    ]


def _n_of_papers(rows):
    """How many of the judged claims of some rows are a paper's."""
    return sum(where != STRATA[3] for where, _ in _judged(rows))


def _softened(rows):
    """Ids of the declared claims of some rows whose rule was made milder."""
    declared = [claim for row in rows for claim in figure_entry(row["name"])["claim"]]
    return {claim.id for claim in declared if claim.softened}


def terminal(profiles=COMMITTED, figures=FIGURES, only=None):
    """The table of all figures, or of `only` some, as text: minutes, data, verdicts, and what is
    stale.

    A quick run has no verdicts, as its data are too few for any. Of some figures there is no
    summary, which is of whole papers.
    """
    every, refused = item_rows(profiles, figures)
    rows = [row for row in every if only is None or row["name"] in only]
    lines = [f"Left out: {sentence}" for sentence in refused]
    n_recorded = sum(row["record"] is not None for row in rows)
    n_stale = sum(bool(row["stale"]) for row in rows)
    count = f"{n_recorded} of {len(rows)} figures on record, {n_stale} stale."
    if tuple(profiles) == ("quick",):
        lines += [_state_line(row) for row in (HEADS, *rows)]
        return "\n".join([*lines, count, QUICK])
    lines += [f"{_state_line(row, _against(row))}; {row['verdicts']}" for row in (HEADS, *rows)]
    lines += [f"Claims {name}: {told}" for name, told in by_stratum(rows).items()]
    n_others = _n_of_papers(rows) - _n_of_papers(_of_reproduced_papers(rows))
    if n_others:
        lines.append(f"Claims of other papers, whose benchmarks we run, among these: {n_others}")
    told = [summary(rows)] if rows == every else []
    return "\n".join([*lines, count, *_doubts(rows), *told])


def _state_line(row, against=""):
    """A row's name, time, state and data, as a line; `against` says why it is unverified."""
    state = f"stale: {row['stale']}; " if row["stale"] else ""
    if against:
        state += f"unverified: {against}; "
    return f"{row['name']:<34} {row['time']:<14} {state}{row['data']}"


def _against(row):
    """Why a figure's records are unverified, as words."""
    return "; ".join(filter(None, [row["unverified"], *row["doubts"]]))


def _doubts(rows):
    """Of how many figures records are unverified, a list of one line or none."""
    n_doubted = sum(bool(_against(row)) for row in rows)
    return [f"{n_doubted} of them are unverified."] if n_doubted else []


def verdict_table():
    """Markdown: the claims by stratum and verdict, paper by paper."""
    rows = item_rows()[0]
    lines = _table(["paper", *STRATA])
    for key, paper in papers().items():
        mine = [row for row in rows if row["name"].startswith(f"{key}/")]
        lines.append(_cells(f"[{paper['title']}]({key}.md)", *by_stratum(mine).values()))
    return "\n".join(lines)


def items_table():
    """Markdown: every figure with the data of its run, its verdicts and the minutes that it
    took."""
    lines = _table(["item", "data of the run", "the paper's claims", "minutes (profile)"])
    for row in item_rows()[0]:
        lines.append(
            _cells(f"[{row['title']}](#{_target(row)})", row["data"], row["verdicts"], row["time"])
        )
    return "\n".join(lines)


def disagreements_page():
    """Markdown: a paragraph for each claim of a paper that disagrees, as one would write it to the
    paper's authors."""
    lines = ["# Where we disagree", ""]
    lines += [
        "Each paragraph is written as to the authors of the paper; no letter has been sent. "
        "Numbers, data and"
    ]
    lines += [
        "verdicts are those of the committed records at each build; the reasons are what we think "
        "they are.",
        "",
    ]
    for key, paper in papers().items():
        found = []
        for row in _rows_of(key):
            for claim in row["claims"]:
                if claim["verdict"] == DISAGREES and claim["whose"] == "paper":
                    found += _letter(row, claim)
        if found:
            lines += [f"## {paper['title']}", "", *found]
    return "\n".join(lines)


def _rows_of(paper):
    """The rows of `item_rows` of a paper's figures."""
    return [row for row in item_rows()[0] if row["name"].startswith(f"{paper}/")]


def _letter(row, claim):
    """What one would write to a paper's authors of a claim that disagrees: a list of lines."""
    declared = {one.id: one for one in figure_entry(row["name"])["claim"]}
    reason = declared[claim["id"]].letter if claim["id"] in declared else ""
    seeds = f", {claim['seeds']} seeds or cases" if claim["seeds"] > 1 else ""
    printed = f"the paper has {paper_text(claim)}; " if claim["paper"] != "" else ""
    told = (
        f"You write: “{claim['quote']}”. We took this to say: {claim['text']}. What we measured is "
        f"the {claim['measured']}: {ours_text(claim)} ({printed}{claim['why']}). Data of the run: "
        f"{row['data']}{seeds}. {claim['note']} {reason}"
    )
    profile = row["run_of"][claim["id"]]["profile"]
    again = f"handful reproduce --profile {profile} --only {row['name']} --force"
    return [
        f"### {claim['item'] or row['title']}, {claim['where']}",
        "",
        _plain(" ".join(told.split())),
        "",
        f"To run it again: `{again}`. [The executed notebook](../notebooks/{row['name']}.ipynb).",
        "",
    ]


def paper_page(key, folder):
    """Markdown: a paper's figures, each with its picture, what made it, and its claims in a table
    that unfolds."""
    paper = papers()[key]
    rows = _rows_of(key)
    lines = [f"# {paper['title']}", "", f"{paper['source']}. {paper['about']}.", ""]
    if paper.get("url"):
        lines += [f"[The paper]({paper['url']})", ""]
    for row in rows:
        abouts = dict.fromkeys(f"{item['about']}." for item in figure_entry(row["name"])["item"])
        lines += [f"({_target(row)})=", f"## {row['title']}", "", *abouts, ""]
        if row["record"]:
            lines += _record_lines(row, folder)
        else:
            again = f"handful reproduce --profile laptop --only {row['name']}"
            lines += [f"Not run yet: `{again}`.", ""]
    notebooks = [f"../notebooks/{row['name']}" for row in rows if row["record"]]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", *notebooks, "```", ""])


def _record_lines(row, folder):
    """A figure's picture, what made it, and its claims: a list of lines."""
    record = row["record"]
    lines = _picture_lines(row["path"], record, folder)
    for path, smaller in row["runs"][1:]:
        lines += [f"What this run left out was run at profile {smaller['profile']}:", ""]
        lines += _picture_lines(path, smaller, folder)
    lines += [
        f"[The executed notebook](../notebooks/{row['name']}.ipynb); data: {row['data']};",
        f"{len(record['seeds'])} seeds, {row['time']} minutes; commit "
        f"{str(record['commit'])[:10]}.",
    ]
    if row["stale"]:
        lines.append(f"*Stale: {row['stale']}.*")
    if against := _against(row):
        lines.append(f"*Unverified: {_plain(against)}.*")
    if record["reductions"]:
        sentences = [f"- {_plain(sentence)}" for sentence in record["reductions"]]
        lines += _folded("Other than in the paper", sentences)
    if row["claims"]:
        lines += _folded(f"Claims: {tally(row['claims'])}", _claims(row["claims"]))
    return lines


def _picture_lines(path, record, folder):
    """The first picture of a record, as lines of Markdown."""
    lines = []
    for name, caption in list(record["figures"].items())[:1]:
        picture = os.path.relpath(path.with_name(f"{name}.png"), folder)
        lines += [f"![{caption}]({picture})", ""]
    return lines


def _claims(claims):
    lines = _table(["claim", "paper", "ours, 95 % interval", "verdict", "how"])
    for c in claims:
        whose = f"“{c['quote']}” ({c['where']})" if c["whose"] == "paper" else "ours"
        cells = (
            f"{c['text']}. {whose}",
            paper_text(c),
            ours_text(c),
            verdict_text(c),
            f"{c['measured']}: {c['why']}",
        )
        lines.append(_cells(*map(_plain, cells)))
    return lines


def with_claims(text):
    """A page with the claims on record between each ``<!-- claims of PAPER -->`` and ``<!-- end
    -->``, as a table."""

    def table(match):
        lines = _table(["table", "claim", "ours, 95 % interval", "verdict", "least and most"])
        for row in item_rows()[0]:
            for c in row["claims"] if row["name"].startswith(f"{match[1]}/") else ():
                ends = sorted(c["settings"].items(), key=lambda pair: pair[1])[
                    :: max(len(c["settings"]) - 1, 1)
                ]
                told = "; ".join(
                    f"{setting}: {number_text(value)}" for setting, value in ends if setting
                )
                cells = (
                    c["text"],
                    f"{ours_text(c)} ({c['measured']})",
                    verdict_text(c),
                    told or "–",
                )
                lines.append(_cells(*map(_plain, (row["title"], *cells))))
        return "\n".join([match[0].partition("\n")[0], "", *lines, "", "<!-- end -->"])

    return re.sub(r"<!-- claims of (\w+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def as_of_today(text, claims, source):
    """An executed notebook for the site: its table of verdicts is the record's, also where it was
    judged again since, and its prose is today's, where today's code is what ran. Code and all other
    outputs are what ran.

    Parameters
    ----------
    text : str, the notebook as it ran, in JSON
    claims : list of dict, of its record
    source : str, the notebook as it is today, in JSON
    """
    notebook = json.loads(text)
    prose = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    today = [words for kind, words in sources(source) if kind == "markdown"]
    if _code_and_places(text) == _code_and_places(source):
        for cell, revised in zip(prose, today):
            cell["source"] = revised
    for cell in notebook["cells"]:
        shows_claims = cell["cell_type"] == "code" and "".join(cell["source"]).endswith(
            "exp.claims_table()"
        )
        if not shows_claims:
            continue
        table = claims_table(claims)
        data = {"text/html": table.to_html(), "text/plain": table.data.to_string()}
        others = [output for output in cell["outputs"] if "text/html" not in output.get("data", {})]
        cell["outputs"] = [*others, {"output_type": "display_data", "metadata": {}, "data": data}]
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _code_and_places(text):
    """The kind of each cell of a notebook, with its source where it is code."""
    return [(kind, source if kind == "code" else "") for kind, source in sources(text)]


def write_pages(docs):
    """Write the pages on the reproduction into the folder of the site's sources: the paths of what
    is there now.

    ``reproduction/items.md`` has the tables, ``reproduction/<paper>.md`` a paper's figures,
    ``notebooks/`` the executed notebooks; ``reproduction/quick.md`` the reader's own quick run,
    where there is one.
    """
    folder = docs / "reproduction"
    notebooks = docs / "notebooks"
    parts = [
        "# All items",
        "The papers' claims, by what our data can say of them.",
        verdict_table(),
        items_table(),
    ]
    pages = {folder / "items.md": "\n\n".join(parts) + "\n"}
    pages[folder / "disagreements.md"] = disagreements_page()
    pages |= {folder / f"{key}.md": paper_page(key, folder) for key in papers()}
    if any((FIGURES / "quick").glob("*/*.json")):
        table = terminal(("quick",))
        intro = (
            "What `make reproduce` left here, on small data: it shows that the code runs, and "
            "decides no claim."
        )
        pages[folder / "quick.md"] = (
            f"---\norphan: true\n---\n# Your own quick run\n\n{intro}\n\n```text\n{table}\n```\n"
        )
    for row in item_rows()[0]:
        executed = row["path"].with_suffix(".ipynb") if row["path"] else None
        if executed and executed.is_file():
            source = (NOTEBOOKS / f"{row['name']}.ipynb").read_text(encoding="utf-8")
            text = as_of_today(executed.read_text(encoding="utf-8"), row["claims"], source)
            pages[notebooks / f"{row['name']}.ipynb"] = text.replace(
                "](../../figures/", "](../../../figures/"
            )
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Sphinx reads only what changed.
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
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
