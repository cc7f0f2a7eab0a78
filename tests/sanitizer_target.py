"""What compute-sanitizer runs: a few small launches of a kernel, or one that must be reported.

python sanitizer_target.py clean v1_wgmma      a kernel of the book
python sanitizer_target.py each_arrives v9_stream_k    the same, but no lane arrives for others
python sanitizer_target.py control memcheck    a few lines with just the fault that the tool is for
python sanitizer_target.py control one_arrives    a few right lines that racecheck reports
python sanitizer_target.py broken memcheck     a kernel of the ladder with a fault of that kind
"""

import sys
from dataclasses import dataclass, field, replace

import cupy
import numpy
from rungs import exact

from hopper import compile_cuda, compile_kernel, find_hopper, plan
from hopper.attempts import Attempt, Edit, compile_attempt
from hopper.backends import HopperGpu
from hopper.compile import Program
from hopper.conformance import run_on_gpu
from hopper.conformance.kernels import CASES
from hopper.emulator.backend import EmulatedGpu
from hopper.experiments import warpgroup
from hopper.gemm import Launch, Problem
from hopper.mutants import Mutation, compile_mutation
from hopper.plans import PLANS

CONTROLS = {
    "memcheck": "out[threadIdx.x + 1000000] = 1;",
    "initcheck": "out[threadIdx.x] = unwritten[threadIdx.x];",
    "racecheck": """
        __shared__ int shared[128];
        shared[threadIdx.x] = threadIdx.x;
        out[threadIdx.x] = shared[(threadIdx.x + 32) % 128];""",
    "synccheck": "if (threadIdx.x < 40) __syncthreads(); out[threadIdx.x] = 1;",
    # Lane 0 arrives for its warp, behind __syncwarp(). That orders what all lanes did before with
    # what comes behind the wait; to racecheck an arrival publishes what its own thread did.
    "one_arrives": """
        __shared__ int shared[32];
        __shared__ unsigned long long barrier;
        const unsigned there = __cvta_generic_to_shared(&barrier);
        if (threadIdx.x == 0)
          asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(there) : "memory");
        __syncthreads();
        if (threadIdx.x < 32) {
          shared[threadIdx.x] = threadIdx.x;
          __syncwarp();
          if (threadIdx.x == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(there) : "memory");
        } else if (threadIdx.x == 32) {
          asm volatile("{ .reg .pred done; WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, "
                       "[%0], 0; @!done bra WAIT; }" :: "r"(there) : "memory");
          out[0] = shared[5];
        }""",
}


@dataclass(frozen=True)
class Shape:
    """One launch of a kernel of the ladder. ``blocks``: of one whose blocks take several tiles."""

    m: int
    n: int
    k: int
    blocks: int | None = None
    defines: dict[str, int] = field(default_factory=dict)


SHORT = {"HAND_OVER": 0}  # short as they are, steps are shared
SHARED_B = {"TILE_M": 128, "TILE_N": 256, "STAGES": 4, "SHARE_A": 0} | SHORT
#: Of a persistent kernel, fewer tiles than blocks, then more, with edges on both sides. In each of
#: v9's configurations three clusters share one unit, of which two give; then they compute whole
#: units, too, and share one of those left: where 192 columns do not divide N, one of other shape.
SHAPES = {
    "v6_fp16_acc": (
        Shape(193, 264, 456),
        Shape(300, 136, 328, None, {"TILE_M": 128, "TILE_N": 64, "STAGES": 2, "RASTER": 1}),
    ),
    "v7_persistent": (Shape(100, 8, 72, 2), Shape(300, 520, 136, 2)),
    "v8_multicast": (
        Shape(100, 8, 72, 4),
        Shape(300, 520, 136, 2),
        Shape(200, 520, 136, 2, {"SHARE_A": 1}),
        Shape(300, 520, 136, 2, {"OVERLAP": 1}),
    ),
    "v9_stream_k": (
        Shape(250, 376, 584, 6, SHORT),
        Shape(250, 248, 584, 6, SHARED_B),
        Shape(300, 1160, 328, 6, SHORT),
        Shape(300, 264, 328, 6, SHARED_B | {"OVERLAP": 1}),
    ),
}

#: A fault of the kind that a tool is for, in a kernel of the ladder. None of them keeps the launch
#: from its end.
BROKEN = {
    "memcheck": Mutation(
        "v9_stream_k",
        "the workspace is too small",
        "partial sums of the fourth block end behind what the host allocates for six",
        "LAUNCH_FACT(partial_floats, TILE_M * TILE_N);",
        "LAUNCH_FACT(partial_floats, TILE_M * TILE_N * 2 / 3 - 4);",
        SHORT,
    ),
    "initcheck": Mutation(
        "v9_stream_k",
        "the gift is not waited for",
        "nobody raises the flag, and the producer looks at it once: nobody ever wrote it",
        "    while (load_acquire_gpu(&flags[warpgroup]) == 0) {\n    }\n",
        "    load_acquire_gpu(&flags[warpgroup]);\n",
        SHORT,
        header="partials.cuh",
        also=(
            ("  if (threadIdx.x % 128 == 0) store_release_gpu(flag, 1);\n", ""),
            # Of ld.acquire and ld.relaxed the tool takes no notice.
            ("ld.acquire.gpu.global.u32", "ld.volatile.global.u32"),
        ),
    ),
    "racecheck": Mutation(
        "v7_persistent",
        "a lane writes the slip, and another arrives",
        "an arrival publishes what its own thread wrote",
        "  if (threadIdx.x % 128 == 0) out.slips[slot] = slip;\n  __syncwarp();\n",
        "  if (threadIdx.x % 128 == 1) out.slips[slot] = slip;\n",
        header="outbox.cuh",
    ),
    "synccheck": Mutation(
        "v9_stream_k",
        "half of the lanes are not expected",
        "a lane that comes to __syncwarp is named in the mask",
        "      __syncwarp();  // all lanes have read it",
        "      __syncwarp(0xffff);  // all lanes have read it",
        SHORT,
    ),
}

#: Kernels where a warp reads shared memory, one lane arrives for all, and what was read is then
#: overwritten: racecheck reports that (``one_arrives``). Here each lane arrives for itself.
EACH_ARRIVES = {
    "v7_persistent": (
        Edit("&empty[stage], CONSUMERS * 4);", "&empty[stage], CONSUMERS * 128);"),
        Edit("if (lane == 0 && step > 0) mbarrier_arrive", "if (step > 0) mbarrier_arrive"),
        Edit(
            "if (lane == 0) mbarrier_arrive(&empty[previous]);",
            "mbarrier_arrive(&empty[previous]);",
        ),
    ),
    **dict.fromkeys(
        ("v8_multicast", "v9_stream_k"),
        (
            Edit("CLUSTER * warps);", "CLUSTER * 32 * warps);", "pair_ring.cuh"),
            Edit("const int lane = threadIdx.x % 32;", "", "pair_ring.cuh"),
            Edit(
                "if (lane < CLUSTER) mbarrier_arrive_at_rank<CLUSTER_SCOPE != 0>"
                "(&empty[stage], lane);",
                "mbarrier_arrive(&empty[stage]);\n"
                "    mbarrier_arrive_at_rank<CLUSTER_SCOPE != 0>"
                "(&empty[stage], cluster_rank() ^ 1);",
                "pair_ring.cuh",
            ),
        ),
    ),
}


def shapes(name: str) -> tuple[Shape, ...]:
    """What a kernel of the ladder is launched on.

    Where nothing else is asked: partial tiles on every side and an odd N, and so deep that a ring
    of stages goes round twice, and begins a third time with a tail of K.
    """
    if name in SHAPES:
        return SHAPES[name]
    facts = compile_kernel(name).facts
    return (Shape(193, 259, (2 * facts.stages + 1) * facts.tile_k + 8),)


def planned(program: Program, shape: Shape, gpu: HopperGpu | EmulatedGpu) -> Launch:
    """A launch on whole numbers. C and partial sums are NaN before they are written."""
    a, b = (gpu.array(matrix) for matrix in problem_of(shape).inputs())
    c = gpu.array(numpy.full((shape.m, shape.n), numpy.nan, "float16"))
    launch = plan(program, a, b, c, blocks=shape.blocks)
    if not program.facts.partial_floats:
        return launch
    partials, *zeros = launch.workspace
    return with_workspace(launch, gpu.array(numpy.full(partials.shape, numpy.nan, "f4")), *zeros)


def problem_of(shape: Shape) -> Problem:
    """Its inputs are whole numbers, whose sums are exact."""
    return Problem(shape.m, shape.n, shape.k, distribution="integers")


def with_workspace(launch: Launch, *workspace) -> Launch:
    """The launch with another workspace, which comes behind three tensor maps."""
    args = (*launch.args[:3], *workspace, *launch.args[3 + len(workspace) :])
    return replace(launch, args=args, workspace=workspace)


def broken(tool: str, gpu: HopperGpu | EmulatedGpu) -> Launch:
    """The launch of a broken kernel that reaches its fault.

    Nothing writes the flags before it, where the fault is to read them.
    """
    mutation = BROKEN[tool]
    several_tiles = mutation.kernel == "v7_persistent"
    launch = planned(compile_mutation(mutation), SHAPES[mutation.kernel][several_tiles], gpu)
    if tool != "initcheck":
        return launch
    partials, flags, claims = launch.workspace
    empty = (numpy if isinstance(flags, numpy.ndarray) else cupy).empty
    return with_workspace(launch, partials, empty(flags.shape, flags.dtype), claims)


def run_control(tool: str) -> None:
    """Launch the control of one tool."""
    source = f"""
extern "C" __global__ void control(int* out, const int* unwritten) {{
  {CONTROLS[tool]}
}}"""
    out, unwritten = cupy.zeros(128, "int32"), cupy.empty(128, "int32")
    find_hopper().launch(compile_cuda(source), (1, 1, 1), (128, 1, 1), (out, unwritten), 0)


def each_arrives(name: str, shape: Shape) -> Program:
    """A kernel of ``EACH_ARRIVES``, edited so."""
    edits = EACH_ARRIVES[name]
    return compile_attempt(Attempt("each-arrives", "", name, shape.defines, edits))


def run_gemm(name: str, edited: bool = False) -> None:
    """Launch a kernel of the ladder in all its shapes; raises if a sum is wrong, or missing."""
    gpu = find_hopper()
    for shape in shapes(name):
        compiled = each_arrives(name, shape) if edited else compile_kernel(name, **shape.defines)
        launch = planned(compiled, shape, gpu)
        launch.run()
        assert (gpu.numpy(launch.c) == exact(problem_of(shape))).all(), shape


def run_each_arrives(name: str) -> None:
    """Launch a kernel of the ladder whose lanes arrive for themselves."""
    run_gemm(name, edited=True)


def run_one_wgmma(name: str) -> None:
    """Launch the kernel of a single instruction; raises if a bit of its result is wrong."""
    warpgroup.probe_one("integers", find_hopper(), compile_kernel(name))


def run_ceiling(name: str) -> None:
    """Launch one block of the kernel of nothing but wgmma, A from both sources."""
    one_sm = replace(find_hopper(), sm_count=1)
    for source in warpgroup.SOURCES:
        warpgroup.check_ceiling(one_sm, 64, source)


def run_cases(name: str) -> None:
    """Launch a kernel in every way that the emulator is compared in."""
    cases = [case for case in CASES if case.kernel == name]
    assert cases, f"{name} has no case in hopper/conformance/kernels.py"
    for case in cases:
        run_on_gpu(case, find_hopper())


def run_clean(name: str) -> None:
    """Launch a kernel of the book."""
    # Kernels whose launch checks more than a case does.
    others = {"one_wgmma": run_one_wgmma, "ceiling": run_ceiling}
    others.get(name, run_gemm if PLANS[name].problems else run_cases)(name)


def run_broken(tool: str) -> None:
    """Launch the broken kernel of one tool."""
    broken(tool, find_hopper()).run()


if __name__ == "__main__":
    # CuPy's pool hands out parts of larger blocks, in which an access out of bounds is no error.
    cupy.cuda.set_allocator(None)
    how, what = sys.argv[1:]
    runs = (run_clean, run_each_arrives, run_control, run_broken)
    {run.__name__.removeprefix("run_"): run for run in runs}[how](what)
    cupy.cuda.Device().synchronize()
