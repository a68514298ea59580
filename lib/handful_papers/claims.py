"""Claims: what a paper says, the rule that judges it, and the evidence that the rule looks at.

A claim is declared in its figure's ``.toml``. The function ``evidence(run)`` of the figure's module
says which numbers of the rows decide it; it sees what the run left on disk and nothing else, so
that a verdict can be computed again at any time. Only `verdicts.judge` makes verdicts.
"""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HOME = Path(__file__).parent
AGREES, DISAGREES, CANNOT_TELL = VERDICTS = ("agrees", "disagrees", "cannot tell")
NOISE = "noise"
SIZE = "size"
DATA = "data"
READING = "reading"
NOT_RUN = "not run"
PROFILES = ("quick", "laptop", "paper")
# The profile of a run that `handful reproduce` has not started.
BY_HAND = "by hand"


@cache
def needs_of_sorts():
    """Sort of claims -> what each of them needs: the table ``needs.toml``, one for all items."""
    return tomllib.loads((HOME / "needs.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Claim:
    """A claim as declared.

    Attributes
    ----------
    id : str, unique over all figures: "bico-fig06-weighted-2pct"
    text : str, the claim in one sentence
    measured : str, what our number is: "lead in test accuracy, mean over baselines, data sets and
        sizes"
    unit : str, of both numbers: "%", "points", "x"
    rule : dict, the arguments of `verdicts.decide`: ``{ above = 0.0 }``
    item : str, label of the item it belongs to ("Figure 6"; "" for an item of ours)
    kind : "result", or "check" for mathematics and timing, which are counted apart
    quote, where : str, the paper's words and their section; a claim that has neither is ours, see
        `whose`
    paper : number or str, the paper's value, of several settings their average; "" where it prints
        none
    sorts : list of str, what it is about, keys of ``needs.toml``: what all claims of a sort need
    needs : dict, what else makes the claim testable, from the paper: facts of the run by least
        value, or as a list of allowed values; at less the verdict is "cannot tell" for size, or for
        data where the fact names data
    on : list of str, data sets that the claim names; where the run did not take them, it is "cannot
        tell" for data
    printed : dict or None, which printed numbers make the same comparison in the paper; see
        `published.printed_settings`
    printed_verdict : str, what the rule says of them; "disagrees" says that the paper's own table
        does not show it
    softened : bool, whether its rule was made milder after its result was known; `docs/history.md`
        says how
    note : str, what a reader must know beside it
    letter : str, what we think is the reason, as one would write it to the authors, where the claim
        disagrees
    """

    id: str
    text: str
    measured: str
    unit: str
    rule: dict
    item: str = ""
    kind: str = "result"
    quote: str = ""
    where: str = ""
    paper: object = ""
    sorts: list = field(default_factory=list)
    needs: dict = field(default_factory=dict)
    on: list = field(default_factory=list)
    printed: dict | None = None
    printed_verdict: str = AGREES
    softened: bool = False
    note: str = ""
    letter: str = ""

    def __post_init__(self):
        self._check_word("kind", ("result", "check"))
        self._check_word("printed_verdict", VERDICTS)
        if unknown := sorted({*self.sorts} - {*needs_of_sorts()}):
            raise ValueError(f"claim {self.id}: needs.toml has no sort {', '.join(unknown)}.")
        has_words = bool(self.quote and self.where)
        has_something_of_the_paper = bool(self.quote or self.where or self.paper != "")
        if has_something_of_the_paper and not has_words:
            raise ValueError(
                f"claim {self.id}: a claim of the paper needs its words (`quote`) and where they "
                "stand."
            )
        if not (self.measured and self.unit):
            raise ValueError(f"claim {self.id}: say in `measured` and `unit` what the number is.")
        if not {"above", "below"} & set(self.rule):
            raise ValueError(
                f"claim {self.id}: its rule needs `above`, `below` or both; got {self.rule}."
            )

    def _check_word(self, key, allowed):
        given = getattr(self, key)
        if given not in allowed:
            raise ValueError(
                f"claim {self.id}: {key} is one of {', '.join(allowed)}; got {given!r}."
            )

    @property
    def all_needs(self):
        """What claims of its sorts need, and what it needs beside."""
        found = {}
        for sort in self.sorts:
            found |= needs_of_sorts()[sort]
        return found | self.needs

    @property
    def whose(self):
        """Either "paper", for a claim in the paper's words, or "own", for ours; the two are counted
        apart."""
        return "paper" if self.quote else "own"


@dataclass(frozen=True)
class Evidence:
    """The numbers that decide a claim.

    Attributes
    ----------
    settings : dict, setting -> one value a seed, paired by seed where methods are compared
    shown : the number or words to show, if the tested effect is not what a reader wants
    facts : dict, facts of this claim alone beside the run's
    lacks : str, why the run cannot decide the claim; then there are no settings
    reason : "size", "data", "reading" or "not run", of what it lacks
    """

    settings: dict = field(default_factory=dict)
    shown: object = None
    facts: dict = field(default_factory=dict)
    lacks: str = ""
    reason: str = SIZE


@dataclass(frozen=True)
class Run:
    """What `evidence(run)` sees: rows (the record's CSV as a data frame), parameters, facts,
    profile, names of data.

    Facts that all its claims may need it adds by ``run.facts.update``.
    """

    rows: object
    parameters: dict
    facts: dict
    profile: str
    data: tuple = ()


@dataclass(frozen=True)
class Summary:
    """A mean that a paper prints, with its standard deviation over n runs (None: it prints
    none)."""

    mean: float
    sd: float | None = None
    n: int = 1
