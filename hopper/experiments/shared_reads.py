"""The chapter ``descriptors``: what reading shared memory costs, by threads and by wgmma.

``bank_conflicts``: cycles of a warp's access for columns of a tile and for strides, beside which
``hopper.banks`` counts. ``wgmma_modes``: cycles of a wgmma for each swizzle and major. Sums are
compared before they are timed.
"""

from functools import partial
from statistics import median

import numpy

from hopper.backends import Backend, HopperGpu
from hopper.compile import Program, compile_kernel
from hopper.descriptor import UNIT_BYTES
from hopper.errors import CheckError
from hopper.experiments import Experiment
from hopper.facts import stated_facts
from hopper.gemm import Problem
from hopper.placement import Placement
from hopper.schema import Sweep
from hopper.swizzle import swizzled

LAUNCHES = 3  # counted; one more warms up

# ---- bank_conflicts -----------------------------------------------------------------------------

LANES = 32
ROUNDS = 2000
PITCHES = (32, 64, 128)
#: Curve -> bytes that a row is longer than its pitch, swizzle.
STORED = {
    "no swizzle": (0, 0),
    "padded": (16, 0),
    "32-byte swizzle": (0, 32),
    "64-byte swizzle": (0, 64),
    "128-byte swizzle": (0, 128),
}
STRIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33)
WIDTHS = (4, 8, 16)


def column(pitch: int, padding: int = 0, swizzle: int = 0, piece: int = 0) -> numpy.ndarray:
    """Offsets of 16-byte ``piece`` of 32 rows, a lane each, in a tile with rows of ``pitch``."""
    row = numpy.arange(LANES)
    return swizzled(row * (pitch + padding) + 16 * piece, swizzle)


def strided(stride: int, access_bytes: int) -> numpy.ndarray:
    """Offsets of 32 elements of ``access_bytes``, a lane each, ``stride`` elements apart."""
    return numpy.arange(LANES) * stride * access_bytes


def read_sums(
    gpu: Backend, offsets: numpy.ndarray, access_bytes: int, rounds: int, ldmatrix: bool = False
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """What each thread read, summed, (threads, words) uint32; start and end by warp, cycles."""
    program = _reader(access_bytes, ldmatrix)
    threads = program.facts.threads
    sums = gpu.array(numpy.zeros((threads, access_bytes // 4), "uint32"))
    clocks = gpu.array(numpy.zeros((threads // LANES, 2), "int64"))
    places = gpu.array(offsets.astype("int32"))
    arguments = (places, sums, clocks, numpy.int32(rounds), numpy.int32(0))
    gpu.launch(program, (1, 1, 1), (threads, 1, 1), arguments, 0)
    return gpu.numpy(sums), gpu.numpy(clocks)


def _reader(access_bytes: int, ldmatrix: bool) -> Program:
    program = compile_kernel("bank_conflicts", ACCESS_BYTES=access_bytes, LDMATRIX=int(ldmatrix))
    program.require_clean()
    return program


def expected_sums(
    offsets: numpy.ndarray, access_bytes: int, accesses: int, threads: int, ldmatrix: bool = False
) -> numpy.ndarray:
    """What each thread has read after so many accesses: a word holds its own number."""
    lane, word = numpy.indices((LANES, access_bytes // 4))
    if ldmatrix:  # lane l receives word l % 4 of the row that lane 8m + l / 4 addressed
        number = offsets[8 * word + lane // 4] // 4 + lane % 4
    else:
        number = offsets[lane] // 4 + word
    total = (number.astype("uint64") * accesses).astype("uint32")
    return numpy.tile(total, (threads // LANES, 1))


def access_cycles(
    gpu: HopperGpu, offsets: numpy.ndarray, access_bytes: int, ldmatrix: bool = False
) -> float:
    """Cycles from one access of an SM to the next: the median over launches.

    Counted by ``%clock64`` from the first warp's start to the last one's end. What was read is
    checked: raises CheckError.
    """
    program = _reader(access_bytes, ldmatrix)
    threads = program.facts.threads
    accesses = ROUNDS * stated_facts(program.ptx)["unroll"]
    right = expected_sums(offsets, access_bytes, accesses, threads, ldmatrix)
    spans = []
    for _ in range(1 + LAUNCHES):
        sums, clocks = read_sums(gpu, offsets, access_bytes, ROUNDS, ldmatrix)
        wrong = int((sums != right).sum())
        if wrong:
            raise CheckError(f"bank_conflicts: {wrong} of {sums.size} sums are wrong")
        spans.append(int(clocks[:, 1].max() - clocks[:, 0].min()))
    return median(spans[1:]) / (threads // LANES * accesses)


def column_sweep(name: str, ldmatrix: bool, gpu: HopperGpu, program: Program) -> Sweep:
    """Cycles of reading 16 bytes a lane down a column, over the pitch of a row."""
    series = {
        stored: tuple(access_cycles(gpu, column(p, *how), 16, ldmatrix) for p in PITCHES)
        for stored, how in STORED.items()
    }
    return Sweep(name, "row pitch", "bytes", PITCHES, "cycles", series)


def stride_sweep(gpu: HopperGpu, program: Program) -> Sweep:
    """Cycles of an access over the stride between lanes, in elements of 4, 8 and 16 bytes."""
    series = {
        f"{width} bytes": tuple(access_cycles(gpu, strided(s, width), width) for s in STRIDES)
        for width in WIDTHS
    }
    return Sweep("stride", "stride", "elements", STRIDES, "cycles", series)


# ---- wgmma_modes --------------------------------------------------------------------------------

MODE_N = (64, 128, 256)
MODE_SPANS = (0, 32, 64, 128)
MAJORS = ("K", "MN")
RESTART = 128  # rounds after which the kernel's sums start anew
CHECKED_ROUNDS = (3, RESTART + 2)
MODE_ROUNDS = 4000
TILE_M, TILE_K, WARPGROUPS = 128, 64, 2


def mode_product(
    gpu: Backend, n: int, swizzle: int, a_major: str, b_major: str, rounds: int, blocks: int,
    distribution: str = "integers",
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:  # fmt: skip
    """Run ``wgmma_modes``: D (blocks, 128, n), what it should be, and clocks (blocks, 2, 2).

    Both operands have the same ``swizzle``; each its own major.
    """
    program = mode_program(n, a_major, b_major)
    a, b = Problem(TILE_M, n, TILE_K, distribution=distribution).inputs()
    tiles = [
        Placement(rows, TILE_K, major, swizzle) for rows, major in ((TILE_M, a_major), (n, b_major))
    ]
    image = numpy.concatenate([tile.image(m) for tile, m in zip(tiles, (a, b), strict=True)])
    arguments = mode_arguments(*tiles)
    d = gpu.array(numpy.full((blocks, TILE_M, n), numpy.nan, "float32"))
    clocks = gpu.array(numpy.zeros((blocks, WARPGROUPS, 2), "int64"))
    passed = (gpu.array(image), *arguments, d, clocks, numpy.int32(rounds))
    facts = program.facts
    gpu.launch(program, (blocks, 1, 1), (facts.threads, 1, 1), passed, facts.shared_bytes)
    right = ((rounds - 1) % RESTART + 1) * (a.astype("float64") @ b.astype("float64").T)
    return gpu.numpy(d), right, gpu.numpy(clocks)


def mode_program(n: int, a_major: str, b_major: str) -> Program:
    """The variant for N and majors."""
    program = compile_kernel(
        "wgmma_modes", TILE_N=n, A_MN=int(a_major == "MN"), B_MN=int(b_major == "MN")
    )
    program.require_clean()
    return program


def mode_arguments(a: Placement, b: Placement) -> tuple:
    """What ``wgmma_modes`` is told of two tiles, one behind the other: descriptors and steps."""
    desc_a = numpy.uint64(a.descriptor().encode())
    desc_b = numpy.uint64(b.descriptor(a.size).encode())

    def units(tile: Placement, r: int, k: int) -> numpy.int32:
        return numpy.int32(tile.offset(r, k) // UNIT_BYTES)

    return (
        desc_a, desc_b, units(a, 0, 16), units(a, 0, 32), units(a, 64, 0),
        units(b, 0, 16), units(b, 0, 32),
    )  # fmt: skip


def mode_cycles(gpu: HopperGpu, n: int, swizzle: int, a_major: str, b_major: str) -> float:
    """Cycles from one wgmma of an SM to the next: the median over SMs and launches.

    Checked first, on whole numbers, to the last bit; then counted on normal random ones.
    Raises CheckError.
    """
    what = (gpu, n, swizzle, a_major, b_major)
    for rounds in CHECKED_ROUNDS:
        d, right, _ = mode_product(*what, rounds, gpu.sm_count)
        wrong = int((d != right).sum())  # a NaN differs from everything
        if wrong:
            raise CheckError(f"wgmma_modes, {what[1:]}: {wrong} of {d.size} elements are wrong")
    spans = []
    for _ in range(1 + LAUNCHES):
        _, _, clocks = mode_product(*what, MODE_ROUNDS, gpu.sm_count, "normal")
        spans.append(clocks[:, :, 1].max(axis=1) - clocks[:, :, 0].min(axis=1))
    instructions = WARPGROUPS * TILE_K // 16 * MODE_ROUNDS
    return float(numpy.median(spans[1:])) / instructions


def mode_sweep(gpu: HopperGpu, program: Program) -> Sweep:
    """Cycles of a wgmma over N: a curve for each swizzle and pair of majors, as "128 K MN"."""
    series = {
        f"{swizzle} {a} {b}": tuple(mode_cycles(gpu, n, swizzle, a, b) for n in MODE_N)
        for swizzle in MODE_SPANS
        for a in MAJORS
        for b in MAJORS
    }
    return Sweep("cycles", "N", "columns", MODE_N, "cycles", series)


EXPERIMENTS = (
    Experiment("bank_conflicts", "column", partial(column_sweep, "column", False)),
    Experiment("bank_conflicts", "ldmatrix", partial(column_sweep, "ldmatrix", True)),
    Experiment("bank_conflicts", "stride", stride_sweep),
    Experiment("wgmma_modes", "cycles", mode_sweep),
)
