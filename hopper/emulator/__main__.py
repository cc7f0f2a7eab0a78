"""The emulator's command line: ``python -m hopper.emulator``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hopper.emulator import check_command


def main(arguments: Sequence[str]) -> int:
    """Run one command. Returns the exit status: 2 where the arguments are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m hopper.emulator",
        description="Hopper kernels without a Hopper GPU.",
        epilog="python -m hopper.emulator check --help says how to check a kernel.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check",
        help="run a kernel on several schedules and print the rules that it breaks",
        description=check_command.DESCRIPTION,
        epilog=check_command.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check_command.add_arguments(check)
    check.set_defaults(command=check_command.command)
    try:
        given = parser.parse_args(arguments)
    except SystemExit as done:
        return int(done.code or 0)
    return given.command(given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
