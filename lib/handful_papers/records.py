"""The reading of a record, and what makes a file one."""

import json
from functools import cache
from pathlib import Path

from handful_papers.claims import HOME


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
        # which refuses NaN and infinities
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=int)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no record: {error}") from error
    if problem := next(_schema().iter_errors(record), None):
        raise ValueError(f"{path} is no record: {problem.json_path}: {problem.message:.200}")
    if (
        path.stem != record["item"].split("/")[-1]
        or path.parent.name != record["item"].split("/")[0]
    ):
        raise ValueError(f"{path} is no record: it is of {record['item']}")
    files = [
        path.with_suffix(".csv"),
        *(path.with_name(f"{stem}.png") for stem in record["figures"]),
    ]
    if lost := [file.name for file in files if not file.is_file()]:
        raise ValueError(f"{path} is without its {', '.join(lost)}")
    return record
