"""Kernels that break one rule each, and their corrected twins (``-DFIXED``): ``kernels/hazards``.

Each is written from the rule, and ends with an output that tells right from wrong: the same
launches run on an H200, to see what the hardware makes of a broken rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from hopper.compile import Program, compile_cuda
from hopper.conformance import Case, Tiled, blank
from hopper.fragment import a_held_by, held_by
from hopper.paths import KERNELS

Dim = tuple[int, int, int]
_ONE = r"block \(0, 0, 0\), "


@dataclass(frozen=True)
class HazardKernel:
    """A kernel with exactly one broken rule.

    ``name``: of its file and its ``extern "C"`` function. ``kind``: the rule, a key of
    ``hazards.KINDS``; ``also``: rules that are found broken instead on some schedules. ``threads``:
    a pattern of who is named. ``arguments``: fresh ones, in the kernel's order; ``output``: which
    of them is the output, starting as 0xFF bytes; ``expected``: what the corrected twin leaves
    there, and a GPU where the broken rule does no harm. ``may_hang``: it may not end on a GPU;
    ``may_fail``: it may end with an error. Launch as written in the file.
    """

    name: str
    kind: str
    arguments: Callable[[], list]
    output: int
    expected: Callable[[], numpy.ndarray]
    grid: Dim = (1, 1, 1)
    block: Dim = (128, 1, 1)
    cluster: Dim = (1, 1, 1)
    shared_bytes: int = 0
    threads: str = _ONE
    may_hang: bool = False
    may_fail: bool = False
    also: tuple[str, ...] = ()

    @property
    def kernel(self) -> str:
        """The ``extern "C"`` function."""
        return self.name

    @property
    def source(self) -> str:
        """The file, below ``kernels/``."""
        return f"hazards/{self.name}.cu"

    def compile(self, fixed: bool) -> Program:
        """The broken kernel or its corrected twin, with lines of its source."""
        defines = {"FIXED": 1} if fixed else {}
        return compile_cuda(KERNELS / self.source, self.name, defines=defines, lineinfo=True)

    def case(self, fixed: bool) -> Case:
        """The launch, for ``conformance.emulate`` and ``conformance.run_on_gpu``."""
        return Case(
            f"hazards.{self.name}",
            self.source,
            self.name,
            self.arguments,
            (self.output,),
            self.grid,
            self.block,
            self.shared_bytes,
            {"FIXED": 1} if fixed else {},
        )


def _numbers(*shape: int) -> numpy.ndarray:
    return numpy.random.default_rng(7).integers(1, 1 << 31, shape, numpy.uint32)


def _copy(count: int, read: int = 0, *, back: bool = False) -> dict:
    """Arguments and expectation of a kernel that copies ``count`` words of ``read``."""
    source = _numbers(max(count, read))
    return {
        "arguments": lambda: [source.copy(), blank(count, numpy.uint32)],
        "output": 1,
        "expected": lambda: source[:count][::-1] if back else source[:count],
    }


def _matrices(steps: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A (steps, 64, 16) and B (steps, 8, 16), small whole numbers: every sum is exact."""
    draw = numpy.random.default_rng(11).integers
    a, b = draw(-4, 5, (steps, 64, 16)), draw(-4, 5, (steps, 8, 16))
    return a.astype(numpy.float16), b.astype(numpy.float16)


def _core_matrices(x: numpy.ndarray) -> numpy.ndarray:
    """(rows, 16) as the kernels' descriptors expect it, flat."""
    return x.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3).reshape(-1)


def _tiles(steps: int) -> numpy.ndarray:
    pairs = zip(*_matrices(steps), strict=True)
    return numpy.concatenate([_core_matrices(x) for pair in pairs for x in pair]).view("u4")


def _held(product: numpy.ndarray) -> numpy.ndarray:
    """A (64, 8) product as 128 threads hold it: (128, 4)."""
    row, column = held_by(*numpy.indices((128, 4)))
    return product[row, column].astype(numpy.float32)


def _product(steps: int = 1) -> numpy.ndarray:
    a, b = (x.astype(numpy.float32) for x in _matrices(steps))
    return _held(sum(x @ y.T for x, y in zip(a, b, strict=True)))


def _multiply(steps: int = 1, blocks: int = 1) -> dict:
    return {
        "arguments": lambda: [_tiles(steps), blank((blocks, 128, 4), numpy.float32)],
        "output": 1,
        "expected": lambda: numpy.stack([_product(steps)] * blocks),
    }


def _fragments() -> numpy.ndarray:
    """A of two steps in the registers of 128 threads, (2, 128, 4)."""
    row, k = a_held_by(*numpy.indices((128, 4, 2)))
    return numpy.stack([a[row, k] for a in _matrices(2)[0]]).view("u4")[..., 0]


def _with_fragments() -> dict:
    a, b = _matrices(2)[0].astype(numpy.float32), _matrices(1)[1][0].astype(numpy.float32)
    return {
        "arguments": lambda: [_fragments(), _tiles(1), blank((128, 4), numpy.float32)],
        "output": 2,
        "expected": lambda: _held(a[0] @ b.T + a[1] @ b.T),
    }


def _with_start() -> dict:
    start = numpy.random.default_rng(5).integers(-99, 99, (128, 4)).astype(numpy.float32)
    return {
        "arguments": lambda: [_tiles(1), start.copy(), blank((128, 4), numpy.float32)],
        "output": 2,
        "expected": lambda: _product() + start,
    }


def _mapped(swizzle: int) -> dict:
    values = _numbers(8, 32).view(numpy.uint16)
    return {
        "arguments": lambda: [
            Tiled(values.copy(), (8, 64), swizzle),
            blank((8, 32), numpy.uint32),
        ],
        "output": 1,
        "expected": lambda: values.view(numpy.uint32),
    }


def _each_with_next() -> dict:
    values = _numbers(128)
    return {
        "arguments": lambda: [values.copy(), blank(128, numpy.uint32), numpy.int32(128)],
        "output": 1,
        "expected": lambda: values + numpy.append(values[1:], numpy.uint32(0)),
    }


def _sums_of_four() -> dict:
    values = _numbers(516)
    return {
        "arguments": lambda: [values.copy(), blank(128, numpy.uint32)],
        "output": 1,
        "expected": lambda: values[1:513].reshape(128, 4).sum(axis=1, dtype=numpy.uint32),
    }


def _sums_of_two() -> dict:
    values = _numbers(2, 256)
    return {
        "arguments": lambda: [values.copy(), blank(256, numpy.uint32)],
        "output": 1,
        "expected": lambda: values.sum(axis=0, dtype=numpy.uint32),
    }


def _swapped() -> dict:
    values = _numbers(2, 128)
    return {
        "arguments": lambda: [values.copy(), blank((2, 128), numpy.uint32)],
        "output": 1,
        "expected": lambda: values[::-1],
    }


def _fours_reversed() -> dict:
    values = _numbers(128, 4)
    return {
        "arguments": lambda: [values.copy(), blank((128, 4), numpy.uint32)],
        "output": 1,
        "expected": lambda: values[::-1],
    }


def _with_flag() -> dict:
    values = _numbers(64)
    return {
        "arguments": lambda: [numpy.zeros(1, "u4"), values.copy(), blank(64, numpy.uint32)],
        "output": 2,
        "expected": lambda: values,
    }


def _pipeline() -> dict:
    draw = numpy.random.default_rng(3).integers
    a = draw(-4, 5, (2, 2, 7, 128, 16)).astype(numpy.float16)
    b = draw(-4, 5, (2, 7, 8, 16)).astype(numpy.float16)

    def expected() -> numpy.ndarray:
        products = numpy.einsum("bpsmk,psnk->bpmn", a.astype("f4"), b.astype("f4"))
        return numpy.stack([_held(x) for x in products.reshape(-1, 64, 8)])

    return {
        "arguments": lambda: [
            numpy.concatenate([_core_matrices(x) for x in a.reshape(-1, 128, 16)]),
            numpy.concatenate([_core_matrices(x) for x in b.reshape(-1, 8, 16)]),
            blank((8, 128, 4), numpy.float32),
        ],
        "output": 2,
        "expected": expected,
    }


_PRODUCER = "warp 4, thread 128$"
_THREAD_0 = "warp 0, thread 0$"

HAZARD_KERNELS: tuple[HazardKernel, ...] = (
    HazardKernel("accumulator_pending", "accumulator-pending", **_multiply()),
    HazardKernel("fragment_pending", "accumulator-pending", **_with_fragments()),
    HazardKernel("no_wgmma_fence", "no-wgmma-fence", **_with_start()),
    HazardKernel(
        "operand_overwritten",
        "operand-overwritten",
        **_multiply(2),
        block=(256, 1, 1),
        threads=_PRODUCER,
    ),
    HazardKernel(
        "one_warp_release",
        "one-warp-release",
        **_multiply(2),
        block=(256, 1, 1),
        threads=_PRODUCER,
    ),
    HazardKernel(
        "operand_overwritten_cluster",
        "operand-overwritten",
        **_multiply(2, blocks=2),
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        block=(256, 1, 1),
        threads=_PRODUCER,
        also=("copy-not-arrived", "expect-tx"),
        may_hang=True,
    ),
    HazardKernel("copy_not_arrived", "copy-not-arrived", **_copy(256)),
    HazardKernel("thread_copy_not_arrived", "copy-not-arrived", **_fours_reversed()),
    HazardKernel("no_proxy_fence_write", "no-proxy-fence", **_copy(256), threads=_THREAD_0),
    HazardKernel("no_proxy_fence_wgmma", "no-proxy-fence", **_multiply(), threads=_THREAD_0),
    HazardKernel("no_proxy_fence_read", "no-proxy-fence", **_sums_of_two(), threads=_THREAD_0),
    HazardKernel("expect_tx_few", "expect-tx", **_copy(256), threads=_THREAD_0),
    HazardKernel("expect_tx_many", "expect-tx", **_copy(256), threads=_THREAD_0, may_hang=True),
    HazardKernel("expect_tx_left", "expect-tx", **_copy(512), threads=_THREAD_0),
    HazardKernel("deadlock", "deadlock", **_copy(128, back=True), may_hang=True),
    HazardKernel("barrier_not_visible", "barrier-not-visible", **_copy(256), may_hang=True),
    HazardKernel("barrier_overwritten", "barrier-overwritten", **_copy(256), may_hang=True),
    HazardKernel(
        "barrier_overwritten_copy",
        "barrier-overwritten",
        **_copy(256, 260),
        threads=_THREAD_0,
        may_hang=True,
    ),
    HazardKernel("swizzle_unaligned", "swizzle-unaligned", **_mapped(128), threads=_THREAD_0),
    HazardKernel("descriptor", "descriptor", **_multiply(), may_fail=True),
    HazardKernel(
        "shared_out_of_bounds",
        "shared-out-of-bounds",
        **_multiply(),
        shared_bytes=2304,
        may_fail=True,
    ),
    HazardKernel("global_out_of_bounds", "global-out-of-bounds", **_each_with_next()),
    HazardKernel("misaligned", "misaligned", **_sums_of_four(), may_fail=True),
    HazardKernel("shared_unwritten", "shared-unwritten", **_copy(128, back=True)),
    HazardKernel(
        "tensor_map",
        "tensor-map",
        **_mapped(0),
        threads=_THREAD_0,
        may_hang=True,
        may_fail=True,
    ),
    HazardKernel("partial_warpgroup", "partial-warpgroup", **_multiply(), may_hang=True),
    HazardKernel("partial_warpgroup_registers", "partial-warpgroup", **_copy(128), may_hang=True),
    HazardKernel(
        "register_budget",
        "register-budget",
        **_copy(384),
        block=(384, 1, 1),
        threads="warp ([4-9]|1[01]), thread",
        may_hang=True,
    ),
    HazardKernel(
        "barrier_divergence", "barrier-divergence", **_copy(128, back=True), may_hang=True
    ),
    HazardKernel(
        "peer_gone",
        "peer-gone",
        **_swapped(),
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        threads="block ",
        may_fail=True,
    ),
    HazardKernel("store_overwritten", "store-overwritten", **_copy(512)),
    HazardKernel("group_never_waited", "group-never-waited", **_copy(256), threads=_THREAD_0),
    HazardKernel("shared_race", "shared-race", **_copy(128, back=True)),
    HazardKernel("never_ends", "never-ends", **_with_flag(), block=(64, 1, 1), may_hang=True),
    HazardKernel("fault", "fault", **_copy(128, back=True), threads=_THREAD_0, may_hang=True),
)

#: Every mechanism, and no broken rule: what a report on this kernel would be is a false alarm.
PIPELINE = HazardKernel(
    "none", "", **_pipeline(), grid=(2, 1, 1), cluster=(2, 1, 1), block=(384, 1, 1)
)
