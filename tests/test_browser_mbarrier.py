"""The stepper of mbarriers in a browser: its arithmetic, pointer, keys, touch, modes, a phone.

The page is one that this test writes itself from the figure's HTML, opened from disk.
"""

import importlib
from dataclasses import asdict
from pathlib import Path

import pytest
from browsing import DESKTOP, PHONE, SMALL_TEXT, UNREACHABLE
from figure_pages import as_a_notebook, write_pages
from playwright.sync_api import Locator, Page

from hopper import figures
from hopper.conformance.mbarrier import RANDOM

# The package exports the function under the module's name.
stepper = importlib.import_module("hopper.figures.mbarrier_stepper")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page with two steppers; one that a notebook fills."""
    shown = [figures.mbarrier_stepper(*given)._repr_html_() for given in ((), ("broken0",))]
    return write_pages(tmp_path_factory.mktemp("mbarrier"), "mbarriers", shown)


def figure_of(page: Page, number: int = 0) -> Locator:
    return page.locator("figure.wb-mbarrier-stepper").nth(number)


def now(figure: Locator) -> str:
    return figure.locator(".wb-explorer-now").inner_text()


def card(figure: Locator, name: str) -> str:
    """A barrier's box as lines of text, without the dots."""
    return " ".join(figure.locator(f'.wb-mbarrier-card[aria-label="{name}"]').inner_text().split())


def go(figure: Locator, moment: int) -> None:
    figure.locator("[name=moment]").fill(str(moment))


# ---- the arithmetic -----------------------------------------------------------------------------

REPLAYED = "story => hopperMbarriers.replay(story)"
COUNTED = """scripts => scripts.map(([count, ...steps]) => {
    const barrier = hopperMbarriers.made(count);
    return steps.map(([arrivals, bytes]) => {
        hopperMbarriers.change(barrier, arrivals, bytes);
        return [barrier.pending, barrier.tx, barrier.phase,
            hopperMbarriers.passes(barrier, 0), hopperMbarriers.passes(barrier, 1)];
    });
})"""


def test_its_states_are_those_of_hopper_in_every_run(visit):
    page = visit().open("page")
    for one in stepper.stories().values():
        got = page.evaluate(REPLAYED, stepper._plain(one))
        right = [[b and asdict(b) for b in barriers] for barriers in stepper.replay(one)]
        for barriers in right:
            for barrier in filter(None, barriers):
                barrier["waiting"] = [list(pair) for pair in barrier["waiting"]]
        assert got == right


def test_it_counts_as_hopper_does_through_random_operations(visit):
    """Those scripts that an H200 was asked, without the operations that it does not know."""
    scripts, right = [], []
    for (_, count), *rest in RANDOM:
        it, steps, seen = stepper.Barrier(count, count), [count], []
        for name, operand in rest:
            arrivals = {"arrive": operand, "arrive_open": operand, "one": 1, "arrive_tx": 1}
            told = {"arrive_tx": operand, "expect": operand, "complete": -operand}
            step = [arrivals.get(name, 0), told.get(name, 0)]
            if name.startswith("drop") or step[0] > it.pending:
                continue
            it.change(*step)
            steps.append(step)
            seen.append([it.pending, it.tx, it.phase, it.passes(0), it.passes(1)])
        scripts.append(steps)
        right.append(seen)
    assert max(one[2] for seen in right for one in seen) > 3
    assert visit().open("page").evaluate(COUNTED, scripts) == right


# ---- how it looks -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_accessible_quiet_and_fits(visit, mode, size):
    seen = visit(color_scheme=mode, viewport=size)
    page = seen.open("page")
    go(figure_of(page), 14)
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    assert seen.fetched() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(SMALL_TEXT) == []
    assert page.evaluate(UNREACHABLE) == []
    assert seen.violations() == []
    figure = figure_of(page)
    assert not figure.locator(".wb-explorer-drawing").is_visible()
    if size == PHONE:  # the words stay in sight while the barriers are longer than the screen
        figure.scroll_into_view_if_needed()
        page.mouse.wheel(0, 200)
        box = figure.locator(".wb-explorer-now").bounding_box()
        assert 0 <= box["y"] and box["y"] + box["height"] <= size["height"] + 1


# ---- what one does ------------------------------------------------------------------------------


def test_a_ring_told_step_by_step(visit):
    figure = figure_of(visit().open("page"))
    assert now(figure).startswith("1 of 64. Warp 0 initialises full[0]: 1 arrival a phase.")
    assert "not initialised" in card(figure, "empty[1]")
    for _ in range(5):
        figure.locator("[name=forward]").click()
    assert now(figure).startswith("6 of 64. Warp 4 asks for parity 1 of empty[0].")
    assert "it goes on at once" in now(figure)
    touched = figure.locator(".is-touched")
    assert touched.count() == 1 and touched.get_attribute("aria-label") == "empty[0]"
    figure.locator("[name=forward]").click()
    assert now(figure).startswith("7 of 64. Warp 4 arrives at full[0] and announces 2,048 bytes.")
    assert "mbarrier_arrive_expect_tx(&full[stage], BOX_BYTES);" in now(figure)
    assert "arrivals missing 0 of 1 bytes missing 2,048" in card(figure, "full[0]")
    # Nobody has read yet: this is why the producer starts at parity 1.
    assert card(figure, "empty[0]").endswith(
        "wait for parity 0 ✗ waits wait for parity 1 ✓ goes on"
    )
    assert touched.count() == 1 and touched.get_attribute("aria-label") == "full[0]"
    go(figure, 15)
    assert "phase 0 is complete, and phase 1 begins. Warps 0–3 go on." in now(figure)
    assert "phase 1, parity 1 arrivals missing 1 of 1" in card(figure, "full[0]")
    assert "waiting warp 4, for parity 0" in card(figure, "empty[0]")
    figure.locator("[name=back]").click()
    assert "waiting warps 0–3, for parity 0" in card(figure, "full[0]")
    changed = figure.locator(".is-changed").all_inner_texts()
    assert changed == ["warp 4, for parity 0"]


def test_the_ends_are_ends(visit):
    figure = figure_of(visit().open("page"))
    back, forward = figure.locator("[name=back]"), figure.locator("[name=forward]")
    assert back.is_disabled() and forward.is_enabled()
    go(figure, 63)
    assert back.is_enabled() and forward.is_disabled()
    assert "64 of 64" in now(figure)


@pytest.mark.parametrize(
    ("key", "name", "told"),
    [
        ("broken0", "full[0]", "waiting warps 0–3, for parity 0"),
        ("broken1", "full[0]", "bytes missing 16 waiting warps 0–3, for parity 0"),
        ("broken2", "empty[0]", "arrivals missing 1 of 5"),
    ],
)
def test_a_deadlock_shows_what_is_missing(visit, key, name, told):
    figure = figure_of(visit().open("page"))
    figure.locator("[name=story]").select_option(key)
    assert now(figure).startswith("1 of ")
    figure.locator("[name=moment]").focus()
    figure.page.keyboard.press("End")
    assert "The emulator stops" in now(figure)
    assert figure.locator(".wb-explorer-now.is-wrong").count() == 1
    assert told in card(figure, name)


def test_the_table_is_of_the_run_that_is_chosen(visit):
    figure = figure_of(visit().open("page"))
    summary, body = figure.locator("summary"), figure.locator(".wb-mbarrier-table")
    for key, one in stepper.stories().items():
        figure.locator("[name=story]").select_option(key)
        assert summary.inner_text() == f"{one.name}, as a table"
        assert body.get_attribute("aria-label") == f"{one.name}, as a table"
        shown = body.locator("tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        assert shown == [list(row) for row in stepper._rows(one)]


#: Names of runs that the list, closed, would cut off: the arrow and the borders take their part.
CUT = """select => {
    const style = getComputedStyle(select), pen = document.createElement("canvas").getContext("2d");
    pen.font = style.font;
    const room = select.clientWidth - parseFloat(style.paddingLeft) - 20;
    return [...select.options].map(o => o.text).filter(text => pen.measureText(text).width > room);
}"""


def test_the_names_of_the_runs_fit_a_phone(visit):
    figure = figure_of(visit(viewport=PHONE).open("page"))
    assert figure.locator("[name=story]").evaluate(CUT) == []


def test_it_plays_pauses_and_starts_over(visit):
    seen = visit()
    seen.page.clock.install()
    page = seen.open("page")
    figure = figure_of(page)
    figure.locator("[name=story]").select_option("broken0")
    play = figure.locator("[name=play]")
    play.click()
    assert play.inner_text() == "Pause"
    page.clock.run_for(2300)
    assert now(figure).startswith("3 of 10")
    play.click()
    page.clock.run_for(5000)
    assert now(figure).startswith("3 of 10") and play.inner_text() == "Play"
    play.click()
    page.clock.run_for(20000)
    assert now(figure).startswith("10 of 10") and play.inner_text() == "Play"
    play.click()
    assert now(figure).startswith("1 of 10")


def test_keys_reach_and_move_everything(visit):
    page = visit().open("page")
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        at = "document.activeElement"
        reached.append(page.evaluate(f"{at}.name || {at}.localName"))
        assert page.evaluate(f"parseFloat(getComputedStyle({at}).outlineWidth)") >= 2
    assert reached == ["story", "forward", "play", "moment", "summary"]  # back is off
    figure = figure_of(page)
    figure.locator("[name=moment]").focus()
    for key, place in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", 64)):
        page.keyboard.press(key)
        assert now(figure).startswith(f"{place} of 64")
    figure.locator("[name=back]").focus()
    page.keyboard.press("Enter")
    assert now(figure).startswith("63 of 64")


def test_a_finger_on_a_phone(visit):
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True).open("page")
    figure = figure_of(page)
    figure.locator("[name=forward]").tap()
    assert now(figure).startswith("2 of 64")
    sizes = figure.locator("select, button, input").evaluate_all(
        "all => all.map(e => Math.min(e.offsetWidth, e.offsetHeight))"
    )
    assert min(sizes) >= 24


def test_figures_on_one_page_do_not_disturb_each_other(visit):
    page = visit().open("page")
    go(figure_of(page), 9)
    assert now(figure_of(page)).startswith("10 of 64")
    assert now(figure_of(page, 1)).startswith("1 of 10")


def test_without_a_script_the_drawing_and_a_table_remain(visit):
    page = visit(java_script_enabled=False, viewport=PHONE).open("page")
    figure = figure_of(page)
    svg = figure.locator("svg")
    assert svg.get_attribute("role") == "img" and svg.is_visible()
    assert "who waits for the other parity goes on at once" in svg.get_attribute("aria-label")
    for hidden in (".wb-explorer-controls", ".wb-explorer-now", ".wb-mbarrier-cards"):
        assert not figure.locator(hidden).is_visible()
    figure.locator("summary").click()
    rows = figure.locator("tbody tr")
    assert rows.count() == 64
    told = "Warp 4 arrives at full[0] and announces 2,048 bytes."
    assert rows.nth(6).inner_text().split("\t")[:4] == [told, "full[0]: 0", "0 of 1", "2,048"]


def test_it_starts_where_a_notebook_inserts_it(visit, folder):
    page = visit().open("empty")
    as_a_notebook(page, folder)
    figure = figure_of(page)
    figure.locator("[name=forward]").click()
    assert now(figure).startswith("2 of 64")
