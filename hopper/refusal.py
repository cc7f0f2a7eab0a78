"""May this be launched? A program that compiles clean, or the reason why there is none."""

import re
from collections.abc import Callable

from hopper.compile import Program
from hopper.errors import CompileError


def built(make: Callable[[], Program]) -> tuple[Program | None, str | None]:
    """The program that ``make`` compiles, and why it must not be launched, in one line.

    No program where it does not compile; no reason where it may be launched.
    """
    try:
        program = make()
    except CompileError as error:
        return None, short_reason(str(error))
    try:
        program.require_clean()
    except CompileError as error:
        return program, short_reason(str(error))
    return program, None


def short_reason(message: str) -> str:
    """The line of a compiler's or ``require_clean``'s message that says why."""
    lines = message.splitlines()
    asserted = [re.search(r'static assertion failed with "(.*)"', line) for line in lines]
    told = [found[1] for found in asserted if found]
    listed = [line.strip(" -") for line in lines if line.startswith("  - ")]
    spills = [line for line in listed if line.startswith("spills")]
    return next(iter([*told, *spills, *listed, *lines]))
