"""The chapter on v7: tiles in turn, what travels with a stage, the outbox, waves, the exercises."""

import math
import re
from functools import cache
from itertools import pairwise

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper import banks, exercises
from hopper.check import compare
from hopper.compile import compile_kernel
from hopper.emulator import Emulator
from hopper.errors import CompileError, ProblemError
from hopper.experiments import curves, persistent, two_consumers, waves
from hopper.figures.tile_run import tile_run, tile_timeline
from hopper.figures.tile_turns import Tiles, run_tile_turns, tile_turns
from hopper.gemm import Problem, gemm, plan
from hopper.mutants import find_mutation, mutated_source
from hopper.paths import KERNELS, ROOT

KERNEL = "v7_persistent"
SOURCE = (KERNELS / f"{KERNEL}.cu").read_text()
PAGE = (ROOT / "chapters" / f"{KERNEL}.md").read_text()
SMALL = {"TILE_N": 128, "STAGES": 3}


# ---- the model ----------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    leave=st.integers(1, 9).map(float),
    turn=st.integers(2, 4),
    stages=st.integers(1, 2),
    steps=st.integers(8, 20),
)
def test_a_tile_loses_what_packing_takes_longer_than_what_is_held_back(leave, turn, stages, steps):
    way = Tiles(steps=steps, stages=turn + stages, turn=turn, leave=leave)
    lost = (1 / run_tile_turns(way, 12).busy - 1) * 2 * steps
    assert lost == pytest.approx(max(0, leave - turn), abs=1e-6)


def test_holding_back_one_step_changes_nothing_in_the_model():
    none, one = (run_tile_turns(Tiles(turn=turn, leave=3.3), 8).busy for turn in (0, 1))
    assert none == one


def test_the_tensor_cores_take_one_product_at_a_time():
    for way in (Tiles(), Tiles(turn=3), Tiles(start=3.0, leave=4.0)):
        products = run_tile_turns(way, 3).products
        assert len(products) == 2 * 3 * way.steps
        for before, after in pairwise(sorted(products, key=lambda one: one.begin)):
            assert after.begin >= before.end - 1e-9


def test_a_block_for_each_tile_overlaps_nothing():
    run = run_tile_turns(Tiles(start=3.0, leave=4.0), 3)
    for tile in (1, 2):
        left = max(one.end for one in run.pieces if one.tile == tile - 1)
        assert min(one.begin for one in run.pieces if one.tile == tile) >= left + 3.0


def test_all_stages_held_back_is_a_deadlock_in_the_model_and_refused_by_the_source():
    with pytest.raises(ProblemError, match="deadlock"):
        run_tile_turns(Tiles(turn=4, stages=4), 2)
    with pytest.raises(CompileError, match="held back"):
        compile_kernel(KERNEL, TURN=4)
    with pytest.raises(ProblemError, match="at least one"):
        tile_turns([], tiles=2, title="a", alt="b")


# ---- one block, several tiles -------------------------------------------------------------------


@cache
def three_tiles():
    return tile_run(KERNEL, tiles=3, steps=4, RASTER=0, **SMALL)


def test_the_producer_is_in_the_next_tile_while_the_last_one_leaves():
    model = tile_timeline(KERNEL, tiles=3, steps=4, RASTER=0, title="t", alt="a", **SMALL).model
    lanes = {lane.label: lane.spans for lane in model.lanes}
    last_store = max(span.end for label in lanes if "slot" in label for span in lanes[label][:2])
    assert lanes["producer asks"][1].begin < last_store, "tile 1, before tile 0 has left"
    products = [span for span in lanes["consumer 0"] if span.kind == "product"]
    packs = [span for span in lanes["consumer 1"] if span.kind == "holds"]
    assert products[1].begin < packs[0].end, "consumer 0 in tile 1 while consumer 1 packs tile 0"
    for spans in lanes.values():
        assert all(before.end <= after.begin for before, after in pairwise(spans))
    assert all(moment.words for moment in model.moments)


def test_the_outbox_is_filled_in_turns():
    found = three_tiles()
    stores = [e for e in found.run.trace.of("tma.issue") if e.detail["what"] == "store"]
    # Down a column of tiles of 128 rows: 64 of consumer 0 in two boxes, then those of consumer 1.
    corners = [(64 * half, 64 * slot) for half in range(3 * 2) for slot in range(2)]
    assert [event.detail["corner"] for event in stores] == corners
    inits = [event.detail["address"] for event in found.run.trace.of("mbarrier.init")]
    drained = inits[2 * found.program.facts.stages :]
    for barrier in (drained[1], drained[2], drained[4], drained[5]):
        arrivals = [
            event for event in found.run.trace.of("mbarrier.arrive")
            if event.detail["address"] == barrier
        ]  # fmt: skip
        assert len(arrivals) == 3, "once a tile"


@pytest.mark.parametrize(("steps", "turn"), [(1, 0), (2, 0), (4, 0), (2, 1)])
def test_no_rule_is_broken_whatever_the_steps_and_the_turn(steps, turn):
    """With few steps an order comes to the same stage again at once."""
    program = compile_kernel(KERNEL, TILE_N=128, STAGES=2, TURN=turn)
    a, b = Problem(3 * 128, 136, steps * 64 - 8).inputs()
    c = numpy.full((3 * 128, 136), numpy.nan, "float16")
    launch = plan(program, a, b, c, blocks=2)
    Emulator(schedule="random", tma="random", seed=steps).launch(
        program.ptx, KERNEL, launch.grid, launch.block, args=launch.args,
        shared_bytes=program.facts.shared_bytes,
    )  # fmt: skip
    assert compare(c, a, b).ok


def test_an_n_that_8_does_not_divide_is_refused_with_a_way_out():
    a, b = Problem(64, 100, 64).inputs()
    with pytest.raises(ProblemError, match=r"pad B and C to N=104, or take v5"):
        gemm(compile_kernel(KERNEL), a, b)


# ---- conflicts ----------------------------------------------------------------------------------


def page_functions():
    """The functions of addresses that the page defines."""
    cell = next(c for c in re.findall(r"ipython3\n(.*?)```", PAGE, re.S) if "def pairs" in c)
    names = {"np": numpy}
    exec(cell.partition("figures.")[0], names)  # the page's own cell
    return names["stmatrix_rows"], names["pairs"]


def test_the_addresses_of_the_page_are_those_that_the_kernel_writes():
    """A box by stmatrix, as the page has it, is the 128-byte swizzle of the box."""
    rows, pairs = page_functions()
    seen = {}
    for piece in range(0, 8, 2):
        for lane, address in enumerate(rows(piece).tolist()):
            seen[address] = (lane % 16, piece + lane // 16)
    assert sorted(seen) == [16 * i for i in range(128)], "16 rows of 128 bytes, each once"
    for address, (line, column) in seen.items():
        assert address == line * 128 + (column ^ address // 128 % 8) * 16
    assert "((piece + lane / 16) ^ line % 8) * 8" in (KERNELS / "include/outbox.cuh").read_text()
    assert {banks.wavefronts(rows(p), 16) for p in (0, 2, 4, 6)} == {banks.fewest(16)}
    assert {banks.wavefronts(rows(p, False), 16) for p in (0, 2)} == {8 * banks.fewest(16)}
    assert [banks.wavefronts(pairs(3, s), 4) for s in (True, False)] == [1, 8]


# ---- waves --------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.integers(1, 200))
def test_the_share_of_the_waves(tiles, sms):
    share = waves.used(tiles, sms)
    assert 0 < share <= 1
    assert (share == 1) == (tiles % sms == 0)
    assert math.isclose(share * math.ceil(tiles / sms) * sms, tiles)


def test_the_sizes_of_the_sweep_are_whole_tiles_and_whole_waves_are_among_them():
    for kernel in (waves.V5, waves.V7):
        facts = compile_kernel(kernel).facts
        counts = [waves.tiles_of(facts, m) for m in waves.ROWS]
        assert all(m % (2 * facts.tile_m) == 0 for m in waves.ROWS)
        assert waves.N % facts.tile_n == 0
        assert [count // 132 for count in counts if count % 132 == 0] == [1, 2, 3, 4]
        assert counts[0] < 80 and 4.4 < counts[-1] / 132 < 4.5
    facts = compile_kernel(waves.V9).facts
    assert waves.N % facts.tile_n == 0 and all(m % facts.tile_m == 0 for m in waves.ROWS)


def test_what_the_page_says_of_waves_is_what_was_recorded():
    facts = compile_kernel(KERNEL).facts
    counts = [waves.tiles_of(facts, m) for m in waves.ROWS]
    best = numpy.array([waves.used(count, 132) for count in counts])
    five, seven = (curves(kernel, waves.WAVES) for kernel in (waves.V5, waves.V7))
    busy = {name: one[waves.OWN] / one[waves.PEAK] for name, one in ((5, five), (7, seven))}
    peer = seven[waves.PEER] / seven[waves.PEAK]
    assert (busy[5] < busy[7]).all() and (busy[7] < best).all()
    full = numpy.flatnonzero(best == 1)
    behind, of_peer = full + 1, seven[waves.OWN] / seven[waves.PEER]
    assert (peer[full] < 1).all() and (peer[behind] > best[behind]).all()
    falls = [line[full] - line[behind] for line in (best, busy[7], peer)]
    assert all((numpy.diff(line) < 0).all() for line in falls[:2]), "the first teeth are deepest"
    assert (falls[2] < falls[1]).all() and falls[2][0] == min(falls[2])
    assert (abs(of_peer[full] - 1) < 0.02).all(), "level"
    assert (of_peer[behind] < 0.95).all() and (numpy.diff(of_peer[behind]) > 0).all()


def test_what_the_page_says_of_a_tile_is_what_was_recorded():
    """The line over K and the clocks in the kernel: both find less left in v7."""
    left = {}
    for kernel, first, at in ((waves.V5, "setup", 4), (waves.V7, "waits", 3)):
        line = two_consumers.cycles_of(curves(kernel, two_consumers.K), 2)
        clocks = curves(kernel, persistent.PARTS)
        names = (first, "products", "leaving")
        own = [sum(clocks.at(persistent.part(name, one), at) for name in names) for one in (0, 1)]
        peak = 128 * line.product
        found = left[kernel] = numpy.array([128 * line.step + line.rest, *own]) - peak
        assert (abs(found[0] - found[1:]) < 0.04 * peak).all(), "a few hundredths of a tile"
    assert (left[waves.V7] < 0.3 * left[waves.V5]).all()
    assert left[waves.V7][1:].mean() / peak == pytest.approx(0.01, abs=0.003)


@pytest.mark.parametrize(("kernel", "turn"), [("v5_in_flight", {}), (KERNEL, {"TURN": 2})])
def test_the_kernels_with_clocks_are_right_and_note_every_part(kernel, turn):
    program = persistent.clocked(kernel, **SMALL, **turn)
    program.require_clean()
    a, b = Problem(256, 128, 320).inputs()
    c = numpy.full((256, 128), numpy.nan, "float16")
    stays = kernel == KERNEL
    launch = plan(program, a, b, c, blocks=1 if stays else None)
    cycles = numpy.zeros((launch.grid[0], persistent.WARPS, len(persistent.PASSED)), "uint32")
    Emulator().launch(
        program.ptx, kernel, launch.grid, launch.block, args=(*launch.args, cycles),
        shared_bytes=program.facts.shared_bytes,
    )  # fmt: skip
    assert compare(c, a, b).ok
    setup, waits, products, leaving = numpy.moveaxis(cycles, 2, 0)
    assert all((part > 0).all() for part in (setup, products, leaving))
    assert (waits > 0).all() == stays and (stays or not waits.any())


# ---- the broken hand-over -----------------------------------------------------------------------


def test_the_saved_barrier_is_saved():
    source = mutated_source(find_mutation(KERNEL, "one drained barrier a slot"))
    assert "drained[2];" in source and "drained[2][2]" not in source
    assert "outbox.cuh" not in source and "#pragma once" not in source
    assert len(re.findall(r"out\.drained\[", source)) == 4


# ---- exercises ----------------------------------------------------------------------------------


def said(capsys, check, answer) -> str:
    check(answer)
    return capsys.readouterr().out


def used(m, n, tile_m, tile_n, sms):
    tiles = -(-m // tile_m) * -(-n // tile_n)
    return tiles / (-(-tiles // sms) * sms)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (used, "right"),
        (lambda m, n, tm, tn, sms: m * n / tm / tn / sms, "a share is 1 at most"),
        (lambda m, n, tm, tn, sms: 1 / sms, "how many tiles could so many waves hold"),
        (lambda m, n, tm, tn, sms: used(m // tm * tm, n // tn * tn, tm, tn, sms), "tiles at an"),
        (lambda *_: ..., "not answered"),
        (lambda *_: None, "not answered"),
        (lambda *_: float("nan"), "not yet"),
        (lambda m: m, "raised TypeError"),
        (0.97, "hand over your function"),
    ],
)
def test_the_share(answer, told, capsys):
    out = said(capsys, exercises.share_used, answer)
    assert told in out and out.startswith("right") == (told == "right")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda leave, product, turn: max(0, leave - turn * product), "right"),
        (lambda leave, product, turn: leave - turn * product, "no time is gained"),
        (lambda leave, product, turn: leave, "multiply alone"),
        (lambda leave, product, turn: max(0, leave - product), "multiply alone"),
        (lambda *_: ..., "not answered"),
        ("leave", "hand over your function"),
    ],
)
def test_what_a_tile_loses(answer, told, capsys):
    out = said(capsys, exercises.lost, answer)
    assert told in out and out.startswith("right") == (told == "right")


PARITY = exercises.drained_parity
ORDER = "const Order order = orders[at.stage];\n"
LEAVE = "if (!order.more) break;\n"


@pytest.mark.parametrize(
    ("check", "answer", "told"),
    [
        (PARITY, "(tiles + consumer) % 2", "right"),
        (PARITY, "tiles % 2", "the emulator reports"),
        (PARITY, "parity", "identifier"),
        (PARITY, "...", "not answered"),
        (PARITY, None, "not answered"),
        (PARITY, 1, "in a string"),
        (exercises.order_read, ORDER + LEAVE + "__syncwarp();", "right"),
        (exercises.order_read, ORDER + LEAVE, "shared-race"),
        (exercises.order_read, "__1__;", "fill the blank"),
        (exercises.order_read, ..., "not answered"),
    ],
)
def test_answers_in_cuda(check, answer, told, capsys):
    out = said(capsys, check, answer)
    assert told in out and out.startswith("right") == (told == "right")
