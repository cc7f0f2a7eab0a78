"""Where SMs lie on the chip: groups, sides, numbers by place; on an H200 that is played."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopper import chip
from hopper.chip import Chip, Launched, argument, grouped, launched, look, places, plain, sides_of
from hopper.compile import compile_cuda, compile_kernel
from hopper.emulator import Emulator
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import CompileError, HopperError, ProblemError
from hopper.experiments import Arrays, experiments_of
from hopper.experiments import chip as experiments
from hopper.figures import palette
from hopper.figures.canvas import SMALL
from hopper.figures.chip import chip_map, lines_near, turns
from hopper.paths import INCLUDE
from hopper.schema import Probe, parse

# One H200, as launches of clusters of two to eight blocks showed it.
GROUPS = (
    (0, 1, 16, 17, 32, 33, 48, 49),
    *(
        tuple(
            sm
            for first in (0, 16, 32, 48, 62, 76, 90, 104)
            for sm in (first + low, first + low + 1)
        )
        for low in (2, 4, 6, 8, 10)
    ),
    (12, 13, 28, 29, 44, 45, 60, 61, 74, 75, 88, 89, 102, 103, 116, 117, 120, 121),
    (14, 15, 30, 31, 46, 47, 62, 63, 76, 77, 90, 91, 104, 105, 118, 119, 122, 123),
    (124, 125),
    (126, 127),
    (128, 129),
    (130, 131),
)
DEALT = (124, 126, 128, 130, *range(0, 124, 2))
SIDE_OF_GROUP = (0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0)
SIDES = tuple(
    side
    for _, side in sorted(
        (sm, side) for group, side in zip(GROUPS, SIDE_OF_GROUP, strict=True) for sm in group
    )
)
H200 = Chip(GROUPS, DEALT, SIDES)
# Which group each cluster of a full launch went to.
DEALT_TO = "89ab" + 4 * "01234567" + 4 * "1234567" + "67"


def cycles_of(sides, lines, seed=0, noise=30):
    """Cycles (sms, lines), as measured: about 320 on a line's side of L2, 530 on the other."""
    random = numpy.random.default_rng(seed)
    far = numpy.array(sides)[:, None] != numpy.array(lines)
    return numpy.where(far, 530, 320) + random.integers(-noise, noise + 1, far.shape)


LINES = numpy.arange(48) * 7 % 5 < 2  # True: near side 1


@st.composite
def chips(draw):
    """A chip of up to 72 pairs of SMs, in groups of pairs, dealt in any order."""
    pairs = draw(st.integers(1, 72))
    group_of = draw(st.lists(st.integers(0, 9), min_size=pairs, max_size=pairs))
    groups: dict[int, list[int]] = {}
    for pair, group in enumerate(group_of):
        groups.setdefault(group, []).extend((2 * pair, 2 * pair + 1))
    dealt = draw(st.permutations(range(0, 2 * pairs, 2)))
    sides = draw(st.lists(st.integers(0, 1), min_size=2 * pairs, max_size=2 * pairs))
    return Chip(tuple(map(tuple, groups.values())), tuple(dealt), tuple(sides))


# ---- groups -------------------------------------------------------------------------------------


@given(st.integers(1, 40).flatmap(
    lambda sms: st.tuples(
        st.just(sms), st.lists(st.lists(st.integers(0, sms - 1), min_size=1, max_size=8))
    )
))  # fmt: skip
def test_sms_are_of_one_group_if_clusters_lead_from_one_to_the_other(drawn):
    sms, seen = drawn
    reached = numpy.eye(sms, dtype=bool)
    for cluster in seen:
        reached[numpy.ix_(cluster, cluster)] = True
    for _ in range(sms.bit_length()):
        reached = reached @ reached
    right = {tuple(numpy.flatnonzero(row).tolist()) for row in reached}
    assert grouped(seen, sms) == tuple(sorted(right))


def test_a_gpc_that_clusters_of_three_would_leave_in_parts_is_one_group():
    assert grouped([(0, 1), (2, 3), (4, 5)], 6) == ((0, 1), (2, 3), (4, 5))
    assert grouped([(0, 1), (2, 3), (4, 5), (5, 1, 2)], 6) == ((0, 1, 2, 3, 4, 5),)
    assert grouped([], 2) == ((0,), (1,))


@pytest.mark.parametrize("sm", [-1, 4, 140])
def test_an_sm_that_the_chip_does_not_have_is_refused(sm):
    with pytest.raises(HopperError, match=rf"SM {sm}: this chip has 4"):
        grouped([(0, 1), (2, sm)], 4)


# ---- sides --------------------------------------------------------------------------------------


@given(
    st.integers(2, 72),
    st.integers(0, 2**32 - 1),
    st.floats(0.35, 0.65),
    st.integers(0, 80),
    st.floats(0, 0.1),
)
def test_sides_are_told_apart_under_noise(pairs, seed, share, noise, disturbed):
    random = numpy.random.default_rng(seed)
    sides = numpy.zeros(2 * pairs, int)
    sides[: min(max(round(share * 2 * pairs), 1), 2 * pairs - 1)] = 1
    random.shuffle(sides)
    lines = random.permutation(48) < 24
    cycles = cycles_of(sides, lines, seed, noise)
    cycles[random.random(cycles.shape) < disturbed] = 5000  # in every try, something was in the way
    assert sides_of(cycles) == tuple((sides != sides[0]).astype(int).tolist())


def test_the_sides_of_the_h200():
    assert sides_of(cycles_of(SIDES, LINES)) == SIDES
    assert SIDES.count(0) == SIDES.count(1) == 66
    turned = cycles_of([1 - side for side in SIDES], LINES)
    assert sides_of(turned) == SIDES, "SM 0 is on side 0, whichever lines it is near"


def test_sm_0_may_be_disturbed_more_than_others():
    cycles = cycles_of(SIDES, LINES)
    wrong = numpy.random.default_rng(5).random(cycles.shape) < 0.2
    wrong[0] = numpy.arange(48) % 3 == 0
    cycles[wrong] = 850 - cycles[wrong]  # near looks far, and far near
    assert sides_of(cycles) == SIDES


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_where_there_are_no_sides_some_answer_comes_back(sms, lines, seed, values):
    cycles = numpy.random.default_rng(seed).integers(0, values, (sms, lines), "uint32")
    found = sides_of(cycles)
    assert len(found) == sms and set(found) <= {0, 1} and found[0] == 0


# ---- numbers by place ---------------------------------------------------------------------------


@given(chips(), st.sampled_from(chip.ORDERS))
def test_every_order_is_a_permutation(drawn, order):
    found = places(drawn, order)
    assert sorted(found) == list(range(len(drawn.dealt)))
    assert all(type(number) is int for number in found)


def sequence(drawn, order):
    """Clusters of a full launch, by the numbers of the pairs of SMs that they are dealt to."""
    found = places(drawn, order)
    return sorted(range(len(found)), key=lambda cluster: found[drawn.dealt[cluster] // 2])


@given(chips())
def test_pairs_of_a_group_have_consecutive_numbers_as_dealt(drawn):
    of = drawn.group_of
    keys = [(of[drawn.dealt[cluster]], cluster) for cluster in sequence(drawn, "gpc")]
    assert keys == sorted(keys)


@given(chips())
def test_by_side_one_side_comes_first_and_group_by_group(drawn):
    of = drawn.group_of
    found = sequence(drawn, "side")
    keys = [(drawn.sides[drawn.dealt[c]], of[drawn.dealt[c]], c) for c in found]
    assert keys == sorted(keys)


@given(chips())
def test_as_dealt_a_pair_has_the_number_of_its_cluster(drawn):
    found = places(drawn, "dealt")
    assert [found[sm // 2] for sm in drawn.dealt] == list(range(len(drawn.dealt)))


def test_numbers_on_the_h200():
    assert "".join(f"{H200.group_of[sm]:x}" for sm in DEALT) == DEALT_TO
    assert places(H200, "dealt") == (*range(4, 66), 0, 1, 2, 3)
    # Group 0 is the pairs 0, 8, 16 and 24, numbers 0 to 3; group 1 begins with pair 1.
    assert places(H200) == places(H200, "gpc")
    assert places(H200)[:10] == (0, 4, 12, 20, 28, 36, 44, 53, 1, 5)
    assert places(H200)[62:] == (62, 63, 64, 65)
    by_side = sequence(H200, "side")
    assert [SIDES[DEALT[cluster]] for cluster in by_side] == [0] * 33 + [1] * 33
    assert by_side[:4] == [4, 12, 20, 28], "group 0"
    assert by_side[29:33] == [0, 1, 2, 3], "the four pairs that are groups of their own"


def test_patches_of_four_rows_and_two_columns():
    numbers, by_side = places(H200, "patch"), sequence(H200, "side")
    cells = [divmod(numbers[DEALT[c] // 2], 16) for c in by_side]  # (column, row)
    for patch in range(8):
        mine = cells[8 * patch : 8 * patch + 8]
        left, top = patch // 4 * 2, patch % 4 * 4
        assert sorted(mine) == [(left + c, top + r) for c in (0, 1) for r in range(4)]
    assert cells[:8] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert cells[64:] == [(4, 0), (4, 1)]


@given(chips().filter(lambda drawn: len(drawn.dealt) != 66))
def test_patches_are_for_66_pairs(drawn):
    assert places(drawn, "patch") == places(drawn, "gpc")


def test_an_order_that_there_is_not_is_refused():
    with pytest.raises(HopperError, match=r"order='rows': .* gpc, side, dealt, patch"):
        places(H200, "rows")


@given(st.integers(1, 72), st.sampled_from(("gpc", "side", "dealt")))
def test_a_chip_that_nothing_is_known_of_is_numbered_in_order(pairs, order):
    unknown = plain(2 * pairs)
    assert len(unknown.sides) == 2 * pairs and len(unknown.dealt) == pairs
    assert places(unknown, order) == tuple(range(pairs))


# ---- the argument -------------------------------------------------------------------------------


def test_the_argument_is_a_count_and_72_bytes():
    found = argument(places(H200))
    assert isinstance(found, numpy.void) and found.dtype == numpy.dtype("V76")
    assert found.tobytes() == b"\x42\0\0\0" + bytes(places(H200)) + bytes(6)
    assert argument(()).tobytes() == bytes(76)
    assert argument(range(72)).tobytes() == b"\x48\0\0\0" + bytes(range(72))
    with pytest.raises(HopperError, match="73 numbers: .* 72 at most"):
        argument(range(73))


def test_a_kernel_reads_the_numbers_where_they_are():
    header = (INCLUDE / "places.cuh").read_text()
    most = re.search(r"constexpr int MOST_PLACES = (\d+);", header)
    assert int(most[1]) == chip.MOST_PLACES
    struct = re.search(r"struct Places \{.*?\};", header, re.DOTALL)[0]
    program = compile_cuda(f"""
{most[0]}
{struct}
extern "C" __global__ void read(const __grid_constant__ Places places, int* out) {{
  static_assert(sizeof(Places) == {argument(()).itemsize});
  out[threadIdx.x] = threadIdx.x ? places.of[threadIdx.x - 1] : places.count;
}}""")
    out, numbers = numpy.full(73, -1, "int32"), places(H200)
    EmulatedGpu().launch(program, (1, 1, 1), (73, 1, 1), (argument(numbers), out), 0)
    assert tuple(out.tolist()) == (66, *numbers, *[0] * 6)


# ---- the kernel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3])
def test_in_the_emulator_each_block_has_an_sm_and_every_line_is_tried(size):
    found = launched(EmulatedGpu(), size, lines=3)
    assert found.sms.tolist() == numpy.arange(6).reshape(-1, size).tolist()
    assert found.cycles.shape == (6, 3)
    assert (found.cycles > 0).all() and (found.cycles < 1000).all(), "steps of the machine"


def test_the_kernel_breaks_no_rule_and_leaves_memory_as_it_is():
    program = compile_kernel("chip")
    memory = numpy.arange(3 * 17 * 32, dtype="uint32")
    sms, cycles = numpy.zeros(4, "uint32"), numpy.zeros((4, 3), "uint32")
    run = Emulator().launch(
        program.ptx, "chip", (4, 1, 1), (1, 1, 1), shared_bytes=program.facts.shared_bytes,
        args=(memory, sms, cycles, numpy.int32(3)),
    )  # fmt: skip
    assert run.hazards == () and (memory == numpy.arange(memory.size)).all()


@pytest.mark.parametrize("size", chip.SIZES)
def test_the_kernel_compiles_clean_for_each_size(size):
    program = compile_kernel("chip", CLUSTER=size)
    program.require_clean()
    assert program.facts.cluster == size
    assert 2 * program.facts.shared_bytes > 228 * 1024, "one block an SM"


def test_the_second_look_at_the_clock_needs_what_the_atomic_returns():
    body = compile_kernel("chip").sass().text
    returned = re.search(r"ATOMG\.E\.ADD\S* PT, (R\d+),", body)
    behind = body[returned.end() :]
    tested = re.search(rf"ISETP\.NE\.AND (P\d), PT, {returned[1]}, -0x1", behind)
    clock = re.search(r"@(P\d) CS2R\S* R\d+, SR_CLOCKLO", behind)
    assert clock[1] == tested[1] and clock.start() > tested.start()
    assert behind.count("SR_CLOCK") == 1 and body[: returned.start()].count("SR_CLOCK") == 1


def test_a_cluster_that_must_be_asked_for_does_not_compile():
    with pytest.raises(CompileError, match="larger clusters must be asked for"):
        compile_kernel("chip", CLUSTER=16)


# ---- a look at a chip that is played ------------------------------------------------------------


@dataclass(eq=False)
class Played:
    """An H200 whose launches write what was seen. ``refused``: sizes that do not fit."""

    sm_count: int = 132
    refused: tuple[int, ...] = ()
    crowded: bool = False  # something else runs, so that one SM gets no block and one gets two
    sizes: list[int] = field(default_factory=list)
    idle: bool = True

    def array(self, host):
        return host.copy()

    def numpy(self, device):
        return device.copy()

    def synchronize(self):
        self.idle = True

    def launch(self, program, grid, block, args, shared_bytes):
        size = program.facts.cluster
        self.sizes.append(size)
        self.idle = False
        if size in self.refused:
            raise RuntimeError("CUDA_ERROR_INVALID_CLUSTER_SIZE: invalid cluster size")
        _, sms, cycles, lines = args
        assert grid[0] % size == 0 and cycles.shape == (grid[0], lines) and block == (1, 1, 1)
        if size == 2:
            dealt = [sm for first in DEALT for sm in (first, first + 1)]
        else:
            # Clusters lie in a group; those of a second wave lie where the first ones did.
            whole = [group[i : i + size] for group in GROUPS
                     for i in range(0, len(group) - size + 1, size)]  # fmt: skip
            shifted = [group[-size:] for group in GROUPS if len(group) >= size]
            dealt = [sm for cluster in 3 * (whole + shifted) for sm in cluster]
        sms[:] = dealt[: grid[0]]
        cycles[:] = cycles_of(SIDES, LINES, len(self.sizes))[sms]
        if self.crowded:
            sms[0] = sms[2]


def test_a_look_finds_the_chip_and_leaves_the_gpu_idle():
    gpu = Played()
    assert look(gpu) == H200
    assert gpu.idle and gpu.sizes == [size for size in chip.SIZES for _ in range(chip.LAUNCHES)]
    assert look(gpu) == H200 and len(gpu.sizes) == 6 * 7, "it is looked at once"
    cycles = chip.survey(gpu).cycles
    far = numpy.array(SIDES)[:, None] != LINES
    assert (cycles[far] > 490).all() and (cycles[~far] < 360).all(), "by SM, not by block"
    assert cycles.mean() < cycles_of(SIDES, LINES).mean() - 10, "the fewest of all launches"


def test_sizes_that_do_not_fit_are_left_out():
    gpu = Played(refused=(7, 8))
    assert look(gpu) == H200
    assert gpu.idle and gpu.sizes.count(7) == gpu.sizes.count(8) == 1
    only_pairs = look(Played(refused=chip.SIZES[1:]))
    assert only_pairs.dealt == DEALT and len(only_pairs.groups) == 66


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (Played(crowded=True), "132 blocks ran on 131 of 132 SMs"),
        (Played(refused=chip.SIZES), "no cluster of two blocks ran"),
        (Played(refused=(2,)), "no cluster of two blocks ran"),
    ],
    ids=["crowded", "no cluster", "no pair"],
)
def test_a_chip_that_is_not_understood_fails_nothing(gpu, why):
    assert look(gpu) == plain(132) and gpu.idle
    looked = list(gpu.sizes)
    assert look(gpu) == plain(132) and gpu.sizes == looked, "it is looked at once"
    with pytest.raises(HopperError, match=why):
        chip.survey(gpu)
    assert places(look(gpu)) == tuple(range(66))


def test_clusters_that_run_elsewhere_than_expected_are_refused():
    nothing = numpy.ones((4, 2))
    pairs = Launched(numpy.array([[0, 1], [2, 3]]), nothing)
    assert chip.understood([pairs], 4).chip.groups == ((0, 1), (2, 3))
    with pytest.raises(HopperError, match=r"a cluster ran on the SMs \[0, 2, 2\]"):
        chip.understood([pairs, Launched(numpy.array([[0, 2, 2]]), nothing)], 4)
    with pytest.raises(HopperError, match="SM 4: this chip has 4"):
        chip.understood([pairs, Launched(numpy.array([[0, 2, 4]]), nothing)], 4)
    with pytest.raises(HopperError, match="other SMs than 2p and 2p [+] 1"):
        chip.understood([Launched(numpy.array([[0, 2], [1, 3]]), nothing)], 4)


@pytest.mark.hopper
def test_the_chip_at_hand(gpu):
    found = chip.survey(gpu).chip
    assert found == look(gpu) != plain(gpu.sm_count)
    assert sorted(sm for group in found.groups for sm in group) == list(range(gpu.sm_count))
    assert 4 <= len(found.groups) <= 20
    assert min(map(sum, ([1 - s for s in found.sides], found.sides))) >= gpu.sm_count // 4
    for group in found.groups:
        assert len({found.sides[sm] for sm in group}) == 1, "a GPC is near one side"
    again = launched(gpu, 2).sms[:, 0].tolist()
    assert sorted(again) == sorted(found.dealt), "in turn, but not always from the same GPC on"


# ---- recorded -----------------------------------------------------------------------------------


def test_the_experiment_is_read_back_as_it_was():
    gpu = Played()
    (one,) = experiments_of("chip")
    made = one.run(gpu, compile_kernel("chip"))
    assert (one.name, made.name) == ("near", "near")
    kept = {name: (array.dtype, array.shape) for name, array in made.arrays.items()}
    assert kept == {
        "group": ("<i2", (132,)),
        "side": ("|i1", (132,)),
        "dealt": ("<i2", (66,)),
        "cycles": ("<u2", (132, chip.LINES)),
    }
    again = parse(Probe, json.loads(json.dumps(asdict(made))), "a file", "data")
    read = experiments.recorded(Arrays("an H200", again))
    assert read.chip == H200 and read.label == "an H200"
    assert (read.cycles == chip.survey(gpu).cycles).all()


def test_the_experiment_fails_where_the_chip_is_not_understood():
    with pytest.raises(HopperError, match="131 of 132 SMs"):
        experiments.near(Played(crowded=True), compile_kernel("chip"))


def test_without_a_recording_there_is_no_chip(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    read = experiments.recorded()
    assert read.chip is read.cycles is None and "no recording" in read.label


# ---- the figure ---------------------------------------------------------------------------------

CYCLES = cycles_of(SIDES, LINES)
ALT = "Twelve groups of SMs beside 48 lines."


def test_lines_and_turns():
    assert (lines_near(H200, CYCLES) == ~LINES).all()
    assert lines_near(plain(132), CYCLES).all()
    found = turns(H200)
    assert ["".join(f"{group:x}" for group, _ in turn) for turn in found] == [
        "89ab", *["01234567"] * 4, *["1234567"] * 4, "67",
    ]  # fmt: skip
    assert [cluster for turn in found for _, cluster in turn] == list(range(66))
    assert turns(plain(6)) == [[(0, 0)], [(0, 1)], [(0, 2)]]


def test_the_figure_is_legible_and_themed():
    figure = chip_map(H200, CYCLES, alt=ALT, caption="NVIDIA H200")
    root = ElementTree.fromstring(figure.svg)
    assert root.get("aria-label") == figure.alt == ALT
    texts = [one for one in root.iter() if one.tag.endswith("text")]
    assert min(float(n) for n in re.findall(r"font-size:([\d.]+)px", figure.svg)) >= SMALL
    for one in texts:
        assert 0 <= float(one.get("x")) <= figure.width
        assert 0 < float(one.get("y")) < figure.height
    said = [one.text for one in texts]
    assert said.count("65") == 1 and {"0: 8 SMs", "7: 18 SMs", "8–11: 2 each"} <= set(said)
    plain_colours = figure.svg
    for name in palette.COLOURS:
        plain_colours = plain_colours.replace(palette.colour(name), "")
    assert "#" not in plain_colours
    assert figure.svg == chip_map(H200, CYCLES, alt=ALT, caption="NVIDIA H200").svg
    assert len(figure.svg) < 100_000
    told = [row[:3] for row in figure.rows]
    assert told == [
        (str(number), str(len(group)), str(side))
        for number, (group, side) in enumerate(zip(GROUPS, SIDE_OF_GROUP, strict=True))
    ]
    assert all(abs(int(row[3]) - 320) < 10 and abs(int(row[4]) - 530) < 10 for row in figure.rows)


def drawn_cells(figure):
    """(opacity, x, y, width, height) of each cell, those of the scale left out."""
    found = []
    for path, opacity in re.findall(
        r'<path d="([^"]+)" shape[^>]*fill-opacity:([\d.]+)', figure.svg
    ):
        cells = re.findall(r"M(\S+) (\S+)h(\S+)v([\d.]+)h", path)
        found += [(float(opacity), *map(float, cell)) for cell in cells if float(cell[3]) != 14]
    return found


def test_each_cell_is_drawn_once_and_the_far_ones_are_darker():
    cells = drawn_cells(chip_map(H200, CYCLES, alt=ALT))
    wide = cells[0][3]
    drawn = [(x, y + 1.5 * row) for _, x, y, _, h in cells for row in range(round(h / 1.5))]
    assert len(drawn) == len(set(drawn)) == 132 * 48
    rows = {y for _, y in drawn}
    assert len(rows) == 132 and len({x for x, _ in drawn}) == 48
    # Groups of side 0 are above, lines near them at the left.
    split = 116 + wide * (~LINES).sum() - wide / 2
    below = sorted(rows)[66]
    for opacity, x, y, _, _ in cells:
        far = (x > split) != (y >= below)
        assert opacity > 0.5 if far else opacity < 0.5


def test_a_disturbed_sm_does_not_hide_the_others():
    disturbed = CYCLES.copy()
    disturbed[5, 7] = 65535
    said = re.findall(r">(\d+)</text>", chip_map(H200, disturbed, alt=ALT).svg)
    assert "600" in said and "65550" not in said


def test_what_was_not_recorded_is_not_drawn():
    figure = chip_map(None, None, alt=ALT)
    assert "not recorded, so not drawn" in figure.svg and figure.rows == ()
    assert figure.alt.startswith("Not recorded") and figure.alt.endswith(ALT)


def test_the_figure_refuses_what_does_not_belong_together():
    with pytest.raises(ProblemError, match="cycles of 100 SMs: this chip has 132"):
        chip_map(H200, CYCLES[:100], alt=ALT)
    pairs = Chip(grouped([(sm, sm + 1) for sm in DEALT], 132), DEALT, SIDES)
    with pytest.raises(ProblemError, match="66 groups do not fit"):
        chip_map(pairs, CYCLES, alt=ALT)
    with pytest.raises(ProblemError, match="alt"):
        chip_map(H200, CYCLES, alt=" ")
