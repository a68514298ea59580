"""What runs leave: records with their rows and figures, and what the runner remembers of each run."""

import hashlib
import json
from pathlib import Path

from handful_papers.fingerprint import data_fingerprint, fingerprint
from handful_papers.notebooks import NotebookError, read_notebook

# What a record must hold for the report to show it.
RECORD = {
    "item": str,
    "profile": str,
    "parameters": dict,
    "seeds": list,
    "versions": dict,
    "data": dict,
    "seconds": (int, float),
    "threads": int,
    "machine": dict,
    "reductions": list,
    "figures": list,
    "facts": dict,
    "captions": dict,
    "claims": list,
}
_CLAIM = ("id", "text", "whose", "paper", "ours", "verdict", "why")
_STATE = {"status": str, "key": (str, type(None)), "seconds": (int, float), "data": dict, "results": dict}


def up_to_date(run, figures):
    """The state of the last run, if running again could give nothing new; else None."""
    state = read_state(state_path(figures, run.profile, run.name))
    if state is None or state["status"] != "done" or state["key"] is None or state["key"] != run_key(run):
        return None
    if any(data_fingerprint(name) != known for name, known in state["data"].items()):
        return None
    folder = Path(figures) / run.profile
    try:
        return state if all(sha256(folder / file) == sha for file, sha in state["results"].items()) else None
    except OSError:
        return None


def state_path(figures, profile, name):
    """Where the runner remembers a notebook's last run at a profile."""
    paper, stem = name.split("/")
    return Path(figures) / profile / paper / ".state" / f"{stem}.json"


def read_state(path):
    """A state file's content; None where there is none, or none that is whole."""
    try:
        state = {"key": None, "data": {}, "results": {}} | json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    whole = all(isinstance(state.get(name), kind) for name, kind in _STATE.items())
    if whole and state["status"] == "failed":
        whole = isinstance(state.get("error"), dict) and problem("").keys() <= state["error"].keys()
    return state if whole else None


def executed_path(figures, profile, name):
    """Where the executed copy of a notebook's last run goes."""
    return Path(figures) / "notebooks" / profile / f"{name}.ipynb"


def committed_copy(figures, profile, name):
    """Where a small copy of it goes beside the record of a run that went well, to be committed; None at quick."""
    return None if profile == "quick" else Path(figures) / profile / f"{name}.ipynb"


def run_key(run):
    """Fingerprint of a run with the sources as they are on disk now; None if the notebook cannot be read."""
    try:
        notebook = read_notebook(run.notebook.path, run.name)
        return fingerprint(notebook, {**notebook.parameters(), **run.parameters})
    except (OSError, NotebookError):
        return None


def read_results(path):
    """The record at `path`, if the report can show it and what it stands for is there.

    Raises
    ------
    ValueError
        a sentence that names the file and what is wrong with it.
    """
    path = Path(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        wrong = [key for key, kind in RECORD.items() if not isinstance(record.get(key), kind)]
        wrong = wrong or [f"claims[{i}]" for i, claim in enumerate(record["claims"]) if not claim.keys() >= {*_CLAIM}]
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is no record of results: {error}") from error
    if wrong:
        raise ValueError(f"{path} is no whole record of results: look at its {', '.join(wrong)}")
    if f"{record['profile']}/{record['item']}" != f"{path.parents[1].name}/{path.parent.name}/{path.stem}":
        raise ValueError(f"{path} holds the results of {record['item']} at profile {record['profile']}")
    if lost := [file.name for file in result_files(path, record) if not file.is_file()]:
        raise ValueError(f"{path} is without its {', '.join(lost)}")
    return record


def result_files(path, record):
    """The files that a record stands for: itself, its rows, its figures."""
    path = Path(path)
    pictures = [path.with_name(f"{stem}.{suffix}") for stem in record["figures"] for suffix in ("png", "pdf")]
    return [path, path.with_suffix(".csv"), *pictures]


def problem(sentence, details=""):
    """An `Outcome.error` that belongs to no cell."""
    return {"cell": None, "source": "", "error": sentence, "traceback": details}


def sha256(path):
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
