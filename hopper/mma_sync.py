"""Who addresses what, and who holds what: ldmatrix, mma.sync and the 128-byte swizzle.

The formulas are the PTX ISA's: "Warp-level matrix load instruction: ldmatrix" and "Matrix
Fragments for mma.m16n8k16 with floating point type". The swizzle is the one of the tensor map
(CUDA Driver API, CU_TENSOR_MAP_SWIZZLE_128B), as the probes on an H200 confirmed it.
"""

from dataclasses import dataclass

from hopper.banks import wavefronts
from hopper.swizzle import swizzled

LANES = 32
MMA_M, MMA_N, MMA_K = 16, 8, 16
#: ldmatrix moves matrices of 8 rows of 16 bytes, one to four of them.
MATRIX_ROWS = 8
CHUNK_BYTES = 16
LDMATRIX_X4_BYTES = 4 * MATRIX_ROWS * CHUNK_BYTES
#: Bytes of A and B that one mma.m16n8k16 names, in fp16.
MMA_OPERAND_BYTES = 2 * (MMA_M + MMA_N) * MMA_K


def swizzled_128b(address: int) -> int:
    """Where TMA puts the byte of unswizzled shared ``address``: bits 4–6 XOR bits 7–9."""
    return swizzled(address, 128)


def addressing_lane(matrix: int, row: int) -> int:
    """The lane that brings ldmatrix the address of ``row`` (0–7) of ``matrix`` (0–3)."""
    return MATRIX_ROWS * matrix + row


def received(lane: int) -> tuple[int, int]:
    """Row, and first of two columns, that ``lane`` receives of every 8×8 matrix of ldmatrix."""
    return lane // 4, 2 * (lane % 4)


def fragment_a(lane: int, element: int) -> tuple[int, int]:
    """Row and k of element 0–7 of A (16×16) in ``lane``; register ``element // 2`` holds it."""
    lower, right = element // 2 % 2, element // 4
    return 8 * lower + lane // 4, 8 * right + 2 * (lane % 4) + element % 2


def fragment_b(lane: int, element: int) -> tuple[int, int]:
    """k and column of element 0–3 of B (16×8) in ``lane``; register ``element // 2`` holds it."""
    return 8 * (element // 2) + 2 * (lane % 4) + element % 2, lane // 4


def fragment_d(lane: int, element: int) -> tuple[int, int]:
    """Row and column of accumulator 0–3 of D (16×8, fp32) in ``lane``."""
    return 8 * (element // 2) + lane // 4, 2 * (lane % 4) + element % 2


def turns(addresses: list[int]) -> int:
    """Turns that shared memory needs to read one matrix: 16 bytes at each of eight addresses."""
    return wavefronts(addresses, CHUNK_BYTES)


@dataclass(frozen=True)
class RegisterRoad:
    """What one K step of a block tile costs when operands go through registers.

    Instructions are counted as warps execute them. ``loaded_bytes``: shared memory to registers;
    ``named_bytes``: A and B of every mma.sync, added up.
    """

    ldmatrix: int
    mma: int

    @property
    def loaded_bytes(self) -> int:
        """Bytes that ldmatrix brings into registers."""
        return self.ldmatrix * LDMATRIX_X4_BYTES

    @property
    def named_bytes(self) -> int:
        """Operand bytes that the multiplications read from registers."""
        return self.mma * MMA_OPERAND_BYTES


def register_road(
    tile_m: int, tile_n: int, tile_k: int, warps: tuple[int, int] = (2, 2)
) -> RegisterRoad:
    """Count for a tile that ``warps`` (down, across) share; each warp loads all it multiplies."""
    down, across = warps
    warp_m, warp_n, steps = tile_m // down, tile_n // across, tile_k // MMA_K
    ldmatrix = (warp_m // 16 + warp_n // 16) * steps
    mma = (warp_m // MMA_M) * (warp_n // MMA_N) * steps
    return RegisterRoad(down * across * ldmatrix, down * across * mma)
