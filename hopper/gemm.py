"""The problem of the ladder, C = A·Bᵀ, its inputs, and how a kernel is launched on it.

A is (M, K), B is (N, K), C is (M, N), all row-major and of one type, fp16 or bf16; sums are fp32.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from hopper import chip
from hopper.arrays import Memory, memory_of
from hopper.backends import Backend, backend_of
from hopper.compile import Program
from hopper.dtypes import DTYPES, ELEMENT_TYPES, filled_with_nan, numpy_dtype
from hopper.errors import ProblemError
from hopper.facts import LaunchFacts
from hopper.tensormap import TensorMap

# Row, column and K indices are 32 bits and run past the matrix by less than one tile.
_SIZE_MAX = 2**31 - 256
_GRID_Y_MAX = 65535  # blocks; CUDA C++ Programming Guide, compute capabilities


def _normal(random: numpy.random.Generator, shape: tuple[int, int]) -> numpy.ndarray:
    return random.standard_normal(shape, dtype=numpy.float32)


def _uniform(random: numpy.random.Generator, shape: tuple[int, int]) -> numpy.ndarray:
    return 2 * random.random(shape, dtype=numpy.float32) - 1


def _integers(random: numpy.random.Generator, shape: tuple[int, int]) -> numpy.ndarray:
    return random.integers(-3, 4, shape).astype(numpy.float32)


def _zeros(random: numpy.random.Generator, shape: tuple[int, int]) -> numpy.ndarray:
    return numpy.zeros(shape, numpy.float32)


# normal: mean 0, variance 1. uniform: [-1, 1). integers: -3 … 3, whose sums fp32 holds exactly.
DISTRIBUTIONS: dict[str, Callable[..., numpy.ndarray]] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
    "zeros": _zeros,
}


@dataclass(frozen=True)
class Problem:
    """C (m, n) = A (m, k) · B (n, k)ᵀ with inputs drawn from a distribution.

    The same fields give the same inputs on every machine. Raises ProblemError.
    """

    m: int
    n: int
    k: int
    dtype: str = "float16"
    distribution: str = "normal"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "seed"):
            value = getattr(self, name)
            try:
                # A NumPy integer becomes a Python one, so that a record can hold it.
                object.__setattr__(self, name, operator.index(value))
            except TypeError:
                raise ProblemError(
                    f"{name}={value!r}: {name} is a whole number; pass an int"
                ) from None
        _require_sizes(self.m, self.n, self.k)
        if self.seed < 0:
            raise ProblemError(f"seed={self.seed}: a seed is not negative; pass 0 or more")
        if self.dtype not in DTYPES:
            raise ProblemError(
                f"dtype={self.dtype!r}: the kernels multiply {' or '.join(DTYPES)}; convert A and B"
            )
        if self.distribution not in DISTRIBUTIONS:
            raise ProblemError(
                f"distribution={self.distribution!r}: inputs are drawn from "
                f"{', '.join(DISTRIBUTIONS)}; choose one of them"
            )

    def __str__(self) -> str:
        return f"{self.m}×{self.n}×{self.k} {self.dtype}, {self.distribution} inputs"

    @property
    def flop(self) -> int:
        """Floating-point operations: a multiplication and an addition for each of m·n·k."""
        return 2 * self.m * self.n * self.k

    def inputs(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """A (m, k) and B (n, k) in host memory."""
        random = numpy.random.Generator(numpy.random.PCG64(self.seed))
        draw, dtype = DISTRIBUTIONS[self.distribution], numpy_dtype(self.dtype)
        a = draw(random, (self.m, self.k)).astype(dtype)
        return a, draw(random, (self.n, self.k)).astype(dtype)

    @property
    def defines(self) -> dict[str, int]:
        """``-D`` names that make a kernel of the ladder one for these inputs."""
        return dict(ELEMENT_TYPES[self.dtype].defines)


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel ready to go: tensor maps encoded, arguments bound, arrays kept alive.

    ``workspace``: where blocks of a kernel hand partial sums to one another, and clusters take
    numbers. It belongs to this launch, which must not run twice at the same time: plan another one
    for another stream.
    """

    program: Program
    backend: Backend
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Any, ...]
    maps: tuple[TensorMap, ...]
    c: Any
    workspace: tuple[Any, ...] = ()

    def run(self) -> Any:
        """Launch once; on a GPU return before the kernel is done. This is all that is ever timed.

        Returns what the backend does: the emulator's ``Run``, None on a GPU.
        """
        shared_bytes = self.program.facts.shared_bytes
        return self.backend.launch(self.program, self.grid, self.block, self.args, shared_bytes)


def gemm(program: Program, a, b, c=None):
    """C = A·Bᵀ by a kernel of the ladder; returns C without waiting for it.

    ``a`` (M, K) and ``b`` (N, K) are of the type that the kernel was compiled for, fp16 or bf16:
    CuPy arrays run on the Hopper GPU, NumPy arrays in the emulator. A new C is filled with NaN
    first, so that a tile the kernel forgets is seen at once.
    Raises ProblemError for arrays that the kernel cannot take, CompileError for a kernel that must
    not be launched, NoHopper for CuPy arrays without a Hopper GPU.
    """
    if c is None:
        m, n, _ = validate_inputs(program.facts, a, b)
        c = filled_with_nan(_module_of(a), (m, n), program.facts.dtype)
    launch = plan(program, a, b, c)
    launch.run()
    return launch.c


def plan(
    program: Program,
    a,
    b,
    c,
    *,
    blocks: int | None = None,
    places: str | Sequence[int] = "gpc",
) -> Launch:
    """Everything that comes before the launch of ``gemm(program, a, b, c)``; same errors.

    ``blocks``: how many blocks a persistent kernel is launched with, whole clusters of them; unless
    given, as many as run at once, or as there is work for. ``places``: by what v8 and v9 number
    their clusters, an order that ``hopper.chip`` knows, or a number for each pair of SMs.
    """
    facts = program.facts
    m, n, k = validate(facts, a, b, c)
    program.require_clean()
    backend = backend_of(a)
    maps = (TensorMap(a, facts.a_box), TensorMap(b, facts.b_box))
    if facts.c_box:
        maps += (TensorMap(c, facts.c_box),)
    grid = _grid(facts, m, n, backend, blocks)
    workspace = _workspace(facts, c, grid[0])
    args = (
        *(backend.tensor_map(each) for each in maps),
        *(() if facts.c_box else (c,)),
        *workspace,
        *_places(facts, backend, places),
        *(numpy.int32(size) for size in (m, n, k)),
    )
    return Launch(program, backend, grid, (facts.threads, 1, 1), args, maps, c, workspace)


def _grid(
    facts: LaunchFacts, m: int, n: int, backend: Backend, blocks: int | None
) -> tuple[int, int, int]:
    """Blocks: one a tile, or for a persistent kernel at most one an SM.

    One that has a workspace shares tiles out, so that it has work for all SMs at any size.
    """
    tiles = (_blocks(m, facts.tile_m), _blocks(n, facts.tile_n))
    if not facts.persistent:
        if blocks is not None:
            raise ProblemError(
                f"blocks={blocks}: this kernel has a block for each of its {tiles[0]} × {tiles[1]} "
                f"tiles; leave blocks out, or take a persistent kernel (v7 and later)"
            )
        return (*tiles, 1)
    most = backend.sm_count // facts.cluster * facts.cluster
    if blocks is None:
        work = _blocks(tiles[0] * tiles[1], facts.cluster) * facts.cluster
        return (most if facts.partial_floats else min(most, work), 1, 1)
    if blocks < 1 or blocks % facts.cluster:
        raise ProblemError(
            f"blocks={blocks}: blocks come in clusters of {facts.cluster}; "
            f"pass a multiple of it, at least {facts.cluster}"
        )
    if blocks > most:
        raise ProblemError(
            f"blocks={blocks}: {most} run at once on {backend.sm_count} SMs, one an SM, and blocks "
            f"of a persistent kernel wait for one another; pass at most {most}"
        )
    return (blocks, 1, 1)


def _workspace(facts: LaunchFacts, c, blocks: int) -> tuple[Any, ...]:
    """Partial sums, flags and claims, zeros, in the memory of C; those that a kernel needs."""
    module = _module_of(c)
    found = ()
    if facts.partial_floats:
        found += (
            module.zeros(blocks * facts.partial_floats, numpy.float32),
            module.zeros(blocks * facts.flags, numpy.uint32),
        )
    if facts.places:
        found += (module.zeros(1 + blocks // facts.cluster, numpy.uint32),)
    return found


def _places(facts: LaunchFacts, backend: Backend, wanted: str | Sequence[int]) -> tuple[Any, ...]:
    """The numbers of the places as an argument; empty where a kernel takes none."""
    if not facts.places:
        return ()
    numbers = backend.places(wanted) if isinstance(wanted, str) else tuple(wanted)
    pairs = backend.sm_count // 2
    if sorted(numbers) != list(range(pairs)):
        raise ProblemError(
            f"places={wanted!r}: there are {pairs} pairs of SMs, and each has a number of its own "
            f"from 0 to {pairs - 1}; pass a permutation of these, or the name of an order"
        )
    return (chip.argument(numbers),)


def validate_inputs(facts: LaunchFacts, a, b) -> tuple[int, int, int]:
    """M, N and K of a pair of inputs. Raises ProblemError unless a kernel can take them."""
    memory_a, memory_b = memory_of(a), memory_of(b)
    _require_matrix("A", memory_a, "(M, K)", facts.dtype)
    _require_matrix("B", memory_b, "(N, K)", facts.dtype)
    (m, k), (n, k_of_b) = memory_a.shape, memory_b.shape
    if k != k_of_b:
        raise ProblemError(
            f"A is {memory_a.shape} and B is {memory_b.shape}: both are stored with K last, and "
            f"{k} is not {k_of_b}; pass B as (N, K), that is, transposed"
        )
    _require_sizes(m, n, k)
    for name, memory in (("A", memory_a), ("B", memory_b)):
        _require_layout(name, memory)
    if facts.c_box and n % 8:
        raise ProblemError(
            f"N={n}: a row of C is {2 * n} bytes, not a multiple of 16, which TMA requires of what "
            f"this kernel stores; pad B and C to N={_blocks(n, 8) * 8}, or take v5 or an earlier "
            f"kernel, whose threads store"
        )
    if not facts.persistent and _blocks(n, facts.tile_n) > _GRID_Y_MAX:
        raise ProblemError(
            f"N={n}: tiles of {facts.tile_n} columns are {_blocks(n, facts.tile_n)} blocks along "
            f"the grid's y axis, which ends at {_GRID_Y_MAX}; split B, or use a wider tile"
        )
    return m, n, k


def validate(facts: LaunchFacts, a, b, c) -> tuple[int, int, int]:
    """M, N and K of a whole call. Raises ProblemError unless a kernel can take the arrays."""
    m, n, k = validate_inputs(facts, a, b)
    memory_c = memory_of(c)
    _require_matrix("C", memory_c, "(M, N)", facts.dtype)
    if memory_c.shape != (m, n):
        raise ProblemError(
            f"C is {memory_c.shape}: A {(m, k)} times B {(n, k)} transposed is {(m, n)}; "
            f"allocate C so"
        )
    _require_layout("C", memory_c)
    for name, array in (("B", b), ("C", c)):
        if memory_of(array).on_gpu != memory_of(a).on_gpu:
            where = "GPU" if memory_of(a).on_gpu else "host"
            raise ProblemError(
                f"A lies in {where} memory and {name} does not: a kernel works in one memory; move "
                f"all three with the same backend().array(…)"
            )
    for name, array in (("A", a), ("B", b)):
        if memory_c.overlaps(memory_of(array)):
            raise ProblemError(
                f"C shares memory with {name}: blocks write C while others still read {name}; "
                f"pass another C"
            )
    return m, n, k


def _blocks(length: int, tile: int) -> int:
    return -(-length // tile)


def _require_sizes(m: int, n: int, k: int) -> None:
    for name, value in (("M", m), ("N", n), ("K", k)):
        if value < 1:
            raise ProblemError(f"{name}={value}: {name} is at least 1; leave empty products out")
        if value > _SIZE_MAX:
            raise ProblemError(
                f"{name}={value}: a kernel counts {name} in 32 bits, a tile past the edge "
                f"included: at most {_SIZE_MAX}; split the matrix"
            )
    if k % 8:
        raise ProblemError(
            f"K={k}: a row of A is {2 * k} bytes, not a multiple of 16, which TMA requires; pad A "
            f"and B to K={_blocks(k, 8) * 8}"
        )


def _require_matrix(name: str, memory: Memory, axes: str, dtype: str) -> None:
    found = memory.dtype.name
    if found != dtype:
        way = "convert it with .astype"
        if found == "bfloat16":
            way += ", or compile a kernel that knows bf16 (v2 and later) with BF16=1"
        elif found in DTYPES:
            way += ", or compile the kernel without BF16"
        raise ProblemError(f"{name} is {found}: this kernel reads and writes {dtype}; {way}")
    if len(memory.shape) != 2:
        raise ProblemError(
            f"{name} has shape {memory.shape}: it is a matrix {axes}; reshape it to two axes"
        )


def _require_layout(name: str, memory: Memory) -> None:
    if not memory.c_contiguous:
        raise ProblemError(
            f"{name} has strides {memory.strides} for shape {memory.shape}: rows must be "
            f"contiguous and follow one another; pass ascontiguousarray of it"
        )
    if memory.address % 16:
        raise ProblemError(
            f"{name} starts at {memory.address:#x}, not a multiple of 16 bytes, which TMA "
            f"requires; copy it into an array of its own"
        )


def _module_of(array):
    if not memory_of(array).on_gpu:
        return numpy
    import cupy

    return cupy
