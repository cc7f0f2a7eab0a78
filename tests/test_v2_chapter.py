"""The chapter on v2: blocks on an SM, the ring's schedule, clocks in a loop, its experiments."""

import json
import math
import re
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopper import exercises, figures
from hopper.architecture import constant
from hopper.bench import Timed
from hopper.compile import compile_cuda, compile_kernel
from hopper.emulator import Emulator
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import CheckError, HopperError, ProblemError
from hopper.experiments import experiments_of, ladder, ladder_steps
from hopper.experiments.ladder_runs import broken_in, launched
from hopper.figures.ring_pictures import asked_in_step
from hopper.figures.ring_run import ring_run
from hopper.gemm import Problem
from hopper.mutants import find_mutation, mutated_source
from hopper.occupancy import by_registers, fit, shared_bytes_for
from hopper.plans import PLANS
from hopper.schema import Conditions, Sweep, parse

RINGS = ("v2_ring", "v3_specialized")
EVERY_RING = [(kernel, stages) for kernel in RINGS for stages in range(1, 7)]


# ---- blocks on an SM ----------------------------------------------------------------------------


def test_blocks_are_those_of_v1s_page():
    for name in ("v0_mma_sync", "v1_wgmma"):
        program = compile_kernel(name)
        used = program.resources
        registers = -(-used.registers // 8) * 8 * program.facts.threads
        room = fit(program)
        assert room.by_registers == constant("registers_per_sm").value // registers
        shared = constant("shared_bytes_per_sm").value // (used.static_shared_bytes + 1024)
        assert room.by_shared == shared
        assert room.blocks == min(room.by_registers, shared, 2048 // program.facts.threads)


@pytest.mark.parametrize(
    ("registers", "threads", "blocks"),
    [
        (154, 128, 3), (154, 160, 2), (162, 160, 2), (168, 160, 2), (170, 160, 1), (176, 160, 1),
        (200, 160, 1), (168, 384, 1), (128, 128, 4), (128, 160, 3), (32, 1024, 2),
    ],
)  # fmt: skip
def test_a_warp_has_its_registers_in_one_of_four_files(registers, threads, blocks):
    """Values of NVIDIA's cuda_occupancy.h with the properties of compute capability 9.0."""
    assert by_registers(registers, threads) == blocks


@pytest.mark.parametrize(("kernel", "stages"), EVERY_RING)
def test_a_launch_can_keep_blocks_away_and_not_make_room_for_more(kernel, stages):
    program = compile_kernel(kernel, STAGES=stages)
    stated, most = program.facts.shared_bytes, fit(program).blocks
    for blocks in range(1, most + 1):
        shared = shared_bytes_for(program, blocks)
        assert fit(program, shared).blocks == blocks
        at_most = constant("shared_bytes_per_cta").value - program.resources.static_shared_bytes
        assert stated <= shared <= at_most
        if shared > stated:  # no more than it takes
            assert fit(program, shared - 256).blocks > blocks
    with pytest.raises(ProblemError, match=f"ask for {most} or fewer"):
        shared_bytes_for(program, most + 1)


@pytest.mark.parametrize(
    ("kernel", "table"), [("v2_ring", ladder.V2_STAGES), ("v3_specialized", ladder.V3_STAGES)]
)
def test_the_experiments_cover_what_fits(kernel, table):
    most = {stages: fit(compile_kernel(kernel, STAGES=stages)).blocks for stages in range(1, 7)}
    for blocks in range(1, max(most.values()) + 1):
        assert table[blocks] == tuple(n for n, fitting in most.items() if fitting >= blocks)
    assert list(table) == sorted(table, reverse=True), "the largest shared memory comes last"


def test_the_problems_are_whole_waves():
    tiles = (ladder.WAVES.m // 128) * (ladder.WAVES.n // 128)
    assert ladder.WAVES.m % 128 == ladder.WAVES.n % 128 == 0
    assert all(tiles % (132 * blocks) == 0 for blocks in ladder.V2_STAGES)
    assert (ladder.ONE_EACH.m // 128) * (ladder.ONE_EACH.n // 128) == 132
    assert ladder.ONE_EACH in PLANS["v1_wgmma"].problems, "the page reads v1's step from it"


# ---- the schedule of the ring -------------------------------------------------------------------


@pytest.mark.parametrize(("stages", "steps"), list(product((1, 2, 3, 4), (1, 2, 5, 9))))
def test_the_drawn_schedule_is_what_the_kernel_asks_for(stages, steps):
    run, _ = ring_run("v2_ring", steps, STAGES=stages, TILE_M=64, TILE_N=8)
    asked: list[list[int]] = [[]]
    for event in run.trace:
        if event.kind == "tma.issue" and len(event.detail["corner"]) == 2:
            depth = max(event.detail["corner"])
            if depth // 64 not in asked[-1]:
                asked[-1].append(depth // 64)
        elif event.kind == "wgmma.wait":
            asked.append([])
    assert asked[:steps] == [list(asked_in_step(step, stages, steps)) for step in range(steps)]


def test_the_drawing_shows_every_stage_and_refuses_what_it_has_no_room_for():
    drawn = figures.ring_schedule(4, 7)
    ElementTree.fromstring(drawn.svg)
    assert "step 0 asks for 0 and 1 and 2 and 3 and multiplies 0 in stage 0" in drawn.alt
    assert "step 3 asks for 6 and multiplies 3 in stage 3" in drawn.alt
    assert "step 4 asks for nothing" in drawn.alt
    for stages in (0, 6):
        with pytest.raises(ProblemError, match="has room for 1 to 5"):
            figures.ring_schedule(stages, 4)


def test_copies_are_under_way_during_products_and_nothing_is_asked_for_meanwhile():
    drawn = figures.ring_timeline("v2_ring", steps=4, STAGES=2, title="A run", alt="A run.")
    spans = {
        unit: [span for lane in drawn.model.of(unit) for span in lane.spans]
        for unit in ("tma", "tensor")
    }
    groups = [span for span in spans["tensor"] if span.kind == "product"]
    assert len(groups) == 4
    for group in groups[:-1]:
        assert any(copy.begin < group.begin and group.end < copy.end for copy in spans["tma"])
    asked = sorted(copy.begin for copy in spans["tma"])
    assert not [at for at in asked for group in groups if group.begin <= at < group.end]
    labels = [lane.label for lane in drawn.model.lanes]
    assert "A, stage 0" in labels and "B, stage 1" in labels


def test_a_page_may_say_what_is_compiled():
    sass = compile_kernel("v2_ring").sass()
    assert sass.count("ELECT") == sass.count("UTMALDG") == 2, "an election around each copy"
    assert compile_kernel("v2_ring").resources.static_shared_bytes == 32
    problem = Problem(200, 392, 2 * 4 * 64 + 40)
    assert math.ceil(problem.k / 64) == 9 and compile_kernel("v2_ring").facts.stages == 4


def test_a_phase_that_never_flips_is_right_within_one_turn():
    source = mutated_source(find_mutation("v2_ring", "phase never flips"))
    broken = compile_cuda(source, "v2_ring")
    found = {}
    for steps in (3, 4, 5):
        run, wrong = launched(broken, Emulator(on_hazard="collect"), steps)
        found[steps] = broken_in(run) or wrong
    assert found[3] == found[4] == "" and "copy-not-arrived" in found[5]


# ---- clocks in the loop -------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "stages"), EVERY_RING)
def test_a_kernel_with_clocks_is_clean_and_has_them_around_its_products(kernel, stages):
    program = ladder_steps.clocked(kernel, stages)
    program.require_clean()
    plain = compile_kernel(kernel, STAGES=stages)
    assert fit(program).blocks >= 1 and program.facts == plain.facts
    code = [
        next(name for name in ("CLOCK", "HGMMA", "DEPBAR") if name in line)
        for line in program.sass().instructions
        if re.search("SR_CLOCKLO|HGMMA|WARPGROUP.DEPBAR", line)
    ]
    told = [name for name, after in pairwise([*code, ""]) if name != after]  # runs of one name
    shown = " ".join(told)
    assert "CLOCK HGMMA CLOCK DEPBAR CLOCK" in shown
    assert code.count("HGMMA") == plain.sass().count("HGMMA")


@pytest.mark.parametrize("kernel", RINGS)
def test_the_parts_of_a_step_are_all_of_it(kernel):
    depth = Problem(256, 128, (ladder_steps.SKIPPED + 4) * 64)
    found = ladder_steps.parts_of_a_step(EmulatedGpu(), kernel, 2, depth)
    names = {"v2_ring": ("warp 0", "warps 1–3"), "v3_specialized": ("consumers",)}[kernel]
    expected = {f"{p}, {who}" for who in names for p in ladder_steps.MULTIPLIES[kernel]}
    if kernel == "v3_specialized":
        expected |= {f"{p}, producer" for p in ladder_steps.PRODUCES}
    assert set(found) == expected and min(found.values()) > 0
    # The emulator's clock counts its own steps, and all warps take as many for a step of K.
    for who in names:
        total = sum(found[f"{part}, {who}"] for part in ladder_steps.MULTIPLIES[kernel])
        assert 80 < total < 400
    if kernel == "v2_ring":
        assert found["ask, warp 0"] > 5 * found["ask, warps 1–3"]


@pytest.mark.parametrize("way", ladder.ASKS)
def test_a_changed_v2_is_right_and_its_lane_is_elected_once_for_each_loop(way):
    program = ladder_steps.clocked_outside("v2_ring", 3, ladder.ASKS[way])
    program.require_clean()
    places = 2 if "during" in way else 1  # one loop in front, one behind the commit
    elections = places if "elected" in way else 2 * places  # else each copy has its own
    assert program.sass().count("ELECT") == elections
    step = ladder_steps.whole_step(
        EmulatedGpu(), "v2_ring", 3, Problem(128, 128, 18 * 64), ladder.ASKS[way]
    )
    assert 80 < step < 400  # of the emulator's own steps


def test_a_whole_step_is_that_of_the_parts_less_their_clocks():
    for kernel, who in (("v2_ring", "warp 0"), ("v3_specialized", "consumers")):
        whole = ladder_steps.whole_step(EmulatedGpu(), kernel, 2, Problem(128, 128, 20 * 64))
        parts = ladder_steps.parts_of_a_step(EmulatedGpu(), kernel, 2, Problem(128, 128, 20 * 64))
        clocked = sum(parts[f"{part}, {who}"] for part in ladder_steps.MULTIPLIES[kernel])
        assert 0.5 * clocked < whole < clocked


def test_the_warps_are_told_apart():
    cycles = numpy.zeros((3, 5, ladder_steps.ROOM))
    cycles[:, 0], cycles[:, 1:4], cycles[:, 4] = 8, 4, 1
    cycles[2] *= 1000  # a block that is no median
    v2 = ladder_steps.by_warp("v2_ring", cycles[:, :4])
    assert v2["ask, warp 0"] == 8 and v2["meet, warps 1–3"] == 4
    v3 = ladder_steps.by_warp("v3_specialized", cycles)
    assert v3["release, consumers"] == 5 and v3["ask, producer"] == 1


def test_too_short_a_problem_and_a_wrong_result_are_not_recorded():
    with pytest.raises(HopperError, match="the first 16 steps do not count"):
        ladder_steps.parts_of_a_step(EmulatedGpu(), "v2_ring", 2, Problem(128, 128, 1024))

    class Silent(EmulatedGpu):
        def launch(self, program, grid, block, args, shared_bytes):
            return None

    with pytest.raises(CheckError):
        ladder_steps.parts_of_a_step(Silent(), "v2_ring", 2, Problem(128, 128, 17 * 64))


def test_a_change_whose_place_is_gone_is_an_error():
    with pytest.raises(HopperError, match="stands 0 times"):
        ladder_steps.changed("v2_ring", (("no such line", ""),))
    with pytest.raises(HopperError, match="must\\s+stand once"):
        ladder_steps.changed("v2_ring", (("stage", ""),))


@pytest.mark.parametrize("stages", (2, 3, 6))
def test_asking_during_products_is_right_and_is_during_products(stages):
    program = ladder_steps.asked_during_products(stages)
    program.require_clean()
    run, wrong = launched(program, Emulator(), 2 * stages + 2)
    assert not wrong and not run.hazards
    kinds = [e.kind for e in run.trace if e.kind in ("tma.issue", "wgmma.issue", "wgmma.wait")]
    first = kinds.index("wgmma.issue")
    assert kinds[:first] == ["tma.issue"] * 2 * stages
    between = [(a, b) for a, b in pairwise(kinds[first:]) if b == "tma.issue"]
    assert between and {a for a, _ in between} <= {"wgmma.issue", "tma.issue"}


# ---- the experiments, on a GPU that is played ---------------------------------------------------


def timing(ms: float, clock: float | None = 1500.0) -> Timed:
    state = Conditions(clock, None, None, None, None, {}, 0)
    return Timed((ms, ms), (2 * ms, 2 * ms), 1, 1, state, None)


@pytest.fixture
def played(monkeypatch):
    """Launches that take two cycles for each that the tensor cores need; what is launched."""
    seen = []

    def timed(gpu, program, problem, shared_bytes=None):
        seen.append((program, shared_bytes))
        cycles = 2 * problem.flop / (132 * 4096)
        return timing(cycles / 1500e3)

    monkeypatch.setattr(ladder, "timed", timed)
    monkeypatch.setattr(ladder, "ONE_EACH", Problem(128, 128, 18 * 64))
    for name in ("STEP_STAGES", "WHOLE_STAGES", "ASKING_STAGES"):
        few, *_, many = getattr(ladder, name)
        monkeypatch.setattr(ladder, name, (few, many))
    return seen


@pytest.mark.parametrize("kernel", RINGS)
def test_what_is_measured_survives_a_record(played, kernel):
    for one in experiments_of(kernel):
        data = one.run(EmulatedGpu(), compile_kernel(kernel))
        assert data.name == one.name and isinstance(data, Sweep)
        written = json.loads(json.dumps(asdict(data)))
        assert parse(Sweep, written, "record", "data") == data


def test_a_crowd_is_launched_with_the_blocks_it_names(played):
    for one in experiments_of("v2_ring"):
        found = re.fullmatch(r"(\d) blocks? an SM", one.name)
        if found:
            played.clear()
            data = one.run(None, compile_kernel("v2_ring"))
            assert data.series["busy"] == (50.0,) * len(data.axis_values)
            assert data.series["of cuBLAS"] == (200.0,) * len(data.axis_values)
            assert [p.facts.stages for p, _ in played] == list(map(int, data.axis_values))
            assert {fit(p, shared).blocks for p, shared in played} == {int(found[1])}


def test_a_clock_that_cannot_be_read_is_an_error():
    with pytest.raises(HopperError, match="clock could not be read"):
        ladder.busy(ladder.WAVES, timing(1.0, None))
    with pytest.raises(HopperError, match="could not be read"):
        ladder.over_stages("x", "%", {1: {"busy": math.nan}})


@dataclass(frozen=True)
class Watched(EmulatedGpu):
    """The emulator as a GPU, with how much shared memory a launch was given. ``fault``: of C."""

    launches: tuple = ()
    fault: bool = False

    def launch(self, program, grid, block, args, shared_bytes):
        self.launches[0].append(shared_bytes)
        run = super().launch(program, grid, block, args, shared_bytes)
        if self.fault:
            args[2][-1, -1] += 1
        return run


@pytest.mark.parametrize("fault", (False, True))
def test_nothing_is_timed_before_it_is_checked(monkeypatch, fault):
    def matmul(a, b, out):
        out[...] = a.astype("float32") @ b.astype("float32")

    monkeypatch.setitem(
        sys.modules, "cupy", SimpleNamespace(full=numpy.full, nan=numpy.nan, matmul=matmul)
    )
    ran = []

    def interleaved(gpu, run, peer):
        ran.append(True)
        run()
        return timing(1.0)

    monkeypatch.setattr(ladder, "interleaved", interleaved)
    ladder.inputs.cache_clear()
    launches: list[int] = []
    gpu, problem = Watched(launches=(launches,), fault=fault), Problem(128, 128, 128)
    monkeypatch.setattr(ladder, "inputs", lambda gpu, problem: problem.inputs())
    program = compile_kernel("v2_ring", STAGES=2)
    if fault:
        with pytest.raises(CheckError):
            ladder.timed(gpu, program, problem, 100_000)
        assert not ran
    else:
        ladder.timed(gpu, program, problem, 100_000)
        ladder.timed(gpu, program, problem)
        assert launches == [100_000] * 2 + [program.facts.shared_bytes] * 2


# ---- the exercises ------------------------------------------------------------------------------


def said(capsys) -> str:
    return capsys.readouterr().out


@given(st.floats(1, 1e5), st.floats(1, 1e4))
def test_the_printed_depth_is_what_the_model_says(load, step):
    stages = exercises.v2_ring.fewest_stages(load, step)
    assert (load + step) / stages <= step * (1 + 1e-12)
    assert stages == 2 or (load + step) / (stages - 1) > step * (1 - 1e-12)


def test_the_printed_solution_of_the_depth(capsys):
    exercises.ring_depth(lambda load, step: 1 + math.ceil(load / step))
    assert said(capsys).startswith("right")
    exercises.ring_depth(lambda load, step: math.ceil(load / step))
    assert "it leaves 0 steps" in said(capsys)
    exercises.ring_depth(lambda load, step: 2 + math.ceil(load / step))
    assert "enough too" in said(capsys)
    exercises.ring_depth(lambda load, step: ...)
    assert "not answered" in said(capsys)
    exercises.ring_depth(4)
    assert "4 is no function" in said(capsys)
    for nonsense in ("4", [4], 1.78, math.nan, True):
        exercises.ring_depth(lambda load, step, nonsense=nonsense: nonsense)
        assert f"{nonsense!r} is no whole number of stages" in said(capsys)
    exercises.ring_depth(lambda load, step: -1)
    assert "a ring has a stage" in said(capsys)


def blocks(tile_m, tile_n, stages, registers):
    handed_out = -(-registers // 8) * 8 * 128
    shared = stages * (tile_m + tile_n) * 64 * 2 + 1024 + 1024 + 128
    return min(65536 // handed_out, 228 * 1024 // shared)


def test_the_printed_solution_of_the_blocks(capsys):
    exercises.blocks_that_fit(blocks)
    assert said(capsys).startswith("right")
    # Without the registers, without the system's kilobyte, without rounding registers up.
    near = (
        lambda m, n, s, r: 228 * 1024 // (s * (m + n) * 128 + 2048 + 128),
        lambda m, n, s, r: min(65536 // (-(-r // 8) * 1024), 228 * 1024 // (s * (m + n) * 128)),
        lambda m, n, s, r: min(65536 // (r * 128), 228 * 1024 // (s * (m + n) * 128 + 2176)),
        lambda m, n, s, r: min(
            65536 // (-(-r // 8) * 1024), 228 * 1024 // (s * (m + n) * 128 + 1024 + 128)
        ),
        lambda m, n, s, r: 0,
    )
    for one in near:
        exercises.blocks_that_fit(one)
        assert "not yet" in said(capsys)
    exercises.blocks_that_fit(3)
    assert "3 is no function" in said(capsys)
    exercises.blocks_that_fit(lambda m, n, s, r: "3")
    assert "'3' is no whole number" in said(capsys)
    exercises.blocks_that_fit(lambda m, n, s, r: ...)
    assert "not answered" in said(capsys)


@pytest.mark.parametrize(
    ("first", "later", "verdict"),
    [
        ("STAGES", "step + STAGES", "right"),
        ("STAGES - 1", "step + STAGES", "right"),  # the last one during the first products
        ("STAGES", "step + STAGES + 1", "operand-overwritten"),
        ("STAGES + 1", "step + STAGES", "fault"),
        ("STAGES", "step + STAGES - 1", "while step 1 multiplies, 3 steps have been asked for"),
        ("STAGES - 1", "step + STAGES - 1", "while step 0 multiplies, 2 steps"),
        ("0", "step + STAGES", "deadlock"),
        (3, 5, "asked for again while a group reads it"),
        ("0", "step", "somebody waits for tiles, or for a release, that nobody sends"),
        ("STAGES", "step + STAGES + 1", "asked for again while a group reads it"),
        ("STAGES", "nonsense", "does not compile"),
        (None, "step", "not answered"),
    ],
)
def test_asking_later(capsys, first, later, verdict):
    exercises.ask_later(first, later)
    assert verdict in said(capsys)
