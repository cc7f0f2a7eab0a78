"""The command line of descriptors: ``python -m hopper.descriptor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hopper.descriptor import FIELD_BITS, Major, described
from hopper.descriptor.mistakes import Mistake, mistakes
from hopper.errors import ProblemError
from hopper.swizzle import SPANS

DESCRIPTION = """\
What the 64 bits of a wgmma matrix descriptor say, and what is wrong with them.

Say how the operand lies, as far as you know it: whether an offset is right depends on that. What
you leave open is tried in every way, and the report says what depends on it."""
EPILOG = """\
  python -m hopper.descriptor 0x4000004000010040
  python -m hopper.descriptor 0xC000004000010040 --major K --swizzle 128
  python -m hopper.descriptor 0x4000004002000040 --major MN --rows 256

Exit status: 0 if nothing is wrong, or nothing in at least one way to read it; 1 if something is
wrong, or no number was given; 2 for arguments that are not understood."""

#: Rows that are tried where none are given: of A, and of a B as wide as most.
USUAL_ROWS = (64, 128, 256)
#: A way to read a number: major, bytes of an element, rows.
Reading = tuple[Major, int, int]


def readings(major: Major | None, bits: int | None, rows: int | None) -> list[Reading]:
    """The ways to read a descriptor that are left open. Raises ProblemError for wrong ``rows``."""
    # K-major, bytes are bytes: the type of an element makes no difference.
    majors = [major] if major else ["K"] if bits in (8, 32) else ["K", "MN"]
    heights = USUAL_ROWS if rows is None else (rows,)
    return [(one, (bits or 16) // 8, height) for one in majors for height in heights]


def report(value: int, read: list[Reading], swizzle: int | None) -> tuple[str, int]:
    """What to print about a number, and the exit status."""
    found: dict[str, dict[Reading, Mistake]] = {}
    for one in read:
        major, item_bytes, rows = one
        for mistake in mistakes(
            value, major=major, item_bytes=item_bytes, rows=rows, swizzle=swizzle
        ):
            found.setdefault(mistake.key, {})[one] = mistake
    lines = [described(value & FIELD_BITS)] if 0 <= value < 1 << 64 else []
    always = [list(cases.values()) for cases in found.values() if len(cases) == len(read)]
    if always:
        lines += ["", "Wrong:" if len(read) == 1 else "Wrong, however it is read:"]
        lines += [f"  - {cases[0]}" for cases in always]
    depends = [cases for cases in found.values() if len(cases) < len(read)]
    if depends:
        lines += ["", "Wrong, if the operand is"]
    for cases in depends:
        lines += [f"  - {_in_words(list(cases), read)}: {next(iter(cases.values()))}"]
    wrong = {one for cases in found.values() for one in cases}
    right = [one for one in read if one not in wrong]
    if not found:
        lines += ["", "Nothing is wrong with it."]
    elif right:
        lines += ["", f"Nothing is wrong, if the operand is {_in_words(right, read)}."]
    return "\n".join(lines).lstrip("\n"), int(len(wrong) == len(read))


def _in_words(cases: list[Reading], read: list[Reading]) -> str:
    """Which of the readings these are, such as "MN-major with 128 or 256 rows"."""
    words = []
    for major in dict.fromkeys(one[0] for one in cases):
        here, possible = (
            [rows for which, _, rows in some if which == major] for some in (cases, read)
        )
        text = f"{major}-major"
        if here != possible:
            text += f" with {' or '.join(map(str, here))} rows"
        words.append(text)
    return ", or ".join(words)


def _number(text: str) -> int:
    try:
        return int(text.replace("_", "").replace("'", "").rstrip("uUlL"), 0)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: not a whole number; write a descriptor like 0x4000004000010040"
        ) from None


def main(arguments: Sequence[str]) -> int:
    """The command line above. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m hopper.descriptor",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("value", metavar="VALUE", help="the descriptor, hexadecimal or decimal")
    parser.add_argument("--major", choices=("K", "MN"), help="along which axis neighbours lie")
    parser.add_argument("--bits", type=int, choices=(8, 16, 32), help="of an element")
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="that an instruction reads: 64 of A, N of B; left out, 64, 128 and 256 are tried",
    )
    parser.add_argument(
        "--swizzle",
        type=int,
        choices=sorted(SPANS),
        help="the span in bytes that you meant, 0 for none; left out, the descriptor is believed",
    )
    try:
        given = parser.parse_args(arguments)
    except SystemExit as left:
        return int(left.code or 0)
    try:
        value = _number(given.value)
        text, status = report(value, readings(given.major, given.bits, given.rows), given.swizzle)
    except argparse.ArgumentTypeError as error:
        print(error, file=sys.stderr)
        return 1
    except ProblemError as error:
        print(error, file=sys.stderr)
        return 2
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
