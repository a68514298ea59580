"""Collects what the notebooks left, and the catalogue of all tables and figures of the papers."""

import json
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from handful.experiments.results import PROFILES, ours_text, paper_text
from handful.experiments.runner import executed_path, read_state
from handful.experiments.verdicts import NOT_TESTED, VERDICTS

LARGEST_FIRST = PROFILES[::-1]


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper; `item` is "" where it is ours alone, `notebook` where none makes it."""

    paper: str
    item: str
    title: str
    about: str
    notebook: str = ""

    @property
    def name(self):
        """ "<paper>/<notebook>", the name of its experiment; "" without a notebook."""
        return f"{self.paper}/{self.notebook}" if self.notebook else ""


@dataclass(frozen=True)
class Paper:
    """A paper and its items, in the order of the catalogue."""

    key: str
    title: str
    source: str
    about: str
    items: tuple = ()


@dataclass(frozen=True)
class Result:
    """What one notebook left at one profile.

    Attributes
    ----------
    record : dict, its JSON (see `Experiment`)
    path : pathlib.Path of that JSON
    items : list of Item that it makes
    executed : pathlib.Path of the executed notebook, None where there is none
    """

    record: dict = field(repr=False)
    path: Path
    items: list
    executed: Path | None

    @property
    def name(self):
        return self.record["item"]

    @property
    def paper(self):
        return self.name.split("/")[0]

    @property
    def profile(self):
        return self.record["profile"]

    @property
    def label(self):
        """ "Figure 6", or "Figure 2, Table 5" where a notebook makes both; its stem where it makes none."""
        return ", ".join(i.item for i in self.items if i.item) or self.name.split("/")[1]

    @property
    def title(self):
        return "; ".join(i.title for i in self.items) or self.name.split("/")[1]

    @property
    def minutes(self):
        return minutes(self.record["seconds"])


@dataclass(frozen=True)
class Claim:
    """A claim at the largest profile that tested it, as text, and its verdicts at the others."""

    result: Result
    id: str
    item: str
    text: str
    paper: str
    ours: str
    verdict: str
    why: str
    own: bool
    elsewhere: list


@cache
def catalogue():
    """The four papers with all their tables and figures, as a tuple of `Paper`."""
    table = tomllib.loads((files("handful.experiments") / "catalogue.toml").read_text(encoding="utf-8"))
    items = [Item(**entry) for entry in table["item"]]
    return tuple(Paper(**p, items=tuple(i for i in items if i.paper == p["key"])) for p in table["paper"])


def collect(figures, profiles=LARGEST_FIRST):
    """All results in a folder: by paper and item as in the catalogue, then by profile in the order given.

    Raises
    ------
    ValueError
        for a record that cannot be read.
    """
    papers = catalogue()
    order = [item.name for paper in papers for item in paper.items if item.name]
    keys = [paper.key for paper in papers]
    found = []
    for profile in profiles:
        for path in sorted((Path(figures) / profile).glob("*/*.json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                name = record["item"]
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise ValueError(f"{path} is not a record of results: {error!r}; delete it and run again.") from error
            items = [i for paper in papers for i in paper.items if i.name == name]
            executed = executed_path(figures, profile, name)
            found.append(Result(record, path, items, executed if executed.is_file() else None))

    def place(result):
        paper = keys.index(result.paper) if result.paper in keys else len(keys)
        item = order.index(result.name) if result.name in order else len(order)
        return paper, item, result.name, profiles.index(result.profile)

    return sorted(found, key=place)


def failures(figures):
    """The last runs that failed: dicts with name, profile, minutes, cell, source, error, traceback."""
    found = []
    for profile in PROFILES:
        for path in sorted((Path(figures) / profile).glob("*/.state/*.json")):
            state = read_state(path)
            if state and state["status"] == "failed":
                name = f"{path.parent.parent.name}/{path.stem}"
                executed = executed_path(figures, profile, name)
                found.append(
                    {
                        "name": name,
                        "profile": profile,
                        "minutes": minutes(state["seconds"]),
                        "executed": executed if executed.is_file() else None,
                        **state["error"],
                    }
                )
    return found


def claims(results):
    """Each claim of the results once, at the largest profile that tested it: a list of `Claim`."""
    by_id = {}
    for result in results:
        for claim in result.record["claims"]:
            by_id.setdefault((result.name, claim["id"]), []).append((result, claim))
    return [_claim(runs) for runs in by_id.values()]


def _claim(runs):
    runs = sorted(runs, key=lambda rc: (rc[1]["verdict"] == NOT_TESTED, LARGEST_FIRST.index(rc[0].profile)))
    (result, claim), *others = runs
    return Claim(
        result=result,
        id=claim["id"],
        item=claim.get("item") or result.label,
        text=claim["text"],
        paper=paper_text(claim) or "–",
        ours=ours_text(claim),
        verdict=claim["verdict"],
        why=claim["why"],
        own=claim.get("own", claim["paper"] == ""),
        elsewhere=[(r.profile, c["verdict"]) for r, c in others if c["verdict"] != NOT_TESTED],
    )


def tally(claims):
    """How often each verdict came: dict verdict -> count, in the order of `VERDICTS`, without the zeros."""
    verdicts = [c.verdict for c in claims]
    return {v: verdicts.count(v) for v in VERDICTS if v in verdicts}


def agree(verdict, count):
    """A verdict's wording for `count` claims: "holds", but two "hold"."""
    return verdict if count == 1 else verdict.replace("holds", "hold").replace("does not", "do not")


def minutes(seconds):
    """A run's time in minutes as text: "0.4", "12", "180"."""
    value = seconds / 60
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
