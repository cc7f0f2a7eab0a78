"""Checks for the chapters' exercises: each prints whether an answer is right, or what is not.

An answer left open (None) is no mistake; the check then says what to fill in.
"""

from collections.abc import Callable

# Fields of the shared-memory matrix descriptor (PTX ISA, "Matrix Descriptor Format"):
# name, first bit, bits.
DESCRIPTOR_FIELDS = (
    ("start address", 0, 14),
    ("leading byte offset", 16, 14),
    ("stride byte offset", 32, 14),
    ("base offset", 49, 3),
    ("swizzle mode", 62, 2),
)
TILE_START = 0x8400
STEP_BYTES = 32


def expected_descriptor(address: int) -> int:
    """A K-major fp16 tile with the 128-byte swizzle at a shared ``address``, as v1 describes it."""
    return address >> 4 | 1 << 16 | 1024 >> 4 << 32 | 1 << 62


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
    for name, start, bits in DESCRIPTOR_FIELDS:
        mask = (1 << bits) - 1
        got, wanted = answer >> start & mask, expected >> start & mask
        if got != wanted:
            return f"not yet: {name} (bits {start}–{start + bits - 1}) is {got:#x}"
    return "not yet: a bit outside all fields is set, or the number is wider than 64 bits"


def held_by(thread: int, register: int) -> tuple[int, int]:
    """Row and column of accumulator ``register`` of ``thread`` in a 64 × N tile.

    The PTX ISA's figure of the wgmma accumulator fragment, m64nN with a 32-bit type.
    """
    warp, lane = divmod(thread, 32)
    group, place = divmod(register, 4)
    lower, right = divmod(place, 2)
    return 16 * warp + 8 * lower + lane // 4, 8 * group + 2 * (lane % 4) + right


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
