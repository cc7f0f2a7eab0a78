"""Exercises of the chapter ``v0_mma_sync``: feeding ldmatrix, and counting instructions."""

from collections.abc import Callable

from hopper.compile import compile_kernel
from hopper.mma_sync import addressing_lane


def lane_of_b(column: int, chunk: int) -> int:
    """The lane that brings ldmatrix the address of 16 bytes of B, in a piece 16 columns wide.

    ``chunk`` 0 is k 0–7, 1 is k 8–15. Register order is b0, b1 of columns 0–7, then of 8–15.
    """
    return addressing_lane(2 * (column // 8) + chunk, column % 8)


def ldmatrix_b(answer: Callable[[int, int], int | None]) -> None:
    """Check a map (column, chunk) → lane for B's ldmatrix.x4 on all 32 pieces."""
    for column in range(16):
        for chunk in range(2):
            got = answer(column, chunk)
            if got is None:
                print("not answered yet: return a lane")
                return
            if got != lane_of_b(column, chunk):
                print(
                    f"not yet: column {column}, chunk {chunk}: your map says lane {got}; which "
                    f"register must these 16 bytes end up in, and which lanes feed it?"
                )
                return
    print("right: every lane brings the address of the piece that its register needs")


COUNTED_TILE = (64, 256)


def instructions(ldmatrix: int | None, mma: int | None) -> None:
    """Check two counts against v0's machine code: what a warp executes in a K step, 64×256 tile."""
    tile_m, tile_n = COUNTED_TILE
    sass = compile_kernel("v0_mma_sync", TILE_M=tile_m, TILE_N=tile_n).sass()
    for name, answer, mnemonic in (("ldmatrix", ldmatrix, "LDSM"), ("mma", mma, "HMMA")):
        found = sass.count(mnemonic)
        if answer is None:
            verdict = "not answered yet"
        elif answer == found:
            verdict = f"{answer} is right: the code holds as many {mnemonic}"
        elif answer == 4 * found:
            verdict = f"not yet: {answer} is what all four warps execute; count one warp's"
        else:
            verdict = f"not yet: {answer} is not what the compiler made of it"
        print(f"{name}: {verdict}")
