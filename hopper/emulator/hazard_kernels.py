"""Kernels that break one rule each, and their corrected twins (``-DFIXED``): ``kernels/hazards``.

Each is written from the rule, and ends with an output that tells right from wrong: the same
launches run on an H200, to see what the hardware makes of a broken rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy

from hopper.compile import Program, compile_cuda
from hopper.conformance import Case
from hopper.emulator.hazard_inputs import (
    AS_WRITTEN,
    COPIED,
    MULTIPLIED,
    Data,
    Shape,
    copy,
    copy_tile,
    each_with_next,
    fours_reversed,
    mapped,
    multiply,
    pipeline,
    sums_of_four,
    sums_of_two,
    swapped,
    with_flag,
    with_fragments,
    with_start,
)
from hopper.paths import KERNELS

Dim = tuple[int, int, int]
_ONE = r"block \(0, 0, 0\), "


@dataclass(frozen=True)
class HazardKernel:
    """A kernel with exactly one broken rule.

    ``name``: of its file and its ``extern "C"`` function. ``kind``: the rule, a key of
    ``hazards.KINDS``; ``also``: rules that are found broken instead on some schedules. ``threads``:
    a pattern of who is named. ``data``: fresh arguments for a shape, and what the twin leaves in
    the ``output``-th of them, which starts as 0xFF bytes; a GPU where the broken rule does no harm
    leaves the same. ``sizes`` are those that change anything. ``grid``: of one cell. ``may_hang``:
    it may not end on a GPU; ``may_fail``: it may end with an error.
    """

    name: str
    kind: str
    data: Callable[[Shape], Data]
    output: int = 1
    sizes: tuple[int, ...] = (1,)
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

    def arguments(self, shape: Shape = AS_WRITTEN) -> list:
        """Fresh arguments, in the kernel's order."""
        return self.data(shape)[0]

    def expected(self, shape: Shape = AS_WRITTEN) -> numpy.ndarray:
        """What is right in the output."""
        return self.data(shape)[1]

    def compile(self, fixed: bool, size: int = 1) -> Program:
        """The broken kernel or its corrected twin, with lines of its source."""
        path, defines = KERNELS / self.source, _defines(fixed, size)
        return compile_cuda(path, self.name, defines=defines, lineinfo=True)

    def case(self, fixed: bool, shape: Shape = AS_WRITTEN) -> Case:
        """The launch, for ``conformance.emulate`` and ``conformance.launch_on_gpu``."""
        return Case(
            f"hazards.{self.name}",
            self.source,
            self.name,
            partial(self.arguments, shape),
            (self.output,),
            (self.grid[0] * shape.cells, *self.grid[1:]),
            self.block,
            self.shared_bytes,
            _defines(fixed, shape.size),
        )


def _defines(fixed: bool, size: int) -> dict[str, int]:
    return ({"FIXED": 1} if fixed else {}) | ({"SIZE": size} if size > 1 else {})


_PRODUCER = "warp 4, thread 128$"
_THREAD_0 = "warp 0, thread 0$"

HAZARD_KERNELS: tuple[HazardKernel, ...] = (
    HazardKernel("accumulator_pending", "accumulator-pending", **multiply()),
    HazardKernel("fragment_pending", "accumulator-pending", with_fragments, 2, MULTIPLIED),
    HazardKernel("no_wgmma_fence", "no-wgmma-fence", with_start, 2, MULTIPLIED),
    HazardKernel(
        "operand_overwritten",
        "operand-overwritten",
        **multiply(2),
        block=(256, 1, 1),
        threads=_PRODUCER,
    ),
    HazardKernel(
        "one_warp_release",
        "one-warp-release",
        **multiply(2),
        block=(256, 1, 1),
        threads=_PRODUCER,
    ),
    HazardKernel(
        "operand_overwritten_cluster",
        "operand-overwritten",
        **multiply(2, blocks=2),
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        block=(256, 1, 1),
        threads=_PRODUCER,
        also=("copy-not-arrived", "expect-tx"),
        may_hang=True,
    ),
    HazardKernel("copy_not_arrived", "copy-not-arrived", **copy_tile()),
    HazardKernel("thread_copy_not_arrived", "copy-not-arrived", fours_reversed, sizes=COPIED),
    HazardKernel("no_proxy_fence_write", "no-proxy-fence", **copy_tile(), threads=_THREAD_0),
    HazardKernel("no_proxy_fence_wgmma", "no-proxy-fence", **multiply(), threads=_THREAD_0),
    HazardKernel(
        "no_proxy_fence_read", "no-proxy-fence", sums_of_two, sizes=COPIED, threads=_THREAD_0
    ),
    HazardKernel("expect_tx_few", "expect-tx", **copy_tile(), threads=_THREAD_0),
    HazardKernel("expect_tx_many", "expect-tx", **copy_tile(), threads=_THREAD_0, may_hang=True),
    HazardKernel("expect_tx_left", "expect-tx", **copy_tile(2), threads=_THREAD_0),
    HazardKernel("deadlock", "deadlock", **copy(128, back=True), may_hang=True),
    HazardKernel("barrier_not_visible", "barrier-not-visible", **copy_tile(), may_hang=True),
    HazardKernel("barrier_overwritten", "barrier-overwritten", **copy_tile(), may_hang=True),
    HazardKernel(
        "barrier_overwritten_copy",
        "barrier-overwritten",
        **copy_tile(more=4),
        threads=_THREAD_0,
        may_hang=True,
    ),
    HazardKernel("swizzle_unaligned", "swizzle-unaligned", mapped(128), threads=_THREAD_0),
    HazardKernel("descriptor", "descriptor", **multiply(sizes=(1,)), may_fail=True),
    HazardKernel(
        "shared_out_of_bounds",
        "shared-out-of-bounds",
        **multiply(sizes=(1,)),
        shared_bytes=2304,
        may_fail=True,
    ),
    HazardKernel("global_out_of_bounds", "global-out-of-bounds", each_with_next),
    HazardKernel("misaligned", "misaligned", sums_of_four, may_fail=True),
    HazardKernel("shared_unwritten", "shared-unwritten", **copy(128, back=True)),
    HazardKernel(
        "tensor_map",
        "tensor-map",
        mapped(0),
        threads=_THREAD_0,
        may_hang=True,
        may_fail=True,
    ),
    HazardKernel("partial_warpgroup", "partial-warpgroup", **multiply(sizes=(1,)), may_hang=True),
    HazardKernel("partial_warpgroup_registers", "partial-warpgroup", **copy(128), may_hang=True),
    HazardKernel(
        "register_budget",
        "register-budget",
        **copy(384),
        block=(384, 1, 1),
        threads="warp ([4-9]|1[01]), thread",
        may_hang=True,
    ),
    HazardKernel("barrier_divergence", "barrier-divergence", **copy(128, back=True), may_hang=True),
    HazardKernel(
        "peer_gone",
        "peer-gone",
        swapped,
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        threads="block ",
        may_fail=True,
    ),
    HazardKernel("launch_not_waited", "launch-not-waited", **copy(128)),
    HazardKernel("store_overwritten", "store-overwritten", **copy_tile(2)),
    HazardKernel("group_never_waited", "group-never-waited", **copy_tile(), threads=_THREAD_0),
    HazardKernel("shared_race", "shared-race", **copy(128, back=True)),
    HazardKernel("never_ends", "never-ends", with_flag, 2, block=(64, 1, 1), may_hang=True),
    HazardKernel("fault", "fault", **copy(128, back=True), threads=_THREAD_0, may_hang=True),
)

#: Every mechanism, and no broken rule: what a report on this kernel would be is a false alarm.
PIPELINE = HazardKernel(
    "none", "", pipeline, 2, grid=(2, 1, 1), cluster=(2, 1, 1), block=(384, 1, 1)
)
