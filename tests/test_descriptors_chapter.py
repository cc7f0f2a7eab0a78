"""The chapter on descriptors: its exercises, its pictures, and its experiments without a GPU."""

import json
import re
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace

import numpy
import pytest

from hopper import exercises, figures, notebooks
from hopper.backends import find_hopper
from hopper.compile import CompileError, compile_kernel
from hopper.descriptor import FIELD_BITS, Descriptor, decode
from hopper.emulator import Emulator
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import CheckError, ProblemError
from hopper.exercises.descriptors import N_MAJOR, ROW_BYTES, WRONG
from hopper.experiments import descriptors as probe
from hopper.experiments import experiments_of, shared_reads
from hopper.figures.descriptor_bits import Operand
from hopper.figures.palette import colour
from hopper.placement import Placement
from hopper.schema import Sweep, parse
from hopper.swizzle import swizzled

# ---- the experiments, in the emulator ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlayedGpu:
    """The emulator in the place of a GPU; ``fault`` is added to one element of each result.

    A warp's access takes 5 cycles, a wgmma 33: warps start one cycle after the other.
    """

    sm_count: int = 2
    fault: int = 0
    emulated: EmulatedGpu = EmulatedGpu(Emulator())

    def array(self, host):
        return self.emulated.array(host)

    def numpy(self, device):
        return self.emulated.numpy(device)

    def tensor_map(self, described):
        return described

    def launch(self, program, grid, block, args, shared_bytes):
        assert block == (program.facts.threads, 1, 1)
        assert shared_bytes == program.facts.shared_bytes
        run = self.emulated.launch(program, grid, block, args, shared_bytes)
        result = {"tma_swizzle": 1, "bank_conflicts": 1, "wgmma_modes": 8, "descriptor_probe": 2}
        args[result[program.kernel]].reshape(-1)[5] += self.fault
        clocks = {"bank_conflicts": 2, "wgmma_modes": 9}.get(program.kernel)
        if clocks:
            rounds = int(args[clocks + 1])
            took = {"bank_conflicts": 16 * 8 * 5, "wgmma_modes": 2 * 4 * 33}[program.kernel]
            times = args[clocks]
            times[..., 0] = numpy.arange(times[..., 0].size).reshape(times.shape[:-1])
            times[..., 0] %= times.shape[-2]
            times[..., 1] = rounds * took
        return run


@pytest.fixture
def small(monkeypatch):
    """Experiments that are over soon: the same code, fewer variants and rounds."""
    readers = [probe.Reader("f16", "MN", "B"), probe.Reader("s8", "K", "A")]
    for module, name, value in (
        (probe, "READERS", readers),
        (probe, "STARTS", (0, 384)),
        (shared_reads, "ROUNDS", 2),
        (shared_reads, "STRIDES", (1, 4)),
        (shared_reads, "LAUNCHES", 2),
        (shared_reads, "MODE_N", (64,)),
        (shared_reads, "MODE_SPANS", (0, 128)),
        (shared_reads, "MODE_ROUNDS", 2),
        (shared_reads, "CHECKED_ROUNDS", (3,)),
    ):
        monkeypatch.setattr(module, name, value)


KERNELS = ("descriptor_probe", "tma_swizzle", "bank_conflicts", "wgmma_modes")
EVERY = [(one.kernel, one.name) for kernel in KERNELS for one in experiments_of(kernel)]


def recorded(gpu, kernel: str, name: str):
    one = next(one for one in experiments_of(kernel) if one.name == name)
    return one.run(gpu, compile_kernel(kernel))


@pytest.mark.parametrize(("kernel", "name"), EVERY)
def test_what_is_measured_is_right_and_survives_a_record(small, kernel, name):
    data = recorded(PlayedGpu(), kernel, name)
    assert data.name == name
    written = json.loads(json.dumps(asdict(data)))
    assert parse(type(data), written, "record", "data") == data
    if isinstance(data, Sweep):  # until the last warp is done, from the first one's start
        cycles = 33 if kernel == "wgmma_modes" else 5
        assert {value for curve in data.series.values() for value in curve} == {cycles}


@pytest.mark.parametrize(("kernel", "name"), EVERY)
def test_a_single_wrong_element_is_not_recorded(small, kernel, name):
    with pytest.raises(CheckError):
        recorded(PlayedGpu(fault=1), kernel, name)


def test_the_probe_has_every_combination_that_wgmma_has():
    names = [reader.name for reader in probe.READERS]
    assert len(names) == len(set(names)) == 14
    assert {name for name in names if " MN " in name} == {
        f"{kind} MN {operand}" for kind in ("f16", "bf16") for operand in "AB"
    }


@pytest.mark.parametrize("reader", [probe.Reader("f16", "K", "B"), probe.Reader("f16", "MN", "A")])
@pytest.mark.parametrize("field", ["leading", "stride"])
@pytest.mark.parametrize("swizzle", [0, 128])
def test_a_wrong_offset_is_read_elsewhere_unless_nobody_reads_it(reader, field, swizzle):
    meant = reader.usual(swizzle).descriptor()
    wrong = replace(meant, **{field: getattr(meant, field) + 16})
    got = reader.read(EmulatedGpu(), [wrong])
    probe.require_places(reader, [wrong], got)
    # LBO leads nowhere in a swizzled row, nor where one span holds all 64 rows of A.
    if field == "leading" and swizzle:
        probe.require_places(reader, [meant], got)
        return
    with pytest.raises(CheckError, match="elements were read elsewhere"):
        probe.require_places(reader, [meant], got)


def test_every_mistake_but_the_last_two_reads_other_bytes():
    reader = probe.Reader("f16", "K", "B")
    right = reader.places(probe.MEANT)
    wrong = {name: (reader.places(one) != right).any() for name, one in probe.MISTAKES.items()}
    assert [name for name, elsewhere in wrong.items() if not elsewhere] == [
        "leading offset 0",
        "leading offset 4096",
    ]
    first = [name for name, one in probe.MISTAKES.items() if (reader.places(one) == right)[0].all()]
    assert {"mode of the 64-byte swizzle", "mode of no swizzle"} <= set(first)


def test_tma_and_wgmma_meet_at_every_start_and_a_moved_pattern_does_not():
    reader = probe.Reader("f16", "K", "B")
    r, k = numpy.indices((8, 64))
    for start, dumped in zip(probe.STARTS, probe.dump(EmulatedGpu(), 128, starts=8), strict=True):
        tma = probe.tma_places(dumped).reshape(8, 64)
        for base, meets in ((0, True), (start // 128, start == 0)):
            read = numpy.concatenate(
                [
                    reader.places(Descriptor(start + 32 * step, 16, 1024, base, 128))[:8]
                    for step in range(4)
                ],
                axis=1,
            )
            assert (read == tma).all() == meets
            # A tile that is swizzled from its own first row on is the other way round.
            own = start + (r * 128 + 2 * k ^ (r % 8) << 4)
            assert (read == own).all() == (base == start // 128)


@pytest.mark.parametrize(
    ("defines", "rule"),
    [
        ({"MN_MAJOR": 1, "ITEM": "unsigned char", "INSTRUCTION": "x", "SUM": "int"}, "16-bit"),
        ({"TEST_A": 1, "TILE_N": 8}, "as many rows as K is deep"),
        ({"TILE_N": 12}, "multiple of 8 up to 256"),
    ],
)
def test_a_probe_that_wgmma_lacks_does_not_compile(defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel("descriptor_probe", **defines)


# ---- pictures ------------------------------------------------------------------------------------


def test_a_dump_names_each_piece_by_row_and_place():
    dumped = probe.expected_dump(128)[0]
    figure = figures.swizzle_dump({"tile": dumped}, {"tile": 64}, title="A tile")
    table = {row[1]: row[2:] for row in figure.rows}
    assert table["0"][:2] == ("0·0", "0·1") and table["128"][:2] == ("1·1", "1·0")
    assert [row[2:].index(f"{i}·0") for i, row in enumerate(figure.rows)] == list(range(8))
    assert "128: 1·1 1·0 1·3" in figure.alt


def test_what_tma_left_alone_is_empty_and_a_torn_piece_is_refused():
    dumped = probe.expected_dump(128, probe.NARROW)[0]
    figure = figures.swizzle_dump({"tile": dumped}, {"tile": probe.NARROW}, title="A tile")
    assert figure.rows[0][2:] == ("0·0", "0·1", "0·2", "0·3", "0·4", "—", "—", "—")
    dumped[3] = 7
    with pytest.raises(ProblemError, match="16 bytes move as one"):
        figures.swizzle_dump({"tile": dumped}, {"tile": probe.NARROW}, title="A tile")


def test_the_banks_are_drawn_with_the_turns_they_take():
    patterns = {"plain": shared_reads.column(128), "swizzled": shared_reads.column(128, 0, 128)}
    figure = figures.bank_picture(patterns)
    assert "plain: lanes 0 to 7 begin in banks 0, 0, 0, 0, 0, 0, 0, 0; 8 turns" in figure.alt
    assert "banks 0, 4, 8, 12, 16, 20, 24, 28; 1 turn." in figure.alt
    assert ">8 turns<" in figure.svg and ">1 turn<" in figure.svg


def test_the_offsets_are_drawn_for_all_four_combinations():
    svg = figures.leading_and_stride().svg
    assert svg.count(">SBO<") == 4 and svg.count(">LBO<") == 3 and svg.count(">no LBO<") == 1


def test_an_offset_has_one_colour_and_mn_major_strips_stand_upright():
    svg = figures.leading_and_stride().svg
    for name, tint in (("LBO", "plum"), ("SBO", "warm")):
        styles = re.findall(rf'<text [^>]*style="([^"]*)">{name}<', svg)
        assert styles and all(colour(tint) in style for style in styles)
    ends = re.findall(r'<polyline points="([\d.]+),([\d.]+) ([\d.]+),([\d.]+)"', svg)
    thin = [one for one in ends if "stroke-width:0.75" in svg.split(" ".join(
        (f"{one[0]},{one[1]}", f"{one[2]},{one[3]}")))[1][:120]]  # fmt: skip
    level = sum(y0 == y1 for _, y0, _, y1 in thin)
    upright = sum(x0 == x1 for x0, _, x1, _ in thin)
    assert (level, upright) == (7 * (4 + 2), 7 * (4 + 4))


def read_and_kept(value: int, tile: Placement, start: int) -> tuple[int, int]:
    """Boxes that bits lead to, and those where a tile built element by element has other ones."""
    r, k = numpy.indices((tile.rows, tile.depth))
    where = swizzled(start + tile.offset(r, k), tile.swizzle)
    kept = {int(at): (int(a), int(b)) for at, a, b in zip(where.flat, r.flat, k.flat, strict=True)}
    read: dict[int, list] = {}
    one = decode(value)
    for row in range(tile.rows):
        for first in (0, 8):
            read.setdefault(int(one.address(row, first, major="K")), []).append((row, first))
    return len(read), sum([kept.get(at)] != places for at, places in read.items())


@pytest.mark.parametrize(
    ("bits", "same"),
    [
        (0x4000002000010040, False),  # the stride of the 64-byte swizzle
        (0xC000004000010040, False),  # the mode of the 32-byte swizzle
        (0x4000004000010041, False),  # half a step
        (0x4002004000010040, False),  # a base offset
        (0x4000000000010040, False),  # no stride
        (0x4000004000010040 | 1 << 46, True),  # a bit of no field
    ],
)
def test_boxes_are_dashed_where_the_chosen_tile_keeps_something_else(bits, same):
    fields = bits & FIELD_BITS
    shown = Operand(bits, "K", 2, 64, 128, decode(fields), 16, 0, pasted=True)
    boxes, others = read_and_kept(fields, Placement(64, 64), 0x400)
    assert (len(shown.addresses()), len(shown.strangers())) == (boxes, others)
    assert (others == 0) == same
    if same:
        assert shown.note().endswith("keeps the same there.")
    else:
        assert f"Dashed: {others} of {boxes} boxes" in shown.note()
    dashed = figures.descriptor_explorer(bits).figure.svg.count("stroke-dasharray")
    assert 0 < dashed <= others or dashed == others == 0


def test_a_number_without_a_mistake_has_no_dashed_box():
    value = Placement(128, 64, "K", 0).descriptor(0x800, 2).encode()
    shown = Operand(value, "K", 2, 128, 0, decode(value), 16, 0, pasted=True)
    assert shown.strangers() == set() and "Dashed" not in shown.note()


# ---- exercises -----------------------------------------------------------------------------------

CELLS = notebooks.code_cells("descriptors")


def told(call, capsys) -> str:
    capsys.readouterr()
    call()
    return capsys.readouterr().out


def cells_with(text: str) -> list[str]:
    return [cell for cell in CELLS if text in cell]


@pytest.mark.parametrize("name", ["n_major", "byte_offset", "wrong_field", "padding"])
def test_the_chapter_asks_and_its_solution_is_accepted(name, capsys):
    asked, answered = cells_with(f"exercises.{name}(")
    scope = {"exercises": exercises}
    assert "not answered yet" in told(lambda: exec(asked, scope), capsys)
    out = told(lambda: exec(answered, scope), capsys)
    assert "right" in out and "not" not in out


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ((1024, 8192, 128), "leading: not yet: 1024 is the other offset"),
        ((512, 1024, 128), "leading: not yet: 512 is right in units of 16 bytes; here"),
        ((8192, 1024, 2048), "step: not yet: 2048 is right in bytes; here it is asked in units"),
        ((8192, 1024, 2), "step: not yet: 2 is the step of a swizzled K-major tile"),
        ((8192, 1024, 32), "step: not yet: 32 bytes are the step of a swizzled K-major tile"),
        ((8192, 1024, 64), "64 units lead to the next eight k, and an instruction takes sixteen"),
        ((8192, 1024, 512), "step: not yet: 512 units lead to the next 64 columns"),
        ((8192, 1024, 7), "step: not yet: 7 is not the way of sixteen k, in units of 16 bytes"),
        ((16, 1024, 128), "leading: not yet: 16 is not the bytes from the first 64 columns"),
        (("8192", 1024, 128), "leading: not yet: '8192' is no whole number"),
        ((8192, 1024.0, 128), "stride: not yet: 1024.0 is no whole number"),
        ((8192, 1024, True), "step: not yet: True is no whole number"),
        ((8192, 1024, numpy.int32(128)), "step: 128 is right"),
    ],
)
def test_a_wrong_description_of_an_n_major_tile_is_named(answer, named, capsys):
    assert named in told(lambda: exercises.n_major(*answer), capsys)


@pytest.mark.parametrize(
    ("bits", "named"),
    [
        (None, "bits: not answered yet"),
        (0x4000004002000200, "bits: 0x4000004002000200 is right"),
        (0x4000004002002000, "the start address, bits 0–13, holds 0x2000; it was not shifted"),
        (0x4000004000010200, "the leading byte offset, bits 16–29, holds 0x1"),
        (0x4000040002000200, "the stride byte offset, bits 32–45, holds 0x400; it was not shifted"),
        (0xC000004002000200, "the swizzle mode, bits 62–63, holds 0x3"),
        (0x4000404002000200, "a bit of no field is set: 0x400000000000"),
        (1 << 64, "is negative or wider than 64 bits"),
        (-1, "is negative or wider than 64 bits"),
        ("0x4000004002000200", "is no whole number"),
    ],
)
def test_the_64_bits_of_an_n_major_tile_are_asked_for(bits, named, capsys):
    out = told(lambda: exercises.n_major(8192, 1024, 128, bits), capsys).splitlines()
    assert named in out[-1] and len(out) == 4


def test_two_boxes_of_tma_are_the_tile_of_the_exercise():
    k, n = numpy.indices((64, 128))
    places = n // 64 * 8192 + (k * 128 + n % 64 * 2 ^ (k % 8) << 4)
    image = N_MAJOR.image((128 * k + n).T.astype("uint16")).view("uint16")
    assert (image[places // 2] == 128 * k + n).all()


def plain(row: int, k: int) -> int:
    """The exercise's tile without the XOR."""
    return k // 32 * 4096 + row * 64 + k % 32 * 2


def solved(row: int, k: int) -> int:
    return plain(row, k) ^ (plain(row, k) >> 7 & 3) << 4


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (lambda row, k: k // 32 * 4096 + row * 64 + k % 32 * 2, "without the XOR"),
        (lambda row, k: row * 128 + k * 2, "a row of a box holds 32 elements"),
        (lambda row, k: (row * 128 + k * 2) + (row > 8), "a row of a box holds 32 elements"),
        (lambda row, k: -1, "(0, 0) lies at byte 0, your map says -1"),
        (lambda row, k: plain(row, k) ^ (plain(row, k) >> 7 & 7) << 4, "takes two: & 3"),
        (lambda row, k: plain(row, k) ^ (plain(row, k) >> 7 & 1) << 4, "as for 32 bytes"),
        (lambda row, k: plain(row, k) ^ (row & 3) << 4, "bits 7 and 8 count rows // 2"),
        (lambda row, k: plain(row, k) ^ (row % 8) << 4, "bits 7 and 8 count rows // 2"),
        (lambda row, k: solved(row, k) // 2, "that counts elements; a byte offset is twice"),
        (lambda row, k: plain(row, k) // 2, "counts elements, and the XOR is missing"),
        (lambda row, k: solved(row, k) / 1, "returns 0.0, no whole number; // divides"),
        (lambda row, k: "0", "at (0, 0) your map returns '0', no whole number"),
        (lambda row, k: solved(row, k) if row < 9 else 1 // 0, "fails at (9, 0): ZeroDivision"),
        (lambda row: 0, "fails at (0, 0): TypeError: "),
        (4096, "4096 is no function"),
    ],
)
def test_a_wrong_address_is_told_why(answer, named, capsys):
    assert named in told(lambda: exercises.byte_offset(answer), capsys)


def test_a_wrong_field_is_named(capsys):
    out = told(lambda: exercises.wrong_field("swizzle mode", "pitch", None), capsys).splitlines()
    assert out[0].endswith("not yet: its swizzle mode is that of the tile")
    assert "'pitch' names no field; the fields are start address, leading" in out[1]
    assert out[2].endswith("not answered yet") and f"{WRONG['third'].encode():#018x}" in out[2]


@pytest.mark.parametrize(
    ("short", "field"),
    [
        ("SBO", "stride byte offset"),
        ("stride", "stride byte offset"),
        ("Stride Byte Offset", "stride byte offset"),
        ("lbo", "leading byte offset"),
        ("leading_byte_offset_", "leading byte offset"),
        ("mode", "swizzle mode"),
        ("layout_type_", "swizzle mode"),
        ("base_offset_", "base offset"),
        ("base-offset", "base offset"),
        ("start", "start address"),
    ],
)
def test_a_field_may_be_named_in_short(short, field, capsys):
    out = told(lambda: exercises.wrong_field(short, short, short), capsys).splitlines()
    full = told(lambda: exercises.wrong_field(field, field, field), capsys).splitlines()
    assert out == full
    assert sum(line.endswith("right") for line in out) == (field in RIGHT_FIELDS)


RIGHT_FIELDS = ("stride byte offset", "swizzle mode", "base offset")


def test_a_field_that_is_no_text_is_told(capsys):
    assert "3 names no field" in told(lambda: exercises.wrong_field(3), capsys)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (0, "a row every 192 bytes: an access takes 16 turns, not 4"),
        (64, "a row every 256 bytes: an access takes 32 turns, not 4"),
        (48, "a smaller padding does it as well"),
        ("16", "'16' is no whole number"),
        (16.0, "16.0 is no whole number"),
        (8, "a multiple of 16"),
        (-16, "a multiple of 16"),
    ],
)
def test_a_wrong_padding_is_named(answer, named, capsys):
    assert ROW_BYTES == 192
    assert named in told(lambda: exercises.padding(answer), capsys)


# ---- what the page types in ----------------------------------------------------------------------


def test_the_canonical_layouts_of_the_page_are_those_of_the_layout_module():
    """The page compares them with the formula; here with the layouts another chapter uses."""
    from hopper.layout.matrices import operand

    (cell,) = cells_with("CANONICAL = {")
    scope: dict = {"np": numpy, "show": SimpleNamespace(Table=lambda *what: what)}
    exec("from hopper.placement import Placement\n" + cell, scope)
    title, columns, rows = eval(re.search(r"show\.Table\(.*\)", cell, re.S)[0], scope)
    for (major, swizzle), row in zip(scope["CANONICAL"], rows, strict=True):
        tile = scope["Placement"](128, 64 if major == "K" and swizzle else 16, major, swizzle)
        plain = operand(
            128, 16, major=major, swizzle=swizzle, leading=tile.leading, stride=tile.stride
        )
        assert row[3] == "2048 of 2048"
        assert (scope["parse"](row[1]).table == plain.table).all()


# ---- with a Hopper GPU ---------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize(("kernel", "name"), EVERY)
def test_a_gpu_reads_and_writes_where_the_formulas_say(kernel, name):
    assert recorded(find_hopper(), kernel, name).name == name
