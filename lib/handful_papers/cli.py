"""The commands of the reproduction, which `handful.cli` adds to its own: reproduce, list, report,
audit."""

import argparse
import importlib.util

from handful.cli import Refused

_NEEDED = ("papermill", "nbformat", "ipykernel", "matplotlib", "pandas", "seaborn")


def add_commands(commands):
    """Add the reproduction's commands to an argparse object of sub-parsers."""
    from handful_papers.claims import PROFILES
    from handful_papers.entries import GPU

    words = (
        "run the papers' notebooks: those that are not current; a killed run goes on where it was"
    )
    where = (
        "Each writes its record, rows, pictures and executed notebook to figures/PROFILE of the "
        "checkout."
    )
    reproduce = commands.add_parser("reproduce", help=words, description=f"{words}. {where}")
    profiles = (*PROFILES, GPU)
    words = (
        "quick (small data, half an hour; the default), laptop (the papers' data, about a day), "
        "paper (the papers' protocol, weeks) or gpu (what wants a GPU, half an hour to 25 hours "
        "each; needs CUDA)"
    )
    reproduce.add_argument("--profile", choices=profiles, default="quick", help=words)
    reproduce.add_argument(
        "--jobs", type=_positive, default=1, metavar="N", help="notebooks at a time (default: 1)"
    )
    reproduce.add_argument(
        "--dask",
        metavar="ADDRESS",
        default="",
        help="run the tasks of sweeps on this dask scheduler",
    )
    reproduce.add_argument("--force", action="store_true", help="run what is current, too")
    listing = commands.add_parser(
        "list", help="list the notebooks: what they make, minutes, whether current"
    )
    listing.add_argument("--profile", choices=profiles, default="quick")
    report = commands.add_parser(
        "report", help="print the table of records: data, verdicts, what is stale"
    )
    report.add_argument(
        "--profile", choices=profiles, action="append", help="default: the committed ones"
    )
    report.add_argument(
        "--judge", action="store_true", help="judge all claims again from the rows on record"
    )
    report.add_argument(
        "--check",
        action="store_true",
        help=(
            "fail if a committed record is refused, stale or unclean, or a file beside it is not "
            "what its run left"
        ),
    )
    report.add_argument(
        "--strict",
        action="store_true",
        help=(
            "check, and fail as well for a record that is older than the code and has no audit "
            "by it, or holds no hashes of its files"
        ),
    )
    audit = commands.add_parser(
        "audit", help="run a random share of the recorded tasks again, and compare"
    )
    audit.add_argument(
        "--share",
        type=float,
        default=0.02,
        help="of each sweep's tasks (default: .02; at least one)",
    )
    audit.add_argument(
        "--minutes",
        type=float,
        default=2.0,
        help="that a notebook may take which has to run as a whole (default: 2)",
    )
    for parser, run in (
        (reproduce, _reproduce),
        (listing, _list),
        (report, _report),
        (audit, _audit),
    ):
        parser.set_defaults(run=_with_extra(run))
        words = 'part of a name like "bico/fig06", or a pattern with *; may be given several times'
        parser.add_argument("--only", metavar="PATTERN", action="append", default=[], help=words)


def _positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _with_extra(run):
    def checked(args):
        if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
            raise Refused(
                f'this needs {", ".join(missing)}: pip install -e ".[reproduce]" in the checkout.'
            )
        try:
            return run(args)
        except ValueError as error:
            raise Refused(str(error)) from error

    return checked


def _reproduce(args):
    from handful_papers import run, site
    from handful_papers.committed import FIGURES
    from handful_papers.entries import GPU

    runs = run.plan(args.profile, args.only)
    if args.profile == GPU:
        run.check_gpu(runs)
    outcomes = run.reproduce(
        runs,
        jobs=args.jobs,
        dask=args.dask,
        force=args.force,
        tell=lambda line: print(line, flush=True),
    )
    table = site.terminal((args.profile,), only=list(outcomes))
    print(f"\n{table}\nResults: {FIGURES / args.profile}. The site of `make docs` shows them.")
    return 1 if any(error not in ("", "current") for error in outcomes.values()) else 0


def _list(args):
    from handful_papers import run, site

    runs = run.plan(args.profile, args.only)
    if not runs:
        raise Refused(f"none of these figures runs at profile {args.profile}.")
    rows = {row["name"]: row for row in site.item_rows((args.profile,))[0]}
    for one in runs:
        state = "on record" if run.is_current(one) else "to run"
        print(f"{one.name:<36} {one.minutes:>6g} min  {state:<10} {rows[one.name]['title']}")
    return 0


def _report(args):
    from handful_papers import site

    of_all = args.check or args.strict or args.judge
    if args.only and of_all:
        raise Refused(
            "--only chooses rows of the table, and --check, --strict and --judge are of all "
            "records: give one or the other."
        )
    profiles, chosen = _asked_for(args)
    lost = _judge_all_again(profiles) if args.judge else []
    print(site.terminal(profiles, only=chosen))
    wrong = _wrong(profiles, args.strict) if args.check or args.strict else []
    return 1 if lost or wrong else 0


def _asked_for(args):
    """The profiles of a report, the largest first, and the names of its figures."""
    from handful_papers import committed, run

    asked = set(args.profile or committed.COMMITTED)
    profiles = tuple(name for name in (*committed.COMMITTED, "quick") if name in asked)
    chosen = run.items_of(profiles, args.only)
    if not chosen:
        raise Refused(f"none of these figures runs at profile {' or '.join(profiles)}.")
    return profiles, chosen


def _wrong(profiles, strict):
    """Sentences on what `--check` fails for, which are printed, or that it passed."""
    from handful_papers import site

    rows, wrong = site.item_rows(profiles)
    wrong += [f"{row['name']}: {sentence}" for row in rows for sentence in _faults(row, strict)]
    n_records = sum(row["record"] is not None for row in rows)
    passed = f"Check passed: of {n_records} records none was found refused, stale, unclean or "
    passed += "changed since its run"
    more = "; none lacks hashes, or an audit by today's code where older code made it"
    passed += f"{more if strict else ''}."
    print(*[f"wrong: {sentence}" for sentence in wrong] or [passed], sep="\n")
    return wrong


def _judge_all_again(profiles):
    """Judge the records of some profiles again, and write what shows them: sentences on those that
    cannot be judged."""
    from handful_papers import committed, picture, site

    lost = []
    for path, record in committed.records(profiles=profiles)[0]:
        try:
            if committed.judge_again(path):
                print(f"judged anew: {record['item']} at {record['profile']}")
        except ValueError as error:
            lost.append(str(error))
    if lost:
        print(*(f"Not judged: {sentence}" for sentence in lost), sep="\n")
        print("Picture and pages stay as they were.")
        return lost
    picture.write()
    for page in (committed.FIGURES.parent / "docs").glob("*.md"):
        page.write_text(site.with_claims(page.read_text(encoding="utf-8")), encoding="utf-8")
    return []


def _faults(row, strict):
    """What `--check` fails for: sentences on one row of `site.item_rows`."""
    found = [row["stale"], row["unverified"]]
    found += ["made by code that is in no commit"] if (row["record"] or {}).get("dirty") else []
    return [told for told in found + (row["doubts"] if strict else []) if told]


def _audit(args):
    from handful_papers.audit import audit

    if not 0 < args.share <= 1:
        raise Refused(f"--share must lie above 0 and at most 1, got {args.share}.")
    found = audit(args.share, args.only, minutes=args.minutes)
    return 1 if any(found.values()) else 0
