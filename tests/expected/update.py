"""Write the expected numbers anew: `python tests/expected/update.py [PATTERN]`. See README.md beside this file."""

import shutil
import sys
import tempfile
from pathlib import Path

import pandas as pd
from handful_papers.experiment import figure
from handful_papers.run import plan, reproduce

HERE = Path(__file__).resolve().parent


def main(*patterns):
    """Run the notebooks that the patterns match at profile quick and keep their rows; the number that failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, error in reproduce(plan("quick", patterns), figures=folder).items():
            if error:
                failed += 1
                continue
            target = HERE / f"{name}.csv"
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(Path(folder) / "quick" / f"{name}.csv", target)
            ruled = {"keys", *figure(name)["expected"].get("keys", []), *figure(name)["expected"]}
            if lost := [column for column in pd.read_csv(target) if column not in ruled]:
                print(f"{name}: say under [expected] of its .toml how {', '.join(lost)} compare, and why")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
