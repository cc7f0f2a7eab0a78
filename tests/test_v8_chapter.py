"""The chapter on v8: arithmetic of pairs, what two blocks owe each other, experiments."""

import itertools
import math
import re
import sys
from collections import Counter, defaultdict
from fractions import Fraction
from types import SimpleNamespace

import numpy
import pytest
import test_chip
import test_figures
from hypothesis import given
from hypothesis import strategies as st

from hopper import exercises, figures
from hopper.bench import Timed
from hopper.chip import places
from hopper.compile import advisories, compile_cuda, compile_kernel
from hopper.counters import WANTED, Profiled
from hopper.emulator import Emulator
from hopper.errors import HopperError, ProblemError
from hopper.experiments import chip as placing
from hopper.experiments import curves, experiments_of, multicast, under_ncu
from hopper.figures.chip import turns
from hopper.gemm import Problem, plan
from hopper.mutants import compile_mutation, emulated, find_mutation, mutated_source, mutations
from hopper.pairs import division, landed_bytes, loaded_bytes, shares_a, step_flop
from hopper.paths import KERNELS, ROOT
from hopper.records import NoRecording, find, quantity
from hopper.schema import Conditions, Metric, Profile, Spread

KERNEL = "v8_multicast"
SOURCE = (KERNELS / f"{KERNEL}.cu").read_text()
PAGE = (ROOT / "chapters" / f"{KERNEL}.md").read_text()
SMALL = {"TILE_M": 128, "TILE_N": 128, "STAGES": 2}
AT_RANDOM = Emulator(schedule="random", tma="random", seed=1)  # so an event is of one block


def facts_of(kernel=KERNEL, **defines):
    return compile_kernel(kernel, **defines).facts


def run_pairs(text=SOURCE, pairs=1, steps=4, emulator=None, **defines):
    """A run of one cluster on so many pairs of small tiles, and the program."""
    defines = SMALL | defines
    program = compile_cuda(text, KERNEL, defines=defines, lineinfo=True)
    tile = program.facts
    down = 1 if shares_a(tile) else 2
    shape = (pairs * down * tile.tile_m, (3 - down) * tile.tile_n, steps * tile.tile_k)
    a, b = Problem(*shape).inputs()
    c = numpy.full(shape[:2], numpy.nan, "float16")
    launch = plan(compile_kernel(KERNEL, **defines), a, b, c, blocks=2)
    run = (emulator or Emulator()).launch(
        program.ptx, KERNEL, launch.grid, launch.block, args=launch.args,
        shared_bytes=tile.shared_bytes,
    )  # fmt: skip
    return run, program


# ---- arithmetic ---------------------------------------------------------------------------------


def test_what_a_pair_saves():
    wide = {"TILE_M": 256, "TILE_N": 192, "STAGES": 3}
    alone = facts_of("v7_persistent")

    def against_v7(facts):
        mine, its = (Fraction(loaded_bytes(one), step_flop(one)) for one in (facts, alone))
        return mine / its

    assert against_v7(facts_of()) == Fraction(2, 3), "B shared"
    assert against_v7(facts_of(SHARE_A=1)) == Fraction(5, 6), "A shared"
    assert against_v7(facts_of(TILE_M=256, TILE_N=128, SHARE_A=1)) == Fraction(2, 3)
    assert against_v7(facts_of(SHARE_A=1, **wide)) == Fraction(5, 9)
    assert landed_bytes(facts_of()) == landed_bytes(alone) == loaded_bytes(alone)


@pytest.mark.parametrize("share", [0, 1])
def test_the_arithmetic_is_what_the_emulator_sees_asked_for_and_landing(share):
    run, program = run_pairs(pairs=2, steps=3, emulator=AT_RANDOM, SHARE_A=share)
    tile = program.facts
    across = 2 if share else 1
    one = division(tile, (4 if not share else 2) * 128, across * 128, 3 * 64)
    assert (one.units, one.tiles, one.steps, one.outside) == (2, 4, 3, 0)
    landed = sum(event.detail["bytes"] for event in run.trace.of("mbarrier.complete_tx"))
    assert landed == one.tiles * one.steps * landed_bytes(tile)
    asked = {}  # (step of the machine, block) asks once, and lands in one block or in two
    for event in run.trace.of("tma.copy"):
        if event.detail.get("writes"):  # a store has none
            asked[event.step, event.block, event.line] = event.detail["bytes"]
    assert sum(asked.values()) == one.tiles * one.steps * loaded_bytes(tile)


@given(m=st.integers(1, 3000), n=st.integers(1, 3000), share=st.integers(0, 1))
def test_what_lies_outside_is_what_no_tile_of_c_needs(m, n, share):
    one = division(facts_of(SHARE_A=share), m, n, 64)
    down, across = (1, 2) if share else (2, 1)
    assert (one.unit_m, one.unit_n) == (down * 128, across * 256)
    computed = one.rows * one.unit_m * one.columns * one.unit_n
    assert one.rows * one.unit_m - m < one.unit_m and one.columns * one.unit_n - n < one.unit_n
    assert computed >= m * n
    assert one.outside == pytest.approx(1 - m * n / computed)
    assert one.filled(132) <= 1 - one.outside + 1e-12


def test_what_the_page_says_of_edges():
    v7, v8, row = facts_of("v7_persistent"), facts_of(), facts_of(SHARE_A=1)
    assert [division(f, 1408, 3072, 64).units for f in (v7, v8, row)] == [132, 72, 66]
    assert [division(f, 1408, 3072, 64).rounds(132) for f in (v7, v8, row)] == [1, 2, 1]
    assert division(v8, 1408, 3072, 64).outside == pytest.approx(1 / 12)
    rounds = [division(f, 8192, 8192, 64).rounds(132) for f in (v7, v8)]
    assert rounds[0] == rounds[1]
    assert "72 pairs are more than 66 pairs of SMs" in PAGE
    assert 66 - 8 * 8 == 2, "with nine TPCs at most, two GPCs at least have nine"


# ---- the protocol -------------------------------------------------------------------------------


def accounts(run):
    """(block, address) of each mbarrier that counts bytes -> bytes missing, after each change."""
    found: dict[tuple[int, int], list[int]] = {}
    for event in run.trace.events:
        amount = event.detail.get("bytes")
        if event.kind not in ("mbarrier.arrive", "mbarrier.complete_tx") or not amount:
            continue
        account = found.setdefault((event.detail["owner"], event.detail["address"]), [0])
        account.append(account[-1] + (amount if event.kind == "mbarrier.arrive" else -amount))
    return found


def test_bytes_land_before_they_are_announced_and_nothing_breaks():
    assert 'Emulator(schedule="random", tma="random", seed=1)' in PAGE
    run, _ = run_pairs(emulator=AT_RANDOM)
    found = accounts(run)
    first = min(address for _, address in found)
    assert min(found[1, first]) < 0, "the page's schedule shows it"
    assert min(found[0, first]) == 0
    assert all(account[-1] == 0 for account in found.values())


def test_who_arrives_where():
    run, program = run_pairs(steps=3, emulator=AT_RANDOM)
    sixteen = {
        (event.block, event.detail["address"])
        for event in run.trace.of("mbarrier.init")
        if event.detail["count"] == 16
    }
    assert len(sixteen) == 2 * program.facts.stages
    told = Counter()
    for event in run.trace.of("mbarrier.arrive"):
        where = event.detail["owner"], event.detail["address"]
        if where in sixteen:
            told[where[0], event.block] += event.detail["count"]
    assert told == {(owner, block): 3 * 8 for owner in (0, 1) for block in (0, 1)}


def behind_the_wait(program):
    lines = program.sass().instructions
    at = next(i for i, line in enumerate(lines) if line.startswith("WARPGROUP.DEPBAR"))
    end = next(i for i in range(at, len(lines)) if lines[i].startswith("BRA"))
    return [line.split()[0] for line in lines[at:end]]


def test_a_release_at_cluster_scope_puts_a_barrier_of_the_gpu_into_the_loop():
    for scope in (0, 1):
        loop = behind_the_wait(compile_kernel(KERNEL, CLUSTER_SCOPE=scope))
        assert loop[0].startswith("WARPGROUP.DEPBAR")
        assert sum(one.startswith("MEMBAR.ALL.GPU") for one in loop) == scope
        assert sum(one.startswith("SYNCS.ARRIVE.TRANS64.RED") for one in loop) == 1, "two lanes"


def test_the_fence_is_redundant_beside_a_barrier_that_releases():
    fence = "    fence_mbarrier_init();\n"
    assert SOURCE.count(fence) == 1
    emulator = Emulator(on_hazard="collect", schedule="random", seed=1)
    assert not run_pairs(SOURCE.replace(fence, ""), pairs=2, emulator=emulator)[0].hazards


@pytest.mark.parametrize(
    ("name", "kind", "line"),
    [
        ("sent before the other is ready", "barrier-not-visible", "tma_load_2d_multicast"),
        ("left before the other is done", "peer-gone", "barriers.release(previous)"),
    ],
)
@pytest.mark.parametrize("seed", [None, 3])
def test_who_sends_too_early_or_leaves_too_soon_is_found_on_any_schedule(name, kind, line, seed):
    how = {} if seed is None else {"schedule": "random", "tma": "random", "seed": seed}
    text = mutated_source(find_mutation(KERNEL, name))
    run, _ = run_pairs(text, pairs=2, emulator=Emulator(on_hazard="collect", **how))
    assert kind in {hazard.kind for hazard in run.hazards}
    if seed is None:  # as on the page, which shows the first
        first = run.hazards[0]
        assert first.kind == kind
        assert line in text.splitlines()[int(first.source_line.split(":")[1]) - 1]


def test_what_the_page_says_about_the_seven_mistakes():
    broken = mutations(KERNEL)
    assert len(broken) == 7 and "Seven mistakes" in PAGE
    assert not any(advisories(compile_mutation(one).log) for one in broken)
    assert emulated(find_mutation(KERNEL, "empty counts one block")) == ["deadlock"]


def test_what_the_page_says_an_h200_made_of_them():
    try:
        tried = {entry.data.name: entry.data.trials for entry in find("mutants", KERNEL)}
    except NoRecording:
        return  # the table says so
    for name in ("sent before the other is ready", "left before the other is done"):
        assert all(one.right == one.runs for one in tried[name])
    by_size = defaultdict(list)
    for one in tried["released twice at home"]:
        by_size[one.problem.m, one.problem.n].append(one)
    *small, larger, most = by_size.values()
    assert all(one.right == one.runs for size in small for one in size)
    assert all(0 < one.wrong < one.right for one in larger)
    assert all(one.wrong == one.runs for one in most)
    counts = tried["empty counts one block"]
    assert all(one.right == one.runs for one in counts if one.problem.m <= 256)
    assert all(one.hung + one.failed == one.runs == 1 for one in counts if one.problem.m > 256)
    assert any(one.failed for one in counts) and any(one.hung for one in counts)
    for name in ("bytes of its own loads only", "the mask names one block"):
        assert all(one.hung == one.runs for one in tried[name])
    for one in tried["both ask for the same half"]:
        assert (one.right if one.problem.m == 128 else one.wrong) == one.runs


# ---- places -------------------------------------------------------------------------------------


@pytest.fixture
def chip():
    """The one that the page shows; the same written down, where no recording is at hand."""
    return placing.recorded().chip or test_chip.H200


def numbers_of(chip, order, group):
    numbers = places(chip, order)
    return sorted(numbers[pair] for pair in {sm // 2 for sm in group})


def test_clusters_of_a_group_follow_one_another_by_place_and_not_as_dealt(chip):
    assert sorted(places(chip)) == list(range(len(chip.dealt)))
    for group in chip.groups:
        by_place = numbers_of(chip, "gpc", group)
        assert by_place == list(range(by_place[0], by_place[0] + len(group) // 2))
        dealt = numbers_of(chip, "dealt", group)
        assert all(after - before > 1 for before, after in itertools.pairwise(dealt))


def test_a_turn_gives_each_group_one_cluster_as_long_as_it_has_room(chip):
    first, *others = [[group for group, _ in turn] for turn in turns(chip)]
    sizes = {number: len(group) // 2 for number, group in enumerate(chip.groups)}
    assert first == [number for number, room in sizes.items() if room == 1], "pairs come first"
    used = Counter(first)
    for turn in others:
        with_room = [number for number, room in sizes.items() if used[number] < room]
        assert turn == with_room
        used.update(turn)


def test_the_sms_of_a_group_are_near_one_side_of_l2(chip):
    near = [{chip.sides[sm] for sm in group} for group in chip.groups]
    assert all(len(sides) == 1 for sides in near) and set.union(*near) == {0, 1}


def test_clusters_of_four_do_not_fill_the_chip(chip):
    sizes = [len(group) for group in chip.groups]
    sms = sum(sizes)
    assert sum(size // 2 * 2 for size in sizes) == sms, "pairs do"
    assert all(sum(size // blocks * blocks for size in sizes) < sms for blocks in (4, 8))
    assert 2 in sizes and "Some pairs of SMs were in no cluster but their own" in PAGE


def test_by_place_clusters_of_a_group_share_what_the_pair_does_not(chip):
    large = Problem(8192, 8192, 8192)
    page = {"large": large, "v8": compile_kernel(KERNEL), "division": division}
    cell = next(cell for cell in cells() if "def sharers(" in cell)
    exec(cell[: cell.index("rows = []")], page)  # the page's own count
    sharers = page["sharers"]
    dealt, by_place = sharers(chip, "dealt", True), sharers(chip, "gpc", True)
    assert by_place[0] > 3 * dealt[0] and by_place[0] > 3 * by_place[1]
    down = sharers(chip, "gpc", False)
    assert down[1] > by_place[0] and down[1] > 3 * down[0], "B as well, by this count"


def cells():
    return re.findall(r"```\{code-cell\} ipython3\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("defines", "along_rows"), [({}, True), ({"SHARE_A": 1}, False)])
def test_which_way_numbers_go_and_in_which_groups(defines, along_rows):
    assert "#define RASTER (SHARE_A ? 16 : 8)" in SOURCE
    assert "rasterized(unit, *sides[::-1], 8)" in PAGE and "rasterized(unit, *sides, 16)" in PAGE
    program = compile_kernel(KERNEL, **SMALL, **defines)
    high, wide = (2, 1) if along_rows else (1, 2)  # tiles of a pair
    a, b = Problem(2 * high * 128, 2 * wide * 128, 64).inputs()
    c = numpy.zeros((len(a), len(b)), "float16")
    run = plan(program, a, b, c, blocks=2).run()
    stored = [
        event.detail["corner"]
        for event in run.trace.of("tma.issue")
        if event.detail["what"] == "store" and event.block == 0
    ]
    corners = list(
        dict.fromkeys((row // 128 // high, column // 128 // wide) for row, column in stored)
    )
    assert corners == ([(0, 0), (0, 1), (1, 0), (1, 1)] if along_rows else
                       [(0, 0), (1, 0), (0, 1), (1, 1)])  # fmt: skip


def test_the_idle_warp_tells_both_producers_at_cluster_scope():
    text = (KERNELS / "include/places.cuh").read_text()
    assert "mbarrier_arrive_at_rank(&here.told, rank)" in text, "wide unless told otherwise"
    every = [compile_kernel(KERNEL, CLUSTER_SCOPE=scope) for scope in (0, 1)]
    assert [one.sass().count("MEMBAR.ALL.GPU") for one in every] == [3 + 2, 3 + 2 + 2]


def test_claims_are_zeros_behind_launches_in_which_every_cluster_claims():
    a, b = Problem(4 * 256, 128, 64).inputs()
    c = numpy.full((4 * 256, 128), numpy.nan, "float16")
    launch = plan(compile_kernel(KERNEL, **SMALL), a, b, c)
    assert launch.grid[0] == 6 and len(launch.workspace) == 1, "as many clusters as places"
    for _ in range(2):
        run = launch.run()
        assert not launch.workspace[0].any()
    assert run is not None
    again = plan(compile_kernel(KERNEL, **SMALL), a, b, c)
    assert again.workspace[0] is not launch.workspace[0], "of another plan"


# ---- what the page says of its records ----------------------------------------------------------


def test_what_pairs_save_in_l2():
    through, read = (
        {one: curves(KERNEL, multicast.BYTES).at(series, multicast.place(one)) for one in VARIANTS}
        for series in ("through L2", "read")
    )
    if math.isnan(through["alone"]):
        return  # the page says that it has no recording
    for pair, alone in PAIRS.items():
        saved = 1 - through[pair] / through[alone]
        of_arithmetic = 1 - asked_for(pair) / asked_for(alone)
        assert saved > 0.1, "all three ways save look-ups"
        assert (saved > of_arithmetic) == (pair == "A shared")
        assert abs(read[pair] / read[alone] - 1) < 0.05, "memory delivers about as much"
    assert min(through, key=through.get) == "256 × 192, A shared"


VARIANTS = list(multicast.VARIANTS)
PAIRS = {"B shared": "alone", "A shared": "alone", "256 × 192, A shared": "256 × 192, alone"}


def asked_for(variant):
    one = division(multicast.program_of(variant).facts, 8192, 8192, 8192)
    return one.tiles * one.steps * loaded_bytes(multicast.program_of(variant).facts)


def test_what_v8_gains_over_v7_in_a_burst_and_under_load():
    def spread(kernel, mode):
        words = ("ratio low", "ratio", "ratio high")
        return [quantity(f"{kernel} {mode}{word}").value for word in words]

    try:
        v7, v8 = (spread(kernel, "") for kernel in ("v7_persistent", KERNEL))
        v7_lasting, v8_lasting = (
            spread(kernel, "sustained ") for kernel in ("v7_persistent", KERNEL)
        )
    except NoRecording:
        return  # the page says that it has no recording
    assert v8[0] < v7[2] and v7[0] < v8[2], "the spreads overlap"
    assert v8_lasting[1] > v7_lasting[2], "the median above the spread"


def test_what_the_page_says_of_joules():
    found = {}
    for turn, variants in multicast.TURNS.items():
        for name in multicast.QUANTITIES.values():
            sweep = curves(KERNEL, multicast.sustained_name(name, turn))
            one, two = (sweep.at("sustained", multicast.place(variant)) for variant in variants)
            found[turn, name] = two / one - 1
    if any(map(math.isnan, found.values())):
        return  # the page says that it has no recording
    v8, larger = multicast.TURNS
    assert found[v8, "clock"] > 0.005 and found[v8, "rate"] > 0.005
    assert abs(found[v8, "rate"] - found[v8, "clock"]) < 0.005, "as busy, at a higher clock"
    assert found[larger, "clock"] > found[larger, "rate"] + 0.01, "less busy, at a higher clock"
    assert found[larger, "rate"] < 0.005, "no faster"
    assert found[larger, "energy"] > -0.005, "no cheaper"


# ---- figures ------------------------------------------------------------------------------------


def drawings():
    column, row = facts_of(), facts_of(SHARE_A=1)
    return {
        "tiles": figures.pair_tiles(column, row),
        "loads, B": figures.pair_loads(column, 8),
        "loads, A": figures.pair_loads(row, 8),
    }


@pytest.mark.parametrize("name", list(drawings()))
def test_a_drawing_is_well_formed_legible_and_on_its_sheet(name):
    drawing = drawings()[name]
    test_figures.test_svg_is_well_formed_and_speaks(drawing)
    test_figures.test_text_is_legible_on_a_phone(drawing)
    test_figures.test_everything_lies_on_the_sheet(drawing)
    test_figures.test_every_colour_is_a_variable_of_the_palette_with_its_light_fallback(drawing)


def test_drawings_say_what_they_count():
    every = drawings()
    assert "48 KB, of which it asked for 32 KB" in every["loads, B"].alt
    assert "48 KB, of which it asked for 40 KB" in every["loads, A"].alt
    assert "gets 16 arrivals, 8 from either block" in every["loads, B"].alt
    assert every["loads, B"].svg.count("16 arrivals") == 2 + 1, "and in the alternative text"


def test_what_is_no_pair_is_not_drawn():
    alone, column, row = facts_of("v7_persistent"), facts_of(), facts_of(SHARE_A=1)
    with pytest.raises(ProblemError, match="two blocks"):
        figures.pair_loads(alone, 8)
    with pytest.raises(ProblemError, match="in this order"):
        figures.pair_tiles(row, column)


# ---- experiments --------------------------------------------------------------------------------

LAUNCHED = [kernel for kernel, _ in multicast.VARIANTS.values()]


def profiles(kernels):
    amounts = {"l2_sectors": 1e8, "dram_read": 1e9, "dram_write": 1e8, "l2_hit_rate": 10}
    return tuple(
        Profile(
            f"{kernel}(TensorMap, ...)",
            {WANTED[name][0]: Metric((1 + i) * one, "") for name, one in amounts.items()},
        )
        for i, kernel in enumerate(kernels)
    )


@pytest.fixture
def counted(monkeypatch):
    state = SimpleNamespace(kernels=LAUNCHED, commands=[])

    def profile(command, *, timeout, environment, metrics):
        state.commands.append(command)
        return Profiled("ncu", profiles(state.kernels), ())

    monkeypatch.setattr(under_ncu, "profile", profile)
    multicast.profiled_variants.cache_clear()
    yield state
    multicast.profiled_variants.cache_clear()


def test_what_ncu_counts_is_kept_by_variant_and_asked_for_once(counted):
    ours = {one.name: one for one in experiments_of(KERNEL)}
    moved, hits = (ours[name].run(None, None) for name in (multicast.BYTES, multicast.HITS))
    assert len(counted.commands) == 1
    assert counted.commands[0][1:] == ["-m", "hopper.experiments.multicast"]
    assert moved.axis_values == hits.axis_values == (0, 1, 2, 3, 4)
    assert moved.series["through L2"] == pytest.approx([3.2, 6.4, 9.6, 12.8, 16.0])
    assert moved.series["read"] == (1, 2, 3, 4, 5) and moved.unit == "GB"
    assert hits.series["L2"] == (10, 20, 30, 40, 50) and hits.unit == "%"


def test_anything_else_that_ncu_sees_is_refused(counted):
    counted.kernels = LAUNCHED[::-1]
    with pytest.raises(HopperError, match="ncu saw"):
        multicast.bytes_moved(None, None)


def test_the_process_that_ncu_watches_launches_each_variant_once_behind_its_check(monkeypatch):
    log = []

    def checked_pair(program, *arrays):
        log.append(("checked", program.kernel))
        return SimpleNamespace(run=lambda: log.append(("run", program.kernel)))

    runtime = SimpleNamespace(
        profilerStart=lambda: log.append("start"), profilerStop=lambda: log.append("stop")
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(multicast, "find_hopper", lambda: SimpleNamespace(synchronize=lambda: 0))
    monkeypatch.setattr(multicast, "inputs_on", lambda gpu, problem: ())
    monkeypatch.setattr(multicast, "checked_pair", checked_pair)
    multicast.launch_variants()
    assert log == [
        *(("checked", k) for k in LAUNCHED), "start", *(("run", k) for k in LAUNCHED), "stop",
    ]  # fmt: skip


def state(clock, watts):
    power = None if watts is None else Spread(watts, watts, watts, 1)
    return Conditions(clock, None, None, power, None, {}, 1)


def test_energy_is_power_over_rate_and_a_pair_is_timed_once(monkeypatch):
    flop = 2 * 8192**3
    calls = []

    def interleaved(gpu, run, peer, *, mode):
        calls.append(mode)
        samples = (flop / 700e12 * 1e3,), (flop / 350e12 * 1e3,)
        return Timed(*samples, 1, 1, state(1500.0, 700.0), state(1600.0, 350.0))

    monkeypatch.setattr(multicast, "find_hopper", lambda: None)
    monkeypatch.setattr(multicast, "inputs_on", lambda gpu, problem: ())
    monkeypatch.setattr(multicast, "checked_pair", lambda program: SimpleNamespace(run=None))
    monkeypatch.setattr(multicast, "interleaved", interleaved)
    multicast.in_turns.cache_clear()
    found = {one.name: one.run(None, None) for one in experiments_of(KERNEL) if " of " in one.name}
    multicast.in_turns.cache_clear()
    assert calls == ["sustained"] * len(multicast.TURNS)
    assert len(found) == len(multicast.TURNS) * len(multicast.QUANTITIES)
    assert all(one.name == name for name, one in found.items())
    energy = found["energy of larger tiles"]
    assert energy.series["sustained"] == (1.0, 1.0) and energy.unit == "pJ"
    assert energy.axis_values == tuple(map(multicast.place, multicast.TURNS["larger tiles"]))
    assert found["clock of one operand"].series["sustained"] == (1500.0, 1600.0)
    assert found["rate of one operand"].series["sustained"] == (700.0, 350.0)


@pytest.mark.parametrize("missing", [None, state(None, 700.0), state(1500.0, None)])
def test_what_could_not_be_read_is_no_energy(missing):
    with pytest.raises(HopperError, match="could not be read"):
        multicast.sustained_of((1.0,), missing)


def test_variants_are_what_they_are_called():
    for name in multicast.VARIANTS:
        tile = multicast.program_of(name).facts
        assert ((tile.tile_m, tile.tile_n) == (256, 192)) == ("256 × 192" in name)
        assert (tile.cluster == 1) == name.endswith("alone")
        assert shares_a(tile) == name.endswith("A shared")


# ---- exercises ----------------------------------------------------------------------------------


def printed(capsys) -> str:
    return capsys.readouterr().out


def test_bytes_of_a_pair(capsys):
    def right(tile_m, tile_n, shared):
        return (tile_m / (1 + (shared == "A")) + tile_n / (1 + (shared == "B"))) / tile_m / tile_n

    for answer, said in (
        (right, "right: 5 tiles"),
        (lambda *told: 2 * right(*told), "counts as two operations"),
        (lambda *told: right(*told) / 2, "an element has two bytes"),
        (lambda m, n, shared: right(m, n, "nothing"), "asked for in halves"),
        (
            lambda m, n, shared: right(m, n, "nothing") / (1 + (shared != "nothing")),
            "only one operand is halved",
        ),
        (lambda *_: math.nan, "a number of bytes"),
        (lambda *_: "many", "a number of bytes"),
        (lambda *_: None, "not answered"),
        (lambda m: m, "raised TypeError"),
        (7, "hand over your function"),
    ):
        exercises.pair_bytes(answer)
        out = printed(capsys)
        assert said in out and out.startswith("right") == said.startswith("right")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((24, 49152, 24576), "right"),
        ((32, 49152, 24576), "across the diagonal"),
        ((16, 49152, 24576), "in which blocks do its two boxes land"),
        ((24, 24576, 24576), "does not depend on who asks"),
        ((24, 49152, 49152), "each asks for its part"),
        ((None, 49152, 24576), "not answered"),
        (("many", 49152, 24576), "a whole number"),
        ((24.0, 49152, 24576), "a whole number"),
    ],
)
def test_a_cluster_of_four(answer, said, capsys):
    empty, announced, asked = answer
    exercises.two_by_two(empty=empty, announced=announced, asked=asked)
    out = printed(capsys)
    assert said in out and out.startswith("right") == (said == "right")


LINES = """
          mbarrier_arrive_expect_tx(landed, {0});
          tma_load_2d(stage.a, &map_a, landed, row, deep);
          tma_load_2d_multicast(stage.b + {1}, &map_b, landed, {2}, deep, {3});
"""
RIGHT = ("sizeof(stage)", "b_half * TILE_K", "column + b_half", "3")


def producer(**changed):
    return LINES.format(*(changed.get(f"_{i}", right) for i, right in enumerate(RIGHT)))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (producer(), "right: two pairs"),
        (producer(_2="column"), "does each block ask for its own half"),
        (producer(_1="b_half"), "copy-not-arrived"),
        (producer(_3="1 << rank"), "deadlock"),
        (producer(_0="(A_ROWS + B_ROWS) * TILE_K * sizeof(Element)"), "expect-tx"),
        (producer(_0="bytes"), "identifier"),
        (producer(_0="__1__"), "not answered yet: fill __1__"),
        (None, "not answered"),
        (5, "in a string"),
    ],
)
def test_the_producer_of_a_pair(lines, said, capsys):
    exercises.pair_producer(lines)
    out = printed(capsys)
    assert said in out or (said == "deadlock" and "every living warp waits" in out)
    assert out.startswith("right") == said.startswith("right")
