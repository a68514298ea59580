"""The papers and all their tables and figures, read from the papers' rooms: `paper.toml` and `items/*.toml`."""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOMS = Path(__file__).parent


@dataclass(frozen=True)
class Item:
    """A table or figure, and the notebook that makes it.

    Attributes
    ----------
    paper : str, the paper's room
    notebook : str, the stem of the notebook in ``notebooks/<paper>/``
    label : str, "Figure 6"; "" for what is ours alone
    title, about : str, for the report
    data : list of str, the paper's data sets by their names in the registry; empty where it generates its own
    """

    paper: str
    notebook: str
    label: str
    title: str
    about: str
    data: list = field(default_factory=list, hash=False)

    @property
    def name(self):
        """ "<paper>/<notebook>", the name of its experiment."""
        return f"{self.paper}/{self.notebook}"


@dataclass(frozen=True)
class Paper:
    """A paper and its items, in the order of their labels; `url` is where it can be read, "" if we know no address."""

    key: str
    title: str
    source: str
    about: str
    url: str = ""
    items: tuple = ()


@cache
def catalogue():
    """The papers, as a tuple of `Paper`; a notebook that makes several items stands under each of them."""
    found = []
    for path in ROOMS.glob("*/paper.toml"):
        about = tomllib.loads(path.read_text(encoding="utf-8"))
        key = path.parent.name
        items = sorted((i for p in path.parent.glob("items/*.toml") for i in _items(key, p)), key=_place)
        found.append((about.pop("order"), Paper(key=key, items=tuple(items), **about)))
    return tuple(paper for _, paper in sorted(found, key=lambda pair: pair[0]))


def read_item_file(paper, notebook):
    """What a paper's room says of a notebook: a dict with the lists `item` and, where there are any, `claim`."""
    path = ROOMS / paper / "items" / f"{notebook}.toml"
    if not path.is_file():
        raise KeyError(f"{paper}/{notebook} has no entry: write {path.relative_to(ROOMS.parent)}.")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _items(paper, path):
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["item"]
    return [Item(paper=paper, notebook=path.stem, **entry) for entry in entries]


def _place(item):
    """Figures before tables, each by number (those of a supplement last); what is ours alone at the end."""
    kind, _, number = item.label.partition(" ")
    digits = re.findall(r"\d+", number)
    return not item.label, number.startswith("S"), kind, int(digits[0]) if digits else 0, item.notebook
