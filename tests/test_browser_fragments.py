"""The fragments' explorer in a browser: its arithmetic, pointer, keys, touch, modes, a phone.

The page is one that this test writes itself from the figures' HTML, opened from disk.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from browsing import DESKTOP, PHONE, SMALL_TEXT, UNREACHABLE
from figure_pages import as_a_notebook, write_pages
from playwright.sync_api import Browser, Locator, Page

from hopper import figures, fragment
from hopper.figures.fragment_explorer import KINDS
from hopper.instruction import INTEGER_N

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page with two explorers."""
    shown = [figures.fragment_explorer(*given)._repr_html_() for given in ((64, 0), (256, 101))]
    return write_pages(tmp_path_factory.mktemp("fragments"), "Fragments", shown)


def explorer(page: Page, number: int = 0) -> Locator:
    return page.locator("figure.wb-fragment-explorer").nth(number)


def now(figure: Locator) -> str:
    return figure.locator(".wb-explorer-now").inner_text()


def under(figure: Locator) -> str:
    return figure.locator(".wb-fragment-under").inner_text()


def note(figure: Locator) -> str:
    return figure.locator(".wb-fragment-note").inner_text()


def formula(figure: Locator) -> str:
    return figure.locator(".wb-fragment-formula").inner_text()


def holds(figure: Locator) -> str:
    return figure.locator(".wb-fragment-holds").inner_text()


def cell(figure: Locator, place: str) -> Locator:
    return figure.locator(f"[role=gridcell][aria-label^='{place}']")


# ---- the arithmetic -----------------------------------------------------------------------------

ALL_HOLDERS = """([kind, rows, columns]) => {
    const found = [];
    for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) found.push(hopperFragments.holder(kind, i, j));
    return found;
}"""
ALL_PLACES = """([kind, n, threads]) =>
    [...Array(threads).keys()].map((thread) => hopperFragments.placesOf(kind, n, thread))"""
ALL_FORMULAS = """([kind, rows, columns]) => {
    const wrong = [];
    for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++)
            for (const line of hopperFragments.formulas(kind, i, j)) {
                const [name, ...parts] = line.split(" = ");
                const values = parts.map((text) => Number(new Function("return " + text
                    .replaceAll("⌊", "Math.floor(").replaceAll("⌋", ")")
                    .replaceAll("·", "*").replaceAll("mod", "%"))()));
                if (!values.every((value) => value === values[0])) wrong.push(line);
            }
    return wrong;
}"""


def by_python(key: str, rows: int, columns: int) -> numpy.ndarray:
    """Thread, register and item of every place, as ``hopper.fragment`` has them."""
    row, column = numpy.indices((rows, columns))
    zero = numpy.zeros_like(row)
    return numpy.stack(
        {
            "d32": lambda: (*fragment.holder(row, column), zero),
            "s32": lambda: (*fragment.holder(row, column), zero),
            "mma_d": lambda: (*fragment.holder(row, column), zero),
            "d16": lambda: fragment.f16_holder(row, column),
            "a8": lambda: fragment.a_holder(row, column, item_bytes=1),
            "a16": lambda: fragment.a_holder(row, column, item_bytes=2),
            "mma_a": lambda: fragment.a_holder(row, column, item_bytes=2),
            "a32": lambda: fragment.a_holder(row, column, item_bytes=4),
            "mma_b": lambda: fragment.b_holder(column, row),
            "matrix": lambda: _matrix(row, column, False),
            "matrix_trans": lambda: _matrix(row, column, True),
        }[key](),
        axis=-1,
    )


def _matrix(row, column, transposed):
    lane, half = fragment.matrix_holder(row, column, transposed=transposed)
    return lane, numpy.zeros_like(lane), half


@pytest.fixture(scope="module")
def arithmetic(browser: Browser, folder: Path) -> Iterator[Page]:
    page = browser.new_page()
    page.goto((folder / "page.html").as_uri())
    yield page
    page.close()


@pytest.mark.parametrize("key", KINDS)
def test_its_arithmetic_is_that_of_hopper_over_its_whole_range(arithmetic, key):
    kind = KINDS[key]
    rows, columns = kind["rows"], kind.get("columns", 256)
    expected = by_python(key, rows, columns)
    got = numpy.array(arithmetic.evaluate(ALL_HOLDERS, [kind, rows, columns]))
    assert (got.reshape(expected.shape) == expected).all()
    for n in (columns, 8) if "columns" not in kind else (columns,):
        places = arithmetic.evaluate(ALL_PLACES, [kind, n, kind["threads"]])
        seen = numpy.zeros((rows, n), int)
        for thread, held in enumerate(places):
            for i, j, register, item in held:
                assert tuple(expected[i, j]) == (thread, register, item)
                seen[i, j] += 1
        assert (seen == 1).all()


@pytest.mark.parametrize("key", KINDS)
def test_its_formulas_are_true_with_the_numbers_put_in(arithmetic, key):
    kind = KINDS[key]
    assert arithmetic.evaluate(ALL_FORMULAS, [kind, kind["rows"], kind.get("columns", 256)]) == []


# ---- what one sees ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_accessible_quiet_and_fits(visit, mode, size):
    seen = visit(color_scheme=mode, viewport=size)
    page = seen.open("page")
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    assert seen.fetched() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(SMALL_TEXT) == []
    assert page.evaluate(UNREACHABLE) == []
    assert seen.violations() == []
    texts = page.evaluate(
        """() => [...document.querySelectorAll(".wb-fragment-zoom [role=gridcell]")].map(cell => {
            const box = cell.getBoundingClientRect();
            const inner = [...cell.children].map(part => part.getBoundingClientRect());
            return [parseFloat(getComputedStyle(cell).fontSize),
                cell.scrollWidth - cell.clientWidth,
                Math.max(...inner.map(part => part.width)) - box.width];
        })"""
    )
    assert min(size for size, _, _ in texts) >= 10.5
    assert max(max(over, wide) for _, over, wide in texts) <= 1


def test_it_opens_with_the_thread_it_was_given(visit):
    page = visit().open("page")
    first, second = explorer(page), explorer(page, 1)
    assert now(first) == "(0, 0) of D: warp 0, lane 0 (thread 0), register 0."
    assert "Thread 0 holds 32 elements: r0 (0, 0), r1 (0, 1), r2 (8, 0), r3 (8, 1)" in holds(first)
    assert now(second) == "(49, 2) of D: warp 3, lane 5 (thread 101), register 0."
    assert second.locator("svg .wb-fragment-mine").count() == 128


def test_a_click_in_the_piece_and_in_the_whole_choose_a_place(visit):
    page = visit().open("page")
    figure = explorer(page)
    cell(figure, "(5, 3) ").click()
    assert now(figure) == "(5, 3) of D: warp 0, lane 21 (thread 21), register 1."
    assert "lane = 4 · (5 mod 8) + ⌊(3 mod 8) / 2⌋ = 20 + 1 = 21" in formula(figure)
    assert figure.locator("[name=thread]").input_value() == "21"
    mine = figure.locator("[role=gridcell].is-mine").all_inner_texts()
    assert [text.split() for text in mine] == [["t21", "r0"], ["t21", "r1"]]
    box = figure.locator("svg .wb-fragment-band-2").bounding_box()
    x, y = box["x"] + box["width"] * 9.5 / 64, box["y"] + box["height"] * 5.5 / 16
    page.mouse.click(x, y)
    assert now(figure) == "(37, 9) of D: warp 2, lane 20 (thread 84), register 5."
    assert "register = 4 · ⌊9 / 8⌋ + 2 · ⌊(37 mod 16) / 8⌋ + 9 mod 2 = 4 + 0 + 1 = 5" in formula(
        figure
    )


def test_dragging_over_the_whole_goes_along(visit):
    page = visit().open("page")
    figure = explorer(page)
    box = figure.locator("svg .wb-fragment-band-0").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 63.5 / 64, box["y"] + box["height"] * 15.5 / 16)
    page.mouse.up()
    assert now(figure).startswith("(15, 63) of D")
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    assert now(figure).startswith("(15, 63) of D"), "no button, no choice"


def test_the_pointer_tells_in_a_line_of_its_own_and_leaves_again(visit):
    page = visit().open("page")
    figure = explorer(page)
    chosen = "(0, 0) of D: warp 0, lane 0 (thread 0), register 0."
    asks = "Point at a place to read who holds it; click to choose it."
    assert (now(figure), under(figure)) == (chosen, asks)
    cell(figure, "(2, 6) ").hover()
    assert under(figure).startswith("Under the pointer: (2, 6) of D: warp 0, lane 11")
    assert now(figure) == chosen and figure.locator("[name=thread]").input_value() == "0"
    pointed = figure.locator("svg .wb-fragment-pointed")
    mark = pointed.bounding_box()
    band = figure.locator("svg .wb-fragment-band-3").bounding_box()
    page.mouse.move(
        band["x"] + band["width"] * 20.5 / 64, band["y"] + band["height"] * 9.5 / 16, steps=3
    )
    assert under(figure).startswith("Under the pointer: (57, 20) of D: warp 3, lane 6 (thread 102)")
    assert now(figure) == chosen
    there = pointed.bounding_box()
    middle = (there["x"] + there["width"] / 2 - band["x"]) / band["width"] * 64
    assert middle == pytest.approx(20.5, abs=0.2) and there["y"] > mark["y"]
    page.locator("h1").hover()
    assert (now(figure), under(figure)) == (chosen, asks)
    assert pointed.get_attribute("visibility") == "hidden"


def test_what_was_under_the_pointer_does_not_stay_when_a_control_changes(visit):
    page = visit().open("page")
    figure = explorer(page)
    for choose in (
        lambda: figure.locator("[name=kind]").select_option("a16"),
        lambda: figure.locator("[name=kind]").select_option("d32"),
        lambda: figure.locator("[name=n]").select_option("8"),
        lambda: figure.locator("[name=thread]").fill("3"),
    ):
        cell(figure, "(2, 6) ").hover()
        assert "(2, 6)" in under(figure)
        choose()
        told = under(figure)
        # Where the page moved under a pointer that rests, it may already tell of what is there now.
        fresh = told.removeprefix("Under the pointer: ")
        assert told.startswith("Point at") or figure.locator(f"[aria-label='{fresh}']").count()
        page.locator("h1").hover()


def test_the_frame_hides_no_mark(visit):
    """Every mark is drawn behind the frame in the document, so above it, at every thread and N."""
    figure = explorer(visit().open("page"), 1)
    for thread in ("0", "101", "127"):
        figure.locator("[name=thread]").fill(thread)
        order = figure.locator("svg").evaluate(
            "svg => [...svg.children].map(part => part.getAttribute('class'))"
        )
        assert order.count("wb-fragment-frame") == 1 and order[-1] == "wb-fragment-pointed"
        assert order.index("wb-fragment-frame") < order.index("wb-fragment-mine")
        assert not [
            name for name in order[order.index("wb-fragment-mine") : -1] if "mine" not in name
        ]


def test_a_thread_is_chosen_by_its_number(visit):
    page = visit().open("page")
    figure = explorer(page)
    field = figure.locator("[name=thread]")
    field.fill("127")
    stays = "(55, 6) of D: warp 3, lane 31 (thread 127), register 0."
    assert now(figure) == stays
    rule = "Whole numbers from 0 to 127; thread 127 stays."
    for typed, told in (
        ("128", f"There is no thread 128. {rule}"),
        ("3.5", f"There is no thread 3.5. {rule}"),
        ("-1", f"There is no thread -1. {rule}"),
        ("1e1", f"There is no thread 1e1. {rule}"),
        ("", f"Which thread? {rule}"),
    ):
        field.fill(typed)
        assert now(figure) == told and field.input_value() == typed
        assert field.get_attribute("aria-invalid") == "true"
        assert "Thread 127 holds" in holds(figure)
        field.blur()
        assert field.input_value() == "127", "what was refused does not stand there"
        assert field.get_attribute("aria-invalid") == "false"
    field.fill("126")
    assert now(figure).endswith("lane 30 (thread 126), register 0.")
    assert "is-wrong" not in figure.locator(".wb-explorer-now").get_attribute("class")
    figure.locator("[name=kind]").select_option("mma_a")
    field.fill("32")
    assert "There is no thread 32. Whole numbers from 0 to 31; thread 30 stays." == now(figure)
    figure.locator("[name=kind]").select_option("d16")
    assert now(figure).startswith("(55, 4) of D"), "a control that changes leaves no old message"


def test_every_kind_can_be_shown(visit):
    page = visit().open("page")
    figure = explorer(page)
    for key, kind in KINDS.items():
        figure.locator("[name=kind]").select_option(key)
        assert now(figure).startswith("(0, 0) of ")
        per_thread = kind["rows"] * kind.get("columns", 64) // kind["threads"]
        assert f"holds {per_thread} elements" in holds(figure)
        assert figure.locator("svg .wb-fragment-mine").count() == per_thread
        assert figure.locator("[name=n]").is_visible() == ("columns" not in kind)
    figure.locator("[name=kind]").select_option("a8")
    cell(figure, "(1, 6) ").click()
    assert now(figure).endswith("lane 5 (thread 5), register 0, bits 16–23.")
    assert cell(figure, "(1, 6) ").inner_text().split() == ["t5", "r0.2"]
    assert "and so on" not in holds(figure)


def test_another_kind_keeps_the_thread(visit):
    page = visit().open("page")
    figure = explorer(page)
    thread = figure.locator("[name=thread]")
    thread.fill("101")
    for key, kind in KINDS.items():
        figure.locator("[name=kind]").select_option(key)
        mine = 101 % kind["threads"]
        assert thread.input_value() == str(mine) and f"Thread {mine} holds" in holds(figure)
        assert figure.locator(".wb-fragment-note").is_visible() == (mine != 101 or key == "s32")
        if mine != 101:
            told = "A warp has lanes 0 to 31: thread 101 is lane 5 of its own."
            assert note(figure) == told
    figure.locator("[name=kind]").select_option("d32")
    assert thread.input_value() == "101", "it comes back where there is room for it"


def test_another_kind_keeps_the_place_if_it_is_the_threads(visit):
    figure = explorer(visit().open("page"))
    cell(figure, "(5, 3) ").click()
    for key in ("d16", "s32", "a16", "d32"):
        figure.locator("[name=kind]").select_option(key)
        assert now(figure).startswith("(5, 3) of ")
    figure.locator("[name=kind]").select_option("a8")
    assert now(figure).startswith("(5, 4) of A: warp 0, lane 21"), "there thread 20 has (5, 3)"


def test_integers_have_fewer_n(visit):
    figure = explorer(visit().open("page"))
    figure.locator("[name=n]").select_option("40")
    figure.locator("[name=kind]").select_option("s32")
    assert figure.locator("[name=n]").input_value() == "32"
    offered = figure.locator("[name=n] option:not([disabled])").evaluate_all(
        "options => options.map(option => Number(option.value))"
    )
    assert tuple(offered) == INTEGER_N
    assert note(figure).startswith(
        "On integers, wgmma has N = 8, 16, 24, 32, then multiples of 16."
    )
    assert INTEGER_N == (8, 16, 24, *range(32, 257, 16))
    assert note(figure).endswith("There is no N = 40: shown is 32.")
    figure.locator("[name=n]").select_option("48")
    assert note(figure).endswith("cannot be chosen.")
    figure.locator("[name=n]").select_option("24")
    figure.locator("[name=kind]").select_option("d16")
    assert figure.locator("[name=n]").input_value() == "24"
    assert figure.locator("[name=n] option[disabled]").count() == 0
    assert not figure.locator(".wb-fragment-note").is_visible()


def test_a_smaller_n_keeps_the_place_inside(visit):
    page = visit().open("page")
    figure = explorer(page, 1)
    figure.locator("[role=gridcell][tabindex='0']").focus()
    page.keyboard.press("End")
    assert now(figure).startswith("(49, 255) of D")
    figure.locator("[name=n]").select_option("8")
    assert now(figure).startswith("(49, 7) of D") and "holds 4 elements" in holds(figure)


def test_keys_walk_through_the_matrix(visit):
    page = visit().open("page")
    figure = explorer(page)
    figure.locator("[role=gridcell][tabindex='0']").focus()
    focused = "document.activeElement.getAttribute('aria-label')"
    for key, place in (
        ("ArrowRight", "(0, 1)"),
        ("ArrowDown", "(1, 1)"),
        ("ArrowLeft", "(1, 0)"),
        ("ArrowLeft", "(1, 0)"),
        ("PageDown", "(9, 0)"),
        ("End", "(9, 63)"),
        ("ArrowUp", "(8, 63)"),
        ("ArrowUp", "(7, 63)"),
        ("PageUp", "(0, 63)"),
        ("Home", "(0, 0)"),
        ("Control+End", "(63, 63)"),
        ("Control+Home", "(0, 0)"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused).startswith(place), key
        assert now(figure).startswith(place)
        chosen = figure.locator("[role=gridcell][tabindex='0']")
        assert chosen.count() == 1 and chosen.get_attribute("aria-selected") == "true"
    page.keyboard.press("PageDown")
    row = figure.locator("[role=row]:has([tabindex='0'])")
    assert row.get_attribute("aria-rowindex") == "10"
    assert figure.locator("[role=grid]").get_attribute("aria-rowcount") == "65"


def test_everything_is_reached_by_tab_and_focus_is_seen(visit):
    page = visit(reduced_motion="reduce").open("page")
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        at = "document.activeElement"
        reached.append(page.evaluate(f"{at}.name || {at}.getAttribute('role')"))
        assert page.evaluate(f"parseFloat(getComputedStyle({at}).outlineWidth)") >= 2
    assert reached == ["kind", "n", "thread", "gridcell"]


def test_a_finger_on_a_phone(visit):
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True).open("page")
    figure = explorer(page)
    cell(figure, "(3, 4) ").tap()
    assert now(figure).startswith("(3, 4) of D: warp 0, lane 14")
    box = figure.locator("svg .wb-fragment-band-3").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "warp 3" in now(figure)
    sizes = figure.locator("select, input, [role=gridcell]").evaluate_all(
        "all => all.map(e => Math.min(e.offsetWidth, e.offsetHeight))"
    )
    assert min(sizes) >= 24


def test_figures_on_one_page_do_not_disturb_each_other(visit):
    page = visit().open("page")
    first, second = explorer(page), explorer(page, 1)
    first.locator("[name=kind]").select_option("matrix_trans")
    cell(first, "(3, 1) ").click()
    assert now(first) == "(3, 1) of the matrix: lane 5, register 0, bits 16–31."
    assert now(second).startswith("(49, 2) of D")


def test_the_largest_matrix_answers_at_once(visit):
    page = visit().open("page")
    elapsed = page.evaluate(
        """() => {
            const figure = document.querySelectorAll("figure.wb-fragment-explorer")[1];
            const input = figure.querySelector("[name=thread]");
            const start = performance.now();
            for (let thread = 0; thread < 128; thread++) {
                input.value = thread;
                input.dispatchEvent(new Event("input"));
            }
            return (performance.now() - start) / 128;
        }"""
    )
    assert elapsed < 25, "milliseconds to draw a place of 64 × 256"


def test_without_a_script_the_drawing_and_its_words_remain(visit):
    page = visit(java_script_enabled=False, viewport=PHONE).open("page")
    figure = explorer(page)
    svg = figure.locator("svg")
    assert svg.get_attribute("role") == "img" and svg.is_visible()
    assert "registers 0 to 3 hold (0, 0), (0, 1), (8, 0), (8, 1)" in svg.get_attribute("aria-label")
    for hidden in (
        ".wb-explorer-controls",
        ".wb-explorer-now",
        ".wb-fragment-note",
        ".wb-fragment-under",
        ".wb-fragment-zoom",
    ):
        assert not figure.locator(hidden).is_visible()


def test_it_starts_where_a_notebook_inserts_it(visit, folder):
    page = visit().open("empty")
    as_a_notebook(page, folder)
    figure = explorer(page)
    cell(figure, "(1, 1) ").click()
    assert now(figure).startswith("(1, 1) of D")
