"""What is wrong with the committed records, and which of them are stale."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from handful_papers.catalogue import catalogue
from handful_papers.fingerprint import data_fingerprint, fingerprint
from handful_papers.kept import RECORD, result_files
from handful_papers.notebooks import PROFILES, find_notebooks, plan
from handful_papers.record import read_record
from handful_papers.rejudge import rejudge
from handful_papers.slim import same_prose

COMMITTED = ("laptop", "paper")
# What `rejudge` raises; of a column that older rows lack, `rows["batch"]` and `rows.batch` raise different errors.
NOT_JUDGED = (ValueError, KeyError, AttributeError, ModuleNotFoundError)
# A committed record also says which code made it.
REQUIRED = RECORD | {"commit": str, "dirty": bool, "fingerprint": (str, type(None))}
CLAIM = ("id", "item", "text", "whose", "measured", "unit", "paper", "ours", "verdict", "why", "quote", "where")


@dataclass(frozen=True)
class Stale:
    """A record whose notebook would give something else now.

    Attributes
    ----------
    name : "<paper>/<notebook>"
    profile : str
    reason : str, what has changed
    minutes : float, how long a new run takes
    """

    name: str
    profile: str
    reason: str
    minutes: float


def check(figures, notebooks):
    """Problems of the committed records, as sentences: none means that every record vouches for what it shows.

    Parameters
    ----------
    figures, notebooks : pathlib.Path, the checkout's folders
    """
    wrong, seen = [], Counter()
    paths = _records(figures)
    names = {p.parent.name + "/" + p.stem for p in paths}
    wrong += [f"{n.name}: no committed record" for n in find_notebooks(notebooks) if n.name not in names]
    labels = {(paper.key, item.label) for paper in catalogue() for item in paper.items}
    for path in paths:
        where = path.relative_to(figures)
        record = read_record(path)
        if problems := _shape(record, path):
            wrong += [f"{where}: {problem}" for problem in problems]
            continue
        if record["dirty"]:
            wrong.append(f"{where}: made by code that is in no commit")
        if record.get("redrawn", {}).get("dirty"):
            wrong.append(f"{where}: its figures were drawn again by code that is in no commit")
        wrong += [f"{where}: {sentence}" for sentence in record.get("unreadable", [])]
        wrong += [f"{where}: {file.name} is missing" for file in result_files(path, record) if not file.is_file()]
        if not path.with_suffix(".ipynb").is_file():
            wrong.append(f"{where}: its executed notebook is missing")
        for claim in record["claims"]:
            seen[claim["id"], record["profile"]] += 1
            if (record["item"].split("/")[0], claim["item"]) not in labels:
                wrong.append(f"{where}: claim {claim['id']} belongs to {claim['item']!r}, which is no item")
        try:
            if not rejudge(path):
                wrong.append(f"{where}: its claims are not what its rows give: handful report --judge")
        except NOT_JUDGED as error:
            wrong.append(f"{where}: its claims cannot be judged: {error}")
        if not all(same_prose(*pair) for pair in _copies(path, notebooks)):
            wrong.append(f"{where}: its executed notebook has an older text: handful report --judge")
    wrong += [f"claim {id} stands in {count} records of profile {p}" for (id, p), count in seen.items() if count > 1]
    return wrong


def stale(figures, notebooks):
    """Committed records that a run would make anew, as a list of `Stale`."""
    found, runs = [], {p: {run.name: run for run in plan(notebooks, p)} for p in COMMITTED}
    for path in _records(figures):
        record = read_record(path)
        run = runs.get(record.get("profile"), {}).get(record.get("item"))
        if run is None or _shape(record, path):
            continue
        if reason := _changed(record, run):
            found.append(Stale(run.name, run.profile, reason, run.minutes))
    return found


def judge_all_records(figures, notebooks):
    """Judge every record of a folder again from its rows, and put the notebooks' text into their executed copies.

    Parameters
    ----------
    figures, notebooks : pathlib.Path, the checkout's folders

    Returns
    -------
    changed : list of str, names of records
    failed : list of str, sentences on those whose rows the claims of today cannot read, which stay as they are
    """
    changed, failed = [], []
    for path in (p for profile in PROFILES for p in sorted((Path(figures) / profile).glob("*/*.json"))):
        name = f"{path.parents[1].name}/{path.parent.name}/{path.stem}"
        try:
            same = [rejudge(path, write=True), *(same_prose(*pair, write=True) for pair in _copies(path, notebooks))]
            changed += [] if all(same) else [name]
        except NOT_JUDGED as error:
            failed.append(f"{name}: its claims cannot be judged, run it again: {error}")
    return changed, failed


def _records(figures):
    return sorted(p for profile in COMMITTED for p in (Path(figures) / profile).glob("*/*.json"))


def _copies(path, notebooks):
    """The committed copy of a record's executed notebook and the notebook, where there are both: a list of a pair."""
    pair = path.with_suffix(".ipynb"), Path(notebooks) / path.parent.name / f"{path.stem}.ipynb"
    return [pair] if all(file.is_file() for file in pair) else []


def _shape(record, path):
    if not record:
        return ["is no record: it cannot be read"]
    problems = [f"lacks {key}" for key in REQUIRED if key not in record]
    problems += [
        f"{key} is {record[key]!r}, which is no {getattr(kind, '__name__', kind)}"
        for key, kind in REQUIRED.items()
        if key in record and not isinstance(record[key], kind)
    ]
    if (
        not problems
        and f"{record['profile']}/{record['item']}" != f"{path.parents[1].name}/{path.parent.name}/{path.stem}"
    ):
        problems.append(f"is of {record['item']} at profile {record['profile']}")
    for claim in record.get("claims", []):
        problems += [f"claim {claim.get('id')} lacks {key}" for key in CLAIM if key not in claim]
        if claim.get("whose") == "paper" and not claim.get("quote"):
            problems.append(f"claim {claim.get('id')} of the paper has no quote")
    return problems


def _changed(record, run):
    parameters = run.values
    keys = sorted(set(parameters) | set(record["parameters"]))
    if differ := [k for k in keys if parameters.get(k) != record["parameters"].get(k)]:
        return f"parameters {', '.join(differ)}"
    changed = [name for name, entry in record["data"].items() if entry.get("fingerprint") != data_fingerprint(name)]
    if changed:
        return f"data {', '.join(changed)}"
    return "" if record["fingerprint"] == fingerprint(run.notebook, run.values) else "code"
