"""Write the expected numbers anew: `python tests/expected/update.py [PATTERN]`. See README.md beside this file."""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import pandas as pd
from handful_papers.notebooks import plan
from handful_papers.runner import reproduce

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE.parents[1] / "notebooks"


def main(pattern=None):
    """Run the notebooks that `pattern` matches at profile quick and keep their rows; the number that failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for outcome in reproduce(plan(NOTEBOOKS, "quick", [pattern]), figures=folder):
            name = outcome.run.name
            if outcome.status != "done":
                failed += 1
                print(f"{name} {outcome.status}: {outcome.error}")
                continue
            target = HERE / f"{name}.csv"
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(Path(folder) / "quick" / f"{name}.csv", target)
            rules = target.with_suffix(".toml")
            if not rules.exists():
                rules.write_text(draft(pd.read_csv(target)), encoding="utf-8")
            print(f"{name}: {target.relative_to(HERE)}")
    return failed


def draft(rows):
    """First rules for the columns of `rows`: counts and words are keys, times ignored, other numbers compared."""
    times = [c for c in rows if "second" in c or "time" in c or "minute" in c]
    numbers = [c for c in rows if rows[c].dtype.kind == "f" and c not in times]
    keys = [c for c in rows if c not in [*times, *numbers]]
    lines = [f"keys = {json.dumps(keys)}", ""]
    for column in numbers:
        lines += [f"[columns.{column}]", "rtol = 1e-6", 'reason = ""', ""]
    if times:
        lines += ["[ignore]", *[f'{c} = "wall time"' for c in times]]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
