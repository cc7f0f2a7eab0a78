"""The chapter on v3: roles and phases as the emulator sees them, standstills, exercises."""

from collections import Counter
from xml.etree import ElementTree

import pytest

from hopper import exercises, figures
from hopper.compile import compile_kernel
from hopper.exercises.v3_specialized import HANGS, STANDSTILLS, WAYS, standstill
from hopper.figures.ring_pictures import MULTIPLY, PRODUCE
from hopper.figures.ring_run import ring_run
from hopper.mutants import mutations
from hopper.occupancy import fit

KERNEL = "v3_specialized"
SMALL = {"TILE_M": 64, "TILE_N": 8}


def said(capsys) -> str:
    return capsys.readouterr().out


# ---- roles and phases ---------------------------------------------------------------------------


def test_the_producer_asks_and_the_consumers_never_do():
    asked = {
        kernel: {e.warp for e in ring_run(kernel, 7, STAGES=3, **SMALL)[0].trace.of("tma.copy")}
        for kernel in ("v2_ring", KERNEL)
    }
    assert asked == {"v2_ring": {0}, KERNEL: {4}}


@pytest.mark.parametrize("steps", (1, 3, 7, 8))
def test_each_turn_of_a_stage_ends_one_phase_of_either_barrier(steps):
    stages = 3
    run, program = ring_run(KERNEL, steps, STAGES=stages, **SMALL)
    ended = Counter(e.detail["address"] for e in run.trace.of("mbarrier.phase"))
    counts = {e.detail["address"]: e.detail["count"] for e in run.trace.of("mbarrier.init")}
    uses = [len(range(stage, steps, stages)) for stage in range(stages)]
    addresses = sorted(counts)
    full, empty = addresses[:stages], addresses[stages:]
    assert [counts[at] for at in full] == [1] * stages
    assert [counts[at] for at in empty] == [4] * stages, "a lane of each consumer warp"
    assert [ended[at] for at in full] == [ended[at] for at in empty] == uses
    facts = program.facts
    announced = {e.detail["bytes"] for e in run.trace.of("mbarrier.arrive")} - {0}
    assert announced == {(facts.tile_m + facts.tile_n) * facts.tile_k * 2}


def test_the_consumer_releases_behind_its_wait_and_loads_span_products():
    run, _ = ring_run(KERNEL, 6, STAGES=2, **SMALL)
    empty = sorted(e.detail["address"] for e in run.trace.of("mbarrier.init"))[2:]
    order = [
        "release" if e.kind == "mbarrier.arrive" else e.kind
        for e in run.trace
        if e.kind in ("wgmma.commit", "wgmma.wait")
        or (e.kind == "mbarrier.arrive" and e.detail["address"] in empty and e.warp == 0)
    ]
    assert order == ["wgmma.commit", "wgmma.wait", "release"] * 6
    drawn = figures.ring_timeline(
        KERNEL,
        steps=4,
        STAGES=2,
        warps={"consumer": [0, 1, 2, 3], "producer": [4]},
        title="A run",
        alt="A run.",
    )
    lanes = {lane.label: lane for lane in drawn.model.lanes}
    letters = {name: "".join(m.letter for m in lanes[name].marks) for name in lanes}
    assert letters["producer"] == "eTT" * 4 or letters["producer"] == "aTT" * 4
    assert "T" not in letters["consumer"] and letters["consumer"].count("fwwwwwwwwcra") == 4
    waits = [span for span in lanes["producer"].spans if span.kind == "wait"]
    assert [span.words for span in waits] == ["waits for empty[0]", "waits for empty[1]"]
    assert all(moment.words for moment in drawn.model.moments), "a sentence for each step"
    told = [words for moment in drawn.model.moments for words in moment.words]
    assert told.count("Warps 0–3 arrive at empty[0].") == 2
    assert "Warp 0 arrives at empty[0]." not in told
    assert sum("a" == m.letter for m in lanes["consumer"].marks) == 4
    copies = [span for lane in drawn.model.of("tma") for span in lane.spans]
    groups = [span for lane in drawn.model.of("tensor") for span in lane.spans]
    spanned = [g for g in groups if any(c.begin < g.begin and g.end < c.end for c in copies)]
    assert len(spanned) >= 2


def test_the_drawings_name_the_steps_and_parities_of_the_kernel():
    roles = figures.two_roles()
    ElementTree.fromstring(roles.svg)
    assert [name for name, _ in PRODUCE] == [
        "wait for empty", "arrive at full", "ask TMA for A", "ask TMA for B",
    ]  # fmt: skip
    facts = compile_kernel(KERNEL).facts
    assert facts.tile_k // 16 * facts.tile_m // 64 == 8 and MULTIPLY[2][0] == "eight wgmmas"
    life = figures.stage_life(3, 32768)
    ElementTree.fromstring(life.svg)
    turns = life.alt.split("Turn ")[1:]
    for turn, words in enumerate(turns):
        assert f"waits for empty with parity {1 - turn % 2}" in words
        assert f"waits for full with parity {turn % 2}" in words
    assert "passes at once" in turns[0] and "until phase 1 has ended" in turns[2]
    assert f"{(facts.tile_m + facts.tile_n) * facts.tile_k * 2:,}" in turns[0]


def test_a_page_may_say_what_is_compiled():
    v2, v3 = compile_kernel("v2_ring").sass(), compile_kernel(KERNEL).sass()
    assert (v2.count("BAR"), v3.count("BAR")) == (2, 1)
    assert (v2.count("ELECT"), v3.count("ELECT")) == (2, 1)
    for stages, blocks in {1: (3, 2), 2: (3, 2), 3: (2, 2), 4: (1, 1), 6: (1, 1)}.items():
        held = [fit(compile_kernel(k, STAGES=stages)).blocks for k in ("v2_ring", KERNEL)]
        assert held == list(blocks), "with one or two stages the producer costs a block"
    assert fit(compile_kernel(KERNEL)).by_registers == 2


# ---- standing still -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutation", "consumers", "producer"),
    [
        ("never released", "phase 1 of full[0]", "phase 0 of empty[0]: 4 of 4 arrivals"),
        ("empty counts threads", "phase 1 of full[0]", "phase 0 of empty[0]: 124 of 128 arrivals"),
        ("empty counts one warp", "phase 1 of full[0]", "phase 4 of empty[0]: 1 of 1 arrivals"),
        ("producer starts at parity 0", "phase 0 of full[0]", "phase 0 of empty[0]: 4 of 4"),
    ],
)
def test_a_standstill_says_who_waits_for_what(mutation, consumers, producer):
    recorded = {one.name: (one.old, one.new) for one in mutations(KERNEL)}
    assert mutation == "never released" or recorded[mutation] == STANDSTILLS[mutation]
    first, second = standstill(mutation)
    assert first.startswith("Warps 0–3 wait for ") and consumers in first
    assert second.startswith("Warp 4 waits for ") and producer in second


def test_the_standstills_to_guess_differ():
    shown = [tuple(standstill(mutation)) for mutation in HANGS.values()]
    assert len(set(shown)) == len(HANGS)


# ---- the exercises ------------------------------------------------------------------------------


def test_the_printed_counts_release_a_stage(capsys):
    right = {"every_thread": 128, "two_at_once": 8, "behind_a_barrier": 1}
    assert set(right) == set(WAYS)
    exercises.releases(**right)
    assert said(capsys).startswith("right")


@pytest.mark.parametrize(
    ("way", "count"),
    [("every_thread", 4), ("two_at_once", 4), ("behind_a_barrier", 128)],
)
def test_a_wrong_count_does_not_release_a_stage(capsys, way, count):
    right = {"every_thread": 128, "two_at_once": 8, "behind_a_barrier": 1}
    exercises.releases(**right | {way: count})
    told = said(capsys)
    assert told.startswith(f"not yet: {way}, count {count}: the emulator reports")


def test_a_count_that_ptx_does_not_know_is_not_compiled(capsys):
    for count in (0, -1, 1 << 20):
        exercises.releases(every_thread=count, two_at_once=8, behind_a_barrier=1)
        assert "PTX allows counts from 1" in said(capsys)


def test_counts_are_whole_numbers(capsys):
    for count in ("128", [1], 1.5):
        exercises.releases(every_thread=count, two_at_once=8, behind_a_barrier=1)
        assert f"every_thread, count {count!r}: give a whole number" in said(capsys)


def test_counts_that_are_missing_are_asked_for(capsys):
    exercises.releases(every_thread=128)
    assert "not answered yet: two_at_once, behind_a_barrier" in said(capsys)


def test_causes_of_a_standstill(capsys):
    exercises.causes(dict(HANGS))
    assert said(capsys).count(": right") == len(HANGS)
    exercises.causes({"A": "never released", "B": "something else"})
    told = said(capsys)
    assert "A: not yet; 'never released' would end like this: Warp 4" in told
    assert "B: 'something else' is none of" in told and "C: not answered yet" in told
    exercises.hung("A")
    assert "124 of 128" in said(capsys)
    exercises.hung("a ")
    assert "124 of 128" in said(capsys)
    exercises.hung("D")
    assert "'D' is none of the kernels A, B, C" in said(capsys)
    exercises.causes({"A": " Empty counts  threads"})
    assert "A: right" in said(capsys)
    for nonsense in (None, 5, "x"):
        exercises.causes(nonsense)
        assert f"{nonsense!r} is no dict" in said(capsys)


@pytest.mark.parametrize(
    ("defines", "verdict"),
    [
        ((128, 136, 3), "right"),
        ((128.0, 136, 3), "right"),
        ((128, 144, 3), "not yet: 1 on an SM"),
        ((128, 160, 3), "not yet: 1 on an SM: registers allow 1"),
        ((128, 136.5, 3), "TILE_N=136.5 is no whole number"),
        ((128, None, 3), "TILE_N=None is no whole number"),
        ((128, 128, 3), "not yet: 128 × 128 loads"),
        ((128, 136, 2), "not yet: 2 stages"),
        ((64, 256, 3), "not yet: 1 on an SM"),
        ((100, 128, 3), "a whole number of 64-row instructions"),
        ((128, 248, 3), "not yet"),
    ],
)
def test_a_tile_for_two_blocks(capsys, defines, verdict):
    exercises.two_blocks(**dict(zip(("TILE_M", "TILE_N", "STAGES"), defines, strict=True)))
    assert verdict in said(capsys)


def test_registers_leave_one_wider_tile_for_two_blocks():
    room = {n: fit(compile_kernel(KERNEL, TILE_N=n)) for n in range(136, 176, 8)}
    assert [n for n, one in room.items() if one.blocks == 2] == [136]
    assert room[144].by_shared == 2, "it is the registers"
    assert compile_kernel(KERNEL, TILE_N=136).resources.registers == 162


def test_a_tile_needs_all_its_numbers(capsys):
    exercises.two_blocks(TILE_M=128)
    assert "not answered yet: give STAGES, TILE_M, TILE_N" in said(capsys)
