"""Judges records again from their rows: a changed claim or rule needs no new run."""

import importlib
from pathlib import Path

from handful_papers import provenance
from handful_papers.claims import judge_all
from handful_papers.record import read_record, run_of


def rejudge(path, *, write=False):
    """The claims of a record, judged by what is declared now from its CSV, parameters and facts.

    Parameters
    ----------
    path : of the record's JSON
    write : whether to put them into the record where they differ

    Returns
    -------
    bool : whether the record holds what was judged now

    Raises
    ------
    ValueError, KeyError
        where rows and claims do not go together.
    """
    path = Path(path)
    record = read_record(path)
    paper, notebook = record["item"].split("/")
    evidence = importlib.import_module(f"handful_papers.{paper}.items.{notebook}").evidence
    claims = judge_all(record["item"], run_of(record, path.parent), evidence)
    new = provenance.to_json(record | {"claims": claims})
    same = new == path.read_text(encoding="utf-8")
    if write and not same:
        provenance.write_atomically(path, new)
    return same
