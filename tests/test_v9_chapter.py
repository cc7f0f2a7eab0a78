"""The chapter on v9: the plan against the kernel, its promises, bits, mutants, exercises."""

import re
from collections import Counter

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hopper
from hopper import exercises, figures
from hopper.architecture import constant
from hopper.compile import compile_kernel
from hopper.emulator import Emulator
from hopper.errors import ProblemError
from hopper.experiments import Curves, curves, experiments_of
from hopper.experiments import stream_k as shared_k
from hopper.experiments import waves as teeth
from hopper.gemm import Problem
from hopper.mutants import SMALL_PAIRS, emulated, find_mutation, mutations
from hopper.paths import INCLUDE, KERNELS, ROOT
from hopper.records import NoRecording, find, quantity
from hopper.schema import Sweep
from hopper.stream_k import (
    HAND_OVER,
    MIN_STEPS,
    SHARERS,
    Tiling,
    divide,
    plan_stream_k,
    run_plan,
    waves,
)

KERNEL = "v9_stream_k"
PAGE = (ROOT / "chapters" / f"{KERNEL}.md").read_text(encoding="utf-8")
SMALL = Tiling(128, 128)
PAIRS_OF_256 = Tiling(128, 256, share_a=False)  # of the page's small example


def page_cell(words):
    """The code of the page's only cell with these words."""
    (cell,) = (code for code in re.findall(r"ipython3\n(.*?)```", PAGE, re.S) if words in code)
    return cell


plans = st.builds(
    plan_stream_k,
    m=st.integers(1, 9000),
    n=st.integers(1, 1000).map(lambda n: 8 * n),
    k=st.integers(1, 700).map(lambda k: 8 * k),
    clusters=st.integers(1, 70),
    tiling=st.sampled_from([Tiling(), PAIRS_OF_256, SMALL]),
    stream=st.booleans(),
    alternate=st.booleans(),
    hand_over=st.sampled_from([0, HAND_OVER]),
)


# ---- what every plan keeps ----------------------------------------------------------------------


@given(plans)
@settings(max_examples=200, deadline=None)
def test_every_step_of_every_unit_is_computed_once(plan):
    covered = {unit.number: [] for unit in plan.units}
    for piece in plan.every():
        assert 0 <= piece.first < piece.last <= plan.steps
        covered[piece.unit].append((piece.first, piece.last))
    for pieces in covered.values():
        ends = [0]
        for first, last in sorted(pieces):
            assert first == ends[-1]
            ends.append(last)
        assert ends[-1] == plan.steps
    assert sum(plan.cost_of(cluster) for cluster in range(plan.clusters)) == plan.cost


@given(plans)
@settings(max_examples=200, deadline=None)
def test_gifts_go_to_larger_numbers_once_and_are_expected(plan):
    given_to = {}
    for cluster, pieces in enumerate(plan.pieces):
        giving = [piece for piece in pieces if piece.to is not None]
        assert len(giving) <= 1
        for piece in giving:
            assert piece.to > cluster and piece.last < plan.steps
            assert piece is pieces[plan.waves], "the first piece of its share"
            given_to[cluster] = (piece.to, piece.unit)
    expected = {}
    for cluster, pieces in enumerate(plan.pieces):
        adding = [piece for piece in pieces if piece.givers]
        assert len(adding) <= 1
        for piece in adding:
            assert piece is pieces[-1] and piece.last == plan.steps and piece.first > 0
            assert piece.givers == tuple(range(cluster - 1, cluster - 1 - len(piece.givers), -1))
            expected |= {giver: (cluster, piece.unit) for giver in piece.givers}
        for piece in pieces:
            finishes = piece.last == plan.steps
            assert finishes is (piece.to is None)
            assert finishes or not piece.givers
    assert given_to == expected


@given(plans)
@settings(max_examples=200, deadline=None)
def test_shares_are_equal_to_within_what_cuts_move(plan):
    """A cut moves by less than MIN_STEPS steps, back or forth, and to a whole step before."""
    if not plan.sharers:
        return
    wide = plan.tiling.costs[0]
    costs = [
        sum(piece.cost for piece in plan.pieces[cluster][plan.waves :])
        for cluster in range(plan.sharers)
    ]
    equal = plan.stream / plan.sharers
    assert sum(costs) == plan.stream
    assert all(abs(cost - equal) < (2 * MIN_STEPS + 1) * wide for cost in costs)
    for pieces in plan.pieces[plan.sharers :]:
        assert len(pieces) == plan.waves


@given(plans)
@settings(max_examples=200, deadline=None)
def test_no_unit_has_more_sharers_than_the_page_says(plan):
    sharers = Counter(piece.unit for piece in plan.every())
    assert max(sharers.values()) <= 2 * SHARERS
    for piece in plan.every():
        assert piece.steps >= min(MIN_STEPS, plan.steps)


@given(plans, st.integers(1, 70))
@settings(max_examples=100, deadline=None)
def test_it_ends_however_few_clusters_run_at_once(plan, resident):
    lines = run_plan(plan, resident=resident)
    assert [one.piece for line in lines for one in line] == list(plan.every())
    everyone = run_plan(plan)
    longest = max((line[-1].done for line in everyone if line), default=0)
    assert longest >= plan.longest


@given(
    m=st.integers(1, 4000),
    n=st.integers(1, 1000).map(lambda n: 8 * n),
    tiling=st.sampled_from([Tiling(), Tiling(128, 256, share_a=False), Tiling(raster=0)]),
)
@settings(max_examples=100, deadline=None)
def test_units_cover_c_once(m, n, tiling):
    """By corners: units of both kinds tile the columns without a gap, all rows alike."""
    units = divide(m, n, tiling)
    by_row = {}
    for unit in units:
        by_row.setdefault(unit.row, []).append((unit.column, unit.columns))
    assert sorted(by_row) == [row * tiling.pair[0] for row in range(-(-m // tiling.pair[0]))]
    for columns in by_row.values():
        edge = 0
        for column, broad in sorted(columns):
            assert column == edge
            edge += broad
        assert n <= edge < n + tiling.pair[1]
    kinds = [unit.wide for unit in units]
    assert kinds == sorted(kinds, reverse=True), "wide ones come first"


@given(plans, st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=100, deadline=None)
def test_places_deal_whole_units_from_the_second_wave_on_and_nothing_else(plan, random, stream):
    """No cut, no direction and no gift is another, so no bit of C is."""
    numbers = random.sample(range(plan.clusters), plan.clusters)
    args = (plan.m, plan.n, plan.k, plan.clusters, plan.tiling)
    known, placed = (
        plan_stream_k(*args, stream=stream, hand_over=0, places=places)
        for places in (None, numbers)
    )

    def computed(found):
        return sorted(
            (one.unit, one.first, one.last, one.backwards, one.givers, one.to)
            for one in found.every()
        )

    def shares(found):
        return [pieces[found.waves :] for pieces in found.pieces]

    assert computed(known) == computed(placed) and shares(known) == shares(placed)
    for cluster, pieces in enumerate(placed.pieces):
        for wave, piece in enumerate(pieces[: placed.waves]):
            assert piece.unit % plan.clusters == (numbers[cluster] if wave else cluster)
            assert piece.unit // plan.clusters == wave


# ---- nonsense -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 100}, "pad to n=104"),
        ({"k": 4}, "pad to k=8"),
        ({"m": 0}, "sizes are 1 to"),
        ({"m": 2.5}, "pass an int"),
        ({"clusters": 0}, "at least 1"),
        ({"clusters": "many"}, "pass an int"),
        ({"places": (0, 1, 1)}, "a number of its own"),
        ({"places": (0, 1)}, "a number of its own"),
    ],
)
def test_nonsense_gets_a_helpful_answer(change, words):
    with pytest.raises(ProblemError, match=words):
        plan_stream_k(**({"m": 256, "n": 384, "k": 64, "clusters": 3} | change))


@pytest.mark.parametrize(
    ("tile", "words"),
    [((100, 192), "multiple of 128"), ((256, 100), "multiple of 64"), ((128, 320), "256 columns")],
)
def test_tiles_that_there_are_not_are_refused(tile, words):
    with pytest.raises(ProblemError, match=words):
        Tiling(*tile)


def test_a_plan_that_cannot_go_on_is_refused():
    plan = plan_stream_k(1024, 1024, 2048, 6, PAIRS_OF_256, hand_over=0)
    with pytest.raises(ProblemError, match="at least one cluster"):
        run_plan(plan, resident=0)
    with pytest.raises(ProblemError, match="at least one tile"):
        waves(8192, 8192, 128, 256, 0)


# ---- against the kernel -------------------------------------------------------------------------


def test_the_constants_are_those_of_the_header():
    text = (INCLUDE / "stream_k.cuh").read_text(encoding="utf-8")
    assert f"constexpr int SHARERS = {SHARERS};" in text
    assert f"constexpr int MIN_STEPS = {MIN_STEPS};" in text
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    assert "StreamK<REST ? 3 : 1, REST ? 2 : 1, HAND_OVER>" in source
    assert f"#define HAND_OVER {HAND_OVER} " in source


SHARED = {"HAND_OVER": 0}
CASES = (
    # defines, tiling, (m, n, k), blocks, wide units, the others, gifts
    (SHARED, None, (256, 640, 448), 4, 1, 1, 1),  # a unit of each kind, two sharers
    ({}, None, (256, 640, 448), 4, 1, 1, 0),  # they are not worth it
    ({}, None, (300, 768, 200), 6, 0, 6, 0),  # narrow units only: as many waves of less
    ({}, None, (256, 384, 2560), 6, 1, 0, 2),  # long enough to be worth it
    (SMALL_PAIRS, SMALL, (128, 256, 832), 6, 1, 0, 2),  # three sharers of one unit
    (SMALL_PAIRS, SMALL, (384, 256, 320), 4, 3, 0, 1),  # a wave, and a stream
    (SMALL_PAIRS | {"STREAM": 0}, SMALL, (384, 256, 192), 4, 3, 0, 0),  # the second wave backwards
)


@pytest.mark.parametrize(("defines", "tiling", "size", "blocks", "wide", "others", "gifts"), CASES)
def test_each_block_computes_the_steps_that_the_plan_says(
    defines, tiling, size, blocks, wide, others, gifts
):
    program = compile_kernel(KERNEL, **defines)
    tiling = tiling or Tiling.of(program.facts)
    assert tiling == Tiling.of(program.facts)
    a, b = Problem(*size, seed=4).inputs()
    c = numpy.full(size[:2], numpy.nan, "float16")
    launch = hopper.plan(program, a, b, c, blocks=blocks)
    run = launch.run()
    hopper.check(c, a, b)
    plan = plan_stream_k(
        *size,
        blocks // 2,
        tiling,
        stream=defines.get("STREAM", 1) == 1,
        hand_over=defines.get("HAND_OVER", HAND_OVER),
    )
    assert (plan.wide, len(plan.units) - plan.wide, plan.gifts) == (wide, others, gifts)
    commits = Counter(event.block for event in run.trace.of("wgmma.commit"))
    for cluster, pieces in enumerate(plan.pieces):
        steps = sum(piece.steps for piece in pieces)
        assert commits[2 * cluster] == commits[2 * cluster + 1] == 2 * steps
    # Sums reach the workspace of those blocks that give, and of no other.
    partials = launch.workspace[0].reshape(blocks, -1)
    gave = {block // 2 for block in range(blocks) if partials[block].any()}
    assert gave == {piece.cluster for piece in plan.every() if piece.to is not None}
    assert not launch.workspace[1].any(), "flags are as they were"


def test_a_launch_returns_the_same_bits_on_every_schedule_and_twice():
    program = compile_kernel(KERNEL, **SMALL_PAIRS)
    a, b = Problem(128, 256, 832, seed=5).inputs()
    c = numpy.full((128, 256), numpy.nan, "float16")
    launch = hopper.plan(program, a, b, c, blocks=6)
    seen = set()
    for options in ({}, {"schedule": "random", "tma": "random", "seed": 3}):
        c.fill(numpy.nan)
        Emulator(**options).launch(
            program.ptx, KERNEL, launch.grid, launch.block, args=launch.args,
            shared_bytes=program.facts.shared_bytes,
        )  # fmt: skip
        seen.add(c.tobytes())
    assert len(seen) == 1


def test_unshared_units_have_the_bits_of_v8_and_shared_ones_do_not():
    size = (256, 640, 960)
    program = compile_kernel(KERNEL, **SHARED)
    a, b = Problem(*size, seed=9).inputs()
    of_v8 = hopper.gemm(compile_kernel("v8_multicast"), a, b)
    c = numpy.full(size[:2], numpy.nan, "float16")
    hopper.plan(program, a, b, c, blocks=4).run()
    part = shared_k.parts_of(plan_stream_k(*size, 2, Tiling.of(program.facts), hand_over=0))
    alone, several = (
        part == shared_k.PARTS.index(f"the stream, by {n}") for n in ("one", "several")
    )
    assert (of_v8[alone] == c[alone]).all() and alone.any()
    assert (of_v8[several] != c[several]).any()
    exact = (a.astype("float64") @ b.astype("float64").T).astype("float16")
    assert (c[several] != exact[several]).sum() < (of_v8[several] != exact[several]).sum()


def test_two_plans_share_no_workspace():
    program = compile_kernel(KERNEL, **SMALL_PAIRS)
    a, b = Problem(128, 256, 64).inputs()
    one, two = (hopper.plan(program, a, b, numpy.empty((128, 256), "float16")) for _ in range(2))
    for mine, other in zip(one.workspace, two.workspace, strict=True):
        assert not numpy.shares_memory(mine, other)


# ---- what the page says -------------------------------------------------------------------------


def test_what_the_page_says_of_8192():
    plan = plan_stream_k(8192, 8192, 8192, 66)
    assert plan.waves == 9 and plan.share > 0.9999
    assert sum(not unit.wide for unit in plan.units) == 64, "two columns of 32 rows"
    assert waves(8192, 8192, 256, 256, 66).exact == pytest.approx(15.5, abs=0.02)
    assert waves(8192, 8192, 256, 384, 66).whole == 11
    assert "in place of less than {math}`10.4`" in PAGE
    assert 8192 * 8192 / (256 * 384) / 66 < 10.4
    small = plan_stream_k(1024, 1024, 2048, 6, PAIRS_OF_256, hand_over=0)
    assert len(small.units) == 16 and len(small.units) - small.whole == 4


def test_the_page_adds_up_gifts_of_both_kinds(capsys):
    """A block gives the sums of its tile: 256 × 192 floats, or 128 × 256 of the rest of N."""
    plan = plan_stream_k(8192, 8192, 8192, 66)
    wide = [plan.units[piece.unit].wide for piece in plan.every() if piece.to is not None]
    in_all = 2 * 4 * (wide.count(True) * 256 * 192 + wide.count(False) * 128 * 256)
    assert wide.count(True) and wide.count(False)
    names = {"v9": compile_kernel(KERNEL), "constant": constant, "plan": plan}
    exec(page_cell("in_all ="), names)
    said = capsys.readouterr().out
    assert f"{len(wide)} clusters give, {wide.count(False)} of them" in said
    assert f"{in_all / 1e6:.1f} MB in all" in said


def test_neighbours_in_number_share_what_a_pair_does_not():
    """Pairs that share A lie in a column one after the other, those that share B in a row."""
    wide = divide(8192, 8192, Tiling())
    assert [(unit.row, unit.column) for unit in wide[:17]] == [
        *((256 * row, 0) for row in range(16)),
        (0, 384),
    ]
    tall = divide(8192, 8192, PAIRS_OF_256)
    narrow = divide(8192, 8192, Tiling(), narrow=True)
    for units in (tall, narrow):
        assert [(unit.row, unit.column) for unit in units[:9]] == [
            *((0, 256 * column) for column in range(8)),
            (256, 0),
        ]
    rest = [unit for unit in wide if not unit.wide]
    assert [unit.row for unit in rest[:3]] == [0, 0, 256]
    assert Tiling().raster == 16 and PAIRS_OF_256.raster == 8
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    assert "#define RASTER (SHARE_A ? 16 : 8) " in source


def test_a_wave_of_four_rows_needs_most_of_b():
    """What the page says of RASTER."""
    columns = {}
    for raster in (4, 8, 16, 32):
        units = divide(8192, 8192, Tiling(raster=raster))
        columns[raster] = len({unit.column for unit in units[:66]}) * 384
    assert columns[4] > 0.75 * 8192 and max(columns[height] for height in (8, 16, 32)) < 0.5 * 8192


def test_what_the_page_says_of_other_sizes():
    """Which plans are the same, and in which there are narrow units only."""
    three, four = shared_k.SIZES[:3], shared_k.SIZES[3:]
    assert [problem.m for problem in three] == [1024, 2048, 4096]
    assert four[0] == Problem(4096, 4096, 14336)
    for problem in three:
        written = plan_stream_k(problem.m, problem.n, problem.k, 66)
        always = plan_stream_k(problem.m, problem.n, problem.k, 66, hand_over=0)
        flat = plan_stream_k(problem.m, problem.n, problem.k, 66, PAIRS_OF_256)
        assert not written.wide and not written.gifts and always.gifts
        assert bool(flat.gifts) is (problem.m == 1024)
    for problem in four:
        sizes = problem.m, problem.n, problem.k
        assert plan_stream_k(*sizes, 66) == plan_stream_k(*sizes, 66, hand_over=0)
    for rows, wide in ((2816, 0), (5632, 0), (8448, 132), (11264, 0)):
        plan = plan_stream_k(rows, teeth.N, teeth.DEPTH, 66)
        assert waves(rows, teeth.N, 256, 256, 66).share == 1
        assert plan.share == 1 and not plan.gifts and plan.wide == wide


def test_what_the_page_says_of_speeds_is_what_was_recorded():
    found = curves(KERNEL, shared_k.BY_SIZE)
    written, always, flat = (found[way] for way in shared_k.WAYS)
    v7, v8 = (
        [quantity(f"{kernel} {problem.m} ratio").value for problem in shared_k.SIZES[:3]]
        for kernel in ("v7_persistent", "v8_multicast")
    )
    assert (always[:3] < written[:3]).all() and (written[:3] < v8).all()
    assert v7[0] > v8[0] and v7[1] > v8[1] and v8[2] > v7[2]
    assert v7[1] < 100 < v8[2] and abs(flat[2] - 100) < 0.5
    for place in (1, 2):
        back = (flat[place] - written[place]) / (v8[place] - written[place])
        assert back == pytest.approx(0.5, abs=0.1)
    assert flat[0] < written[0] < v8[0], "the smallest"
    gained, apart = flat[3:] - written[3:], abs(always[3:] - written[3:])
    assert (gained > apart).all() and gained.min() > 0.4 and 1 < gained.max() < 1.4
    assert (written[3:] > 100).all() and written[4] == written.max()
    kept = quantity(f"{KERNEL} tuning STREAM=0 ratio").value
    whole = plan_stream_k(8192, 8192, 8192, 66, stream=False)
    won = quantity(f"{KERNEL} ratio").value / kept - 1
    assert 0.5 < won / (1 / whole.share - 1) < 1, "most of what whole units leave"
    price = shared_k.handing_over(curves(KERNEL, shared_k.HANDING_OVER))[1] / 1536
    assert HAND_OVER - 2 < price.max() < HAND_OVER + 1


def test_what_the_page_says_of_the_product_that_it_runs():
    size = (600, 632, 200)
    assert "odd = Problem(600, 632, 200, seed=1)" in PAGE
    plan = plan_stream_k(*size, 3)
    assert [[plan.units[piece.unit].wide for piece in pieces] for pieces in plan.pieces] == [
        [True, False]
    ] * 3
    assert not plan.gifts
    assert plan_stream_k(*size, 66).wide == 0, "narrow units only"


def test_what_the_page_says_of_the_pictures():
    """Pieces of a stream: given, adding, or whole."""

    def stream(plan):
        return [
            ["gives" if one.to is not None else "adds" if one.givers else "whole" for one in mine]
            for mine in (pieces[plan.waves :] for pieces in plan.pieces)
        ]

    size = dict(m=1024, n=1024, k=2048, clusters=6, tiling=PAIRS_OF_256)
    whole = plan_stream_k(**size, stream=False)
    assert [len(pieces) for pieces in whole.pieces] == [3, 3, 3, 3, 2, 2]
    small = plan_stream_k(**size, hand_over=0)
    assert small.waves == 2
    assert stream(small) == [["gives"], ["gives", "adds"], ["adds"]] * 2
    rows = stream(plan_stream_k(8192, 8192, 8192, 66))
    assert all(row[0] == "gives" for row in rows[:-1]) and rows[-1][0] != "gives"
    assert all(row[-1] == "adds" for row in rows[1:]) and rows[0][-1] != "adds"
    between = [row[1:-1] == ["whole"] for row in rows]
    assert sum(between[:33]) == 11 and sum(between[33:]) == 32


def test_from_the_front_somebody_waits_and_from_the_back_nobody():
    small = plan_stream_k(1024, 1024, 2048, 6, PAIRS_OF_256, hand_over=0)

    def waiting(lines):
        return [one.piece.cluster for line in lines for one in line if one.done > one.end]

    assert not waiting(run_plan(small))
    front = run_plan(small, from_the_front=True)
    assert waiting(front) == [1, 2, 4, 5]
    assert max(line[-1].done for line in front) > small.longest


@pytest.mark.parametrize(
    ("size", "clusters", "stream", "waves", "words"),
    [
        ((1024, 1024, 2048), 6, True, True, "First 2 whole units each, then shares of the stream:"),
        ((1024, 1024, 2048), 6, True, False, "Shares of the stream: first"),
        ((256, 256, 2048), 12, True, True, "Shares of the stream, for 8 of them: first"),
        ((1024, 1024, 2048), 6, False, True, "2 to 3 whole units each; some rows end before"),
        ((512, 256, 2048), 2, True, True, "only, 1 whole unit each; all rows end together"),
        ((256, 256, 2048), 2, False, True, "only, 0 to 1 whole unit each; some"),
    ],
)
def test_figures_tell_how_many_whole_units_there_are(size, clusters, stream, waves, words):
    plan = plan_stream_k(*size, clusters, PAIRS_OF_256, hand_over=0, stream=stream)
    assert f" {words}" in figures.stream_clusters(plan, waves=waves).alt


def test_figures_say_what_they_show_and_refuse_what_has_no_room():
    small = plan_stream_k(1024, 1024, 2048, 6, PAIRS_OF_256, hand_over=0)
    assert "cut into 6 equal shares" in figures.stream_cut(small).alt
    for plan in (small, plan_stream_k(8192, 8192, 8192, 66)):
        drawn = figures.stream_clusters(plan)
        assert f"each of {plan.clusters} clusters" in drawn.alt
        assert f"{plan.share:.1%}" in drawn.alt
    with pytest.raises(ProblemError, match="dozen"):
        figures.stream_cut(plan_stream_k(8192, 8192, 8192, 66))
    for draw in (figures.stream_cut, lambda plan: figures.stream_clusters(plan, waves=False)):
        with pytest.raises(ProblemError, match="no stream"):
            draw(plan_stream_k(256, 384, 64, 1))


# ---- experiments --------------------------------------------------------------------------------


def test_the_parts_of_c_are_whole_units_and_cover_it():
    plan = plan_stream_k(8192, 8192, 8192, 66)
    part = shared_k.parts_of(plan)
    counted = numpy.bincount(part.ravel(), minlength=len(shared_k.PARTS))
    area = 256 * 384
    assert counted[0] == 5 * 66 * area and counted[1] == 4 * 66 * area
    assert counted.sum() == 8192 * 8192 and counted[2] and counted[3]


def test_half_a_wave_is_cut_into_halves_of_units():
    program = compile_kernel(KERNEL)
    for problem, units in zip(shared_k.half_waves(program, 132, 1024), (66, 99, 132), strict=True):
        plan = plan_stream_k(problem.m, problem.n, problem.k, 66, hand_over=0)
        assert len(plan.units) == units
        assert plan.gifts == (33 if units == 99 else 0)


def test_what_handing_over_costs_is_taken_from_differences():
    one, half, two = 1000.0, 1500.0 + 80, 2000.0
    sweep = Sweep(
        shared_k.HANDING_OVER, "K", "elements", (64.0,), "cycles",
        {shared_k.MORE: (half - one,), shared_k.LESS: (two - half,)},
    )  # fmt: skip
    wave, price = shared_k.handing_over(Curves(numpy.array([64.0]), "", sweep))
    assert wave.tolist() == [1000] and price.tolist() == [80]


def test_the_experiments_are_registered():
    names = {one.name for one in experiments_of(KERNEL)}
    assert {shared_k.BITS, shared_k.AGAIN, shared_k.HANDING_OVER} <= names


# ---- what is broken -----------------------------------------------------------------------------


def test_what_the_page_says_about_the_mistakes():
    assert len(mutations(KERNEL)) == 4 and "Four mistakes" in PAGE
    broken = find_mutation(KERNEL, "flags stay raised")
    assert emulated(broken) == ["wrong result"]


def test_what_the_page_says_an_h200_made_of_them():
    try:
        tried = {entry.data.name: entry.data.trials for entry in find("mutants", KERNEL)}
    except NoRecording:
        return  # the table says so
    early = tried.pop("the flag before the sums")
    assert 0 < sum(one.wrong for one in early) < 0.02 * sum(one.runs for one in early)
    assert all(one.right == one.runs for trials in tried.values() for one in trials)


def test_the_page_sees_what_flags_that_stay_raised_do(capsys):
    exec(page_cell("twice ="), {"hopper": hopper, "Problem": Problem, "np": numpy})
    first, *others = capsys.readouterr().out.splitlines()
    assert "the result is right: True" in first and len(others) == 3
    assert all("the result is right: False" in other for other in others)


def test_gifts_are_asked_for_before_they_can_be_given():
    """So that flags that stay raised show: who adds has no more steps than stages."""
    facts = compile_kernel(KERNEL, **SMALL_PAIRS).facts
    for steps in (3 * facts.stages - 1, 512 // facts.tile_k):
        plan = plan_stream_k(128, 256, steps * facts.tile_k, 3, SMALL, hand_over=0)
        assert plan.gifts == 2 and len(plan.pieces[2][0].givers) == 2
        assert plan.pieces[2][0].steps <= facts.stages


# ---- exercises ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda c, s, i: c // s * i + c % s * i // s, "right"),
        (lambda c, s, i: c * i // s, "right"),
        (lambda c, s, i: c // s * i, "the shares must cover"),
        (lambda c, s, i: c if i == s else c // s * i, "goes to many sharers"),
        (lambda c, s, i: c * i / s, "a whole number"),
        (lambda c, s, i: ..., "not answered yet"),
        (lambda c: c, "not yet"),
        (lambda c, s, i: 1 // 0, "not yet"),
    ],
)
def test_the_exercise_on_shares(answer, words, capsys):
    exercises.equal_shares(answer)
    assert words in capsys.readouterr().out


def forwards(own, gifts):
    for gift in reversed(gifts):
        own = own + gift
    return own


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda own, gifts: sum(gifts, own), "right"),
        (forwards, "their order is not"),
        (lambda own, gifts: own, "something is missing"),
        (lambda own, gifts: sum(gifts, own).astype("float64"), "adds in fp32"),
        (lambda own, gifts: "sums", "sums are expected"),
        (lambda own, gifts: ..., "not answered yet"),
        (lambda own, gifts: own + None, "not yet"),
    ],
)
def test_the_exercise_on_the_order_of_additions(answer, words, capsys):
    exercises.added_up(answer)
    assert words in capsys.readouterr().out


RIGHT = ["store", "fence giver", "barrier", "release", "acquire", "fence taker", "copy"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (RIGHT, "right"),
        (RIGHT[::-1], "stands behind"),
        ([*RIGHT[:1], "barrier", "fence giver", *RIGHT[3:]], "fences its own stores"),
        ([*RIGHT[:4], "fence taker", "acquire", "copy"], "flag that it has seen"),
        (RIGHT[:-1], "stands 0 times"),
        ([*RIGHT, "prayer"], "'prayer' is none of"),
        ("store", "a list of names"),
        (7, "a list of names"),
        (None, "not answered yet"),
    ],
)
def test_the_exercise_on_a_hand_over(answer, words, capsys):
    exercises.handed_over(answer)
    assert words in capsys.readouterr().out
