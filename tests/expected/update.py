"""Write the expected numbers anew: `python tests/expected/update.py [PATTERN]`. See README.md
beside this file."""

import shutil
import sys
import tempfile
from pathlib import Path

import pandas as pd
from handful_papers.entries import figure_entry
from handful_papers.expected import by_column
from handful_papers.run import plan, reproduce

HERE = Path(__file__).resolve().parent


def main(*patterns):
    """Run the notebooks that the patterns match at profile quick and keep their rows; the number
    that failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, error in reproduce(plan("quick", patterns), figures=folder).items():
            if error:
                failed += 1
                continue
            target = HERE / f"{name}.csv"
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(Path(folder) / "quick" / f"{name}.csv", target)
            rules = figure_entry(name)["expected"]
            columns = pd.read_csv(target, nrows=0)
            if lost := sorted(set(columns) - {*rules.get("keys", []), *by_column(rules, columns)}):
                print(
                    f"{name}: say under [expected] of its .toml how {', '.join(lost)} compare, and "
                    "why"
                )
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
