"""Exercises of the chapter ``v1_wgmma``: descriptors of a tile, and who holds what."""

from collections.abc import Callable

from hopper.descriptor import FIELDS, Descriptor
from hopper.fragment import held_by

TILE_START = 0x8400
STEP_BYTES = 32


def expected_descriptor(address: int) -> int:
    """A K-major fp16 tile with the 128-byte swizzle at a shared ``address``, as v1 describes it."""
    # The leading offset is unused in this mode; 16 bytes is the convention.
    return Descriptor(address, leading=16, stride=1024, swizzle=128).encode()


def descriptor(first: int | None, next_step: int | None) -> None:
    """Check two descriptors: of the tile at TILE_START, and one step further along K."""
    answers = (("first", first, TILE_START), ("next_step", next_step, TILE_START + STEP_BYTES))
    for name, answer, address in answers:
        print(f"{name}: {_descriptor_verdict(answer, expected_descriptor(address))}")


def _descriptor_verdict(answer: int | None, expected: int) -> str:
    if answer is None:
        return "not answered yet"
    if answer == expected:
        return f"{answer:#018x} is right"
    for field in FIELDS:
        got = field.of(answer)
        if got != field.of(expected):
            return f"not yet: {field.name} (bits {field.first}–{field.last}) is {got:#x}"
    return "not yet: a bit outside all fields is set, or the number is wider than 64 bits"


def fragment(answer: Callable[[int, int], tuple[int | None, int | None]], n: int = 128) -> None:
    """Check a map (thread, register) → (row, column) on every element of a 64 × n tile."""
    for thread in range(128):
        for register in range(n // 2):
            got = answer(thread, register)
            if None in got:
                print("not answered yet: return a row and a column")
                return
            if tuple(got) != held_by(thread, register):
                print(
                    f"not yet: thread {thread}, register {register}: your map says {tuple(got)}; "
                    f"run the epilogue by hand for this thread"
                )
                return
    print(f"right: all {64 * n} elements of a 64 × {n} tile")
