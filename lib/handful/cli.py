"""The command `handful`: run the papers' notebooks, build the report, look after the data."""

import argparse
import importlib
import importlib.util
import sys
import textwrap
from pathlib import Path

import handful.experiments.provenance as provenance
from handful.experiments.results import PROFILES

_REPRODUCE_NEEDS = ("papermill", "nbconvert", "ipykernel", "matplotlib", "pandas")


class _Refused(Exception):
    """The request cannot be met; the message tells the user why and what to do."""


def main(argv=None):
    """Entry point of the console script: parse `argv`, run the sub-command, give the exit status."""
    args = _parser().parse_args(argv)
    if args.run is None:
        _parser().print_help()
        return 0
    try:
        return args.run(args)
    except _Refused as error:
        print(f"handful: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `handful data | head`: the reader has seen enough
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("\nhandful: stopped.", file=sys.stderr)
        return 130


def _parser():
    parser = argparse.ArgumentParser(
        prog="handful",
        description="Train on a handful of points: recompute the tables and figures of four papers.",
        epilog=textwrap.dedent("""\
            to begin with:
              handful reproduce                     every notebook on small data, minutes, no network
              handful reproduce --only fig06        one figure
              handful reproduce --profile laptop    the papers' data sets, hours
              handful data                          which data sets are here, which can be fetched"""),
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=16),
    )
    parser.add_argument("--version", action="version", version=f"handful {provenance.versions().get('handful')}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    reproduce = commands.add_parser(
        "reproduce",
        help="run the notebooks and build the report",
        description="Run the notebooks and build the report. What has not changed since its last run is not "
        "run again; a killed run goes on where it was; a notebook that fails does not stop the others.",
    )
    reproduce.add_argument(
        "--profile",
        choices=PROFILES,
        default="quick",
        help="how much of the papers: quick (small data, minutes; the default), laptop (the papers' data, "
        "fewer seeds), paper (the papers' protocol; a GPU or a night)",
    )
    reproduce.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        default=[],
        help='part of a name like "bico/fig06", or a pattern with *; may be given several times',
    )
    reproduce.add_argument("--jobs", type=_positive, default=1, metavar="N", help="notebooks at a time (default: 1)")
    reproduce.add_argument("--force", action="store_true", help="run what is up to date, too")
    reproduce.set_defaults(run=_reproduce)

    report = commands.add_parser("report", help="build figures/index.html from the results that are there")
    report.set_defaults(run=_report)

    data = commands.add_parser("data", help="list the data sets, or fetch one")
    data.set_defaults(run=_data_list)
    actions = data.add_subparsers(metavar="ACTION")
    actions.add_parser("list", help="name, size, licence and whether it is here (the default)")
    fetch = actions.add_parser("fetch", help="download a data set and check it")
    fetch.add_argument("name", nargs="+", metavar="NAME")
    fetch.set_defaults(run=_data_fetch)

    # For maintainers; a visitor's help need not show it.
    readme = commands.add_parser("readme", description="Compare the README's table of results with the records.")
    readme.add_argument("--write", action="store_true", help="put the table there instead")
    readme.set_defaults(run=_readme)
    return parser


def _positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _reproduce(args):
    _need_extra()
    from handful.experiments.notebooks import NotebookError, plan
    from handful.experiments.runner import reproduce

    try:
        runs = plan(_checkout() / "notebooks", args.profile, args.only)
    except NotebookError as error:
        raise _Refused(str(error)) from error
    figures = provenance.output_root()
    expected = _minutes(sum(run.minutes for run in runs) / args.jobs)
    print(
        f"Profile {args.profile}: {_count(len(runs), 'notebook')}, {expected} min if none is up to date.",
        flush=True,
    )
    with _Progress(len(runs)) as progress:
        outcomes = reproduce(runs, figures=figures, jobs=args.jobs, force=args.force, watch=progress.show)
    _summary(outcomes)
    print(f"\nReport: {_build_report(figures)}")
    statuses = {o.status for o in outcomes}
    return 130 if statuses & {"interrupted", "not started"} else 1 if "failed" in statuses else 0


class _Progress:
    """A line for each notebook that finished, and which run: a bar on a terminal, elsewhere a line for each start."""

    def __init__(self, n):
        from tqdm import tqdm

        self.live = sys.stderr.isatty()
        self.bar = tqdm(total=n, unit="notebook", disable=not self.live, bar_format="{n}/{total} |{bar:24}| {desc}")
        self.told, self.begun = set(), set()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.bar.close()

    def show(self, outcomes, active):
        for outcome in outcomes:
            if outcome.run.name not in self.told:
                self.told.add(outcome.run.name)
                self._tell(_line(outcome))
                self.bar.update()
        if not self.live:
            for run, _ in active:
                if run.name not in self.begun:
                    self.begun.add(run.name)
                    self._tell(f"  {'started':<11} {run.name:<36} expected: {_minutes(run.minutes)} min")
        running = ", ".join(f"{r.name} {_clock(seconds)} of {_clock(60 * r.minutes)}" for r, seconds in active)
        self.bar.set_description_str(running)

    def _tell(self, line):
        self.bar.write(line, file=sys.stdout)
        sys.stdout.flush()  # whoever reads a pipe should not wait for a full buffer


def _clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _line(outcome):
    taken = f"{_minutes(outcome.seconds / 60)} min (expected {_minutes(outcome.run.minutes)})"
    details = {
        "done": taken,
        "unchanged": "not run again; --force would",
        "interrupted": "will run next time",
        "not started": "will run next time",
        "failed": f"{taken}: {outcome.error['error'] if outcome.error else ''}",
    }
    return f"  {outcome.status:<11} {outcome.run.name:<36} {details[outcome.status]}"


def _summary(outcomes):
    counts = {}
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    print("\n" + ", ".join(f"{n} {status}" for status, n in counts.items()) + ".")
    for outcome in outcomes:
        if outcome.status == "failed":
            where = f", cell {outcome.error['cell']}" if outcome.error["cell"] else ""
            print(f"\n{outcome.run.name} failed{where}: {outcome.error['error']}")
            if outcome.error["traceback"]:
                print(textwrap.indent(outcome.error["traceback"].strip(), "    "))


def _report(args):
    _need_extra()
    print(f"Report: {_build_report(provenance.output_root())}")
    return 0


def _build_report(figures):
    from handful.experiments.report import build_report

    try:
        return build_report(figures)
    except ValueError as error:
        raise _Refused(str(error)) from error


def _data_list(args):
    from handful import data

    rows = [("name", "where", "rows x features", "licence")]
    rows += [(row.name, row.where, row.shape, row.licence) for row in data.status()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for *cells, licence in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths)), licence]))
    print("\n`handful data fetch NAME` downloads a data set and checks it.")
    return 0


def _data_fetch(args):
    from handful import data

    for name in args.name:
        try:
            path = data.fetch(name)
        except (ValueError, OSError) as error:
            raise _Refused(str(error)) from error
        print(f"{name}: {path}")
    return 0


def _readme(args):
    from handful.experiments.readme import check_readme

    path = _checkout() / "README.md"
    try:
        current = check_readme(path, figures=_checkout() / "figures", write=args.write)
    except (OSError, ValueError) as error:
        raise _Refused(str(error)) from error
    if current:
        print("README.md holds the results on record.")
        return 0
    print("README.md: written." if args.write else "README.md is not what the records give: handful readme --write")
    return 0 if args.write else 1


def _need_extra():
    missing = [name for name in _REPRODUCE_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise _Refused(f'this needs {", ".join(missing)}: pip install "handful[reproduce]"')


def _checkout():
    root = provenance.find_root()
    if root is None:
        raise _Refused(
            f"{Path.cwd()} is not inside a checkout of handful, which holds the notebooks: git clone it, "
            "change into it and try again."
        )
    return root


def _count(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _minutes(value):
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


if __name__ == "__main__":
    sys.exit(main())
