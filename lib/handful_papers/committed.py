"""The records of the folders that are committed: read, listed and judged again."""

from importlib import import_module
from pathlib import Path

from handful_papers.entries import GPU, ROOT, figure_entry, names, papers_data, reductions
from handful_papers.executed import read_notebook
from handful_papers.levels import level
from handful_papers.provenance import to_json, write_atomically
from handful_papers.records import read_record, run_of
from handful_papers.verdicts import judge_all
from handful_papers.verification import changed

FIGURES = ROOT / "figures"
# The largest first. Quick results are build output: a fresh clone has none.
COMMITTED = ("paper", GPU, "laptop")


def module_of(name):
    """The module of a figure, imported."""
    return import_module(f"handful_papers.{name.replace('/', '.')}")


def records(figures=FIGURES, profiles=COMMITTED):
    """The records of a folder, (path, record) by figure and profile; and a sentence for each that
    is refused."""
    found = []
    refused = []
    for name in names():
        for profile in profiles:
            path = Path(figures) / profile / f"{name}.json"
            if path.is_file():
                try:
                    found.append((path, whole_record(path)))
                except ValueError as error:
                    refused.append(str(error))
    return found, refused


def whole_record(path):
    """The record of a profile's folder, its executed notebook checked as well; ValueError names the
    file that is damaged."""
    record = read_record(path)
    executed = path.with_suffix(".ipynb")
    if record["profile"] != path.parent.parent.name:
        raise ValueError(f"{path} is no record of this profile, but of {record['profile']!r}")
    if executed.is_file():
        read_notebook(executed)
    return record


def judge_again(path):
    """Judge a record again from its rows and parameters, by what is declared now; whether its
    verdicts changed.

    Rows, pictures and executed notebook stay: they are what ran.

    Raises
    ------
    ValueError
        naming the file, where it is damaged or its rows and claims do not go together.
    """
    record = read_record(path)
    rows = path.with_suffix(".csv")
    if rows.name in changed(path, record):
        raise ValueError(f"{rows} cannot be judged: it is not what the run left")
    entry = figure_entry(record["item"])
    record["level"] = level(record["data"], papers_data(entry))
    claims = entry["claim"]
    judged = []
    if claims:
        evidence = module_of(record["item"]).evidence
        try:
            judged = judge_all(claims, run_of(record, path.parent), evidence)
        except Exception as error:
            # Of damaged rows `evidence` raises whatever comes first.
            raise ValueError(f"{rows} cannot be judged: {error!r:.200}") from error
    record["claims"] = judged
    record["reductions"] = reductions(record["item"], record["parameters"])
    new = to_json(record)
    moved = new != path.read_text(encoding="utf-8")
    if moved:
        write_atomically(path, new)
    return moved
