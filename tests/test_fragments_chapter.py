"""The chapter on fragments: maps that the instruction tells, A in registers, ways out of them."""

import json
from dataclasses import asdict, dataclass

import numpy
import pytest
import test_figures
from hypothesis import given
from hypothesis import strategies as some

from hopper import exercises, figures, notebooks
from hopper.architecture import constant
from hopper.backends import find_hopper
from hopper.compile import advisories, compile_cuda, compile_kernel
from hopper.conformance import digest, emulate
from hopper.conformance.kernels import CASES
from hopper.emulator import Emulator
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import CheckError, CompileError, HopperError, ProblemError
from hopper.experiments import arrays, curves, experiments_of, fragments
from hopper.fragment import a_held_by, a_holder, f16_held_by, f16_holder, held_by, holder
from hopper.layout.matrices import a_fragment, accumulator
from hopper.mma_sync import fragment_d, turns
from hopper.paths import KERNELS
from hopper.schema import Probe, Sweep, parse
from hopper.sectors import SECTOR_BYTES, WIDTHS, touched

KERNELS_OF_THE_CHAPTER = ("fragment_map", "rs_wgmma", "store_tile")
EMULATED = EmulatedGpu()
MAPS = {"f32": held_by, "s32": held_by, "f16": f16_held_by}


@dataclass(frozen=True)
class Played(EmulatedGpu):
    """The emulator in the place of a GPU with two SMs; ``fault`` goes to one element read back."""

    sm_count: int = 2
    fault: float = 0.0

    def numpy(self, device):
        found = super().numpy(device)
        if self.fault and found.dtype.kind == "f" and found.ndim > 1:
            found.reshape(-1)[5] += self.fault
        return found


# ---- the maps as layouts ------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_the_layout_is_the_map_for_every_thread_and_register(n):
    thread, register = numpy.indices((128, n // 2))
    row, column = held_by(thread, register)
    assert (accumulator(n)(thread, register) == row + 64 * column).all()
    assert (accumulator(n, "row")(thread, register) == n * row + column).all()
    thread, register, half = numpy.indices((128, n // 4, 2))
    row, column = f16_held_by(thread, register, half)
    assert (accumulator(n)(thread, 2 * register + half) == row + 64 * column).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_layout_of_a_is_its_map(size):
    items = 4 // size
    thread, register, item = numpy.indices((128, 4, items))
    row, k = a_held_by(thread, register, item, item_bytes=size)
    there = a_fragment(item_bytes=size)(thread, items * register + item)
    assert (there == row + 64 * k).all()


def test_the_map_is_that_of_mma_sync_once_a_warp_and_every_eight_columns():
    for thread, register in numpy.ndindex(128, 128):
        row, column = fragment_d(thread % 32, register % 4)
        assert held_by(thread, register) == (row + 16 * (thread // 32), column + register // 4 * 8)


def test_all_columns_of_a_row_are_in_four_neighbouring_lanes():
    for row in range(64):
        threads = set(holder(numpy.full(256, row), numpy.arange(256))[0].tolist())
        assert len(threads) == 4 and max(threads) - min(threads) == 3 and min(threads) % 4 == 0


def test_the_threads_and_values_factor_as_the_page_says():
    assert str(accumulator(64)) == "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))"
    first = [held_by(0, register) for register in range(5)]
    assert first == [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8)]


# ---- the maps as the instruction tells them -----------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "n"), [("f32", 8), ("f32", 72), ("f32", 256), ("f16", 24), ("f16", 256), ("s32", 48)]
)
def test_the_instruction_tells_the_map_of_its_sums(kind, n):
    told = fragments.told(EMULATED, kind, n)
    expected = MAPS[kind](*numpy.indices(told[0].shape))
    for mine, theirs in zip(told, expected, strict=True):
        assert (mine == theirs).all()
    assert told[0].size == 64 * n


@pytest.mark.parametrize("bits", fragments.OPERANDS)
def test_the_instruction_tells_the_map_of_a(bits):
    rows, ks = fragments.told_a(EMULATED, bits)
    row, k = a_held_by(*numpy.indices(rows.shape), item_bytes=bits // 8)
    assert (rows == row).all() and (ks == k).all() and rows.size == 64 * 256 // bits


WRONG = {
    "rows of a thread beside each other": lambda t, r: held_by(t, r ^ (r >> 1 & 1) * 3),
    "halves exchanged": lambda t, r: held_by(t, r ^ 2),
    "lanes down the columns": lambda t, r: held_by(t // 32 * 32 + t % 4 * 8 + t % 32 // 4, r),
    "warps exchanged": lambda t, r: held_by(t ^ 32, r),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_map_is_not_what_the_instruction_tells(name):
    rows, columns = fragments.told(EMULATED, "f32", 16)
    row, column = WRONG[name](*numpy.indices(rows.shape))
    assert (rows != row).any() or (columns != column).any()


def test_a_kernel_that_stores_otherwise_tells_another_map(monkeypatch):
    source = (KERNELS / "fragment_map.cu").read_text()
    line = "held[threadIdx.x * REGISTERS + r] = d[r];"
    assert source.count(line) == 1
    other = compile_cuda(source.replace(line, line.replace("d[r]", "d[r ^ 1]")), "fragment_map")
    monkeypatch.setattr(fragments, "map_program", lambda kind, n: other)
    rows, columns = fragments.told(EMULATED, "f32", 64)
    row, column = held_by(*numpy.indices(rows.shape))
    assert (rows == row).all() and (columns != column).all()


@pytest.mark.parametrize("value", [numpy.nan, 0.5, -1.0, 256.0])
def test_what_is_no_coordinate_is_no_map(monkeypatch, value):
    monkeypatch.setattr(fragments, "_held", lambda *given: numpy.full(64 * 8, value))
    with pytest.raises(CheckError, match="no coordinate"):
        fragments.told(EMULATED, "f32", 8)


@pytest.mark.parametrize(
    ("defines", "rule"),
    [
        ({"TILE_N": 12}, "a multiple of 8 up to 256"),
        ({"TILE_N": 264}, "a multiple of 8 up to 256"),
        ({"TILE_N": 40, "OPERAND_BITS": 8}, "only multiples of 16"),
        ({"OPERAND_BITS": 8, "PACKED_SUMS": 1}, "packed sums are shown with fp16"),
    ],
)
def test_what_the_instruction_lacks_does_not_compile(defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel("fragment_map", **defines)


def test_the_kernel_does_not_know_the_map():
    source = (KERNELS / "fragment_map.cu").read_text()
    code = source[source.index('extern "C"') :]
    assert "lane" not in code and "warp " not in code


def test_packed_sums_of_one_product_are_a_of_the_next():
    thread, register, half = numpy.indices((128, 4, 2))
    row, k = a_held_by(thread, register, half)
    for group in range(16):
        d_row, d_column = f16_held_by(thread, 4 * group + register, half)
        assert (d_row == row).all() and (d_column == k + 16 * group).all()
    # … those in fp32 are a tf32 A, if k runs through the columns in another order …
    thread, register = numpy.indices((128, 4))
    row, k = a_held_by(thread, register, 0, item_bytes=4)
    d_row, d_column = held_by(thread, 2 * (register % 2) + register // 2)
    order = numpy.array([0, 2, 4, 6, 1, 3, 5, 7])
    assert (d_row == row).all() and (d_column == order[k]).all() and (d_column != k).any()
    # … and of an 8-bit A a thread has four neighbours, where of D it has two.
    assert len({k for _, k in (a_held_by(3, 0, i, item_bytes=1) for i in range(4))}) == 4
    assert holder(0, 1)[0] != holder(0, 2)[0]


# ---- A in registers -----------------------------------------------------------------------------


@pytest.mark.parametrize("defines", [{}, {"TILE_N": 8}, {"TILE_N": 96}, {"STAGES": 1}], ids=str)
def test_rs_wgmma_is_exact(defines):
    program = compile_kernel("rs_wgmma", **defines)
    program.require_clean()
    given = fragments.quantised(program, seed=7)
    d = fragments.launch_rs(EMULATED, program, *given)
    assert (d == fragments.dequantised_product(*given)).all() and d.any()


def test_the_scales_cannot_wait_for_the_epilogue():
    a, scale, b = fragments.quantised(compile_kernel("rs_wgmma"))
    first = scale[:, :1].repeat(scale.shape[1], axis=1)
    assert (
        fragments.dequantised_product(a, first, b) != fragments.dequantised_product(a, scale, b)
    ).any()


BROKEN = {
    "no wgmma.fence": ({"C7519"}, "no-wgmma-fence"),
    "no wait_group": ({"C7517"}, "group-never-waited"),
    "wait_group behind the loop": (set(), "pending"),
    "the same, A computed": (set(), "pending"),
}


@pytest.mark.parametrize("name", fragments.BREAKS)
def test_a_break_is_caught_as_the_page_says(name):
    codes, kind = BROKEN[name]
    assert set(advisories(fragments.changed(fragments.BREAKS[name]).log)) == codes
    assert kind in fragments.emulated_break(name)


def test_a_fragment_built_behind_a_wgmma_wants_a_fence_of_its_own():
    source = (KERNELS / "rs_wgmma.cu").read_text()
    call = "      wgmma_f32_f16_f16<TILE_N>::rs(d, fragment[step]"
    assert source.count(call) == 1
    change = "      { fragment[step][0] ^= step; FENCE\n" + call
    source = source.replace(call, change).replace("chunk + step > 0);", "chunk + step > 0); }")
    without = compile_cuda(source.replace("FENCE", ""), "rs_wgmma")
    assert set(advisories(without.log)) == {"C7519"}
    fenced = compile_cuda(source.replace("FENCE", "wgmma_fence();"), "rs_wgmma")
    assert advisories(fenced.log) == {}


def test_the_unbroken_kernels_are_right():
    for sound in ((), fragments.COMPUTED):
        program = fragments.changed(sound)
        given = fragments.quantised(program)
        d = fragments.launch_rs(EMULATED, program, *given)
        assert (d == fragments.right_product(sound, given)).all()


def test_a_break_whose_line_is_gone_is_refused():
    with pytest.raises(HopperError, match="stands 0 times in rs_wgmma.cu"):
        fragments.changed((("no such line", ""),))


def test_the_late_wait_leaves_the_registers_unguarded_in_the_machine_code():
    changes = fragments.BREAKS["wait_group behind the loop"]
    code = fragments.changed(changes).sass().instructions
    last = max(i for i, line in enumerate(code) if line.startswith("HGMMA"))
    back = next(i for i in range(last, len(code)) if code[i].startswith("BRA"))
    waits = [i for i, line in enumerate(code) if line.startswith("WARPGROUP.DEPBAR")]
    assert waits and min(waits) > back > last


def test_ss_and_rs_are_equally_fast_from_64_on_and_rs_is_faster_below():
    measured = curves("ceiling", "cycles")
    for n in measured.x:
        ss, rs = measured.at("SS", n), measured.at("RS", n)
        assert abs(ss / rs - 1) < 0.02 if n >= 64 else rs < ss


# ---- registers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tile", "codes"),
    [
        ((128, 224), set()),
        ((128, 232), {"C7512"}),
        ((128, 240), {"C7512"}),
        ((192, 176), {"C7511"}),
    ],
)
def test_the_cliff_is_where_the_page_says(tile, codes):
    program = compile_kernel("v1_wgmma", TILE_M=tile[0], TILE_N=tile[1])
    assert set(advisories(program.log)) == codes
    used = program.resources
    assert bool(used.spill_stores + used.spill_loads) == bool(codes)


def test_128_times_256_is_stopped_by_its_shared_memory_and_then_by_its_registers():
    with pytest.raises(CompileError, match="static assertion failed.*48 KB of static memory"):
        compile_kernel("v1_wgmma", TILE_M=128, TILE_N=256)
    source = (KERNELS / "v1_wgmma.cu").read_text()
    line = "constexpr int TILE_K = 64;"
    assert source.count(line) == 1
    shallow = source.replace(line, line.replace("64", "32"))
    program = compile_cuda(shallow, "v1_wgmma", defines={"TILE_M": 128, "TILE_N": 256})
    assert set(advisories(program.log)) == {"C7511"} and program.resources.spill_stores


def test_v1_needs_the_same_handful_of_registers_beside_its_sums_for_every_tile():
    beside = {
        compile_kernel("v1_wgmma", TILE_M=m, TILE_N=n).resources.registers - m * n // 128
        for m, n in ((64, 64), (128, 64), (128, 128), (128, 192), (128, 224))
    }
    assert len(beside) == 1


def test_the_first_product_of_a_round_has_scale_d_as_a_predicate_and_no_other():
    lines = [
        line for line in compile_kernel("rs_wgmma").sass().instructions if line.startswith("HGMMA")
    ]
    assert [", UP" in line for line in lines] == [True, False, False, False]


# ---- out of the registers -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [64, 192])
@pytest.mark.parametrize("way", fragments.WAYS)
def test_every_way_stores_every_element(way, n):
    program = compile_kernel("store_tile", TILE_N=n, WAY=fragments.WAYS[way])
    program.require_clean()
    tiles = numpy.random.default_rng(n).integers(-999, 999, (2, 64, n)).astype("float32")
    held = fragments.held_tiles(tiles)
    c, clocks = fragments.launch_store(EMULATED, program, 2, held)
    assert (c == tiles).all() and clocks.shape == (2, 4, 2)
    assert program.sass().count("STSM") == (0 if way == "direct" else n // 16)


def test_the_swizzle_takes_a_matrix_from_eight_turns_to_one():
    for n in fragments.STORE_N:
        pieces = n // 8
        for piece in range(pieces):
            rows = [(row * pieces + piece) * 16 for row in range(8)]
            swizzled = [(row * pieces + (piece ^ row % 8)) * 16 for row in range(8)]
            assert (turns(rows), turns(swizzled)) == (8, 1)
    source = (KERNELS / "store_tile.cu").read_text()
    assert "return row * PIECES + (WAY == 1 ? piece ^ row % 8 : piece);" in source


def test_a_half_filled_visit_takes_as_long_as_two_whole_ones():
    """What the page says of the recorded cycles of a 64 × 256 tile."""
    measured = curves("store_tile", "cycles")
    direct, staged, crooked = (measured.at(way, 256) for way in fragments.WAYS)
    assert direct > crooked > staged
    assert direct / 2048 == pytest.approx(2 * staged / 1024, rel=0.1)
    assert 512 < staged / 3 and crooked / 2 < 2304 < crooked


def test_the_h200_was_right_in_spite_of_every_break():
    wrong = arrays("rs_wgmma", "broken")["wrong"]
    assert wrong.shape == (len(fragments.BREAKS), 1000) and not wrong.any()


@pytest.mark.parametrize("kind", MAPS)
def test_the_h200_told_the_map_of_its_sums(kind):
    told = arrays("fragment_map", f"accumulators {kind}")
    row, column = MAPS[kind](*numpy.indices(told["rows"].shape))
    assert row.size == 64 * 256 and told["same"].all()
    assert told["sizes"].tolist() == list(fragments.SUMS[kind].sizes)
    assert (told["rows"] == row).all() and (told["columns"] == column).all()


@pytest.mark.parametrize("bits", fragments.OPERANDS)
def test_the_h200_told_the_map_of_a(bits):
    told = arrays("fragment_map", "A in registers")
    row, k = a_held_by(*numpy.indices((128, 4, 32 // bits)), item_bytes=bits // 8)
    assert (told[f"rows {bits}"] == row).all() and (told[f"ks {bits}"] == k).all()


def test_a_tile_whose_rows_are_no_multiple_of_128_bytes_is_refused():
    with pytest.raises(CompileError, match="multiple of 128 bytes"):
        compile_kernel("store_tile", TILE_N=96)


@given(some.sampled_from(WIDTHS), some.lists(some.integers(0, 500), min_size=1, max_size=32))
def test_sectors_are_counted_as_bytes_say(width, places):
    addresses = [place * width for place in places]
    found = touched(numpy.array(addresses), width)
    written = {address + byte for address in addresses for byte in range(width)}
    assert found.bytes == len(written)
    assert found.sectors == len({byte // SECTOR_BYTES for byte in written})
    assert 0 < found.filled <= 1


def test_pairs_of_fp32_fill_their_sectors_and_pairs_of_fp16_half():
    row, column = held_by(numpy.arange(32), 0)
    for n in (64, 256):
        filled = [touched((row * n + column) * size, 2 * size).filled for size in (4, 2)]
        assert filled == [1.0, 0.5]


def test_a_store_that_no_thread_can_do_is_refused():
    with pytest.raises(ProblemError, match="width=3: a thread stores"):
        touched(numpy.array([0]), 3)
    with pytest.raises(ProblemError, match="address 6: a store of 4 bytes needs"):
        touched(numpy.array([0, 6]), 4)


@pytest.mark.parametrize("n", [391, 392])
def test_an_odd_n_misaligns_the_pairs_of_every_odd_row(n):
    lanes = numpy.arange(32)
    row, column = held_by(lanes, 0)
    misaligned = (row * n + column) * 2 % 4 != 0
    assert (misaligned == (row % 2 == 1) & (n % 2 == 1)).all()


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.kernel in KERNELS_OF_THE_CHAPTER and not c.name.endswith(".256")],
    ids=lambda case: case.name,
)
def test_the_kernels_break_no_rule_and_agree_on_every_schedule(case):
    runs = [
        emulate(case, Emulator(on_hazard="collect", **how))
        for how in ({}, {"schedule": "random", "tma": "random", "seed": 3})
    ]
    assert [run.hazards for _, run in runs] == [(), ()]
    assert digest(runs[0][0]) == digest(runs[1][0])


# ---- the experiments, on the emulator -----------------------------------------------------------


@pytest.fixture
def short(monkeypatch):
    """Sizes at which the experiments take a moment each."""
    for kind, sums in fragments.SUMS.items():
        small = fragments.Sums(sums.defines, (8, 64), sums.dtype, sums.packed)
        monkeypatch.setitem(fragments.SUMS, kind, small)
    for name, value in {"SEEDS": 1, "LAUNCHES": 2, "ROUNDS": 3, "REPEATS": 1}.items():
        monkeypatch.setattr(fragments, name, value)
    monkeypatch.setattr(fragments, "STORE_N", (64,))


def recorded(kernel: str, gpu: Played) -> list:
    return [one.run(gpu, compile_kernel(kernel)) for one in experiments_of(kernel)]


@pytest.mark.parametrize("kernel", KERNELS_OF_THE_CHAPTER)
def test_what_is_recorded_survives_a_record(short, kernel):
    gpu = Played(Emulator(on_hazard="ignore"))
    found = recorded(kernel, gpu)
    assert [data.name for data in found] == [one.name for one in experiments_of(kernel)]
    for data in found:
        written = json.loads(json.dumps(asdict(data)))
        assert parse(type(data), written, "record", "data") == data
        assert isinstance(data, Sweep if kernel == "store_tile" else Probe)


def test_a_recorded_map_is_the_largest_and_says_which_n_begin_like_it(short):
    data = fragments.probe_sums("f16", Played(), compile_kernel("fragment_map"))
    arrays = {name: array.array() for name, array in data.arrays.items()}
    assert arrays["rows"].shape == (128, 16, 2) and arrays["rows"].dtype == "uint8"
    assert arrays["sizes"].tolist() == [8, 64] and arrays["same"].all()


def test_a_smaller_n_that_differs_is_recorded_as_different(short, monkeypatch):
    told = fragments.told

    def other(here, kind, n):
        row, column = told(here, kind, n)
        return (row, column) if n == 64 else (row, column[:, ::-1])

    monkeypatch.setattr(fragments, "told", other)
    data = fragments.probe_sums("f32", Played(), compile_kernel("fragment_map"))
    assert data.arrays["same"].array().tolist() == [False, True]


@pytest.mark.parametrize("fault", [1.0, numpy.nan])
@pytest.mark.parametrize(
    ("kernel", "name"),
    [("rs_wgmma", "integers"), ("rs_wgmma", "broken"), ("store_tile", "cycles")],
)
def test_a_single_wrong_element_is_not_recorded(short, kernel, name, fault):
    one = next(one for one in experiments_of(kernel) if one.name == name)
    with pytest.raises(CheckError, match="nothing was recorded"):
        one.run(Played(fault=fault), compile_kernel(kernel))


# ---- the exercises ------------------------------------------------------------------------------


def cells_with(function: str) -> list[str]:
    """The chapter's code cells that call this check, in order."""
    return [cell for cell in notebooks.code_cells("fragments") if f"exercises.{function}(" in cell]


@pytest.mark.parametrize(
    ("function", "solved"),
    [
        ("passed_on", "right: all 8192 elements"),
        ("a_bytes", "right: all 2048 bytes"),
        ("row_sum", "right: 2 shuffles"),
        ("stored", "sectors: 4 is right\nfilled: 0.5 is right"),
        ("stmatrix_order", "right: all 4096 elements"),
    ],
)
def test_the_chapters_question_is_open_and_its_solution_right(function, solved, capsys):
    question, solution = cells_with(function)
    capsys.readouterr()
    exec(question, {"exercises": exercises})
    assert "not answered yet" in capsys.readouterr().out
    exec(solution, {"exercises": exercises})
    assert capsys.readouterr().out.startswith(solved)


def test_the_question_does_it_fit_is_open_and_its_solution_as_the_compiler_says(capsys):
    question, solution = cells_with("fits")
    exec(question, {"exercises": exercises})
    assert "not answered yet" in capsys.readouterr().out
    exec(solution, {"exercises": exercises, "constant": constant, "most": 255, "cliff": {64: 90}})
    assert "26 registers beside the sums\nright: for 8 tiles" in capsys.readouterr().out


def passed(row: int, column: int) -> tuple[int, ...]:
    """The solution of the exercise, from the module that the chapter teaches."""
    thread, register, half = a_holder(row, column % 16)
    return thread, column // 16, register, half


def test_what_is_passed_on_is_where_the_packed_sums_lie():
    row, column = numpy.indices((64, 128))
    thread, register, half = f16_holder(row, column)
    found = numpy.stack((thread, register // 4, register % 4, half), axis=-1)
    for i, j in numpy.ndindex(64, 128):
        assert tuple(found[i, j]) == passed(i, j)


def other(part: int, value: int):
    """``passed``, one of its four answers always ``value``."""
    return lambda i, j: tuple(value if n == part else it for n, it in enumerate(passed(i, j)))


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda: exercises.passed_on(other(0, 7)), "element (0, 0): thread 7: nothing leaves"),
        (lambda: exercises.passed_on(other(1, 0)), "element (0, 16): step 0"),
        (lambda: exercises.passed_on(other(2, 0)), "(0, 8): register 0: of its 16 columns this is"),
        (lambda: exercises.passed_on(other(3, 0)), "element (0, 1): half 0: the left one"),
        (lambda: exercises.passed_on(lambda i, j: i), "returned 0; return 4 whole numbers: thread"),
        (lambda: exercises.passed_on(lambda i, j: (i, j)), "returned (0, 0); return 4 whole"),
        (lambda: exercises.passed_on(lambda i, j: (i / 16, 0, 0, 0)), "returned (0.0, 0, 0, 0)"),
        (lambda: exercises.passed_on(lambda i, j: "0000"), "returned '0000'"),
        (lambda: exercises.passed_on(lambda i, j: None), "not answered yet"),
        (
            lambda: exercises.a_bytes(lambda t, r, b: a_held_by(t, r, b // 2)),
            "thread 0, register 0, byte 1: your map says (0, 0); this is the place of a 16-bit",
        ),
        (
            lambda: exercises.a_bytes(lambda t, r, b: (0, b)),
            "register 1, byte 0: your map says (0, 0); row 0 is not its row; register 1 is in the "
            "lower eight of the 16 rows of warp 0",
        ),
        (
            lambda: exercises.a_bytes(lambda t, r, b: (a_held_by(t, r, 0)[0], b)),
            "register 2, byte 0: your map says (0, 0); k = 0 is not its k; register 2 is in the "
            "second 16 bytes",
        ),
        (lambda: exercises.a_bytes(lambda t, r, b: 3), "returned 3; return 2 whole numbers: row"),
        (lambda: exercises.row_sum((1,)), "lane 0 never hears of lane 2"),
        (lambda: exercises.row_sum((1, 2, 4)), "lane 0 adds lane 4, which holds another row"),
        (lambda: exercises.row_sum((1, 2, 1)), "lane 0 counts lane 0 more than once"),
        (lambda: exercises.row_sum((0, 1)), "mask 0"),
        (lambda: exercises.row_sum((32,)), "mask 32"),
        (lambda: exercises.row_sum(1), "masks=1: give a tuple of whole numbers"),
        (lambda: exercises.row_sum("12"), "masks='12': give a tuple"),
        (lambda: exercises.row_sum((1.0, 2)), "masks=(1.0, 2): give a tuple"),
        (lambda: exercises.fits(lambda m, n, t: True), "128 × 192, 384 threads: you say True"),
        (lambda: exercises.fits(lambda m, n, t: False), "64 × 256, 128 threads: you say False"),
        (
            lambda: exercises.fits(lambda m, n, t: m * n // 128 + 26 <= 255),
            "at most 168 registers: 168 are not enough, and",
        ),
        (
            lambda: exercises.fits(lambda m, n, t: m * n // 128 <= min(255, 65536 // t // 8 * 8)),
            "128 × 128, 512 threads: you say True; these are 128 sums",
        ),
        (lambda: exercises.fits(lambda m, n, t: 128), "returned 128; return True or False"),
        (lambda: exercises.stored({"sectors": 16, "filled": 0.5}), "sectors: not yet, 16; eight"),
        (lambda: exercises.stored({"sectors": 8, "filled": 1}), "filled: not yet, 1; all lanes"),
        (lambda: exercises.stored({"sectors": 16}), "filled: not answered yet"),
        (lambda: exercises.stored({"sectors": 8, "filled": "50%"}), "filled: '50%' is no number"),
        (lambda: exercises.stored((4, 0.5)), "(4, 0.5): give both, as {'sectors'"),
        (
            lambda: exercises.stmatrix_order("lane % 16", "lane / 16"),
            "2048 of 4096 elements are wrong; in the place of element (0, 8) is element (8, 0)",
        ),
        (lambda: exercises.stmatrix_order("lane % 8", "0"), "4096 elements are wrong"),
        (lambda: exercises.stmatrix_order("lane", "0"), "the emulator reports"),
        (lambda: exercises.stmatrix_order("lane // 16", "0"), "row: // begins a comment in C++"),
        (lambda: exercises.stmatrix_order("lane %", "0"), "it does not compile"),
        (lambda: exercises.stmatrix_order("0", 1), "piece=1: give an expression in C++ as text"),
        (lambda: exercises.stmatrix_order("0", None), "not answered yet: give piece"),
    ],
)
def test_a_wrong_answer_is_named(use, told, capsys):
    use()
    out = capsys.readouterr().out
    assert told in out and "right:" not in out


# ---- the pictures -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.accumulator_fragment(127, 256),
        lambda: figures.accumulator_fragment(0, 8),
        lambda: figures.store_sectors(256),
        figures.stmatrix_matrices,
    ],
)
def test_the_pictures_are_drawn_as_all_of_the_books(draw):
    for holds in (
        test_figures.test_svg_is_well_formed_and_speaks,
        test_figures.test_text_is_legible_on_a_phone,
        test_figures.test_everything_lies_on_the_sheet,
        test_figures.test_every_colour_is_a_variable_of_the_palette_with_its_light_fallback,
    ):
        holds(draw())


def test_the_pictures_say_what_they_show():
    shown = figures.accumulator_fragment(22, 64)
    assert "(5, 4), (5, 5), (13, 4), (13, 5)" in shown.alt
    assert shown.body.count("<rect") == 1 + 4 + 32, "paper, warps, elements"
    stores = figures.store_sectors(64)
    assert "8 sectors, 50% filled" in stores.alt and "16 sectors, 100% filled" in stores.alt
    matrices = figures.stmatrix_matrices().alt
    assert "matrix 1, rows 8 to 15, columns 0 to 7, comes from d[2] and d[3]" in matrices


@pytest.mark.parametrize(
    ("draw", "told"),
    [
        (lambda: figures.accumulator_fragment(128, 64), "thread=128"),
        (lambda: figures.accumulator_fragment(0, 60), "N=60"),
        (lambda: figures.store_sectors(96), "n=96"),
        (lambda: figures.fragment_explorer(12), "N=12"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, told):
    with pytest.raises(ProblemError, match=told):
        draw()


# ---- with a Hopper GPU --------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize("kind", fragments.SUMS)
def test_a_gpu_tells_the_maps_for_every_n(kind):
    for n in fragments.SUMS[kind].sizes:
        told = fragments.told(find_hopper(), kind, n)
        expected = MAPS[kind](*numpy.indices(told[0].shape))
        assert all((a == b).all() for a, b in zip(told, expected, strict=True)), n


@pytest.mark.hopper
@pytest.mark.parametrize("bits", fragments.OPERANDS)
def test_a_gpu_tells_the_map_of_a(bits):
    rows, ks = fragments.told_a(find_hopper(), bits)
    row, k = a_held_by(*numpy.indices(rows.shape), item_bytes=bits // 8)
    assert (rows == row).all() and (ks == k).all()
