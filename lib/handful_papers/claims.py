"""Claims: declared rows in their paper's room, judged from the numbers that a run hands over.

A claim stands in ``<paper>/items/<notebook>.toml``; which numbers decide it, ``<paper>/items/<notebook>.py`` says, in
one function ``evidence(run)``. It sees what the run left on disk and nothing else, so that a verdict can be computed
again from a record at any time, without the run.
"""

from dataclasses import dataclass, field, fields, replace

import numpy as np

from handful_papers.catalogue import read_item_file
from handful_papers.published import published
from handful_papers.verdicts import FAILS, RULES, Summary, Verdict, name, not_tested, number

WHOSE = ("paper", "own")
SHOWN = ("mean", "least", "greatest")


@dataclass(frozen=True)
class Claim:
    """A claim as declared.

    Attributes
    ----------
    id : str, unique over all notebooks: "bico-fig06-weighted-2pct"
    item : str, label of the item it belongs to ("Figure 6"; "" for an item of ours)
    text : str, the claim in one sentence
    whose : "paper" for a claim of the paper about its algorithm as printed ("reproduced"), "own" for ours: about an
        algorithm of ours ("extension") or a control of ours; the two are counted apart
    measured : str, what our number is, in plain words: "largest share of the rows needed, over four data sets"
    unit : str, of both numbers: "%", "points", "x"; a word for a pure number, such as "exponent"
    rule : str, a name in `verdicts.RULES`; `numbers` are its arguments
    paper : number or str, the paper's value; "" where it prints none
    quote, where : str, a few words of the paper that the claim rests on, and their section; "" for our own claims
    needs : dict, facts of the run that must be given, by least value or as a list of allowed ones: {"rows": 20000}
    show : which setting's mean is the number shown: their "mean", "least" or "greatest"
    printed : dict or None, which printed numbers make the same comparison in the paper; see `printed_settings`
    printed_verdict : str, what the rule says of them ("holds"); another value says that the paper's table does not
        show the claim
    note : str, what a reader must know beside it: why it fails, what differs
    """

    id: str
    item: str
    text: str
    whose: str
    measured: str
    rule: str
    unit: str = ""
    paper: object = ""
    quote: str = ""
    where: str = ""
    numbers: dict = field(default_factory=dict)
    needs: dict = field(default_factory=dict)
    show: str = "mean"
    printed: dict | None = None
    printed_verdict: str = "holds"
    note: str = ""

    def __post_init__(self):
        for key, allowed in (("whose", WHOSE), ("show", SHOWN), ("rule", tuple(RULES))):
            if getattr(self, key) not in allowed:
                raise ValueError(
                    f"claim {self.id}: {key} must be one of {', '.join(allowed)}; got {getattr(self, key)!r}."
                )
        if self.whose == "paper" and not (self.quote and self.where):
            raise ValueError(f"claim {self.id}: a claim of the paper needs its words (`quote`) and where they stand.")
        for key, says in (("measured", "what the number is"), ("unit", "its unit")):
            if not getattr(self, key):
                raise ValueError(f"claim {self.id}: say in `{key}` {says}.")


@dataclass(frozen=True)
class Evidence:
    """The numbers that decide a claim.

    Attributes
    ----------
    settings : dict, setting -> one value a seed, paired where two methods are compared
    shown : the number to show if none of the settings' own is the one a reader wants (a number or a few words)
    facts : dict, facts of this claim alone beside the run's: {"train_accuracy": 51.2}
    lacks : str, why the run cannot decide the claim; then there are no settings
    """

    settings: dict = field(default_factory=dict)
    shown: object = None
    facts: dict = field(default_factory=dict)
    lacks: str = ""


@dataclass(frozen=True)
class Run:
    """What `evidence(run)` sees of a run: all of it is on disk.

    Attributes
    ----------
    rows : pandas.DataFrame, the record's CSV
    parameters, facts : dict
    profile : str
    """

    rows: object
    parameters: dict
    facts: dict
    profile: str


def declared(paper, notebook):
    """The claims of a notebook, as a list of `Claim` in the order of its file.

    Raises
    ------
    ValueError
        naming the file, for a claim that lacks something or has a word too many.
    """
    known, found = {f.name for f in fields(Claim)}, []
    for row in read_item_file(paper, notebook).get("claim", []):
        if unknown := sorted(set(row) - known):
            raise ValueError(f"{paper}/items/{notebook}.toml, claim {row.get('id')}: unknown {', '.join(unknown)}.")
        try:
            found.append(Claim(**row))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{paper}/items/{notebook}.toml: {error}") from error
    return found


def judge_all(name, run, evidence):
    """Every declared claim of a notebook, judged: a list of dict as they stand in a record.

    Parameters
    ----------
    name : str, "<paper>/<notebook>"
    run : Run
    evidence : function of a `Run`: claim id -> `Evidence`, or a dict of settings, or the values of one setting

    Raises
    ------
    ValueError
        if evidence and claims do not match one to one.
    """
    claims, given = declared(*name.split("/")), dict(evidence(run))
    if (ids := [c.id for c in claims]) != list(dict.fromkeys(ids)):
        raise ValueError(f"{name}: a claim's id stands twice among {', '.join(ids)}.")
    if set(ids) != set(given):
        lost, new = sorted(set(ids) - set(given)), sorted(set(given) - set(ids))
        raise ValueError(f"{name}: no evidence for {lost or 'none'}, no claim for {new or 'none'}.")
    return [judge(claim, given[claim.id], run.facts | {"profile": run.profile}) for claim in claims]


def judge(claim, evidence, facts):
    """A claim with its verdict, as it stands in a record: what was declared, our number, the verdict, its settings."""
    evidence = as_evidence(evidence, ratios=claim.numbers.get("scale") == "log")
    ours, spread = map(steady, _shown(claim, evidence))
    verdict = _verdict(claim, evidence, facts | evidence.facts)
    return {
        "id": claim.id,
        "item": claim.item,
        "text": claim.text,
        "whose": claim.whose,
        "measured": claim.measured,
        "paper": claim.paper,
        "ours": ours,
        "spread": spread,
        "unit": claim.unit,
        "verdict": str(verdict),
        "why": verdict.why,
        "quote": claim.quote,
        "where": claim.where,
        "note": claim.note,
        "settings": {name(s): v.tolist() for s, v in evidence.settings.items()},
    }


def as_evidence(given, *, ratios):
    """What `evidence` may give for short: the values of one setting, or a dict of settings. All values are `steady`.

    Parameters
    ----------
    given : Evidence, dict or array-like
    ratios : bool, whether small values count as much as large ones; else what is below 5e-13 is rounding, and 0
    """
    if not isinstance(given, Evidence):
        given = Evidence(given if isinstance(given, dict) else {"": given})
    settings = {s: np.atleast_1d(np.asarray(values, float)) for s, values in given.settings.items()}
    if not ratios:
        settings = {s: values.round(12) for s, values in settings.items()}
    settings = {s: np.array([steady(v) for v in values]) for s, values in settings.items()}
    return replace(given, settings=settings)


def steady(value):
    """A number to ten digits, so that a record says the same on any processor; words as they are."""
    if value is None or isinstance(value, str):
        return value
    return float(f"{float(value):.10g}") + 0.0  # no -0.0


def printed_verdict(claim, paper):
    """What the claim's rule says of the paper's own printed numbers; None where it prints none of them."""
    if claim.printed is None:
        return None
    return RULES[claim.rule](printed_settings(claim.printed, paper), **claim.numbers)


def printed_settings(printed, paper):
    """The paper's printed numbers as settings of a rule.

    Parameters
    ----------
    printed : dict with `item` of published.csv; `a`, a row or a list of rows; `columns`, a list, default all that
        `a` has; `n`, over how many seeds the paper averages. With `b`, a row or a list of rows: differences a - b, one
        setting a row of `b` and column; with `against`, a column: differences of each other column to it in the same
        row; with ``ratio = true``: ratios. `sign` = -1 where less is better. Or `values`, a list of numbers that the
        text prints.
    """
    if "values" in printed:
        return {f"printed {i}": Summary(v) for i, v in enumerate(printed["values"])}
    table = published(paper, printed["item"])
    cell = {(r.row, r.column): (r.value, None if np.isnan(r.sd) else r.sd) for r in table.itertuples()}
    rows = [printed["a"]] if isinstance(printed["a"], str) else printed["a"]
    columns = printed.get("columns") or [c for r, c in cell if r == rows[0]]
    n, sign = printed.get("n", 1), printed.get("sign", 1)
    others, against = printed.get("b"), printed.get("against")
    if others is None and against is None:
        return {(r, c): Summary(sign * cell[r, c][0], cell[r, c][1], n) for r in rows for c in columns}
    if against is not None:
        pairs = {(r, against, c): (cell[r, c], cell[r, against]) for r in rows for c in columns if c != against}
    else:
        others = [others] if isinstance(others, str) else others
        pairs = {(r, o, c): (cell[r, c], cell[o, c]) for r in rows for o in others for c in columns}
    if printed.get("ratio"):
        return {setting: Summary(one[0] / other[0]) for setting, (one, other) in pairs.items()}
    return {setting: _difference(one, other, sign, n) for setting, (one, other) in pairs.items()}


def _difference(a, b, sign, n):
    sds = [sd for _, sd in (a, b) if sd is not None]
    return Summary(sign * (a[0] - b[0]), float(np.hypot.reduce(sds)) if sds else None, n)


def _verdict(claim, evidence, facts):
    if evidence.lacks:
        return not_tested(evidence.lacks)
    seeds = min((np.size(v) for v in evidence.settings.values()), default=0)
    for need, wanted in claim.needs.items():
        if problem := _unmet(need, wanted, (facts | {"seeds": seeds}).get(need)):
            return not_tested(problem)
    verdict = RULES[claim.rule](evidence.settings, **claim.numbers)
    if claim.printed_verdict == FAILS:
        return Verdict(str(verdict), f"{verdict.why}. The paper's own printed numbers do not show this claim")
    return verdict


def _unmet(need, wanted, got):
    if got is None:
        return f"needs {need.replace('_', ' ')}, which the run does not tell"
    if isinstance(wanted, list):
        return "" if got in wanted else f"needs {need.replace('_', ' ')} {' or '.join(map(str, wanted))}, got {got}"
    return "" if got >= wanted else f"needs {need.replace('_', ' ')} of at least {number(wanted)}, got {number(got)}"


def _shown(claim, evidence):
    """(ours, spread): the number a reader sees, and its standard deviation over seeds where there are several.

    What is judged on a logarithmic scale is shown by its geometric mean, and its spread to first order.
    """
    if evidence.shown is not None:
        return evidence.shown, None
    if not evidence.settings:
        return None, None
    values = evidence.settings
    if claim.show != "mean":
        pick = min if claim.show == "least" else max
        values = dict([pick(values.items(), key=lambda pair: pair[1].mean())])
    logarithmic = claim.numbers.get("scale") == "log"
    if logarithmic:
        values = {s: np.log(v) for s, v in values.items()}
    lengths = {len(v) for v in values.values()}
    mean = float(np.mean([v.mean() for v in values.values()]))
    spread = None
    if lengths != {1} and len(lengths) == 1:
        spread = float(np.mean(list(values.values()), axis=0).std(ddof=1))
    if logarithmic:
        return float(np.exp(mean)), None if spread is None else float(np.exp(mean)) * spread
    return mean, spread
