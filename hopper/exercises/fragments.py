"""Exercises of the chapter ``fragments``: maps, rows, does it fit, stores, and ``stmatrix``."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy

from hopper.architecture import constant
from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, EmulatorError
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import CompileError
from hopper.experiments.fragments import held_tiles, launch_store
from hopper.fragment import a_held_by, a_holder, held_by
from hopper.paths import KERNELS
from hopper.sectors import SECTOR_BYTES, touched

ROWS, LANES, THREADS = 64, 32, 128
Numbers = tuple[int | None, ...]


def _numbers(got: Any, names: str, what: str) -> tuple[int, ...] | None:
    """An answer as whole numbers, one for each of ``names``; None, with a line printed, if not.

    ``what``: what was asked, as the message shall call it.
    """
    count = len(names.split(", "))
    parts = tuple(got) if isinstance(got, (tuple, list, numpy.ndarray)) else (got,)
    if any(part is None or part is Ellipsis for part in parts):
        print(f"not answered yet: return {names}")
    elif len(parts) != count or not all(isinstance(part, Integral) for part in parts):
        print(f"not yet: {what}: your map returned {got!r}; return {count} whole numbers: {names}")
    else:
        return tuple(int(part) for part in parts)
    return None


# ---- maps ---------------------------------------------------------------------------------------


def passed_on(answer: Callable[[int, int], Numbers], n: int = 128) -> None:
    """Check (row, column) of S → thread, step, register and half that pass it as A.

    S, 64 × ``n``, is packed to fp16 where it lies, and is A of the next product: ``step`` counts
    its instructions along K, ``register`` the four of an A fragment.
    """
    names = "thread, step, register, half"
    for row, column in numpy.ndindex(ROWS, n):
        step, k = divmod(column, 16)
        thread, register, half = (int(one) for one in a_holder(row, k))
        got = _numbers(answer(row, column), names, f"element ({row}, {column})")
        if got is None:
            return
        right = (thread, step, register, half)
        if got == right:
            continue
        first = next(i for i in range(4) if got[i] != right[i])
        why = (
            f"nothing leaves its thread, and D's map gives ({row}, {column}) to another",
            "an instruction along K takes 16 columns of S, the first takes columns 0 to 15",
            f"of its 16 columns this is column {k}, and of the warp's 16 rows it is row "
            f"{row % 16}; registers 0 to 3 are the quarters of these 16 × 16, the rows first",
            "the left one of two neighbours is in the lower half, which is 0",
        )[first]
        print(f"not yet: element ({row}, {column}): {names.split(', ')[first]} {got[first]}: {why}")
        return
    print(f"right: all {ROWS * n} elements of a 64 × {n} S")


def a_bytes(answer: Callable[[int, int, int], Numbers]) -> None:
    """Check a map (thread, register, byte) → (row, k) of an 8-bit A in registers, on every byte."""
    rows, ks = a_held_by(*numpy.indices((THREADS, 4, 4)), item_bytes=1)
    for thread, register, byte in numpy.ndindex(rows.shape):
        where = f"thread {thread}, register {register}, byte {byte}"
        got = _numbers(answer(thread, register, byte), "row, k", where)
        if got is None:
            return
        row, k = int(rows[thread, register, byte]), int(ks[thread, register, byte])
        if got == (row, k):
            continue
        if got == a_held_by(thread, register, byte // 2):
            told = "this is the place of a 16-bit element; here a register has four, one a byte"
        elif got[0] != row:
            eight = "the lower" if register % 2 else "the upper"
            told = (
                f"row {got[0]} is not its row; register {register} is in {eight} eight of the 16 "
                f"rows of warp {thread // LANES}, and this is lane {thread % LANES} of it"
            )
        else:
            half = "second" if register >= 2 else "first"
            told = (
                f"k = {got[1]} is not its k; register {register} is in the {half} 16 bytes of the "
                f"row, and lane {thread % LANES} is number {thread % 4} of the four that share them"
            )
        print(f"not yet: {where}: your map says {got}; {told}")
        return
    print("right: all 2048 bytes of a 64 × 32 A")


# ---- rows ---------------------------------------------------------------------------------------


def row_sum(masks: Iterable[int] | None) -> None:
    """Check XOR masks with which each lane, by one shuffle after the other, sums its whole row.

    After a mask m every lane has added what lane ^ m had. Lanes that hold a row must each be
    counted once, and no other lane.
    """
    if masks is None or masks is Ellipsis:
        print("not answered yet: give the masks, in the order of the shuffles")
        return
    given = list(masks) if isinstance(masks, Iterable) else None
    if given is None or not all(isinstance(mask, Integral) for mask in given):
        print(f"not yet: masks={masks!r}: give a tuple of whole numbers, as (16,) for one shuffle")
        return
    counted = [{lane: 1} for lane in range(LANES)]
    for mask in given:
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
    print(f"right: {len(given)} shuffles, and each lane has the sum of its row")


# ---- does it fit? -------------------------------------------------------------------------------

#: Tiles of one warpgroup, and the threads of the block that it is one of.
_TILES = (
    (64, 256, 128),
    (64, 256, 384),
    (128, 192, 128),
    (128, 192, 384),
    (64, 192, 512),
    (128, 128, 512),
    (256, 112, 128),
    (192, 160, 128),
)


def fits(answer: Callable[[int, int, int], bool | None]) -> None:
    """Check (tile_m, tile_n, threads) → whether v1 compiles without a spill.

    One warpgroup of a block of ``threads`` holds the whole tile. Each case is compiled here and
    now; nothing is run.
    """
    for m, n, threads in _TILES:
        got = answer(m, n, threads)
        if got is None or got is Ellipsis:
            print("not answered yet: return True or False")
            return
        if not isinstance(got, (bool, numpy.bool_)):
            print(f"not yet: {m} × {n}: your function returned {got!r}; return True or False")
            return
        fitted, found = _v1_compiled(m, n, threads)
        if bool(got) != fitted:
            share = constant("registers_per_sm").value // threads // 8 * 8
            most = min(constant("registers_per_thread").value, share)
            print(
                f"not yet: {m} × {n}, {threads} threads: you say {bool(got)}; these are "
                f"{m * n // THREADS} sums a thread, and a thread has at most {most} registers: "
                f"{found}"
            )
            return
    print(f"right: for {len(_TILES)} tiles, as the compiler says")


def _v1_compiled(m: int, n: int, threads: int) -> tuple[bool, str]:
    """Whether v1, for blocks of ``threads``, compiles without a spill, and what came of it."""
    source = (KERNELS / "v1_wgmma.cu").read_text(encoding="utf-8")
    old = f"constexpr int THREADS = {THREADS};"
    assert source.count(old) == 1, f"v1_wgmma.cu must state {old!r} once"
    source = source.replace(old, f"constexpr int THREADS = {threads};")
    used = compile_cuda(source, "v1_wgmma", defines={"TILE_M": m, "TILE_N": n}).resources
    if spilled := used.spill_stores + used.spill_loads:
        return False, f"{used.registers} are not enough, and {spilled:,} bytes are spilled"
    return True, f"{used.registers} are enough"


# ---- stores -------------------------------------------------------------------------------------


def stored(answers: Mapping[str, float | None]) -> None:
    """Check what one store instruction of a warp does to a column-major C in fp16.

    Each lane stores one register, an element of 2 bytes. ``answers``: "sectors" touched, and the
    part of them that is "filled", from 0 to 1.
    """
    row, column = held_by(numpy.arange(LANES), 0)
    right = touched((column * ROWS + row) * 2, 2)
    hints = {
        "sectors": "eight lanes hold rows 0 to 7 of a column, 2 bytes each; other lanes hold other "
        f"columns, {ROWS * 2} bytes further or more, and a sector has {SECTOR_BYTES} bytes",
        "filled": f"all lanes together store {LANES * 2} bytes; divide by the bytes of the sectors "
        "that you counted",
    }
    if not isinstance(answers, Mapping):
        print(f"not yet: {answers!r}: give both, as {{'sectors': 1, 'filled': 1.0}}")
        return
    for name, value in {"sectors": right.sectors, "filled": right.filled}.items():
        got = answers.get(name)
        if got is None or got is Ellipsis:
            print(f"{name}: not answered yet")
        elif not isinstance(got, Real):
            print(f"{name}: {got!r} is no number; write one, half of a sector as 0.5")
        elif got == value:
            print(f"{name}: {got:g} is right")
        else:
            print(f"{name}: not yet, {got:g}; {hints[name]}")


_ORDER = """packed[2 * j], packed[2 * j + 1], packed[2 * j + 2],
                                    packed[2 * j + 3]"""
_OTHER_ORDER = "packed[2 * j], packed[2 * j + 2], packed[2 * j + 1], packed[2 * j + 3]"
_PLACE = "place(lane % 16, j + lane / 16)"
_STORED_N = 64


def stmatrix_order(row: str | None, piece: str | None) -> None:
    """Check an epilogue that passes its four matrices to stmatrix in another order.

    The right half of the upper rows comes second, the left half of the lower ones third. ``row``
    and ``piece``: C++ of the row, 0 to 15, and of the piece of 16 bytes, 0 or 1, whose address
    ``lane`` brings. They go into ``store_tile``, which the emulator runs.
    """
    given = {"row": row, "piece": piece}
    for name, text in given.items():
        if text is None or text is Ellipsis:
            print(f"not answered yet: give {name}, an expression in C++ as text")
            return
        if not isinstance(text, str):
            print(f"not yet: {name}={text!r}: give an expression in C++ as text: 'lane % 16'")
            return
        if "//" in text:
            print(f"not yet: {name}: // begins a comment in C++; whole numbers are divided by /")
            return
    program = _other_order(f"place({row}, j + ({piece}))")
    if program is None:
        return
    # Each of a warp's 16 rows is its own; fp16 holds whole numbers up to 2048.
    part = 16 * _STORED_N
    tiles = numpy.arange(ROWS * _STORED_N, dtype="float32").reshape(1, ROWS, _STORED_N) % part
    here = EmulatedGpu(Emulator(on_hazard="ignore"))
    try:
        c, _ = launch_store(here, program, 1, held_tiles(tiles))
    except EmulatorError as error:
        print(f"not yet: the emulator reports {str(error).split('; ')[0].splitlines()[0]}")
        return
    wrong = numpy.argwhere(c[0] != tiles[0])
    if not len(wrong):
        print(f"right: all {c.size} elements of a 64 × {_STORED_N} tile are where they belong")
        return
    i, j = (int(one) for one in wrong[0])
    there = "what nobody stored"
    if c[0, i, j] in tiles[0]:
        row_there, column_there = divmod(int(c[0, i, j]), _STORED_N)
        there = f"element ({i // 16 * 16 + row_there}, {column_there})"
    print(
        f"not yet: {len(wrong)} of {c.size} elements are wrong; in the place of element ({i}, {j}) "
        f"is {there}; lanes 0 to 7 bring the rows of the first matrix, 8 to 15 of the second"
    )


def _other_order(place: str) -> Program | None:
    """``store_tile`` with the matrices in the other order; None, with the error printed, if not."""
    source = (KERNELS / "store_tile.cu").read_text(encoding="utf-8")
    for old, new in ((_ORDER, _OTHER_ORDER), (_PLACE, place)):
        assert source.count(old) == 1, f"store_tile.cu must have {old!r} once"
        source = source.replace(old, new)
    try:
        return compile_cuda(source, "store_tile", defines={"TILE_N": _STORED_N, "WAY": 1})
    except CompileError as error:
        told = [line for line in str(error).splitlines() if "error" in line]
        print("it does not compile:", *(told or [str(error)]), sep="\n  ")
        return None
