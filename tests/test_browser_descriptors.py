"""The explorer of descriptors in a browser: its arithmetic against hopper's, and its use.

The page is one that this test writes itself from the figures' HTML, opened from disk.
"""

import argparse
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from browsing import DESKTOP, PHONE, SMALL_TEXT, UNREACHABLE
from figure_pages import as_a_notebook, write_pages
from playwright.sync_api import Locator, Page
from test_descriptor_mistakes import corpus

from hopper import banks, figures
from hopper.descriptor import FIELD_BITS, FIELDS, Descriptor, decode
from hopper.descriptor.__main__ import _number
from hopper.descriptor.mistakes import mistakes
from hopper.descriptor.pieces import core_matrix
from hopper.errors import ProblemError
from hopper.figures.descriptor_bits import Operand
from hopper.figures.descriptor_explorer import ROWS, facts
from hopper.placement import Placement
from hopper.swizzle import SPANS

pytestmark = pytest.mark.browser

WRONG = 0xC000004000010040
LAYOUTS = [("K", 1), ("K", 2), ("K", 4), ("MN", 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page with three explorers: of a tile, of a pasted number, and of an MN-major tile."""
    shown = [
        one._repr_html_()
        for one in (
            figures.descriptor_explorer(),
            figures.descriptor_explorer(WRONG),
            figures.descriptor_explorer(major="MN", rows=128, swizzle=64, step=2),
        )
    ]
    return write_pages(tmp_path_factory.mktemp("descriptors"), "Descriptors", shown)


@pytest.fixture
def sums(visit) -> Callable:
    """Evaluates a script in which ``sums`` is the page's arithmetic and ``given`` an argument."""
    page = visit().open("page")

    def evaluate(script: str, given: object) -> object:
        return page.evaluate(
            f"([facts, given]) => {{ const sums = window.hopperDescriptorArithmetic(facts);"
            f"{script} }}",
            [facts(), given],
        )

    return evaluate


# ---- arithmetic ---------------------------------------------------------------------------------


def test_every_element_of_every_layout_lies_where_hopper_has_it(sums):
    """All swizzles, majors and item sizes, 256 rows, every k, several offsets and base offsets."""
    cases = []
    for major, item_bytes in LAYOUTS:
        for span in SPANS:
            depth = span // item_bytes if span and major == "K" else 128 // item_bytes
            for leading, stride, base in ((8192, 1024, 0), (16, 256, 3), (4112, 65520, 5)):
                one = Descriptor(0x400 + 16 * base, leading, stride, base, span)
                cases.append((one, major, item_bytes, depth))
    given = [
        [one.start, one.leading, one.stride, one.base_offset, one.swizzle, major, item, depth]
        for one, major, item, depth in cases
    ]
    found = sums(
        """return given.map(([start, leading, stride, base, swizzle, major, item, depth]) => {
            const it = { start, leading, stride, base, swizzle };
            const all = [];
            for (let r = 0; r < 256; r += 1) {
                for (let k = 0; k < depth; k += 1) all.push(sums.address(it, r, k, major, item));
            }
            return all.join(" ");
        });""",
        given,
    )
    assert len(found) == 48
    for (one, major, item_bytes, depth), addresses in zip(cases, found, strict=True):
        r, k = numpy.indices((256, depth))
        expected = one.address(r, k, major=major, item_bytes=item_bytes)
        got = numpy.array(addresses.split(), int).reshape(256, depth)
        assert (got == expected).all(), one


def test_every_tile_has_the_offsets_that_hopper_gives_it(sums):
    tiles = []
    for major, item in LAYOUTS:
        for span in SPANS:
            for rows in ROWS:
                depth = span // item if span and major == "K" else 128 // item
                try:
                    tiles.append(Placement(rows, depth, major, span, item))
                except ProblemError:
                    continue
    found = sums(
        "return given.map((tile) => { const it = sums.placement(...tile);"
        "return [it.leading, it.stride]; });",
        [[one.rows, one.depth, one.major, one.swizzle, one.item_bytes] for one in tiles],
    )
    assert len(tiles) > 80
    assert found == [[one.leading, one.stride] for one in tiles]


def test_64_bits_are_taken_apart_and_joined_as_in_hopper(sums):
    dice = random.Random(1)
    values = [dice.getrandbits(64) for _ in range(2000)]
    values += [(1 << bit) - back for bit in range(65) for back in (0, 1) if bit < 64 or back]
    values += [value & FIELD_BITS for value in values]
    found = sums(
        f"""return given.map((text) => {{
            const value = sums.parse(text);
            const it = sums.decode(value);
            const joined = sums.encode(it) === (value & {FIELD_BITS}n);
            return [sums.fieldsOf(value), it.start, it.leading, it.stride, it.base, it.swizzle,
                joined];
        }});""",
        [hex(value) if i % 2 else str(value) for i, value in enumerate(values)],
    )
    for value, (fields, *parts, joined) in zip(values, found, strict=True):
        assert fields == [field.of(value) for field in FIELDS]
        it = decode(value & FIELD_BITS)
        assert parts == [it.start, it.leading, it.stride, it.base_offset, it.swizzle]
        assert joined


def test_numbers_are_read_as_on_the_command_line(sums):
    texts = (
        *("0x4000_0040_0001_0040", "0X40", "64ull", " 12 ", "-1", "+7", "0b101", "0o17", "00"),
        *("0", "0x", "012", "1e3", "", "x40", "4 4", "0xg", "0x10000000000000000"),
    )
    expected = []
    for text in texts:
        try:
            expected.append(str(_number(text)))
        except argparse.ArgumentTypeError:
            expected.append(None)
    found = sums(
        "return given.map((text) => { const n = sums.parse(text);"
        "return n === null ? n : String(n); });",
        texts,
    )
    assert found == expected
    assert expected.count(None) == 7


def test_mistakes_are_those_of_hopper_in_the_same_words(sums):
    given = corpus(6000)
    expected = [
        [
            f"{one.key}: {one}"
            for one in mistakes(value, major=major, item_bytes=item, rows=rows, swizzle=meant)
        ]
        for value, major, item, rows, meant in given
    ]
    found = sums(
        """return given.map(([value, ...how]) => sums.mistakes(BigInt(value), ...how)
            .map((one) => `${one[0]}: ${sums.sentence(one)}`));""",
        [[str(value), *how] for value, *how in given],
    )
    for case, one, other in zip(given, found, expected, strict=True):
        assert one == other, case
    assert sum(map(bool, expected)) > 1000


def test_the_tile_that_was_meant_lies_where_hopper_has_it(sums):
    given = [
        (value & FIELD_BITS, major, item, rows, SPANS[value % 4])
        for value, major, item, rows, _ in corpus(800)
        if value >= 0 and not (major == "MN" and item != 2)
    ]
    expected = []
    for value, major, item, rows, span in given:
        one = Operand(value, major, item, rows, span, decode(value), 32 // item, 0, pasted=True)
        tile = one.stored()
        expected.append([tile.start, tile.leading, tile.stride, tile.base_offset, tile.swizzle])
    found = sums(
        """return given.map(([value, ...layout]) => {
            const it = sums.stored(sums.decode(BigInt(value)), ...layout);
            return [it.start, it.leading, it.stride, it.base, it.swizzle];
        });""",
        [[str(value), *how] for value, *how in given],
    )
    assert found == expected


def test_core_matrices_take_the_banks_that_hopper_counts(sums):
    cases = []
    for major, item in LAYOUTS:
        for span in SPANS:
            depth = span // item if span and major == "K" else 128 // item
            one = Placement(128, depth, major, span, item).descriptor(0x400)
            for r, k in ((0, 0), (13, 5), (127, depth - 1)):
                core = core_matrix(r, k, major=major, item_bytes=item)
                straight = Descriptor(one.start, one.leading, one.stride)
                for kind in (one, straight):
                    if kind is straight and span and major == "K":
                        continue
                    where = kind.address(*core, major=major, item_bytes=item)
                    cases.append((r, k, major, item, core, where.tolist()))
    found = sums(
        "return given.map(([r, k, major, item, where]) =>"
        "[sums.coreMatrix(r, k, major, item), ...sums.banks(where)]);",
        [[r, k, major, item, where] for r, k, major, item, _, where in cases],
    )
    for (*_, core, where), (places, taken, turns) in zip(cases, found, strict=True):
        assert places == numpy.transpose(core).tolist()
        words = {banks.bank(address + 4 * i) for address in where for i in range(4)}
        assert taken == len(words)
        assert turns == banks.wavefronts(where, 16)


# ---- the figure ---------------------------------------------------------------------------------


def figure(page: Page, number: int = 0) -> Locator:
    return page.locator("figure.wb-descriptor-explorer").nth(number)


def control(one: Locator, name: str) -> Locator:
    return one.locator(f'.wb-explorer-controls [name="{name}"]')


def told(one: Locator) -> str:
    return one.locator(".wb-explorer-now").inner_text()


def value(one: Locator) -> int:
    return int(one.locator(".wb-descriptor-value").inner_text(), 16)


def verdict(one: Locator) -> str:
    return one.locator(".wb-descriptor-verdict").inner_text()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_accessible_quiet_and_fits(visit, mode, size):
    seen = visit(color_scheme=mode, viewport=size)
    page = seen.open("page")
    assert seen.fetched() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(SMALL_TEXT) == []
    assert page.evaluate(UNREACHABLE) == []
    assert seen.violations() == []


SHOWN = """all => all.map(one => ({
    words: [...one.querySelectorAll("svg text")].map(t => t.textContent),
    bits: one.querySelector(".wb-descriptor-bits").innerText,
}))"""


def test_without_a_script_it_shows_what_the_script_begins_with(visit):
    pages = [visit(java_script_enabled=able).open("page") for able in (True, False)]
    with_script, without = (page.locator("figure").evaluate_all(SHOWN) for page in pages)
    assert with_script == without
    one = figure(pages[1])
    assert not one.locator(".wb-explorer-controls").is_visible()
    assert "K-major tile of 64 rows" in one.locator("svg").get_attribute("aria-label")
    assert "✓ Nothing is wrong" in verdict(one)
    assert "✗ The swizzle mode is 3" in verdict(figure(pages[1], 1))


def test_controls_make_the_descriptor_that_hopper_makes(visit):
    one = figure(visit().open("page"))
    assert value(one) == Placement(64, 64).descriptor(0x400).encode()
    control(one, "step").select_option("3")
    assert value(one) == Placement(64, 64).descriptor(0x400, 3).encode()
    control(one, "rows").select_option("256")
    control(one, "bits").select_option("8")
    control(one, "swizzle").select_option("0")
    tile = Placement(256, 128, "K", 0, 1)
    assert value(one) == tile.descriptor(0x400, 3).encode()
    control(one, "start").fill("0x8000")
    control(one, "start").press("Enter")
    assert value(one) == tile.descriptor(0x8000, 3).encode()
    control(one, "major").select_option("MN")
    assert control(one, "bits").input_value() == "16"
    assert value(one) == Placement(256, 64, "MN", 0).descriptor(0x8000, 3).encode()
    control(one, "rows").select_option("8")
    control(one, "swizzle").select_option("128")
    assert control(one, "rows").input_value() == "64", "a span of rows is the least"
    assert value(one) == Placement(64, 64, "MN", 128).descriptor(0x8000, 3).encode()
    assert "✓" in verdict(one)


def test_a_step_too_far_and_a_crooked_start_are_mistakes(visit):
    one = figure(visit().open("page"))
    control(one, "step").select_option("4")
    assert "it left the row, which holds 4 of 32 bytes" in verdict(one)
    control(one, "step").select_option("0")
    control(one, "start").fill("1000")
    control(one, "start").press("Enter")
    assert "start=1000" in verdict(one) and "multiples of 16" in verdict(one)
    assert value(one) == Placement(64, 64).descriptor(0x400).encode(), "the last start stays"
    assert control(one, "start").get_attribute("aria-invalid") == "true"
    control(one, "start").fill("0x800")
    control(one, "start").press("Enter")
    assert value(one) == Placement(64, 64).descriptor(0x800).encode() and "✓" in verdict(one)


def test_what_cannot_be_chosen_says_why(visit):
    one = figure(visit().open("page"))
    options = """all => all.map(o => [o.textContent, o.disabled])"""
    rows = control(one, "rows").locator("option")
    assert rows.evaluate_all(options)[0] == ["8", False]
    control(one, "major").select_option("MN")
    assert rows.evaluate_all(options)[:4] == [
        ["8 (a span is 64 rows)", True],
        ["16 (a span is 64 rows)", True],
        ["32 (a span is 64 rows)", True],
        ["64", False],
    ]
    bits = control(one, "bits").locator("option").evaluate_all(options)
    assert bits[0] == ["8 bits: fp8 (K-major only)", True] and not bits[1][1]
    control(one, "major").select_option("K")
    assert rows.evaluate_all(options)[0] == ["8", False]


def test_what_is_no_number_changes_nothing_in_the_drawing(visit):
    one = figure(visit().open("page"))
    control(one, "step").select_option("2")
    control(one, "r").fill("9")
    control(one, "r").press("Enter")
    before = one.locator("svg").inner_html(), told(one), value(one)
    control(one, "value").fill("hello")
    assert "✗ hello: not a whole number" in verdict(one)
    assert "The drawing has not changed" in verdict(one)
    assert control(one, "value").get_attribute("aria-invalid") == "true"
    assert (one.locator("svg").inner_html(), told(one), value(one)) == before
    control(one, "value").fill("0x4000002000010040")
    control(one, "r").fill("20")
    control(one, "r").press("Enter")
    before = one.locator("svg").inner_html(), told(one), value(one)
    control(one, "value").fill("0x4000002000010040?")
    assert (one.locator("svg").inner_html(), told(one), value(one)) == before
    control(one, "value").fill("0x4000002000010040")
    assert told(one) == before[1], "back to what was shown all along"
    control(one, "clear").click()
    assert "✓" in verdict(one) and not control(one, "clear").is_visible()


def note(one: Locator) -> str:
    return one.locator(".wb-descriptor-note").inner_text()


def test_boxes_say_whether_the_chosen_tile_keeps_something_else_there(visit):
    one = figure(visit().open("page"))
    assert "what the tile keeps there" in note(one)
    control(one, "value").fill(hex(Placement(64, 64).descriptor(0x400, 1).encode()))
    assert note(one).endswith("Start and step are in the bits."), "nothing is wrong with it"
    control(one, "value").fill("0x4000002000010040")  # the stride of the 64-byte swizzle
    assert "8 × 64: that is the stride of the 64-byte swizzle" in verdict(one)
    assert "Dashed: 64 of 72 boxes" in note(one) and "up to 1 here" in note(one)
    meant = Placement(64, 64).descriptor(0x400)
    box = one.locator(f'[data-address="{meant.address(8, 0, major="K")}"]')
    assert "stroke-dasharray" in box.locator("rect").first.get_attribute("style")
    box.hover()
    assert told(one).endswith("In this box the chosen tile keeps row 8, k 0–7.")
    box = one.locator(f'[data-address="{meant.address(3, 0, major="K")}"]')
    assert "stroke-dasharray" not in box.locator("rect").first.get_attribute("style")
    control(one, "swizzle").select_option("64")
    assert "which is 128 bytes, and you meant 64 bytes" in verdict(one)
    assert verdict(one).count("✗") == 1


def test_a_pasted_number_is_decoded_and_its_mistake_named(visit):
    one = figure(visit().open("page"))
    control(one, "value").fill("0x4000000400010040")
    assert "16 times as much would fit" in verdict(one)
    assert "Dashed: " in note(one)
    assert "0x4 × 16 = 64 bytes, to the next 8 rows" in one.locator("ol").inner_text()
    assert control(one, "start").is_disabled()
    control(one, "value").fill(str(0x4000004000010040))
    assert "✓" in verdict(one)
    control(one, "value").fill("hello")
    assert "✗ hello: not a whole number" in verdict(one)
    control(one, "clear").click()
    assert control(one, "start").is_enabled() and "✓" in verdict(one)
    # The same number, meant otherwise.
    other = figure(one.page, 1)
    control(other, "swizzle").select_option("32")
    assert "✓" in verdict(other)
    control(other, "major").select_option("MN")
    assert "The leading offset is 16 bytes" in verdict(other)


def test_an_element_is_told_by_pointer_keys_and_numbers(visit):
    page = visit().open("page")
    one = figure(page)
    tile = Placement(64, 64)
    where = tile.descriptor(0x400).address(3, 13, major="K")
    box = one.locator(f'[data-address="{where // 16 * 16}"]')
    size = box.bounding_box()
    box.hover(position={"x": size["width"] * 5.5 / 8, "y": size["height"] / 2})
    words = (
        f"Row 3, k 13: {3 * 128 + 26} bytes from the start 0x400, so {0x400 + 410:#x}, and "
        f"{where:#x} after the XOR; bank {where // 4 % 32}. Its core matrix, rows 0–7 and k 8–15, "
        f"takes 32 of 32 banks: one turn, no conflict. Without the XOR: 4 banks, 8 turns, a "
        f"conflict."
    )
    assert told(one) == words
    drawing = one.locator(".wb-explorer-drawing")
    page.mouse.move(0, 0)
    drawing.focus()
    for key, row, k in (
        ("ArrowRight", 3, 14),
        ("ArrowDown", 4, 14),
        ("PageDown", 12, 14),
        ("End", 12, 63),
        ("ArrowRight", 12, 63),
        ("Home", 12, 0),
        ("ArrowLeft", 12, 0),
        ("ArrowUp", 11, 0),
        ("PageUp", 3, 0),
    ):
        page.keyboard.press(key)
        assert told(one).startswith(f"Row {row}, k {k}:"), key
    control(one, "r").fill("63")
    control(one, "r").press("Enter")
    assert told(one).startswith("Row 63, k 0:")
    assert one.locator("svg").text_content().find("r63") > 0, "memory has moved there"
    assert drawing.evaluate("e => getComputedStyle(e).overflowX") == "auto"


def test_memory_is_moved_with_the_range(visit):
    one = figure(visit().open("page"))
    assert "0x400" in one.locator("svg").text_content()
    control(one, "from").focus()
    control(one, "from").press("End")
    assert control(one, "from").input_value() == "48"
    assert control(one, "from").get_attribute("aria-valuetext") == "from 0x1c00"
    assert "0x400" not in one.locator("svg").text_content()


def test_a_finger_on_a_phone(visit):
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True).open("page")
    one = figure(page)
    box = one.locator('[data-address="1664"]')
    box.tap()
    assert re.match(r"Row 5, k \d+: ", told(one))
    sizes = one.locator("button:visible, select, input, [data-address]").evaluate_all(
        "all => all.map(e => Math.min(e.getBoundingClientRect().width,"
        "e.getBoundingClientRect().height))"
    )
    assert min(sizes) >= 24


def test_everything_is_reached_by_tab_in_order(visit):
    page = visit(reduced_motion="reduce").open("page")
    reached = []
    for _ in range(11):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.name || document.activeElement.role"))
    controls = ["bits", "major", "swizzle", "rows", "start", "step", "r", "k", "value", "from"]
    assert reached == [*controls, "group"]


def test_figures_on_one_page_do_not_disturb_each_other(visit):
    page = visit().open("page")
    before = [value(figure(page, i)) for i in range(3)]
    assert before[1] == WRONG
    control(figure(page, 2), "step").select_option("1")
    control(figure(page, 1), "value").fill("5")
    after = [value(figure(page, i)) for i in range(3)]
    assert after[0] == before[0] and after[1] == 5
    assert after[2] == Placement(128, 64, "MN", 64).descriptor(0x400, 1).encode()


def test_it_starts_where_a_notebook_inserts_it(visit, folder):
    page = visit().open("empty")
    as_a_notebook(page, folder)
    one = figure(page)
    control(one, "step").select_option("1")
    assert value(one) == Placement(64, 64).descriptor(0x400, 1).encode()
