"""The chapter ``fragments``: which thread holds what, as the instruction itself tells it.

``fragment_map``: the maps of D and of A, with no knowledge of them in the kernel. ``rs_wgmma``: A
made in registers, exact, and broken on purpose. ``store_tile``: cycles of three epilogues.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy

from hopper.backends import Backend, HopperGpu
from hopper.compile import Program, compile_cuda, compile_kernel
from hopper.emulator import Emulator
from hopper.errors import CheckError, HopperError
from hopper.experiments import Experiment
from hopper.fragment import held_by
from hopper.paths import KERNELS
from hopper.schema import Array, Probe, Sweep

THREADS, ROWS = 128, 64
INTEGER_N = (8, 16, 24, *range(32, 257, 16))


# ---- fragment_map -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """Accumulators of a type: the kernel's macros, its legal N, and what a register holds."""

    defines: Mapping[str, int]
    sizes: tuple[int, ...]
    dtype: str
    packed: int = 1  # accumulators a register


SUMS = {
    "f32": Sums({}, tuple(range(8, 257, 8)), "float32"),
    "f16": Sums({"PACKED_SUMS": 1}, tuple(range(8, 257, 8)), "float16", packed=2),
    "s32": Sums({"OPERAND_BITS": 8}, INTEGER_N, "int32"),
}
# Bits of an element of A -> its type in memory.
OPERANDS = {8: "uint8", 16: "float16", 32: "float32"}


def map_program(kind: str, n: int) -> Program:
    """``fragment_map`` for accumulators of ``kind``, a key of SUMS, both operands in memory."""
    return compile_kernel("fragment_map", TILE_N=n, **SUMS[kind].defines)


def map_a_program(bits: int) -> Program:
    """``fragment_map`` with A from registers, elements of ``bits``; its N is K, for B = 1."""
    return compile_kernel("fragment_map", TILE_N=256 // bits, OPERAND_BITS=bits, A_FROM_REGISTERS=1)


def told(here: Backend, kind: str, n: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Row and column of what each thread holds of D (64, n), as the instruction tells them.

    Integers of shape (128, registers), for packed f16 (128, registers, 2). Two products: one whose
    elements are their own row, one whose elements are their own column.
    """
    program, sums = map_program(kind, n), SUMS[kind]
    depth = program.facts.tile_k
    one = numpy.zeros((max(ROWS, n), depth), OPERANDS[256 // depth])
    one[:, 0] = 1
    index = one.copy()
    index[:, 0] = numpy.arange(len(index))
    shape = (THREADS, n // 2 // sums.packed, sums.packed)
    found = []
    for a, b in ((index[:ROWS], one[:n]), (one[:ROWS], index[:n])):
        held = _held(here, program, a, b, sums.dtype).reshape(shape)
        found.append(_whole(held if sums.packed > 1 else held[:, :, 0]))
    return found[0], found[1]


def told_a(here: Backend, bits: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Row and k of what each thread passes of A in registers, as the instruction tells them.

    Integers of shape (128, 4, elements a register). With B = 1, D is A; which thread passed an
    element is read where D's own map, told by the same instruction, says that it lies.
    """
    program, kind = map_a_program(bits), {8: "s32", 16: "f32", 32: "f32"}[bits]
    depth, items = 256 // bits, 32 // bits
    unit = numpy.eye(depth, dtype=OPERANDS[bits])
    thread, place = numpy.divmod(numpy.arange(THREADS * 4 * items), 4 * items)
    row_of_d, column_of_d = told(here, kind, depth)
    found = numpy.zeros((2, ROWS, depth), int)
    for code, matrix in zip((thread, place), found, strict=True):
        a = code.reshape(THREADS, 4 * items).astype(OPERANDS[bits])
        held = _held(here, program, a, unit, SUMS[kind].dtype)
        matrix[row_of_d, column_of_d] = _whole(held)
    rows, ks = numpy.zeros((2, THREADS, 4 * items), int)
    at = numpy.indices((ROWS, depth))
    rows[found[0], found[1]], ks[found[0], found[1]] = at
    shape = (THREADS, 4, items)
    return rows.reshape(shape), ks.reshape(shape)


def _held(here: Backend, program: Program, a, b, dtype: str) -> numpy.ndarray:
    """The registers of each thread after one product, as ``dtype``: (128, elements a thread)."""
    facts = program.facts
    registers = facts.tile_n // 2 * numpy.dtype(dtype).itemsize // 4
    out = here.array(numpy.full((THREADS, registers), 0xFFFFFFFF, "uint32"))
    operands = (here.array(numpy.ascontiguousarray(x).view("uint32")) for x in (a, b))
    here.launch(program, (1, 1, 1), (facts.threads, 1, 1), (*operands, out), facts.shared_bytes)
    return here.numpy(out).view(dtype)


def _whole(values: numpy.ndarray) -> numpy.ndarray:
    """As integers from 0 to 255. Raises CheckError for anything else, a NaN included."""
    whole = numpy.nan_to_num(values, nan=-1).astype(int)
    if not ((whole == values) & (whole >= 0) & (whole < 256)).all():
        raise CheckError("an accumulator is no coordinate; nothing was recorded")
    return whole


def probe_sums(kind: str, gpu: HopperGpu, program: Program) -> Probe:
    """The map of D for the largest N, and for which smaller N it is the beginning of that one."""
    sums = SUMS[kind]
    largest = told(gpu, kind, sums.sizes[-1])
    same = []
    for n in sums.sizes:
        part = n // 2 // sums.packed
        mine = told(gpu, kind, n)
        same.append(all((a == b[:, :part]).all() for a, b in zip(mine, largest, strict=True)))
    arrays = {
        "rows": largest[0].astype("uint8"),
        "columns": largest[1].astype("uint8"),
        "sizes": numpy.array(sums.sizes, "int32"),
        "same": numpy.array(same),
    }
    return _probe(_sums_name(kind), "Which accumulator does each register hold?", arrays)


def probe_operands(gpu: HopperGpu, program: Program) -> Probe:
    """The map of A in registers, for elements of 8, 16 and 32 bits."""
    arrays = {}
    for bits in OPERANDS:
        rows, ks = told_a(gpu, bits)
        arrays[f"rows {bits}"], arrays[f"ks {bits}"] = rows.astype("uint8"), ks.astype("uint8")
    return _probe("A in registers", "Which element of A does each register pass?", arrays)


def _sums_name(kind: str) -> str:
    return f"accumulators {kind}"


def _probe(name: str, question: str, arrays: Mapping[str, numpy.ndarray]) -> Probe:
    return Probe(name, question, {key: Array.of(value) for key, value in arrays.items()})


# ---- rs_wgmma -----------------------------------------------------------------------------------

Changes = tuple[tuple[str, str], ...]
# Instead of loading A, each thread computes it: then nothing slow lies between two rounds.
COMPUTED: Changes = (
    (
        "fragment[step][r] = pack_half2(pair.x * factor, pair.y * factor);",
        "fragment[step][r] = 0x3c003c00u + (row + k + chunk) % 8 * 0x00400040u;",
    ),
)
_WAIT_LATER: Changes = (
    ("    wgmma_wait_group<0>();  // now", "    // now"),
    ("  // [epilogue]\n", "  wgmma_wait_group<0>();\n  // [epilogue]\n"),
)
BREAKS: dict[str, Changes] = {
    "no wgmma.fence": (("    wgmma_fence();  // the", "    // the"),),
    "no wait_group": _WAIT_LATER[:1],
    "wait_group behind the loop": _WAIT_LATER,
    "the same, A computed": COMPUTED + _WAIT_LATER,
}
SEEDS, LAUNCHES = 5, 200  # of each broken kernel


def changed(changes: Changes) -> Program:
    """``rs_wgmma`` with parts replaced. Raises HopperError where one does not stand there once."""
    source = (KERNELS / "rs_wgmma.cu").read_text()
    for old, new in changes:
        if source.count(old) != 1:
            raise HopperError(
                f"{old.strip()!r} stands {source.count(old)} times in rs_wgmma.cu, it must stand "
                f"once; update BREAKS with the kernel"
            )
        source = source.replace(old, new)
    return compile_cuda(source, "rs_wgmma")


def quantised(program: Program, seed: int = 0) -> tuple[numpy.ndarray, ...]:
    """A int8 (64, K), its scales fp32 (64, K/64), B fp16 (N, K), whole numbers and powers of two.

    The scales are 1/4, 1/2, 1, 2: every product and every sum is exact in fp32.
    """
    facts = program.facts
    depth = facts.tile_k * facts.stages
    random = numpy.random.default_rng(seed)
    a = random.integers(-128, 128, (ROWS, depth), "int8")
    scale = 2.0 ** random.integers(-2, 2, (ROWS, facts.stages))
    b = random.integers(-3, 4, (facts.tile_n, depth))
    return a, scale.astype("float32"), b.astype("float16")


def dequantised_product(a, scale, b) -> numpy.ndarray:
    """What ``rs_wgmma`` computes, in fp64: A times its scales, rounded to fp16, times Bᵀ."""
    scales = numpy.repeat(scale, a.shape[1] // scale.shape[1], axis=1)
    return (a * scales).astype("float16").astype("float64") @ b.astype("float64").T


def computed_product(b) -> numpy.ndarray:
    """The same for A as COMPUTED makes it: 1 and some sixteenths, alike in pairs along k."""
    row, k = numpy.indices((ROWS, b.shape[1]))
    return (1 + (row + k - k % 2 + k // 64) % 8 / 16) @ b.astype("float64").T


def right_product(changes: Changes, given) -> numpy.ndarray:
    """What ``rs_wgmma`` with these changes has to return for ``quantised`` inputs."""
    computed = set(COMPUTED) <= set(changes)
    return computed_product(given[2]) if computed else dequantised_product(*given)


def launch_rs(here: Backend, program: Program, a, scale, b) -> numpy.ndarray:
    """D (64, N) fp32 by ``rs_wgmma``."""
    facts = program.facts
    d = here.array(numpy.full((ROWS, facts.tile_n), numpy.nan, "float32"))
    args = (*(here.array(x) for x in (a, scale, b)), d)
    here.launch(program, (1, 1, 1), (facts.threads, 1, 1), args, facts.shared_bytes)
    return here.numpy(d)


def emulated_break(name: str) -> str:
    """What the emulator reports of a break: kinds of hazards, or else whether D is right."""
    program = changed(BREAKS[name])
    facts, given = program.facts, quantised(program)
    d = numpy.full((ROWS, facts.tile_n), numpy.nan, "float32")
    run = Emulator(on_hazard="collect").launch(
        program.ptx, program.kernel, (1, 1, 1), (facts.threads, 1, 1), args=(*given, d)
    )
    kinds = dict.fromkeys(hazard.kind for hazard in run.hazards)
    right = (d == right_product(BREAKS[name], given)).all()
    return ", ".join(kinds) or ("right" if right else "a wrong result")


def probe_rs(gpu: HopperGpu, program: Program) -> Probe:
    """One product, inputs and output. Raises CheckError unless every bit of D is right."""
    program.require_clean()
    a, scale, b = quantised(program)
    d = launch_rs(gpu, program, a, scale, b)
    _require_equal("rs_wgmma", d, dequantised_product(a, scale, b))
    arrays = {"a": a, "scale": scale, "b": b, "d": d}
    return _probe("integers", "Is D right to the last bit, with A made in registers?", arrays)


def wrong_elements(gpu: Backend, changes: Changes, launches: int) -> numpy.ndarray:
    """How many elements of D are wrong in each of ``launches`` for each of SEEDS inputs."""
    program = changed(changes)
    found = []
    for seed in range(SEEDS):
        given = quantised(program, seed)
        expected = right_product(changes, given)
        for _ in range(launches):
            found.append((launch_rs(gpu, program, *given) != expected).sum())
    return numpy.array(found, "int32")


def probe_broken(gpu: HopperGpu, program: Program) -> Probe:
    """For each break and launch, how many elements of D were wrong: (breaks, launches).

    The unbroken kernels, A loaded and A computed, must be right; else CheckError.
    """
    for sound in ((), COMPUTED):
        if wrong_elements(gpu, sound, 1).any():
            raise CheckError("rs_wgmma is wrong without a break; nothing was recorded")
    wrong = [wrong_elements(gpu, changes, LAUNCHES) for changes in BREAKS.values()]
    question = "What does the GPU return for a kernel with a broken rule?"
    return _probe("broken", question, {"wrong": numpy.array(wrong)})


# ---- store_tile ---------------------------------------------------------------------------------

# Curve -> WAY of the kernel.
WAYS = {"direct": 0, "stmatrix": 1, "stmatrix unswizzled": 2}
STORE_N = (64, 128, 192, 256)
ROUNDS, REPEATS = 2000, 5


def held_tiles(tiles: numpy.ndarray) -> numpy.ndarray:
    """Tiles (blocks, 64, n) as the threads of a warpgroup each hold them: (blocks, 128, n/2)."""
    row, column = held_by(*numpy.indices((THREADS, tiles.shape[2] // 2)))
    return numpy.ascontiguousarray(tiles[:, row, column])  # indexing leaves another order


def launch_store(gpu: HopperGpu, program: Program, rounds: int, held):
    """C (blocks, 64, N) fp16 and the clocks (blocks, warps, 2) of one launch, a block an SM."""
    blocks, n = len(held), program.facts.tile_n
    c = gpu.array(numpy.full((blocks, ROWS, n), numpy.nan, "float16"))
    clocks = gpu.array(numpy.zeros((blocks, 4, 2), "int64"))
    args = (held, c, clocks, numpy.int32(rounds))
    gpu.launch(program, (blocks, 1, 1), (program.facts.threads, 1, 1), args, 0)
    return gpu.numpy(c), gpu.numpy(clocks)


def store_cycles(gpu: HopperGpu, way: str, n: int) -> float:
    """Cycles of storing one 64 × n tile, all SMs at it: the median over SMs and launches.

    What is stored is compared first, in every block.
    """
    program = compile_kernel("store_tile", TILE_N=n, WAY=WAYS[way])
    program.require_clean()
    random = numpy.random.default_rng(n)
    tiles = random.integers(-999, 1000, (gpu.sm_count, ROWS, n)).astype("float32")
    held = gpu.array(held_tiles(tiles))
    c, _ = launch_store(gpu, program, 2, held)
    _require_equal(f"store_tile, N={n}, {way}", c, tiles.astype("float16"))
    spans = []
    for _ in range(1 + REPEATS):
        _, clocks = launch_store(gpu, program, ROUNDS, held)
        spans.append(clocks[..., 1].max(axis=-1) - clocks[..., 0].min(axis=-1))
    return float(numpy.median(spans[1:])) / ROUNDS


def store_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """Cycles a tile over N, for each way out of the registers."""
    series = {way: tuple(store_cycles(gpu, way, n) for n in STORE_N) for way in WAYS}
    return Sweep("cycles", "N", "columns", STORE_N, "cycles", series)


def _require_equal(what: str, got, expected) -> None:
    wrong = int((got != expected).sum())  # a NaN differs from everything
    if wrong:
        raise CheckError(f"{what}: {wrong} of {got.size} elements are wrong; nothing was recorded")


def _sums_experiment(kind: str) -> Experiment:
    run: Callable[[HopperGpu, Program], Probe] = partial(probe_sums, kind)
    return Experiment("fragment_map", _sums_name(kind), run)


EXPERIMENTS = (
    *(_sums_experiment(kind) for kind in SUMS),
    Experiment("fragment_map", "A in registers", probe_operands),
    Experiment("rs_wgmma", "integers", probe_rs),
    Experiment("rs_wgmma", "broken", probe_broken),
    Experiment("store_tile", "cycles", store_curves),
)
