"""The reading of a record and of its rows, and what makes a file one."""

import json
from functools import cache
from pathlib import Path

from handful_papers.claims import HOME, Run


@cache
def _schema():
    from jsonschema import Draft202012Validator

    return Draft202012Validator(
        json.loads((HOME / "record.schema.json").read_text(encoding="utf-8"))
    )


def read_record(path):
    """The record in a file, with its rows and figures beside it.

    Raises
    ------
    ValueError
        one sentence that names the file and what is wrong with it.
    """
    path = Path(path)
    try:
        # `int` refuses NaN and infinities.
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=int)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no record: {error}") from error
    if problem := next(_schema().iter_errors(record), None):
        raise ValueError(f"{path} is no record: {problem.json_path}: {problem.message:.200}")
    if record["item"] != f"{path.parent.name}/{path.stem}":
        raise ValueError(f"{path} is no record: it is of {record['item']}")
    files = [
        path.with_suffix(".csv"),
        *(path.with_name(f"{stem}.png") for stem in record["figures"]),
    ]
    if lost := [file.name for file in files if not file.is_file()]:
        raise ValueError(f"{path} is without its {', '.join(lost)}")
    return record


def read_rows(path):
    """The rows of a record, a data frame."""
    import pandas as pd

    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def run_of(record, folder):
    """What `evidence(run)` sees of a record whose rows lie in `folder`."""
    stem = record["item"].split("/")[1]
    return Run(
        rows=read_rows(Path(folder) / f"{stem}.csv"),
        parameters=record["parameters"],
        facts=record["facts"] | {"level_of_data": record["level"]["kind"]},
        profile=record["profile"],
        data=tuple(record["data"]),
    )
