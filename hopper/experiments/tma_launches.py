"""Launches of the kernels of the chapter ``tma_mbarrier``, and what NumPy makes of the same inputs.

Each takes a Hopper GPU or the emulator: the page, its experiments, the cases of conformance and the
subjects of mutation all launch by these functions. A launch keeps its arrays alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from hopper.backends import Backend
from hopper.compile import Program, compile_kernel
from hopper.errors import ProblemError
from hopper.facts import stated_facts
from hopper.tensormap import TensorMap

#: Words of a box's row in ``tma_ring`` and ``tma_multicast``: 128 bytes.
ROW_WORDS = 32
#: How ``tma_reduce`` adds -> what -DWAY says so.
REDUCTIONS = {"TMA": 0, "atomics, one word": 1, "atomics, four words": 2}


def copy_launch(
    gpu: Backend,
    program: Program,
    matrix: Any,
    out: Any,
    *,
    promotion: int = 128,
    out_swizzle: int | None = None,
) -> Callable[[], Any]:
    """What launches ``tma_copy`` from ``matrix`` to ``out``, (M, N) of 16 bits, both on ``gpu``.

    ``promotion``: of the load's map. ``out_swizzle``: of the store's, where it is not the load's.
    Raises ProblemError for matrices that differ, and for rows that are no multiple of 16 bytes.
    """
    if matrix.shape != out.shape or matrix.dtype.itemsize != 2 or out.dtype != matrix.dtype:
        raise ProblemError(
            f"matrix {matrix.shape} {matrix.dtype}, out {out.shape} {out.dtype}: tma_copy takes "
            f"two matrices of 16-bit elements of one shape"
        )
    facts, swizzle = program.facts, stated_facts(program.ptx)["swizzle"]
    box = (facts.tile_m, facts.tile_n)
    tiled = (
        TensorMap(matrix, box, swizzle, promotion),
        TensorMap(out, box, swizzle if out_swizzle is None else out_swizzle),
    )
    m, n = matrix.shape
    grid = (-(-n // facts.tile_n), -(-m // facts.tile_m), 1)
    return _launcher(gpu, program, grid, tiled, ())


def copied(gpu: Backend, program: Program, matrix: numpy.ndarray, **options) -> numpy.ndarray:
    """What ``tma_copy`` makes of a matrix in host memory, over 0xFFFF. Options of copy_launch."""
    out = gpu.array(numpy.full_like(matrix, numpy.iinfo(matrix.dtype).max))
    copy_launch(gpu, program, gpu.array(matrix), out, **options)()
    return gpu.numpy(out)


def _launcher(
    gpu: Backend, program: Program, grid: tuple[int, int, int], tiled: tuple, args: tuple
) -> Callable[[], Any]:
    """A launch with tensor maps, whose arrays it keeps, and then other arguments."""
    facts = program.facts
    encoded = tuple(gpu.tensor_map(one) for one in tiled)

    def launch(kept=tiled) -> Any:
        block = (facts.threads, 1, 1)
        return gpu.launch(program, grid, block, (*encoded, *args), facts.shared_bytes)

    return launch


@dataclass(frozen=True)
class Ring:
    """A variant of ``tma_ring``, or with ``multicast`` not None of ``tma_multicast``.

    ``box_rows``: of 128 bytes. ``cluster_scope``: of the arrivals in the other block.
    """

    stages: int
    box_rows: int
    multicast: bool | None = None
    cluster_scope: bool = True

    @property
    def defines(self) -> dict[str, int]:
        """The ``-D`` names of the variant."""
        shape = {"STAGES": self.stages, "BOX_M": self.box_rows}
        if self.multicast is None:
            return shape
        return shape | {
            "MULTICAST": int(self.multicast),
            "CLUSTER_SCOPE": int(self.cluster_scope),
        }

    def compile(self) -> Program:
        """The kernel. Raises CompileError unless it is clean."""
        kernel = "tma_ring" if self.multicast is None else "tma_multicast"
        program = compile_kernel(kernel, **self.defines)
        program.require_clean()
        return program

    @property
    def cluster(self) -> int:
        """Blocks that read the same boxes."""
        return 1 if self.multicast is None else 2

    @property
    def box(self) -> tuple[int, int]:
        """Rows and words that one copy brings: a whole box, or half of one for multicast."""
        return self.box_rows // self.cluster, ROW_WORDS

    @property
    def box_bytes(self) -> int:
        """Bytes of a whole box, as its phase counts them."""
        return 4 * ROW_WORDS * self.box_rows

    def tiles(self, matrix: Any) -> tuple[int, int]:
        """How many boxes lie side by side in a matrix, and how many there are."""
        across = -(-matrix.shape[1] // ROW_WORDS)
        return across, across * -(-matrix.shape[0] // self.box_rows)

    def launch(
        self, gpu: Backend, program: Program, matrix: Any, boxes: int, blocks: int
    ) -> tuple[Callable[[], Any], Any, Any]:
        """What launches it, and its outputs ``sums`` (blocks, 128) and ``received`` (blocks,).

        ``matrix``: 32-bit words on ``gpu``. ``boxes``: to read in all, by all blocks or clusters;
        ``blocks``: a multiple of ``cluster``.
        """
        sums = gpu.array(numpy.zeros((blocks, 128), "uint32"))
        received = gpu.array(numpy.zeros(blocks, "uint64"))
        numbers = tuple(numpy.int32(number) for number in (*self.tiles(matrix), boxes))
        tiled = (TensorMap(matrix, self.box, swizzle=0),)
        start = _launcher(gpu, program, (blocks, 1, 1), tiled, (sums, received, *numbers))
        return start, sums, received

    def expected(
        self, matrix: numpy.ndarray, boxes: int, blocks: int
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """``sums`` and ``received`` by NumPy."""
        across, tiles = self.tiles(matrix)
        padded = numpy.zeros((tiles // across * self.box_rows, across * ROW_WORDS), "uint32")
        padded[: matrix.shape[0], : matrix.shape[1]] = matrix
        by_tile = padded.reshape(tiles // across, self.box_rows, across, ROW_WORDS).swapaxes(1, 2)
        # Thread t reads pieces t, t + 128 … of four words.
        words = by_tile.reshape(tiles, -1, 128, 4).sum((1, 3), dtype="uint32")
        readers = blocks // self.cluster
        sums, received = numpy.zeros((readers, 128), "uint32"), numpy.zeros(readers, "uint64")
        for box in range(boxes):
            sums[box % readers] += words[box % tiles]
            received[box % readers] += numpy.uint64(self.box_bytes)
        return sums.repeat(self.cluster, axis=0), received.repeat(self.cluster)


def reduce_launch(gpu: Backend, program: Program, planes: Any, out: Any) -> Callable[[], Any]:
    """What launches ``tma_reduce``: adds ``planes`` (P, M, N) to ``out`` (M, N), fp32."""
    facts = program.facts
    count, m, n = planes.shape
    box = (facts.tile_m, facts.tile_n)
    tiled = (TensorMap(planes, (1, *box), swizzle=0), TensorMap(out, box, swizzle=0))
    grid = (-(-n // facts.tile_n), -(-m // facts.tile_m), count)
    return _launcher(gpu, program, grid, tiled, (out, numpy.int32(m), numpy.int32(n)))


def reduced(gpu: Backend, way: str, planes: numpy.ndarray, out: numpy.ndarray) -> numpy.ndarray:
    """``out`` plus all planes, by one of REDUCTIONS; arrays in host memory, fp32."""
    program = compile_kernel("tma_reduce", WAY=REDUCTIONS[way])
    result = gpu.array(out)
    reduce_launch(gpu, program, gpu.array(planes), result)()
    return gpu.numpy(result)


def random_words(rows: int, columns: int) -> numpy.ndarray:
    """uint32 (rows, columns), any bits."""
    random = numpy.random.default_rng(rows + columns)
    return random.integers(0, 1 << 32, (rows, columns), numpy.uint32)


def whole_numbers(*shape: int) -> numpy.ndarray:
    """fp32 from -8 to 7: any order of adding gives the same sum, exactly."""
    return numpy.random.default_rng(sum(shape)).integers(-8, 8, shape).astype("float32")
