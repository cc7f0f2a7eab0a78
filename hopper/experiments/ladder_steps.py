"""Kernels of the ladder, changed: clocks, and tiles asked for by another lane or at another place.

A change replaces text of the kernel, so what is measured is what the page quotes. The clocks cost
some cycles themselves; a page that shows their differences shows the step without them as well.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from statistics import median
from typing import Any

import numpy

from hopper.check import check
from hopper.compile import Program, compile_cuda
from hopper.errors import HopperError
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

PARTS = "parts of a step"
#: First steps that do not count: the ring fills.
SKIPPED = 16
WARPS = {"v2_ring": 4, "v3_specialized": 5}
#: What each warp's clocks bound, in order. v3's producer has two parts of its own.
MULTIPLIES = {
    "v2_ring": ("ask", "wait for tiles", "issue", "products", "meet"),
    "v3_specialized": ("wait for tiles", "issue", "products", "release"),
}
PRODUCES = ("wait for a free stage", "ask")
ROOM = 5  # parts a warp has room for
#: The line in front of the loop that multiplies.
_LOOP = "#pragma unroll 1  // the PTX stays short enough to read\n"

Changes = tuple[tuple[str, str], ...]

CLOCK = r"""
__device__ inline unsigned clock_now() {
  unsigned now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now) :: "memory");
  return now;
}
"""
_CLOCKS = (
    CLOCK
    + r"""
// Cycles between clocks that follow one another, summed over the steps that count.
struct Parts {
  unsigned sum[ROOM] = {}, before;
  bool counts;
  __device__ void begin(int step) { counts = step >= SKIPPED; before = clock_now(); }
  __device__ void end(int part) {
    const unsigned now = clock_now();
    if (counts) sum[part] += now - before;
    before = now;
  }
  __device__ void keep(unsigned* all, int warps) const {
    const int block = blockIdx.x + gridDim.x * blockIdx.y;
    for (int part = 0; part < ROOM; ++part)
      all[(block * warps + threadIdx.x / 32) * ROOM + part] = sum[part];
  }
};

extern "C" __global__"""
)
_COMMON: Changes = (
    ('\nextern "C" __global__', _CLOCKS),
    ("int n, int k) {\n", "int n, int k, unsigned* all) {\n  Parts parts;\n"),
    ("    wgmma_commit_group();\n", "    wgmma_commit_group();\n    parts.end(ISSUE);\n"),
    ("    wgmma_wait_group<0>();\n", "    wgmma_wait_group<0>();\n    parts.end(PRODUCTS);\n"),
)
_CLOCKED: dict[str, Changes] = {
    "v2_ring": (
        ("    // [load]\n", "    parts.begin(step);\n"),
        (
            "    const int stage = step % STAGES;\n",
            "    parts.end(ASK);\n    const int stage = step % STAGES;\n",
        ),
        ("    // [/load]\n", "    parts.end(WAIT_FOR_TILES);\n"),
        ("    __syncthreads();  // every warp's", "    __syncthreads();\n    parts.end(MEET);  //"),
        ("  // [epilogue]\n", "  if (threadIdx.x % 32 == 0) parts.keep(all, 4);\n"),
    ),
    "v3_specialized": (
        (
            "        mbarrier_wait_parity(&empty[stage], parity);\n",
            "        parts.begin(step);\n        mbarrier_wait_parity(&empty[stage], parity);\n"
            "        parts.end(0);\n",
        ),
        (
            "        if (++stage == STAGES) stage = 0, parity ^= 1;\n      }\n",
            "        parts.end(1);\n        if (++stage == STAGES) stage = 0, parity ^= 1;\n"
            "      }\n      parts.keep(all, 5);\n",
        ),
        ("    // [multiply]\n", "    parts.begin(step);\n"),
        ("    wgmma_fence();\n", "    parts.end(WAIT_FOR_TILES);\n    wgmma_fence();\n"),
        ("    // [/multiply]\n", "    parts.end(RELEASE);\n"),
        ("  // [epilogue]\n", "  if (lane == 0) parts.keep(all, 5);\n"),
    ),
}


def changed(kernel: str, changes: Iterable[tuple[str, str]]) -> str:
    """The text of a kernel with pieces replaced.

    Raises HopperError where a piece does not stand in it exactly once.
    """
    source = (KERNELS / f"{kernel}.cu").read_text(encoding="utf-8")
    for old, new in changes:
        if source.count(old) != 1:
            raise HopperError(
                f"{kernel}.cu: {old.strip()!r} stands {source.count(old)} times in it, it must "
                f"stand once; update the change with the kernel"
            )
        source = source.replace(old, new)
    return source


@cache
def clocked(kernel: str, stages: int, before: Changes = ()) -> Program:
    """A kernel with clocks between the parts of its loop; it takes one argument more.

    ``before``: changes that it gets first.
    """
    names = {part.upper().replace(" ", "_"): i for i, part in enumerate(MULTIPLIES[kernel])}
    defines = {"STAGES": stages, "SKIPPED": SKIPPED, "ROOM": ROOM, **names}
    source = changed(kernel, (*before, *_COMMON, *_CLOCKED[kernel]))
    return compile_cuda(source, kernel, defines=defines)


def parts_of_a_step(
    gpu: Any, kernel: str, stages: int, problem: Problem, before: Changes = ()
) -> dict[str, float]:
    """Cycles of each part of a K step, the median over blocks, by part and who takes it.

    ``before``: changes that the kernel gets first. Raises CheckError for a wrong result,
    HopperError where no step counts.
    """
    program = clocked(kernel, stages, before)
    facts = program.facts
    steps = -(-problem.k // facts.tile_k) - SKIPPED
    if steps < 1:
        raise HopperError(
            f"K={problem.k}: the first {SKIPPED} steps do not count; take K > "
            f"{SKIPPED * facts.tile_k}"
        )
    return by_warp(kernel, counted(gpu, program, problem, (WARPS[kernel], ROOM)) / steps)


@cache
def _inputs(gpu: Any, problem: Problem) -> tuple[Any, Any]:
    """A problem's A and B on the GPU, kept for the next variant."""
    a, b = problem.inputs()
    return gpu.array(a), gpu.array(b)


def counted(
    gpu: Any, program: Program, problem: Problem, each: tuple[int, ...] = ()
) -> numpy.ndarray:
    """What a program that takes ``unsigned* all`` as well writes there, (blocks, *each).

    Raises CheckError for a wrong result.
    """
    a, b = _inputs(gpu, problem)
    c = gpu.array(numpy.full((problem.m, problem.n), numpy.nan, "float16"))
    launch = plan(program, a, b, c)
    cycles = gpu.array(numpy.zeros((launch.grid[0] * launch.grid[1], *each), "uint32"))
    for _ in range(2):  # the first one finds cold caches
        args = (*launch.args, cycles)
        gpu.launch(program, launch.grid, launch.block, args, program.facts.shared_bytes)
    check(c, a, b)
    return gpu.numpy(cycles)


def by_warp(kernel: str, cycles: numpy.ndarray) -> dict[str, float]:
    """Name of a part, and of who takes it -> cycles, from (blocks, warps, ROOM) means of steps.

    Warp 0 of v2 asks, so it is apart from the three others. All four of v3 do the same.
    """
    parts = MULTIPLIES[kernel]
    groups = {"warp 0": [0], "warps 1–3": [1, 2, 3]}
    if kernel == "v3_specialized":
        groups = {"consumers": [0, 1, 2, 3]}
    found = {
        f"{part}, {who}": median(cycles[:, warps, i].mean(axis=1).tolist())
        for who, warps in groups.items()
        for i, part in enumerate(parts)
    }
    if kernel == "v3_specialized":
        for i, part in enumerate(PRODUCES):
            found[f"{part}, producer"] = median(cycles[:, 4, i].tolist())
    return found


# ---- a whole step, without clocks in the loop ---------------------------------------------------

_AROUND: Changes = (
    ('\nextern "C" __global__', CLOCK + '\nextern "C" __global__'),
    ("int n, int k) {\n", "int n, int k, unsigned* all) {\n"),
    (_LOOP, f"  const unsigned begun = clock_now();\n{_LOOP}"),
    (
        "  // [epilogue]\n",
        "  if (threadIdx.x == 0) all[blockIdx.x + gridDim.x * blockIdx.y] = clock_now() - begun;\n",
    ),
)


@cache
def clocked_outside(kernel: str, stages: int, before: Changes = ()) -> Program:
    """A kernel whose thread 0 notes the cycles of the whole loop; it takes one argument more.

    ``before``: changes that it gets first.
    """
    source = changed(kernel, (*before, *_AROUND))
    return compile_cuda(source, kernel, defines={"STAGES": stages})


def whole_step(gpu: Any, kernel: str, stages: int, problem: Problem, before: Changes = ()) -> float:
    """Cycles of a K step, its loop unchanged: what the second half of K adds, by the step.

    The SM counts, so that no clock rate comes in; start and end of a block cancel. The median over
    blocks. Raises CheckError for a wrong result.
    """
    program = clocked_outside(kernel, stages, before)
    step = program.facts.tile_k
    halves = [problem.k // step // 2, problem.k // step]
    loops = [
        median(counted(gpu, program, replace(problem, k=count * step)).ravel().tolist())
        for count in halves
    ]
    return (loops[1] - loops[0]) / (halves[1] - halves[0])


# ---- v2, asking at another place ----------------------------------------------------------------

#: v2's loop that asks, from its first line to its last.
ASKS = """    if (threadIdx.x == 0) {
#pragma unroll 1
      for (; asked < steps && asked < step + STAGES; ++asked) {  // first all stages, then one
        const int stage = asked % STAGES;
        mbarrier_arrive_expect_tx(&full[stage], sizeof(Stage));
        tma_load_2d(ring[stage].a, &map_a, &full[stage], row, asked * TILE_K);
        tma_load_2d(ring[stage].b, &map_b, &full[stage], column, asked * TILE_K);
      }
    }
"""


#: v2 whose asking lane is elected: the first warp's, and the compiler knows that it is one.
_FIRST_WARP: Changes = (
    (
        "  int asked = 0;",
        "  const bool first_warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0) == 0;\n"
        "  int asked = 0;",
    ),
)
_THREAD_0, _ONE_LANE = "    if (threadIdx.x == 0) {\n#", "    if (first_warp && elect_one()) {\n#"
ELECTED: Changes = (*_FIRST_WARP, (_THREAD_0, _ONE_LANE))


def asking_elsewhere(first: str, later: str) -> Changes:
    """v2 that asks before its loop while ``asked < first``, and behind each commit, ``< later``."""

    def asks(bound: str) -> str:
        return ASKS.replace("asked < step + STAGES", f"asked < {bound}").replace(
            "  // first all stages, then one", ""
        )

    commit = "    wgmma_commit_group();\n"
    return ((ASKS, ""), (_LOOP, asks(first) + _LOOP), (commit, commit + asks(later)))


DURING_PRODUCTS: Changes = asking_elsewhere("STAGES", "step + STAGES")
#: The same, asked by an elected lane.
ELECTED_DURING_PRODUCTS: Changes = (
    *_FIRST_WARP,
    *((old, new.replace(_THREAD_0, _ONE_LANE)) for old, new in DURING_PRODUCTS),
)


@cache
def asked_during_products(stages: int) -> Program:
    """v2 that asks for the next tiles when it has issued its products, before it waits for them.

    ``stages``: two or more, for while a stage is read only others can be filled.
    """
    source = changed("v2_ring", DURING_PRODUCTS)
    return compile_cuda(source, "v2_ring", defines={"STAGES": stages})
