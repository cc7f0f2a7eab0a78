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

from hopper.compile import Program, compile_cuda, kernel_names
from hopper.conformance import Tiled
from hopper.emulator import Emulator, Run
from hopper.emulator.hazard_kernels import HAZARD_KERNELS, HazardKernel
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS
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


def _product(m: int, n: int, k: int, program: Program) -> Trial:
    """A kernel of the ladder: C (m, n) fp16."""
    a, b, right = _exact(m, n, k)
    c = _blank((m, n), "float16")
    launch = plan(program, a, b, c)
    right = right.astype("float16")
    return Trial(launch.grid, launch.block, program.facts.shared_bytes, launch.args, ((c, right),))


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


def _twin(broken: HazardKernel, program: Program) -> Trial:
    """The corrected twin of a kernel with one broken rule."""
    values = broken.arguments()
    args = [_mapped(value, values) if isinstance(value, Tiled) else value for value in values]
    outputs = ((values[broken.output], broken.expected()),)
    return Trial(broken.grid, broken.block, broken.shared_bytes, args, outputs)


def _mapped(tiled: Tiled, values: list) -> TensorMap:
    named = tiled.argument
    array = values[named] if isinstance(named, int) else named
    return TensorMap(array, tiled.box, tiled.swizzle, fill=tiled.fill, element=tiled.element)


#: M, N, K of the ladder: whole tiles, four steps with a tail in K; edges with an odd N, whose rows
#: do not begin at a multiple of 4 bytes; edges with an even one.
LADDER_SHAPES = ((128, 128, 200), (131, 133, 136), (100, 90, 72))
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
                tuple(partial(_product, *shape) for shape in LADDER_SHAPES),
            )
            for name in kernel_names()
            if name.startswith("v")
        ),
        Subject("one_wgmma", "one_wgmma.cu", "one_wgmma", (_one_wgmma,)),
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
