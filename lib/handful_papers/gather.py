"""Collects what the notebooks left."""

from dataclasses import dataclass, field
from pathlib import Path

from handful_papers.catalogue import catalogue
from handful_papers.kept import committed_copy, executed_path, read_results, read_state
from handful_papers.levels import level
from handful_papers.notebooks import PROFILES
from handful_papers.record import ours_text, paper_text
from handful_papers.verdicts import NOT_TESTED, VERDICTS

LARGEST_FIRST = PROFILES[::-1]


@dataclass(frozen=True)
class Result:
    """What one notebook left at one profile.

    Attributes
    ----------
    record : dict, its JSON (see `Experiment`)
    path : pathlib.Path of that JSON
    items : list of Item that it makes
    executed : pathlib.Path of the executed notebook, or of the copy that is committed; None where there is neither
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
        """ "Figure 6", or "Figure 2, Table 5" where a notebook makes both; its title where it makes none."""
        return ", ".join(i.label for i in self.items if i.label) or self.title

    @property
    def title(self):
        return "; ".join(i.title for i in self.items) or self.name.split("/")[1]

    @property
    def minutes(self):
        return minutes(self.record["seconds"])

    @property
    def kind(self):
        """What data the run saw: one of `levels.LEVELS`."""
        return self._level[0]

    @property
    def level(self):
        """What data the run saw, in words: "the paper's data", "part: 16 % of covtype"."""
        return self._level[1]

    @property
    def _level(self):
        return level(self.record["data"], [name for item in self.items for name in item.data])


@dataclass(frozen=True)
class Claim:
    """A claim at the largest profile that tested it, as text, and its verdicts at the others.

    Attributes
    ----------
    result : Result
    row : dict, the claim as it stands in the record
    paper, ours : str, both numbers with their units
    elsewhere : list of (profile, verdict)
    """

    result: Result
    row: dict = field(repr=False)
    paper: str
    ours: str
    elsewhere: list

    def __getattr__(self, name):
        try:
            return self.row[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def own(self):
        """Whether the claim is ours; the papers' are counted apart."""
        return self.row["whose"] == "own"


def collect(figures, profiles=LARGEST_FIRST):
    """All results in a folder: by paper and item as in the catalogue, then by profile in the order given.

    Records that are not whole are left out; `damaged` names them.
    """
    papers = catalogue()
    order = [item.name for paper in papers for item in paper.items]
    keys = [paper.key for paper in papers]
    found = []
    for path, record in _records(figures, profiles):
        if isinstance(record, dict):
            items = [i for paper in papers for i in paper.items if i.name == record["item"]]
            where = figures, record["profile"], record["item"]
            copies = [c for c in (executed_path(*where), committed_copy(*where)) if c and c.is_file()]
            found.append(Result(record, path, items, copies[0] if copies else None))

    def place(result):
        paper = keys.index(result.paper) if result.paper in keys else len(keys)
        item = order.index(result.name) if result.name in order else len(order)
        return paper, item, result.name, profiles.index(result.profile)

    return sorted(found, key=place)


def damaged(figures, profiles=LARGEST_FIRST):
    """What `collect` leaves out and why: a sentence for each record that is not whole."""
    return [
        f"{record}; delete it and run again." for _, record in _records(figures, profiles) if isinstance(record, str)
    ]


def _records(figures, profiles):
    """(path, record) of each record; in place of one that is not whole, what is wrong with it."""
    for profile in profiles:
        for path in sorted((Path(figures) / profile).glob("*/*.json")):
            try:
                yield path, read_results(path)
            except ValueError as error:
                yield path, str(error)


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
        for row in result.record["claims"]:
            by_id.setdefault(row["id"], []).append((result, row))
    return [_claim(runs) for runs in by_id.values()]


def _claim(runs):
    runs = sorted(runs, key=lambda run: (run[1]["verdict"] == NOT_TESTED, LARGEST_FIRST.index(run[0].profile)))
    (result, row), *others = runs
    elsewhere = [(r.profile, c["verdict"]) for r, c in others if c["verdict"] != NOT_TESTED]
    return Claim(result, row, paper_text(row) or "–", ours_text(row), elsewhere)


def tally(claims):
    """How often each verdict came: dict verdict -> count, in the order of `VERDICTS`, without the zeros."""
    verdicts = [c.verdict for c in claims]
    return {v: verdicts.count(v) for v in VERDICTS if v in verdicts}


def agree(verdict, count):
    """A verdict's wording for `count` claims: "holds", but two "hold"."""
    if count == 1:
        return {"undecided": "is undecided"}.get(verdict, verdict.replace("not tested", "is not tested"))
    plural = verdict.replace("holds", "hold").replace("does not", "do not")
    return {"undecided": "are undecided"}.get(plural, plural.replace("not tested", "are not tested"))


def tally_text(counts):
    """A tally as words: "12 hold, 3 hold weaker, 1 does not hold"."""
    return ", ".join(f"{n} {agree(v, n)}" for v, n in counts.items())


def minutes(seconds):
    """A run's time in minutes as text: "0.4", "12", "180"."""
    value = seconds / 60
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
