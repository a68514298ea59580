"""The commands of the reproduction, which `handful.cli` adds to its own: reproduce, run, list, report, readme."""

import argparse
import ast
import contextlib
import importlib.util
import os
import sys
from pathlib import Path

from handful.cli import Refused

from handful_papers import provenance
from handful_papers.notebooks import PROFILES
from handful_papers.progress import Progress, in_minutes, line, summary

_NEEDED = ("papermill", "nbconvert", "ipykernel", "matplotlib", "pandas", "seaborn")


def add_commands(commands):
    """Add the reproduction's commands to an argparse object of sub-parsers."""
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
        "fewer seeds; a day on two cores), paper (the papers' protocol; weeks, and a GPU for some)",
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
    reproduce.add_argument(
        "--limit",
        type=_factor,
        default=10.0,
        metavar="FACTOR",
        help="end a notebook after FACTOR times its expected minutes, or FACTOR minutes (default: 10; inf: no limit)",
    )
    reproduce.add_argument("--dask", metavar="ADDRESS", help="run the tasks of sweeps on this dask scheduler")
    reproduce.add_argument("--dry-run", action="store_true", help="say what would run, and stop")
    reproduce.set_defaults(run=_reproduce)

    run = commands.add_parser(
        "run",
        help="run one notebook with parameters of your own",
        description="Run one notebook with changed parameters. Results go to a folder of your own, never among those "
        "of the profiles.",
    )
    run.add_argument("name", metavar="NAME", help='a notebook, as "bico/fig06_binary_logistic" or "fig06"')
    run.add_argument("-p", dest="changes", metavar="NAME=VALUE", action="append", default=[], help="a parameter")
    run.add_argument("--profile", choices=PROFILES, default="quick", help="whose values the other parameters have")
    run.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the results")
    run.set_defaults(run=_run)

    words = "list the notebooks: what they make, minutes, whether up to date; of one, its parameters"
    listing = commands.add_parser("list", help=words, description=f"{words[0].upper()}{words[1:]}.")
    listing.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="lists the notebooks whose name contains this; if it is only one, its parameters",
    )
    listing.add_argument(
        "--profile", choices=PROFILES, default="quick", help="for the minutes; parameters are shown for all profiles"
    )
    listing.set_defaults(run=_list)

    report = commands.add_parser("report", help="build figures/index.html from the results that are there")
    report.add_argument(
        "--check",
        action="store_true",
        help="fail if a committed record is incomplete, its code is in no commit, or its rows do not give its claims",
    )
    report.add_argument("--strict", action="store_true", help="fail on stale ones, too")
    report.add_argument(
        "--judge",
        action="store_true",
        help="judge all claims again from the rows, and update the texts of executed notebooks",
    )
    report.add_argument("--redraw", action="store_true", help="draw the figures of all records again from their rows")
    report.set_defaults(run=_report)

    words = "compare the table of results in notebooks/index.ipynb with the records"
    readme = commands.add_parser("readme", help=words, description=f"{words[0].upper()}{words[1:]}.")
    readme.add_argument("--write", action="store_true", help="put it there instead")
    readme.set_defaults(run=_readme)


def _positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _factor(text):
    with contextlib.suppress(ValueError):
        if (value := float(text)) > 0:
            return value
    raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")


def _plan(args, only):
    from handful_papers.notebooks import NotebookError, plan

    _need_extra()
    try:
        return plan(_checkout() / "notebooks", args.profile, only)
    except NotebookError as error:
        raise Refused(str(error)) from error


def _reproduce(args):
    from handful_papers.kept import up_to_date
    from handful_papers.runner import reproduce, time_limit
    from handful_papers.sweep import DASK

    runs = _plan(args, args.only)
    figures = provenance.output_root()
    due = runs if args.force else [run for run in runs if not up_to_date(run, figures)]
    expected = in_minutes(sum(run.minutes for run in due) / args.jobs)
    print(
        f"Profile {args.profile}: {_count(len(runs), 'notebook')}, {len(due)} of them to run, {expected} min.",
        flush=True,
    )
    if args.dry_run:
        for run in due:
            print(f"  {run.name:<36} {in_minutes(run.minutes)} min, at most {in_minutes(time_limit(run, args.limit))}")
        return 0
    if args.dask:
        os.environ[DASK] = args.dask
    with Progress(runs, args.limit, args.jobs) as progress:
        options = {"jobs": args.jobs, "force": args.force, "limit": args.limit}
        outcomes = reproduce(runs, figures=figures, watch=progress.show, **options)
    print(summary(outcomes))
    print()
    if _build_report(figures):
        print(_verdicts(figures, args.profile, [run.name for run in runs]))
    statuses = {o.status for o in outcomes}
    return 130 if statuses & {"interrupted", "not started"} else 1 if "failed" in statuses else 0


def _verdicts(figures, profile, names):
    """One line: how the claims of these notebooks were judged at this profile."""
    from handful_papers.gather import claims, collect, tally, tally_text

    stated = claims([result for result in collect(figures, [profile]) if result.name in names])
    theirs, own = [c for c in stated if not c.own], [c for c in stated if c.own]
    kinds = [("claims of the papers", theirs), ("claims of our own", own)]
    told = [f"of {len(some)} {what}, {tally_text(tally(some))}" for what, some in kinds if some]
    return f"Verdicts at profile {profile}: {'; '.join(told) or 'these notebooks make no claims'}. See the report."


def _run(args):
    import math
    from dataclasses import replace

    from handful_papers.runner import reproduce

    runs = _plan(args, [args.name])
    if len(runs) != 1:
        raise Refused(f"{args.name!r} names {len(runs)} notebooks: {', '.join(run.name for run in runs)}; say which.")
    (run,) = runs
    out = args.out.resolve()
    if out.is_relative_to((_checkout() / "figures").resolve()):
        raise Refused(f"--out {args.out} lies among the profiles' results, which it would replace; name another.")
    changes = dict(_change(text, run.notebook.parameters()) for text in args.changes)
    run = replace(run, parameters={**run.parameters, **changes})
    (outcome,) = reproduce([run], figures=out, force=True, limit=math.inf)  # other parameters may take any time
    print(line(outcome))
    print(summary([outcome]))
    print(f"\nResults: {out / args.profile / run.name.split('/')[0]}")
    return 0 if outcome.status == "done" else 1


def _change(text, known):
    """("n_seeds", 10) of "n_seeds=10", a name that is there and a value of the kind that it has."""
    name, given, value = text.partition("=")
    if not given or name not in known:
        raise Refused(f"-p wants NAME=VALUE with one of {', '.join(known)}; got {text!r}.")
    with contextlib.suppress(ValueError, SyntaxError):  # a plain word is a string
        value = ast.literal_eval(value)
    kinds = (int, float) if isinstance(known[name], (int, float)) and not isinstance(known[name], bool) else ()
    if known[name] is not None and not isinstance(value, kinds or type(known[name])):
        raise Refused(
            f"{name} is {known[name]!r} in the notebook, of type {type(known[name]).__name__}; got {value!r}."
        )
    return name, value


def _list(args):
    from handful_papers.catalogue import catalogue
    from handful_papers.kept import up_to_date

    labels = {}
    for paper in catalogue():
        for item in paper.items:
            labels.setdefault(item.name, []).append(item.label or item.title)
    runs = _plan(args, [args.name] if args.name else ())
    for run in runs:
        state = "up to date" if up_to_date(run, provenance.output_root()) else "to run"
        print(f"{run.name:<36} {in_minutes(run.minutes):>5} min  {state:<10}  {', '.join(labels.get(run.name, ()))}")
    if args.name and len(runs) == 1:
        _list_parameters(runs[0].notebook)
    elif args.name:
        print(f"\nFor the parameters of one, name it alone: handful list {runs[0].name}")
    return 0


def _list_parameters(notebook):
    from handful_papers.notebooks import plan

    runs = {profile: plan(_checkout() / "notebooks", profile, [notebook.name])[0] for profile in PROFILES}
    comments = notebook.comments()
    for name in notebook.parameters():
        values = {profile: repr(run.values[name]) for profile, run in runs.items()}
        print(f"\n{name}{': ' * bool(comments[name])}{comments[name]}")
        if len(set(values.values())) == 1:
            values = {"all profiles": values["quick"]}
        for profile, value in values.items():
            print(f"    {profile:<7} {value}")
    print(f"\nTo change some: handful run {notebook.name} -p 'NAME=VALUE' -p ... --out DIR")


def _report(args):
    _need_extra()
    if args.judge and not _judge():
        return 1
    if args.redraw:
        _redraw()
    if args.check or args.strict:
        return _check(args.strict)
    return 0 if _build_report(provenance.output_root()) else 1


def _judge():
    from handful_papers.check import judge_all_records

    changed, failed = judge_all_records(provenance.output_root(), _checkout() / "notebooks")
    print(*failed, sep="\n", end="\n" * bool(failed))
    print(f"Judged again: {_count(len(changed), 'record')} changed{': ' * bool(changed)}{', '.join(changed)}.")
    return not failed


def _redraw():
    from handful_papers.notebooks import plan
    from handful_papers.redraw import redraw

    for profile in PROFILES:
        for run in plan(_checkout() / "notebooks", profile):
            path = provenance.output_root() / profile / f"{run.name}.json"
            if path.is_file():
                try:
                    changed = redraw(path, run)
                    print(f"{run.name} at {profile}: {', '.join(changed) or 'as it was'}")
                except ValueError as error:
                    print(f"{run.name} at {profile}: left as it was: {error}")


def _check(strict):
    from handful_papers.check import check, stale

    root = _checkout()
    wrong, old = check(root / "figures", root / "notebooks"), stale(root / "figures", root / "notebooks")
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    for one in old:
        print(
            f"stale: {one.name} at {one.profile}, {one.reason} changed; a new run takes {in_minutes(one.minutes)} min"
        )
    print(f"{_count(len(wrong), 'problem')}. {_count(len(old), 'committed record')} stale, which --strict fails on.")
    return 1 if wrong or (strict and old) else 0


def _build_report(figures):
    """Whether there is a report now; it is told where, or why not, and which records it leaves out."""
    from handful_papers.gather import damaged
    from handful_papers.report import build_report

    for sentence in damaged(figures):
        print(f"Left out of the report: {sentence}")
    try:
        print(f"Report: {build_report(figures)}")
    except OSError as error:
        print(f"handful: the report cannot be written: {error}", file=sys.stderr)
        return False
    return True


def _readme(args):
    from handful_papers.gather import damaged
    from handful_papers.readme import COMMITTED, check_index

    if wrong := damaged(_checkout() / "figures", COMMITTED):
        raise Refused("\n".join(wrong))
    path = _checkout() / "notebooks" / "index.ipynb"
    try:
        current = check_index(path, figures=_checkout() / "figures", write=args.write)
    except (OSError, ValueError) as error:
        raise Refused(str(error)) from error
    if current:
        print("notebooks/index.ipynb holds the results on record.")
        return 0
    print("index.ipynb: written." if args.write else "index.ipynb is not what the records give: handful readme --write")
    return 0 if args.write else 1


def _need_extra():
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Refused(f'this needs {", ".join(missing)}: pip install -e ".[reproduce]" in the checkout.')


def _checkout():
    root = provenance.find_root()
    if root is None:
        raise Refused(
            f"{Path.cwd()} is not inside a checkout of handful, which holds the notebooks: git clone it, "
            "change into it and try again."
        )
    return root


def _count(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}"
