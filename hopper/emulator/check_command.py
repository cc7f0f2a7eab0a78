"""The command ``check``: what it takes, what it prints, and its exit status.

``python -m hopper.emulator check kernel.cu --launch launch.toml``; docs/emulator.md says more.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from hopper.emulator.check_report import rendered
from hopper.emulator.check_runs import Checked, check
from hopper.emulator.launch_file import read_launch_file, schedule_problem
from hopper.errors import HopperError

CLEAN, BROKEN, UNUSABLE = 0, 1, 2

NO_HEADERS = (
    "#include <…> finds nothing: NVRTC brings no headers; put what you need beside the kernel and "
    'write #include "…"'
)
DESCRIPTION = """\
Run a kernel in the emulator, on several orders of its warps and its asynchronous copies, and print
every rule of the hardware that it breaks: where, who, and what to do. No GPU is needed.
"""
EPILOG = """\
exit status:
  0  no errors; there may be warnings
  1  at least one error
  2  nothing was checked: usage, launch file, compilation, an instruction that is not emulated

example:
  python -m hopper.emulator check examples/check/two_stages.cu \\
      --launch examples/check/two_stages.toml

The launch file is described in docs/emulator.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("source", type=Path, metavar="KERNEL.cu", help="the CUDA C++ file")
    parser.add_argument(
        "--launch", type=Path, required=True, metavar="FILE.toml", help="how to launch it"
    )
    parser.add_argument(
        "--define",
        action="append",
        default=[],
        type=_definition,
        metavar="NAME=VALUE",
        help="a macro, in place of the launch file's; may be given more than once",
    )
    parser.add_argument(
        "--schedule",
        action="append",
        default=[],
        type=_schedule,
        metavar="WARPS/COPIES",
        help="a schedule, in place of the launch file's; may be given more than once: "
        "fixed, random or starved, then lazy, eager or random",
    )
    parser.add_argument(
        "--seeds", type=_count, metavar="N", help="runs of each random schedule, seeds 0 to N-1"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print one JSON object, for tools")
    shown.add_argument(
        "--quiet", action="store_true", help="print one line a finding, and nothing without any"
    )


def command(given: argparse.Namespace) -> int:
    """Run the check and print what it found. Returns the exit status."""
    try:
        checked = _checked(given)
    except HopperError as error:
        if given.json:
            print(json.dumps({"error": str(error), "exit_status": UNUSABLE}, indent=2))
        else:
            print(f"error: {error}", file=sys.stderr)
            if "no directories in search list" in str(error):
                print(f"help: {NO_HEADERS}", file=sys.stderr)
        return UNUSABLE
    status = BROKEN if any(not found.warning for found in checked.findings) else CLEAN
    if given.json:
        print(json.dumps(checked.as_dict() | {"exit_status": status}, indent=2))
        return status
    for found in checked.findings:
        print(rendered(found, checked.lines, len(checked.trials), brief=given.quiet))
        if not given.quiet:
            print()
    if not given.quiet:
        print(checked.summary())
    return status


def _checked(given: argparse.Namespace) -> Checked:
    """The check, with what the command line says in place of the launch file."""
    launch = read_launch_file(given.launch)
    launch = replace(
        launch,
        defines={**launch.defines, **dict(given.define)},
        schedules=tuple(dict.fromkeys(given.schedule)) or launch.schedules,
        seeds=given.seeds or launch.seeds,
    )
    return check(given.source, launch)


def _definition(text: str) -> tuple[str, int | str]:
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise argparse.ArgumentTypeError(f"{text!r} defines no macro; write NAME=VALUE")
    if not equals:
        return name, 1
    return name, int(value) if re.fullmatch(r"-?\d+", value) else value


def _schedule(text: str) -> str:
    problem = schedule_problem(text)
    if problem:
        raise argparse.ArgumentTypeError(f"{text!r}: {problem}")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seeds; write 1 or more")
    return int(text)
