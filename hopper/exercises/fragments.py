"""Exercises of the chapter ``fragments``: the map backwards, A's bytes, rows, and stores."""

from collections.abc import Callable

import numpy

from hopper.fragment import a_held_by, held_by, holder
from hopper.sectors import SECTOR_BYTES, touched

ROWS, LANES = 64, 32
Pair = tuple[int | None, int | None]


def who_holds(answer: Callable[[int, int], Pair], n: int = 128) -> None:
    """Check a map (row, column) → (thread, register) on every element of a 64 × n tile."""
    threads, registers = holder(*numpy.indices((ROWS, n)))
    for row, column in numpy.ndindex(ROWS, n):
        got = answer(row, column)
        if None in got:
            print("not answered yet: return a thread and a register")
            return
        if tuple(got) != (threads[row, column], registers[row, column]):
            print(f"not yet: element ({row}, {column}): your map says {tuple(got)}; {_hint(got)}")
            return
    print(f"right: all {ROWS * n} elements of a 64 × {n} tile")


def _hint(got: Pair) -> str:
    thread, register = got
    if 0 <= thread < 128 and 0 <= register < 128:
        return f"that register of that thread holds {held_by(thread, register)}"
    return "a warpgroup has threads 0 to 127, a thread N/2 registers"


def a_bytes(answer: Callable[[int, int, int], Pair]) -> None:
    """Check a map (thread, register, byte) → (row, k) of an 8-bit A in registers, on every byte."""
    rows, ks = a_held_by(*numpy.indices((128, 4, 4)), item_bytes=1)
    for thread, register, byte in numpy.ndindex(rows.shape):
        got = answer(thread, register, byte)
        if None in got:
            print("not answered yet: return a row and a k")
            return
        if tuple(got) == (rows[thread, register, byte], ks[thread, register, byte]):
            continue
        half = a_held_by(thread, register, byte // 2)
        told = "this is the place of a 16-bit element" if tuple(got) == half else "look again"
        print(
            f"not yet: thread {thread}, register {register}, byte {byte}: your map says "
            f"{tuple(got)}; {told}"
        )
        return
    print("right: all 2048 bytes of a 64 × 32 A")


def row_sum(masks: tuple[int, ...] | None) -> None:
    """Check XOR masks with which each lane, by one shuffle after the other, sums its whole row.

    After a mask m every lane has added what lane ^ m had. Lanes that hold a row must each be
    counted once, and no other lane.
    """
    if masks is None:
        print("not answered yet: give the masks, in the order of the shuffles")
        return
    counted = [{lane: 1} for lane in range(LANES)]
    for mask in masks:
        if not 0 < mask < LANES:
            print(f"not yet: mask {mask}: a warp has lanes 0 to 31, and mask 0 is the lane itself")
            return
        counted = [
            {who: mine.get(who, 0) + other.get(who, 0) for who in {*mine, *other}}
            for mine, other in ((counted[lane], counted[lane ^ mask]) for lane in range(LANES))
        ]
    for lane, found in enumerate(counted):
        row = held_by(lane, 0)[0]
        mates = [other for other in range(LANES) if held_by(other, 0)[0] == row]
        strangers = sorted(set(found) - set(mates))
        missing = sorted(set(mates) - set(found))
        twice = sorted(who for who, times in found.items() if times > 1)
        if strangers:
            print(f"not yet: lane {lane} adds lane {strangers[0]}, which holds another row")
        elif missing:
            print(f"not yet: lane {lane} never hears of lane {missing[0]}, which holds its row too")
        elif twice:
            print(f"not yet: lane {lane} counts lane {twice[0]} more than once")
        else:
            continue
        return
    print(f"right: {len(masks)} shuffles, and each lane has the sum of its row")


def stored(answers: dict[str, float | None]) -> None:
    """Check what one store instruction of a warp does with fp32 sums, two neighbours a lane.

    ``answers``: "sectors" touched, and the part of them that is "filled", from 0 to 1.
    """
    lanes = numpy.arange(LANES)
    row, column = held_by(lanes, 0)
    right = touched((row * 256 + column) * 4, 8)
    expected = {"sectors": right.sectors, "filled": right.filled}
    for name, value in expected.items():
        got = answers.get(name)
        if got is None:
            print(f"{name}: not answered yet")
        elif got == value:
            print(f"{name}: {got:g} is right")
        else:
            print(
                f"{name}: not yet, {got:g}; four lanes hold eight neighbours of a row, each fp32, "
                f"and a sector has {SECTOR_BYTES} bytes"
            )
