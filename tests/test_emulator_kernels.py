"""Every kernel of the book in the emulator, against NumPy, on schedules that disagree.

The shapes reach the first step along K, the steady state, tails in K, and tiles that lie partly
outside C. A kernel is right only if every order of warps and copies gives the same bits.
"""

import numpy
import pytest

from hopper import emulator as emulator_module
from hopper.check import check, compare
from hopper.compile import compile_cuda, compile_kernel
from hopper.conformance import digest, emulate
from hopper.conformance.kernels import CASES
from hopper.emulator import Emulator, EmulatorError, Fault, LaunchError
from hopper.emulator.backend import EmulatedGpu
from hopper.emulator.launch import prepare
from hopper.emulator.ptx import parse
from hopper.emulator.trace import Event, Trace
from hopper.experiments import arrays
from hopper.gemm import Problem, gemm, plan
from hopper.paths import KERNELS, ROOT
from hopper.tensormap import TensorMap

SCHEDULES = {
    "fixed, lazy": Emulator(),
    "random, random": Emulator(schedule="random", tma="random", seed=1),
    "random, eager": Emulator(schedule="random", tma="eager", seed=2, shared_skew=16),
}
LADDER = ("v0_mma_sync", "v1_wgmma")
#: One step; several steps; K with a tail; M and N with edges; all less than one tile.
PROBLEMS = (
    Problem(128, 128, 64),
    Problem(128, 128, 448),
    Problem(256, 128, 200),
    Problem(131, 261, 136),
    Problem(5, 3, 8),
)


def multiplied(kernel: str, problem: Problem, emulator: Emulator, **defines) -> numpy.ndarray:
    """C of a kernel of the ladder, in the emulator."""
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    launch = plan(compile_kernel(kernel, **defines), a, b, c)
    EmulatedGpu(emulator).launch(launch.program, launch.grid, launch.block, launch.args, 0)
    return c


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("kernel", LADDER)
def test_a_product_is_right_and_the_same_on_every_schedule(kernel, problem):
    found = {name: multiplied(kernel, problem, how) for name, how in SCHEDULES.items()}
    check(found["fixed, lazy"], *problem.inputs())
    for name, c in found.items():
        assert c.tobytes() == found["fixed, lazy"].tobytes(), name


@pytest.mark.parametrize("tile", [(64, 64), (64, 256), (256, 64), (128, 192)])
@pytest.mark.parametrize("kernel", LADDER)
def test_other_tiles_are_right_too(kernel, tile):
    problem = Problem(130, 260, 72, seed=3)
    c = multiplied(kernel, problem, Emulator(), TILE_M=tile[0], TILE_N=tile[1])
    check(c, *problem.inputs())


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.kernel in ("one_wgmma", "ceiling")], ids=lambda case: case.name
)
def test_the_other_kernels_agree_on_every_schedule(case):
    found = {name: digest(emulate(case, how)[0]) for name, how in SCHEDULES.items()}
    assert len(set(map(tuple, found.values()))) == 1, found


@pytest.mark.parametrize("name", ["coordinates", "integers"])
def test_one_wgmma_returns_what_the_h200_returned(name):
    recorded = arrays("one_wgmma", name)
    program = compile_kernel("one_wgmma")
    d = numpy.full(recorded["d"].shape, numpy.nan, "float32")
    held = numpy.full(recorded["held"].shape, numpy.nan, "float32")
    inputs = [numpy.array(recorded[operand]) for operand in "ab"]
    Emulator().launch(program.ptx, "one_wgmma", (1, 1, 1), (128, 1, 1), args=(*inputs, d, held))
    assert d.tobytes() == recorded["d"].tobytes()
    assert held.tobytes() == recorded["held"].tobytes()


# ---- a broken kernel must fail these tests ------------------------------------------------------

BROKEN = {
    "a K step too few": ("k0 < k;", "k0 < k - TILE_K;"),
    "another swizzle in the descriptor": ("1ull << 62", "2ull << 62"),
    "the second chunk of rows is the first": (
        "tile_a + i * WGMMA_M * TILE_K + kk",
        "tile_a + kk",
    ),
    "nobody waits for the tiles": ("mbarrier_wait_parity(&loaded, phase);", ""),
    "the product starts from old sums": ("k0 + kk > 0", "true"),
    "rows of the lower half go astray": ("top + 8,", "top + 9,"),
}


def broken(change: tuple[str, str]):
    """v1 with one line changed, in its own text or in a header's, which is pasted in."""
    source = (KERNELS / "v1_wgmma.cu").read_text()
    for name in ("descriptor.cuh", "tma.cuh"):
        header = (KERNELS / "include" / name).read_text().replace("#pragma once", "")
        source = source.replace(f'#include "{name}"', header)
    assert source.count(change[0]) >= 1, f"v1 no longer says {change[0]!r}"
    return compile_cuda(source.replace(*change), "v1_wgmma")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_stopped_or_gives_a_wrong_product(name):
    program = broken(BROKEN[name])
    a, b = Problem(256, 128, 192, seed=4).inputs()
    c = numpy.full((256, 128), numpy.nan, "float16")
    launch = plan(compile_kernel("v1_wgmma"), a, b, c)
    try:
        EmulatedGpu().launch(program, launch.grid, launch.block, launch.args, 0)
    except EmulatorError:
        return
    assert not compare(c, a, b).ok


def test_pasting_a_header_alone_breaks_nothing():
    program = broken(("k0 < k;", "k0 < k;"))
    a, b = Problem(128, 128, 128).inputs()
    c = numpy.full((128, 128), numpy.nan, "float16")
    launch = plan(compile_kernel("v1_wgmma"), a, b, c)
    EmulatedGpu().launch(program, launch.grid, launch.block, launch.args, 0)
    assert compare(c, a, b).ok


def test_an_array_too_small_for_the_kernel_is_a_fault_that_names_it():
    program = compile_kernel("one_wgmma")
    args = [numpy.zeros((64, 16), "f2"), numpy.zeros((16, 16), "f2")]
    args += [numpy.zeros((64, 15), "f4"), numpy.zeros((128, 8), "f4")]
    with pytest.raises(Fault, match=r"argument 2.*3840.*out of bounds"):
        Emulator().launch(program.ptx, "one_wgmma", (1, 1, 1), (128, 1, 1), args=args)


def test_counts_are_those_of_the_loop():
    a, b = Problem(256, 128, 192).inputs()
    c = numpy.zeros((256, 128), "float16")
    run = plan(compile_kernel("v1_wgmma"), a, b, c).run()
    issued = sum(n for opcode, n in run.counts.items() if opcode.startswith("wgmma.mma_async"))
    # Two blocks, three steps along K, four instructions for each of two chunks, by four warps.
    assert issued == 2 * 3 * 4 * 2 * 4
    assert run.counts["wgmma.wait_group.sync.aligned"] == 2 * 3 * 4


def test_gemm_runs_numpy_arrays_and_refuses_a_wrong_block():
    problem = Problem(40, 24, 16)
    a, b = problem.inputs()
    program = compile_kernel("v1_wgmma")
    check(gemm(program, a, b), a, b)
    launch = plan(program, a, b, numpy.zeros((40, 24), "float16"))
    with pytest.raises(LaunchError, match="256 threads, and v1_wgmma was compiled for 128"):
        EmulatedGpu().launch(program, launch.grid, (256, 1, 1), launch.args, 0)


def test_the_launch_on_the_emulators_page_runs():
    import runpy

    left = runpy.run_path(str(ROOT / "examples" / "launch.py"))
    check(left["c"], left["a"], left["b"])


@pytest.mark.parametrize("kernel", LADDER)
def test_the_cost_of_a_step_along_k_is_the_same_each_time(kernel):
    def steps(k: int) -> int:
        a, b = Problem(128, 128, k).inputs()
        return plan(compile_kernel(kernel), a, b, numpy.zeros((128, 128), "float16")).run().steps

    two, three, five = (steps(64 * count) for count in (2, 3, 5))
    assert five - three == 2 * (three - two) > 0


def test_what_is_resident_together_is_bounded():
    program = compile_kernel("v1_wgmma")
    kernel = parse(program.ptx, "v1_wgmma")
    maps = [TensorMap(numpy.zeros((128, 64), "float16"), (128, 64)) for _ in range(2)]
    args = (*maps, numpy.zeros((1, 1), "float16"), *[numpy.int32(1)] * 3)
    huge = prepare(kernel, (64, 64, 1), (128, 1, 1), cluster=None, shared_bytes=0, args=args)
    blocks = emulator_module._wave_blocks(huge)
    lanes = blocks * 128
    assert 1 <= blocks < huge.block_count
    assert lanes <= emulator_module.WAVE_LANES
    rows = sum(max(bits, 8) // 8 * count for bits, count in kernel.rows.items())
    assert blocks * (128 * rows + huge.shared_end) <= emulator_module.WAVE_BYTES


def test_a_long_trace_counts_what_it_no_longer_keeps():
    trace = Trace(limit=3)
    for number in range(5):
        trace.add(Event(number, "demo", 0, 0, 1, {}))
    assert [event.step for event in trace] == [0, 1, 2]
    assert (len(trace), trace.dropped) == (3, 2)
