"""compute-sanitizer finds nothing in a kernel of the book, and finds what is planted.

That launches are right and reach what they are for, the emulator says where no GPU is.
"""

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rungs import exact, require_flags_lowered
from sanitizer_target import (
    BROKEN,
    EACH_ARRIVES,
    SHAPES,
    Shape,
    broken,
    each_arrives,
    planned,
    problem_of,
)

from hopper import compile_kernel, kernel_names
from hopper.emulator import Emulator, Run
from hopper.emulator.backend import EmulatedGpu
from hopper.facts import LaunchFacts
from hopper.gemm import Launch
from hopper.processes import environment, run_group
from hopper.stream_k import CLUSTER, Tiling, plan_stream_k

TARGET = Path(__file__).with_name("sanitizer_target.py")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND = 9

every_tool = pytest.mark.parametrize("tool", TOOLS)


# ---- what is launched ---------------------------------------------------------------------------


def issued(run: Run, start: str) -> int:
    return sum(n for opcode, n in run.counts.items() if opcode.startswith(start))


def launched(kernel: str) -> list[tuple[Shape, LaunchFacts, int]]:
    """Every launch of a kernel, the facts it is launched by, and its tiles."""
    found = []
    for shape in SHAPES[kernel]:
        facts = compile_kernel(kernel, **shape.defines).facts
        tiles = -(-shape.m // facts.tile_m) * -(-shape.n // facts.tile_n)
        found.append((shape, facts, tiles))
    return found


@pytest.mark.parametrize("kernel", SHAPES)
def test_launches_reach_edges_of_tiles(kernel):
    assert any(
        shape.m % facts.tile_m and shape.n % facts.tile_n for shape, facts, _ in launched(kernel)
    )


@pytest.mark.parametrize("kernel", SHAPES)
def test_launches_are_right(kernel):
    """Tiles of 256 × 192 take long; test_persistent.py has others of them."""
    for shape, facts, _ in launched(kernel):
        if facts.tile_n != 192:
            launch = planned(compile_kernel(kernel, **shape.defines), shape, EmulatedGpu())
            assert launch.run().hazards == (), shape
            assert (launch.c == exact(problem_of(shape))).all(), shape
            require_flags_lowered(launch)


@pytest.mark.parametrize("kernel", [kernel for kernel in SHAPES if kernel != "v6_fp16_acc"])
def test_there_are_more_blocks_than_tiles_and_more_tiles_than_blocks(kernel):
    left_over = [tiles - shape.blocks for shape, _, tiles in launched(kernel)]
    assert min(left_over) < 0 < max(left_over)


def test_both_configurations_of_stream_k_share_units_among_clusters():
    found = launched("v9_stream_k")
    sizes = [(facts.tile_m, facts.tile_n) for _, facts, _ in found]
    assert sizes == 2 * [(256, 192), (128, 256)]
    plans = [
        plan_stream_k(
            shape.m, shape.n, shape.k, shape.blocks // CLUSTER, Tiling.of(facts), hand_over=0
        )
        for shape, facts, _ in found
    ]
    assert [one.gifts for one in plans] == [2, 2, 1, 1]
    assert [one.waves for one in plans] == [0, 0, 1, 1]
    assert [len(one.units) for one in plans[:2]] == [1, 1]
    assert not all(unit.wide for unit in plans[2].units), "the rest of N"


def ended(launch: Launch) -> tuple[Run, set[str]]:
    """The run of a broken launch in the emulator, and the kinds of what it was told."""
    run = replace(launch, backend=EmulatedGpu(Emulator(on_hazard="collect"))).run()
    return run, {hazard.kind for hazard in run.hazards}


@pytest.mark.parametrize(
    ("tool", "kind"),
    [("memcheck", "global-out-of-bounds"), ("racecheck", "shared-race"), ("synccheck", "fault")],
)
def test_a_broken_kernel_has_the_fault_that_it_is_for(tool, kind):
    assert ended(broken(tool, EmulatedGpu()))[1] == {kind}


def test_a_flag_is_read_that_nobody_wrote():
    """Arrays of the host have a value all the same, so that the emulator cannot see it."""
    run, kinds = ended(broken("initcheck", EmulatedGpu()))
    assert issued(run, "ld.volatile.global") > 0 == issued(run, "st.release")
    assert kinds == set()


@pytest.mark.parametrize("kernel", EACH_ARRIVES)
def test_each_lane_may_arrive_for_itself(kernel):
    shape = SHAPES[kernel][-1]
    launch = planned(each_arrives(kernel, shape), shape, EmulatedGpu())
    run = launch.run()
    assert (launch.c == exact(problem_of(shape))).all() and run.hazards == ()


# ---- with a Hopper GPU --------------------------------------------------------------------------


def sanitize(tool: str, *target: str) -> tuple[int, str]:
    """Exit status and output of one run under a tool of compute-sanitizer."""
    assert shutil.which("compute-sanitizer"), "put the CUDA toolkit's bin folder on PATH"
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND)]
    done = run_group(
        [*command, sys.executable, str(TARGET), *target], timeout=240, environment=environment()
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.hopper
@every_tool
def test_the_tool_finds_a_planted_fault(tool):
    status, output = sanitize(tool, "control", tool)
    assert status == FOUND, output


@pytest.mark.hopper
@every_tool
def test_the_tool_finds_a_fault_in_a_kernel_of_the_ladder(tool):
    status, output = sanitize(tool, "broken", tool)
    assert status == FOUND, output
    reported = [line for line in output.splitlines() if line.startswith("=====")]
    assert any(re.search(rf"\b{BROKEN[tool].kernel}\b", line) for line in reported), output


@pytest.mark.hopper
def test_racecheck_does_not_follow_an_arrival_for_a_warp():
    """When this fails, the tool has learned it: let it look at every kernel as it is."""
    status, output = sanitize("racecheck", "control", "one_arrives")
    assert status == FOUND, output


@pytest.mark.hopper
@every_tool
@pytest.mark.parametrize("kernel", kernel_names())
def test_a_kernel_is_clean(kernel, tool):
    edited = tool == "racecheck" and kernel in EACH_ARRIVES
    status, output = sanitize(tool, "each_arrives" if edited else "clean", kernel)
    assert status == 0, output
    assert "ERROR SUMMARY: 0 errors" in output or "RACECHECK SUMMARY: 0 hazards" in output, output
