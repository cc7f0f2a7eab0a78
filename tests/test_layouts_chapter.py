"""The chapter on layouts: its exercises, its kernel and experiments without a GPU, its figures."""

import json
import re
import sys
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy
import pytest

from hopper import exercises, figures, notebooks
from hopper.backends import backend, find_hopper
from hopper.compile import advisories, compile_kernel
from hopper.errors import CheckError, CompileError, ProblemError
from hopper.experiments import experiments_of, layouts
from hopper.layout import (
    Layout,
    blocked_product,
    logical_divide,
    matrices,
    parse,
    row_major,
    zipped_divide,
)
from hopper.layout.copying import COPIES, TILE, Copy, copy

from hopper.schema import Probe, Sweep, parse as parsed  # isort: skip

# ---- the exercises ------------------------------------------------------------------------------

RIGHT = "((8,8),(8,8)):((8,512),(1,64))"


def told(capsys, check, *answer) -> str:
    capsys.readouterr()
    check(*answer)
    return capsys.readouterr().out


def test_the_chapters_open_answers_are_open_and_its_solutions_right(capsys):
    cells = [cell for cell in notebooks.code_cells("layouts") if "exercises." in cell]
    assert len(cells) == 8
    scope = {
        "exercises": exercises, "blocked_product": blocked_product, "row_major": row_major
    }  # fmt: skip
    for asked, solved in zip(cells[::2], cells[1::2], strict=True):
        for cell, word in ((asked, "not answered yet"), (solved, "right")):
            capsys.readouterr()
            exec(cell, scope)
            out = capsys.readouterr().out
            assert word in out and "not yet:" not in out


def test_reading_aloud_names_each_wrong_number(capsys):
    right = (4, 2, 16, 2, 8, 8)
    assert told(capsys, exercises.read_aloud, *right).count("is right") == 6
    names = ["lanes_in_a_row", "columns_to_the_next_lane", "rows_a_warp_steps", "neighbours"]
    names += ["rows_to_the_other_half", "columns_to_the_next_four"]
    parts = ["first part of mode 0, 4:128"] * 2 + ["third part of mode 0, 4:16"]
    parts += ["first part of mode 1, 2:64", "second part of mode 1, 2:8"]
    parts += ["third part of mode 1, 8:512"]
    for place, name in enumerate(names):
        wrong = (*right[:place], right[place] + 1, *right[place + 1 :])
        lines = told(capsys, exercises.read_aloud, *wrong).splitlines()
        assert [line for line in lines if "not yet" in line] == [lines[place]]
        assert lines[place].startswith(name)
        assert lines[place].endswith(f"look at the {parts[place]}")
    out = told(capsys, exercises.read_aloud, 4, 128, 16, 2, 8, 512)
    assert "128 is the stride; a column is 64" in out and "512 is the stride" in out


def test_what_is_read_aloud_is_the_accumulator():
    held = matrices.accumulator(64)
    place = {(i, j): (t, v) for t in range(128) for v in range(32)
             for j, i in [divmod(held(t, v), 64)]}  # fmt: skip
    assert place[0, 2] == (1, 0) and place[1, 0] == (4, 0) and place[16, 0] == (32, 0)
    assert place[0, 1] == (0, 1) and place[8, 0] == (0, 2) and place[0, 8] == (0, 4)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("((8,8),(8,8)):((8,64),(1,512))", "row 8, k 0 goes to 64; it belongs at 512"),
        ("((8,8),(8,8)):((8,64),(1,512))", "stacked core matrices along the rows"),
        ("(64,64):(64,1)", "row 1, k 0 goes to 64; it belongs at 8"),
        ("(64,64):(64,1)", "that is row-major, without core matrices"),
        ("(64,(8,8)):(64,(1,8))", "that is row-major"),
        ("(64,64):(1,64)", "that is column-major"),
        ("(64,32):(64,1)", "64 × 32 coordinates; two modes of 64"),
        ("4096:1", "a plain layout of two modes"),
        ("Sw<3,3,3> o (64,64):(64,1)", "a plain layout of two modes"),
        ("(64,64)", "between shape and stride"),
        (None, "not answered yet"),
    ],
)
def test_a_wrong_tile_is_named(capsys, answer, named):
    out = told(capsys, exercises.core_matrix_layout, answer)
    assert named in out and "right" not in out


def test_a_tile_written_in_another_way_is_right(capsys):
    again = "(((4,2),8),(8,8)):(((8,32),512),(1,64))"
    assert told(capsys, exercises.core_matrix_layout, again).startswith("right")
    flat = "((2,2),(2,2)):((16,1),(4,8))"
    out = told(capsys, exercises.compose_by_hand, flat)
    assert out.startswith("right") and "composition writes ((2,2),4):((16,1),4)" in out


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("(4,4):(16,4)", "coordinate (2,0) goes to 32; it belongs at 1"),
        ("(4,4):(16,4)", "after two steps the first mode of A is used up; the next goes into 4:1"),
        ("(2,8):(1,2)", "sizes [2, 8]"),
    ],
)
def test_a_wrong_composition_is_named(capsys, answer, named):
    assert named in told(capsys, exercises.compose_by_hand, answer)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("((32,4),(2,16)):((128,1),(64,8))", "it reaches place 4155"),
        ("((32,4),(2,16)):((128,1),(64,2))", "row 2, column 0 belongs to 2 pairs"),
        ("((32,4),(2,16)):((128,16),(64,1))", None),
        ("((32,4),(2,16)):((128,1),(1,4))", "their stride must be 64"),
        ("((32,8),(2,8)):((128,1),(64,8))", "256 threads; 128 are wanted"),
        ("(128,32):(1,128)", "two modes of threads and two of values"),
        ("((64,2),(2,16)):((1,2048),(64,128))", "ask for 4 times"),
        (None, "not answered yet"),
    ],
)
def test_a_copy_that_is_designed_wrong_is_named(capsys, answer, named):
    out = told(capsys, exercises.copy_layout, answer)
    if named is None:
        assert out.startswith("right: 8 sectors") and ": 0 of 32768 elements differ" in out
    else:
        assert named in out and "right" not in out


# ---- the kernel ---------------------------------------------------------------------------------


def test_the_five_ways_give_each_element_to_one_thread_and_value():
    for way in COPIES.values():
        assert sorted(way.layout.offsets.tolist()) == list(range(TILE * TILE))
        program = way.compile()
        assert program.facts.threads == way.layout[0].size == 256
        assert advisories(program.log) == {}
    as_written = compile_kernel("layout_copy")
    assert as_written.identity == COPIES["rows, 4 at once"].compile().identity


def sectors_one_by_one(way: Copy, columns: int) -> list[list[int]]:
    """By the definition: sets of 32-byte sectors, a warp and an instruction at a time."""
    found = []
    for warp in range(way.layout[0].size // 32):
        counts = []
        for value in range(0, way.layout[1].size, way.vector):
            touched = set()
            for lane in range(32):
                for more in range(way.vector):
                    column, row = divmod(way.layout(32 * warp + lane, value + more), TILE)
                    touched.add((row * columns + column) * 4 // 32)
            counts.append(len(touched))
        found.append(counts)
    return found


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("columns", [64, 192])
def test_sectors_are_those_of_the_definition(name, columns):
    way = COPIES[name]
    assert way.sectors(columns).tolist() == sectors_one_by_one(way, columns)


def test_the_ways_waste_what_the_chapter_says():
    wasted = [way.waste(16384) for way in COPIES.values()]
    assert wasted == [1, 1, 2, 4, 8]


def test_only_columns_touch_sectors_that_other_warps_need():
    touched = []
    for way in COPIES.values():
        words = way.offsets(16384)(numpy.arange(32)[:, None], numpy.arange(16))
        touched.append(len(numpy.unique(words * 4 // 32)))
    assert touched == [64, 64, 64, 64, 256]


@pytest.mark.parametrize(
    ("tiler", "named"),
    [
        ((2, 3), r"\(4,8\):\(8,1\) cut into tiles \(2,3\): tiles of 3 do not fill the 8 elements"),
        ((parse("2:2"), 3), r"\(4,8\):\(8,1\) cut into tiles \(2:2,3\): tiles of 3"),
        (5, r"\(4,8\):\(8,1\) cut into tiles 5: tiles of 5 do not fill the 32"),
        ((2, 2, 2), r"cut into tiles \(2,2,2\): tiler .*3 parts"),
        ((2, parse("4:4")), r"cut into tiles \(2,4:4\): 8:1 ∘ "),
    ],
)
def test_tiles_that_do_not_fill_a_matrix_are_named_with_it(tiler, named):
    for divide in (logical_divide, zipped_divide):
        with pytest.raises(ProblemError, match=named):
            divide(row_major((4, 8)), tiler)


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_exact_and_writes_nothing_else(name):
    here, program = backend(), COPIES[name].compile()
    words = numpy.random.default_rng(0).integers(0, 1 << 32, (64, 192), numpy.uint32)
    around = numpy.full((3, 64, 192), 7, numpy.uint32)
    out = here.array(around)
    copy(here, program, here.array(words), out[1])
    out = here.numpy(out)
    assert (out[1] == words).all() and (out[::2] == 7).all()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: numpy.zeros((64, 100), "int32"), "columns=100: .*pad the matrix to 128 columns"),
        (lambda: numpy.zeros((0, 64), "int32"), "rows=0: .*64 rows"),
        (lambda: numpy.zeros((65, 64), "int32"), "rows=65"),
        (lambda: numpy.zeros((64, 64), "float32"), "float32, 2 dimensions"),
        (lambda: numpy.zeros((64, 64), "int16"), "int16"),
        (lambda: numpy.zeros(4096, "int32"), "1 dimensions"),
        (lambda: numpy.zeros((64, 128), "int32").T, "not stored one after another"),
    ],
)
def test_a_matrix_that_the_kernel_does_not_copy_is_refused(make, named):
    matrix = make()
    with pytest.raises(ProblemError, match=named):
        copy(backend(), compile_kernel("layout_copy"), matrix, numpy.zeros_like(matrix))


def test_matrices_that_differ_are_refused():
    small, large = numpy.zeros((64, 64), "int32"), numpy.zeros((64, 128), "int32")
    with pytest.raises(ProblemError, match="make them alike"):
        copy(backend(), compile_kernel("layout_copy"), small, large)


@pytest.mark.parametrize(
    ("text", "vector", "named"),
    [
        ("(256,16):(1,256)", 1, "two modes of threads"),
        ("(((4,4),16),(4,4)):(((256,1024),1),(64,16))", 1, "two modes of threads"),
        ("((16,16),(4,4)):((256,1),(64,16))", 8, "a multiple of 8"),
        ("((64,4),(1,16)):((1,64),(0,256))", 4, "their stride must be 64"),
    ],
)
def test_a_way_that_the_kernel_has_not_is_refused(text, vector, named):
    with pytest.raises(ProblemError, match=named):
        Copy(parse(text), vector)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("((16,16),(4,4)):((256,1),(64,8))", "belongs to one thread and value"),
        ("((16,16),(4,4)):((256,1),(64,32))", "belongs to one thread and value"),
        ("((16,16),(4,2)):((256,1),(64,16))", "as many threads times values as elements"),
    ],
)
def test_a_layout_with_holes_does_not_compile(text, rule):
    with pytest.raises(CompileError, match=rule):
        Copy(parse(text)).compile()


# ---- the experiments, on a GPU that is played ---------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlayedGpu:
    """Copies as NumPy does, as long as ``clock`` says; ``fault`` is added to one word."""

    clock: SimpleNamespace
    fault: int = 0

    def array(self, host):
        return host

    def numpy(self, device):
        return device

    def launch(self, program, grid, block, args, shared_bytes):
        source, out, columns = args
        rows = source.shape[0]
        assert type(columns) is numpy.int32 and columns == source.shape[1]
        assert grid == (columns // TILE, rows // TILE, 1) and block == (256, 1, 1)
        assert shared_bytes == program.facts.shared_bytes == 0
        if program.identity == layouts.without_the_rule().identity:
            out[:40] = source[:40]
        else:
            out[:] = source
        out[3, 5] += self.fault
        self.clock.now += 1.0 + program.defines["V1"] / 4  # ms


@pytest.fixture
def played(monkeypatch):
    """CuPy, as far as the experiments use it, and a clock that launches move on."""
    clock = SimpleNamespace(now=0.0)

    class Event:
        def record(self):
            self.at = clock.now

        def synchronize(self):
            pass

    events = SimpleNamespace(Event=Event, get_elapsed_time=lambda start, end: end.at - start.at)
    cupy = SimpleNamespace(cuda=events, arange=numpy.arange, empty_like=numpy.empty_like)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(layouts, "SIDES", (64, 128))
    monkeypatch.setattr(layouts, "SAMPLE_BYTES", 100_000)
    layouts.measured.cache_clear()
    yield PlayedGpu(clock)
    layouts.measured.cache_clear()


def recorded_data(gpu, name):
    one = next(one for one in experiments_of("layout_copy") if one.name == name)
    data = one.run(gpu, compile_kernel("layout_copy"))
    assert data.name == name
    return data


def test_a_rate_counts_what_is_read_and_what_is_written(played):
    data = recorded_data(played, "copy")
    assert isinstance(data, Sweep) and data.unit == "GB/s" and data.axis_values == (64, 128)
    assert list(data.series) == list(COPIES)
    for name, way in COPIES.items():
        milliseconds = 1 + way.defines["V1"] / 4
        expected = [2 * 4 * side * side / milliseconds / 1e6 for side in (64, 128)]
        assert data.series[name] == pytest.approx(expected)


def test_a_share_is_of_the_fastest_of_each_round(played):
    data = recorded_data(played, "copy share")
    assert data.unit == "%" and data.series["chunks, 4 at once"] == pytest.approx((100, 100))
    assert data.series["rows"] == pytest.approx((100 * 1.25 / 5, 100 * 1.25 / 5))


def test_the_ways_take_turns(played, monkeypatch):
    taken = []
    monkeypatch.setattr(layouts, "copy", lambda gpu, program, *rest: taken.append(program) or
                        copy(gpu, program, *rest))  # fmt: skip
    layouts.samples(played, 128)
    ids = {way.compile().identity: index for index, way in enumerate(COPIES.values())}
    order = [ids[program.identity] for program in taken]
    checks, timed = order[:5], order[5:]
    assert checks == [0, 1, 2, 3, 4] and timed[:5] == [0, 1, 2, 3, 4]
    assert timed[5:10] == [1, 2, 3, 4, 0] and len(timed) == 5 * (layouts.ROUNDS + 1)


@pytest.mark.parametrize("name", ["copy", "copy share"])
def test_a_single_wrong_word_is_not_timed(played, name):
    with pytest.raises(CheckError, match="1 of 4096 elements are wrong; nothing was timed"):
        recorded_data(replace(played, fault=1), name)


def test_the_holes_are_kept_as_they_came(played):
    data = recorded_data(played, "holes")
    assert isinstance(data, Probe)
    source, out = (data.arrays[name].array() for name in ("in", "out"))
    assert (out[:40] == source[:40]).all() and (out[40:] == -1).all()


def test_in_the_emulator_the_holes_are_the_same():
    here, program = backend(), layouts.without_the_rule()
    words = numpy.arange(TILE * TILE, dtype="int32").reshape(TILE, TILE)
    out = here.array(numpy.full_like(words, -1))
    copy(here, program, here.array(words), out)
    out = here.numpy(out)
    assert (out[:40] == words[:40]).all() and (out[40:] == -1).all()
    rows = {int(offset) % TILE for offset in layouts.HOLES.layout.offsets}
    assert rows == set(range(40))


def test_what_is_measured_survives_a_record(played):
    for one in experiments_of("layout_copy"):
        data = one.run(played, compile_kernel("layout_copy"))
        written = json.loads(json.dumps(asdict(data)))
        assert parsed(type(data), written, "record", "data") == data


# ---- the figures --------------------------------------------------------------------------------

TILED = parse("((2,2),(4,2)):((4,16),(1,8))")


def pictures():
    def tile(i, j):
        return i // 2 + 2 * (j // 4)

    names = [f"tile {t}" for t in range(4)]
    return {
        "grid": figures.layout_grid(TILED),
        "groups": figures.layout_grid(TILED, group=tile, names=names),
        "wide": figures.layout_grid(Layout((2, 12))),
        "memory": figures.layout_memory(Layout((4, 6), (8, 1))),
        "threads": figures.thread_values(parse("((4,8),2):((16,1),8)"), 8, 8),
        "composition": figures.layout_composition(parse("(6,2):(8,2)"), parse("(4,3):(3,1)")),
        "division": figures.layout_division(row_major((4, 8)), (2, 4)),
    }


def words_of(figure) -> list[str]:
    return [e.text for e in ElementTree.fromstring(figure.svg).iter() if e.tag.endswith("text")]


@pytest.mark.parametrize("name", pictures())
def test_a_picture_is_well_formed_legible_and_within_its_sheet(name):
    figure = pictures()[name]
    root = ElementTree.fromstring(figure.svg)
    assert root.get("aria-label") == figure.alt and figure.alt.endswith(".")
    for element in root.iter():
        if element.tag.endswith("text"):
            size = float(re.search(r"font-size:([\d.]+)px", element.get("style"))[1])
            assert size * 328 / figure.width >= 11
        if element.tag.endswith("rect"):
            x, y, width, height = (
                float(element.get(key) or 0) for key in ("x", "y", "width", "height")
            )
            assert x + width <= figure.width and y + height <= figure.height
    assert not re.search(r"(?<!,)#[0-9a-f]{6}", figure.body.split("<defs>")[0])


def test_a_grid_shows_every_offset_at_its_coordinate():
    figure = pictures()["grid"]
    assert [[int(x) for x in row[1:]] for row in figure.rows] == TILED.table.tolist()
    shown = words_of(figure)
    numbers = [word for word in shown if word.isdigit()]
    assert sorted(map(int, numbers)) == sorted([*range(32), *range(4), *range(8)])


def test_memory_shows_coordinates_and_leaves_gaps():
    figure = pictures()["memory"]
    assert ("8", "1,0") in figure.rows and ("6", "0,6") not in figure.rows
    assert figure.body.count("stroke-dasharray") == 6 and "6 elements in between" in figure.alt


def test_threads_and_values_are_those_of_the_layout():
    figure = pictures()["threads"]
    layout = parse("((4,8),2):((16,1),8)")
    for i, row in enumerate(figure.rows):
        for j, cell in enumerate(row[1:]):
            thread, value = map(int, re.fullmatch(r"T(\d+) V(\d+)", cell).groups())
            assert layout(thread, value) == i + 8 * j


def test_a_composition_and_a_division_show_what_they_compute():
    rows = pictures()["composition"].rows
    assert pictures()["composition"].caption == "One colour for each step of B's second mode."
    assert figures.layout_composition(Layout(6), Layout(3, 2)).caption == ""
    assert rows[:4] == (("0", "0", "0"), ("1", "3", "24"), ("2", "6", "2"), ("3", "9", "26"))
    assert pictures()["division"].rows[1] == ("tile 1", "16, 24, 17, 25, 18, 26, 19, 27")


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (lambda: figures.layout_grid(Layout((4, 40))), "40 columns of .* do not fit"),
        (lambda: figures.layout_grid(Layout((2, 2, 2))), "rank 3"),
        (lambda: figures.layout_grid(Layout((32, 32))), "at most 256"),
        (lambda: figures.layout_memory(Layout((4, 6), (0, 1))), "one coordinate at an offset"),
        (lambda: figures.layout_memory(Layout((4, 6), (64, 1))), "this spans 198"),
        (lambda: figures.thread_values(parse("(4,2):(1,2)"), 4, 2), "does not give each of the 4"),
        (lambda: figures.layout_composition(Layout(16), Layout(4)), "16 elements; at most 12"),
        (lambda: figures.layout_division(row_major((4, 8)), (2, 2)), "8 tiles; up to four"),
    ],
)
def test_a_picture_that_would_not_be_legible_is_refused(draw, named):
    with pytest.raises(ProblemError, match=named):
        draw()


# ---- with a Hopper GPU --------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize("name", COPIES)
def test_a_large_copy_is_exact(name):
    import cupy

    matrix = cupy.arange(4096 * 2048, dtype="int32").reshape(4096, 2048)
    out = cupy.full_like(matrix, -1)
    copy(find_hopper(), COPIES[name].compile(), matrix, out)
    assert bool((out == matrix).all())
