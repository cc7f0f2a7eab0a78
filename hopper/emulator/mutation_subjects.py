"""The book's kernels as subjects of mutation: how each is launched, and what is right.

Subjects are the kernels of the chapters, and the corrected twins of those that break a rule
(``kernels/hazards``), which use what the chapters' kernels do not. Every subject has a few small
trials that together execute each of its instructions: the first steps, the steady state and the
tails of its loops, and tiles that lie partly outside the result. Inputs are whole numbers so small
that every sum is exact: right is what NumPy says, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import MappingProxyType

import numpy

from hopper.chip import argument
from hopper.compile import Program, compile_cuda
from hopper.conformance import Tiled
from hopper.emulator import Emulator, Run
from hopper.emulator.hazard_inputs import Shape
from hopper.emulator.hazard_kernels import HAZARD_KERNELS, HazardKernel
from hopper.experiments.shared_reads import mode_arguments
from hopper.experiments.tma_launches import Ring, random_words, whole_numbers
from hopper.facts import stated_facts
from hopper.fragment import a_held_by, held_by
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS
from hopper.placement import Placement
from hopper.swizzle import SPANS, swizzled
from hopper.tensormap import TensorMap

TILE_K = 64


@dataclass(frozen=True, eq=False)
class Trial:
    """One launch, its arrays fresh. ``outputs``: arrays that the kernel writes, and what is right.

    ``args``: in the kernel's order; ``shared_bytes``: dynamic.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: Sequence[object]
    outputs: tuple[tuple[numpy.ndarray, numpy.ndarray], ...]

    def run(self, ptx: str, kernel: str, emulator: Emulator) -> Run:
        """Execute PTX with these arguments. Raises what the emulator raises."""
        return emulator.launch(
            ptx, kernel, self.grid, self.block, shared_bytes=self.shared_bytes, args=self.args
        )

    def wrong(self) -> str:
        """How the outputs differ from what is right, in words; empty where they are."""
        for got, right in self.outputs:
            off = int((got != right).sum())  # a NaN equals nothing
            if off:
                return f"{off} of {got.size} elements are wrong"
        return ""


@dataclass(frozen=True)
class Subject:
    """A kernel in one configuration. ``source``: file below ``kernels/``.

    ``trials``: each makes a launch of the compiled kernel, with fresh arrays.
    """

    name: str
    source: str
    kernel: str
    trials: tuple[Callable[[Program], Trial], ...]
    defines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def compile(self) -> Program:
        """The compiled kernel, with line information."""
        path = KERNELS / self.source
        return compile_cuda(path, self.kernel, defines=self.defines, lineinfo=True)


@lru_cache(maxsize=64)
def _exact(m: int, n: int, k: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """A, B and A·Bᵀ, all exact in fp16 as long as K stays below 227."""
    a, b = Problem(m, n, k, distribution="integers").inputs()
    return a, b, a.astype("float32") @ b.astype("float32").T


def _blank(shape: tuple[int, ...], dtype: str) -> numpy.ndarray:
    return numpy.full(shape, numpy.nan, dtype)


def _product(shape: tuple[int, ...], program: Program) -> Trial:
    """A kernel of the ladder: C (m, n) fp16. ``shape``: M, N, K; if it is persistent, blocks."""
    m, n, k, *blocks = shape
    a, b, right = _exact(m, n, k)
    c = _blank((m, n), "float16")
    launch = plan(program, a, b, c, blocks=blocks[0] if blocks else None)
    outputs, args = ((c, right.astype("float16")),), launch.args
    if program.facts.places:
        # Numbers that come twice: each cluster but one finds another's claim, one at the end.
        args = (*args[:-4], argument((2, 2, 0)), *args[-3:])
        claims = launch.workspace[-1]
        outputs += ((claims, numpy.zeros_like(claims)),)
    return Trial(launch.grid, launch.block, program.facts.shared_bytes, args, outputs)


def _one_wgmma(program: Program) -> Trial:
    """D (64, N), and the same values as the threads hold them (128, N/2)."""
    n = program.facts.tile_n
    a, b, right = _exact(64, n, 16)
    d, held = _blank((64, n), "float32"), _blank((128, n // 2), "float32")
    thread, r = numpy.divmod(numpy.arange(held.size).reshape(held.shape), n // 2)
    row = thread // 32 * 16 + thread % 32 // 4 + r // 2 % 2 * 8
    column = r // 4 * 8 + thread % 4 * 2 + r % 2
    outputs = ((d, right), (held, right[row, column]))
    return Trial((1, 1, 1), (128, 1, 1), 0, (a, b, d, held), outputs)


def _fragment_map(program: Program) -> Trial:
    """What each thread holds of D; A in memory as fp16, or in registers as bytes."""
    facts = program.facts
    a, b, right = _exact(64, facts.tile_n, facts.tile_k)
    thread, r = numpy.indices((128, facts.tile_n // 2))
    if facts.tile_k == 16:
        a, b, kind = a.view("uint32"), b.view("uint32"), "float32"
    else:
        a, b, kind = abs(a).astype("uint8"), abs(b).astype("uint8"), "int32"
        right = a.astype("int32") @ b.astype("int32").T
        passed = a[a_held_by(*numpy.indices((128, 4, 4)), item_bytes=1)]
        a, b = passed.reshape(128, 16).view("uint32"), b.view("uint32")
    held = numpy.full(thread.shape, -1, kind)
    return Trial((1, 1, 1), (128, 1, 1), 0, (a, b, held), ((held, right[held_by(thread, r)]),))


def _rs_wgmma(program: Program) -> Trial:
    """D (64, N) fp32: int8 A times powers of two, times B."""
    facts = program.facts
    depth = facts.tile_k * facts.stages
    a, b, _ = _exact(64, facts.tile_n, depth)
    scale = numpy.ldexp(1.0, numpy.arange(64 * facts.stages) % 3 - 1).reshape(64, -1)
    right = (a * numpy.repeat(scale, facts.tile_k, axis=1)) @ b.astype("float64").T
    d = _blank((64, facts.tile_n), "float32")
    args = (a.astype("int8"), scale.astype("float32"), b, d)
    return Trial((1, 1, 1), (128, 1, 1), 0, args, ((d, right),))


def _protocol_loop(program: Program) -> Trial:
    """C (128, N) fp32: fp16 A by TMA, int8 B by threads, five steps through two stages."""
    facts = program.facts
    depth = 5 * facts.tile_k
    b = numpy.random.default_rng(0).integers(-3, 4, (facts.tile_n, depth)).astype("int8")
    a = numpy.random.default_rng(1).integers(-3, 4, (128, depth)).astype("float16")
    right = a.astype("float32") @ b.astype("float32").T
    c = _blank(right.shape, "float32")
    args = (TensorMap(a, facts.a_box), b, c, numpy.int32(depth))
    return Trial((2, 1, 1), (facts.threads, 1, 1), 0, args, ((c, right),))


def _store_tile(program: Program) -> Trial:
    """C (blocks, 64, N) fp16, from the accumulators of each block's threads."""
    blocks, n = 2, program.facts.tile_n
    right = (numpy.arange(blocks * 64 * n) % 2039 - 1000.0).reshape(blocks, 64, n)
    row, column = held_by(*numpy.indices((128, n // 2)))
    held = numpy.ascontiguousarray(right[:, row, column], "float32")
    c = _blank(right.shape, "float16")
    args = (held, c, numpy.zeros((blocks, 4, 2), "int64"), numpy.int32(3))
    return Trial((blocks, 1, 1), (128, 1, 1), 0, args, ((c, right),))


def _descriptor_probe(program: Program) -> Trial:
    """For each swizzle, the number of the element that each place of D was read from."""
    n, blocks = program.facts.tile_n, len(SPANS)
    tiles = [Placement(n, max(16, span // 2), "K", span).descriptor() for span in SPANS]
    right = numpy.zeros((blocks, 64, n), "int32")
    r, k = numpy.indices((n, 16))
    for one, tile in zip(right, tiles, strict=True):
        one[:16] = tile.address(r, k, major="K").T // 2
    found = numpy.full_like(right, -1)
    encoded = numpy.array([tile.encode() for tile in tiles], "uint64")
    args = (numpy.arange(16, dtype="float16"), encoded, found)
    return Trial((blocks, 1, 1), (128, 1, 1), 0, args, ((found, right),))


def _tma_swizzle(program: Program) -> Trial:
    """Shared memory behind a load with the 128-byte swizzle, from a multiple of 1024 on.

    The kernel's other starts lie between two atoms, of which the emulator warns.
    """
    box = numpy.arange(512, dtype="uint16").reshape(8, 64)
    right = numpy.full((1, 1024), 0xFFFF, "uint16")
    right[0][swizzled(2 * box.astype(int), 128) // 2] = box
    found = numpy.zeros_like(right)
    args = (TensorMap(box, box.shape), found, numpy.int32(box.nbytes))
    return Trial((1, 1, 1), (128, 1, 1), 0, args, ((found, right),))


def _tma_copy(program: Program) -> Trial:
    """OUT (70, 72) = IN, 16-bit elements, tiles off both edges."""
    matrix = random_words(70, 72).astype("uint16")
    out, box = numpy.zeros_like(matrix), (program.facts.tile_m, program.facts.tile_n)
    return Trial((2, 2, 1), (32, 1, 1), 0, (TensorMap(matrix, box), TensorMap(out, box)),
                 ((out, matrix),))  # fmt: skip


def _tma_ring(ring: Ring, program: Program) -> Trial:
    """Sums and bytes of a ring that goes round twice; boxes off both edges."""
    matrix, boxes, blocks = random_words(20, 40), 9, 2
    sums, received = numpy.zeros((blocks, 128), "uint32"), numpy.zeros(blocks, "uint64")
    right = ring.expected(matrix, boxes, blocks)
    numbers = (numpy.int32(number) for number in (*ring.tiles(matrix), boxes))
    args = (TensorMap(matrix, ring.box, 0), sums, received, *numbers)
    outputs = ((sums, right[0]), (received, right[1]))
    block = (program.facts.threads, 1, 1)
    return Trial((blocks, 1, 1), block, program.facts.shared_bytes, args, outputs)


def _tma_reduce(program: Program) -> Trial:
    """OUT (70, 40) += two planes, fp32."""
    planes, out = whole_numbers(2, 70, 40), whole_numbers(70, 40)
    right = out + planes.sum(axis=0)
    maps = (TensorMap(planes, (1, 64, 32), 0), TensorMap(out, (64, 32), 0))
    args = (*maps, out, numpy.int32(70), numpy.int32(40))
    return Trial((2, 2, 2), (program.facts.threads, 1, 1), 0, args, ((out, right),))


def _bank_conflicts(program: Program) -> Trial:
    """Sums of what each thread read, a column of rows of 128 bytes with the swizzle."""
    threads, words, rounds = program.facts.threads, program.facts.tile_k // 2, 3
    offsets = swizzled(128 * numpy.arange(32) + 16, 128).astype("int32")
    number = offsets[numpy.arange(threads) % 32][:, None] // 4 + numpy.arange(words)
    right = (number * rounds * stated_facts(program.ptx)["unroll"]).astype("uint32")
    sums = numpy.zeros_like(right)
    clocks = numpy.zeros((threads // 32, 2), "int64")
    args = (offsets, sums, clocks, numpy.int32(rounds), numpy.int32(0))
    return Trial((1, 1, 1), (threads, 1, 1), 0, args, ((sums, right),))


def _chip(program: Program) -> Trial:
    """The SM of each block, which is its number here; adding 0 leaves memory as it is."""
    blocks, lines = 2 * program.facts.cluster, 3
    memory = numpy.arange(lines * stated_facts(program.ptx)["apart"], dtype="uint32")
    sms, cycles = numpy.full(blocks, 99, "uint32"), numpy.zeros((blocks, lines), "uint32")
    args = (memory, sms, cycles, numpy.int32(lines))
    outputs = ((memory, memory.copy()), (sms, numpy.arange(blocks, dtype="uint32")))
    return Trial((blocks, 1, 1), (1, 1, 1), program.facts.shared_bytes, args, outputs)


def _wgmma_modes(rounds: int, program: Program) -> Trial:
    """D (1, 128, N) fp32: A·Bᵀ once for each round, A MN-major and B K-major, both swizzled."""
    facts = program.facts
    a, b, right = _exact(facts.tile_m, facts.tile_n, TILE_K)
    tiles = (
        Placement(facts.tile_m, TILE_K, "MN", 64),
        Placement(facts.tile_n, TILE_K, "K", 64),
    )
    image = numpy.concatenate([tile.image(x) for tile, x in zip(tiles, (a, b), strict=True)])
    d = _blank((1, facts.tile_m, facts.tile_n), "float32")
    clocks = numpy.zeros((1, 2, 2), "int64")
    args = (image, *mode_arguments(*tiles), d, clocks, numpy.int32(rounds))
    block = (facts.threads, 1, 1)
    return Trial((1, 1, 1), block, facts.shared_bytes, args, ((d, right[None] * rounds),))


def _layout_copy(program: Program) -> Trial:
    """OUT (128, 192) = IN, 32-bit words: blocks off both edges of the grid."""
    matrix = numpy.random.default_rng(0).integers(0, 1 << 32, (128, 192), numpy.uint32)
    out = numpy.zeros_like(matrix)
    args = (matrix, out, numpy.int32(192))
    return Trial((3, 2, 1), (program.facts.threads, 1, 1), 0, args, ((out, matrix),))


def _k_loop(program: Program) -> Trial:
    """The exercise: D (64, 16) fp32 with a K of 64."""
    a, b, right = _exact(64, 16, 64)
    d = _blank((64, 16), "float32")
    return Trial((1, 1, 1), (128, 1, 1), 0, (a, b, d), ((d, right),))


def _ceiling(rounds: int, program: Program) -> Trial:
    """D (blocks, 128, N) fp32: A·Bᵀ once for each round."""
    facts, blocks = program.facts, 2
    a, b, right = _exact(facts.tile_m, facts.tile_n, TILE_K)
    d = _blank((blocks, facts.tile_m, facts.tile_n), "float32")
    clocks = numpy.zeros(8 * blocks, numpy.int64)
    maps = (TensorMap(a, facts.a_box), TensorMap(b, facts.b_box))
    args = (*maps, d, clocks, numpy.int32(rounds))
    block = (facts.threads, 1, 1)
    outputs = ((d, numpy.broadcast_to(right * rounds, d.shape)),)
    return Trial((blocks, 1, 1), block, facts.shared_bytes, args, outputs)


#: Two copies of a twin, so that a block's coordinates in a tensor are not all zero.
_TWO = Shape(cells=2)


def _twin(broken: HazardKernel, program: Program) -> Trial:
    """The corrected twin of a kernel with one broken rule."""
    case = broken.case(True, _TWO)
    values = case.arguments()
    args = [_mapped(value, values) if isinstance(value, Tiled) else value for value in values]
    outputs = ((values[broken.output], broken.expected(_TWO)),)
    return Trial(case.grid, case.block, case.shared_bytes, args, outputs)


def _mapped(tiled: Tiled, values: list) -> TensorMap:
    named = tiled.argument
    array = values[named] if isinstance(named, int) else named
    return TensorMap(array, tiled.box, tiled.swizzle, fill=tiled.fill, element=tiled.element)


#: M, N, K: whole tiles, four steps with a tail in K; edges with an odd N, whose rows do not begin
#: at a multiple of 4 bytes; edges with an even one.
WHOLE_SHAPES = ((128, 128, 200), (131, 133, 136), (100, 90, 72))
#: Of kernels with a ring: six steps, three times round two stages, with a tail in K; one step, and
#: edges with an odd N; edges with an even one.
RING_SHAPES = ((128, 16, 328), (131, 17, 40), (100, 10, 72))
#: Of one that stores by TMA: six steps and two tiles along N; one step, and edges of both sides.
TMA_STORE_SHAPES = ((128, 72, 328), (130, 64, 40), (70, 8, 72))
#: And blocks, where these take several tiles. As many steps as stages, or one: then a stage that
#: held an order gets the next one as soon as it is freed. Three: an odd number round the ring.
PERSISTENT_SHAPES = ((200, 136, 136, 2), (100, 264, 40, 2), (100, 8, 72, 2))
#: Where clusters have numbers by place, too: three of them, two waves of which the last is partial.
PAIRED_SHAPES = (*PERSISTENT_SHAPES, (100, 520, 40, 6))
#: Where tiles are shared along K: a unit cut among three clusters, so that what two give goes
#: through the same stages; among two, from the other stage on; whole units of one step, for which
#: consumers take no turn, and of two. The cluster that finishes a cut unit has a step more, and
#: finds the gifts there: to spin on a flag in global memory costs the emulator most.
#: At last two waves, of which the second is by place, and a stream behind them.
STREAM_SHAPES = (
    (136, 128, 616, 6),
    (136, 128, 296, 4),
    (100, 264, 40, 2),
    (100, 136, 72, 2),
    (100, 904, 40, 6),
)


def _tile(m: int, n: int, **others: int) -> dict[str, int]:
    return {"TILE_M": m, "TILE_N": n, "STAGES": 2} | others


#: Shapes and configuration of each version: where it has a ring, the smallest tile, so that a
#: launch stays quick.
LADDER: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, int]]] = {
    "v0_mma_sync": (WHOLE_SHAPES, {}),
    "v1_wgmma": (WHOLE_SHAPES, {}),
    "v2_ring": (RING_SHAPES, _tile(64, 16)),
    "v3_specialized": (RING_SHAPES, _tile(64, 16)),
    "v4_two_consumers": (RING_SHAPES, _tile(128, 16, RASTER=1)),
    "v5_in_flight": (RING_SHAPES, _tile(128, 16, RASTER=1)),
    "v6_fp16_acc": (TMA_STORE_SHAPES, _tile(128, 64, RASTER=1)),
    "v7_persistent": (PERSISTENT_SHAPES, _tile(128, 128, RASTER=1)),
    "v8_multicast": (PAIRED_SHAPES, _tile(128, 128, RASTER=1)),
    "v9_stream_k": (STREAM_SHAPES, _tile(128, 128, RASTER=1, SHARE_A=0, HAND_OVER=0)),
}
#: Twice through the unrolled loop and then its tail; a tail alone.
CEILING_ROUNDS = (10, 1)

SUBJECTS: dict[str, Subject] = {
    subject.name: subject
    for subject in (
        *(
            Subject(
                name,
                f"{name}.cu",
                name,
                tuple(partial(_product, shape) for shape in shapes),
                defines,
            )
            for name, (shapes, defines) in LADDER.items()
        ),
        Subject("one_wgmma", "one_wgmma.cu", "one_wgmma", (_one_wgmma,)),
        Subject("layout_copy", "layout_copy.cu", "layout_copy", (_layout_copy,)),
        Subject(
            "fragment_map", "fragment_map.cu", "fragment_map", (_fragment_map,), {"TILE_N": 16}
        ),
        Subject(
            "fragment_map, A in registers",
            "fragment_map.cu",
            "fragment_map",
            (_fragment_map,),
            {"TILE_N": 8, "OPERAND_BITS": 8, "A_FROM_REGISTERS": 1},
        ),
        Subject("rs_wgmma", "rs_wgmma.cu", "rs_wgmma", (_rs_wgmma,), {"TILE_N": 16, "STAGES": 2}),
        Subject(
            "protocol_loop", "protocol_loop.cu", "protocol_loop", (_protocol_loop,), {"TILE_N": 16}
        ),
        *(
            Subject(
                f"store_tile, {way}",
                "store_tile.cu",
                "store_tile",
                (_store_tile,),
                {"TILE_N": 64, "WAY": number},
            )
            for number, way in ((1, "stmatrix"), (2, "not swizzled"))
        ),
        Subject(
            "descriptor_probe",
            "descriptor_probe.cu",
            "descriptor_probe",
            (_descriptor_probe,),
            {"TILE_N": 16},
        ),
        Subject("tma_swizzle", "tma_swizzle.cu", "tma_swizzle", (_tma_swizzle,)),
        Subject("tma_copy", "tma_copy.cu", "tma_copy", (_tma_copy,)),
        *(
            Subject(name, f"{kernel}.cu", kernel, (partial(_tma_ring, ring),), ring.defines)
            for name, kernel, ring in (
                ("tma_ring", "tma_ring", Ring(2, 16)),
                ("tma_multicast", "tma_multicast", Ring(2, 16, True)),
                ("tma_multicast, two loads", "tma_multicast", Ring(2, 16, False)),
            )
        ),
        *(
            Subject(
                f"tma_reduce, {name}", "tma_reduce.cu", "tma_reduce", (_tma_reduce,), {"WAY": way}
            )
            for way, name in ((0, "TMA"), (2, "atomics"))
        ),
        Subject("chip", "chip.cu", "chip", (_chip,)),
        Subject("bank_conflicts", "bank_conflicts.cu", "bank_conflicts", (_bank_conflicts,)),
        Subject(
            "wgmma_modes",
            "wgmma_modes.cu",
            "wgmma_modes",
            tuple(partial(_wgmma_modes, rounds) for rounds in CEILING_ROUNDS),
            {"TILE_N": 64, "A_MN": 1},
        ),
        Subject("k_loop", "exercises/k_loop.cu", "k_loop", (_k_loop,)),
        Subject(
            "ceiling, A in shared memory",
            "ceiling.cu",
            "ceiling",
            tuple(partial(_ceiling, rounds) for rounds in CEILING_ROUNDS),
            {"TILE_N": 72},
        ),
        Subject(
            "ceiling, A in registers",
            "ceiling.cu",
            "ceiling",
            tuple(partial(_ceiling, rounds) for rounds in CEILING_ROUNDS),
            {"TILE_N": 8, "A_FROM_REGISTERS": 1},
        ),
        *(
            Subject(
                f"twin of {broken.name}",
                broken.source,
                broken.name,
                (partial(_twin, broken),),
                {"FIXED": 1},
            )
            for broken in HAZARD_KERNELS
        ),
    )
}
