"""The command `handful`: look after the data sets and, from a checkout, reproduce the papers."""

import argparse
import sys
from importlib.metadata import entry_points, version

import shtab

# The reproduction adds these commands (see `handful_papers.cli`) in a checkout, and is no part of a
# wheel.
REPRODUCTION = ("reproduce", "list", "report", "audit")
OF_A_CHECKOUT = """\
  handful reproduce                     every notebook on small data, minutes, no network
  handful reproduce --only fig06        one figure
  handful reproduce --profile laptop    the papers' data sets, hours
"""
OF_A_WHEEL = """\
  handful data fetch NAME               download a data set and check it
"""
EXIT_CODES = """\
exit codes: 0 done; 1 it ran, and something is wrong; 2 refused, and why; 130 stopped by Ctrl-C;
141 stopped, as nothing read its output"""


class Refused(Exception):
    """The request cannot be met; the message tells the user why and what to do."""


def main(argv=None):
    """Entry point of the console script: parse `argv`, run the sub-command, give the exit
    status."""
    argv = sys.argv[1:] if argv is None else argv
    adders = _adders()
    try:
        if not adders and argv[:1] and argv[0] in REPRODUCTION:
            raise Refused(
                "the papers' notebooks are not part of the installed library: git clone the "
                "project, run `make setup` "
                f"in the checkout, and there `.venv/bin/handful {argv[0]}`."
            )
        parser = _parser(adders)
        args = parser.parse_args(argv)
        if args.run is None:
            parser.print_help()
            return 0
        status = args.run(args)
        # it is where the caller has closed it
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except Refused as error:
        print(f"handful: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `handful reproduce | head -1`: what was not written by then was not done either
        sys.stdout = None
        print("handful: stopped, as nothing reads its output any more.", file=sys.stderr)
        # as a shell reports it
        return 141
    except KeyboardInterrupt:
        print("\nhandful: stopped.", file=sys.stderr)
        return 130


def _parser(adders):
    purpose = (
        "recompute the tables and figures of four papers"
        if adders
        else "look after the data sets of the library"
    )
    first = OF_A_CHECKOUT if adders else OF_A_WHEEL
    last = (
        "  handful data                          which data sets are here, which can be fetched\n"
    )
    parser = argparse.ArgumentParser(
        prog="handful",
        description=f"Train on a handful of points: {purpose}.",
        epilog=f"to begin with:\n{first}{last}\n{EXIT_CODES}",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=16
        ),
    )
    parser.add_argument("--version", action="version", version=f"handful {version('handful')}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add_commands in adders:
        add_commands(commands)

    data = commands.add_parser("data", help="list the data sets, or fetch one")
    data.set_defaults(run=_data_list)
    actions = data.add_subparsers(metavar="ACTION")
    actions.add_parser("list", help="name, size, licence and whether it is here (the default)")
    fetch = actions.add_parser("fetch", help="download a data set and check it")
    fetch.add_argument("name", nargs="+", metavar="NAME")
    fetch.set_defaults(run=_data_fetch)

    completion = commands.add_parser(
        "completion", help="print the completion of commands and options for a shell"
    )
    completion.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    completion.set_defaults(run=lambda args: print(shtab.complete(parser, shell=args.shell)) or 0)
    return parser


def _adders():
    """The functions that add the commands of the reproduction: none where the library came as a
    wheel."""
    try:
        return [entry.load() for entry in entry_points(group="handful.commands")]
    except ModuleNotFoundError as error:
        if error.name != "handful_papers":
            raise
        return []


def _data_list(args):
    from handful.data.files import MissingDataError
    from handful.data.loaders import states

    try:
        found = states()
    except MissingDataError as error:
        raise Refused(str(error)) from error
    rows = [
        (name, state["where"], state["shape"], state["licence"]) for name, state in found.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows)][:3]
    for row in rows:
        print(*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1], sep="  ")
    print("\n`handful data fetch NAME` downloads a data set and checks it.")
    return 0


def _data_fetch(args):
    from handful import data

    for name in args.name:
        try:
            print(data.load(name, verbose=True).describe())
        except (ValueError, OSError, ImportError) as error:
            raise Refused(str(error)) from error
    return 0


if __name__ == "__main__":
    # this module once more, by the name under which commands raise its `Refused`
    from handful import cli

    sys.exit(cli.main())
