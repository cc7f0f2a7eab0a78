"""The timeline in a browser: pointer, keys, touch, both modes, a phone, and without a script.

The page is one that this test writes itself from the figures' HTML, opened from disk.
"""

from pathlib import Path

import pytest
from browsing import DESKTOP, PHONE, SMALL_TEXT, UNREACHABLE
from figure_pages import as_a_notebook, write_pages
from playwright.sync_api import Locator, Page
from test_run_timeline import BREAKS, ran

from hopper import figures

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page with three figures: v1, v1 without its wait, and v1 again."""
    sound = figures.run_timeline(*ran(), title="Taking turns", alt="TMA, then the tensor core.")
    broken = figures.run_timeline(
        *ran("v1_wgmma", BREAKS["no wait_group"]),
        title="Without the wait",
        alt="A tile is overwritten while it is read.",
    )
    shown = [each._repr_html_() for each in (sound, broken, sound)]
    return write_pages(tmp_path_factory.mktemp("timelines"), "Timelines", shown)


def first(page: Page) -> Locator:
    return page.locator("figure.wb-run").first


def moment(figure: Locator) -> int:
    return int(figure.locator(".wb-run-scrub").input_value())


def told(figure: Locator) -> str:
    return figure.locator(".wb-run-now").inner_text()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_accessible_quiet_and_fits(visit, mode, size):
    seen = visit(color_scheme=mode, viewport=size)
    page = seen.open("page")
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    assert seen.fetched() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(SMALL_TEXT.replace("svg[role=img]", "svg")) == []
    assert page.evaluate(UNREACHABLE) == []
    assert seen.violations() == []
    first(page).locator("summary").click()
    assert seen.violations() == []


def test_buttons_step_and_the_range_scrubs(visit):
    figure = first(visit().open("page"))
    assert moment(figure) == 0 and "Step 11. Warp 0 initialises loaded" in told(figure)
    assert "v1_wgmma.cu:" in told(figure)
    figure.locator(".wb-run-forward").click()
    figure.locator(".wb-run-forward").click()
    assert moment(figure) == 2 and "asks TMA for a copy" in told(figure)
    figure.locator(".wb-run-back").click()
    assert moment(figure) == 1
    figure.locator(".wb-run-scrub").fill("8")
    state = figure.locator(".wb-run-states").inner_text()
    assert "wgmma group 0" in state and "no copy under way" in state
    assert "phase 1 (parity 1): 1 of 1 arrivals" in state
    figure.locator(".wb-run-scrub").fill("0")
    figure.locator(".wb-run-back").click(force=True)
    assert moment(figure) == 0, "nothing lies before the first moment"


def test_play_goes_on_by_itself_stops_at_the_end_and_starts_again(visit):
    seen = visit()
    seen.page.clock.install()
    figure = first(seen.open("page"))
    play, now = figure.locator(".wb-run-play"), figure.locator(".wb-run-now")
    play.click()
    assert play.inner_text() == "Pause" and now.get_attribute("aria-live") == "off"
    seen.page.clock.run_for(2200)
    assert moment(figure) == 3
    play.click()
    seen.page.clock.run_for(2200)
    assert moment(figure) == 3 and now.get_attribute("aria-live") == "polite"
    play.click()
    seen.page.clock.run_for(60_000)
    last = int(figure.locator(".wb-run-scrub").get_attribute("max"))
    assert moment(figure) == last and play.inner_text() == "Play"
    play.click()
    assert moment(figure) == 0
    play.click()


def test_everything_is_reached_by_tab_and_focus_is_seen(visit):
    page = visit(reduced_motion="reduce").open("page")
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('class') || 'summary'"))
        shown = page.evaluate(
            """() => {
                const at = document.activeElement;
                const style = getComputedStyle(at);
                const box = at.querySelector(":scope > rect");
                return box ? getComputedStyle(box).strokeWidth : style.outlineWidth;
            }"""
        )
        assert float(shown.removesuffix("px")) >= 2, reached
    assert [name.split(" ")[0] for name in reached] == [
        *("wb-run-play", "wb-run-back", "wb-run-forward", "wb-run-scrub"),
        *("wb-run-scroll", "wb-run-item", "summary", "wb-run-play"),
    ]


def test_keys_on_the_controls(visit):
    page = visit().open("page")
    figure = first(page)
    last = int(figure.locator(".wb-run-scrub").get_attribute("max"))
    for control in (".wb-run-forward", ".wb-run-scrub"):
        figure.locator(control).focus()
        for key, where in (("End", last), ("ArrowLeft", last - 1), ("Home", 0), ("ArrowRight", 1)):
            page.keyboard.press(key)
            assert moment(figure) == where, (control, key)
    page.keyboard.press(" ")
    assert figure.locator(".wb-run-play").inner_text() == "Pause"
    page.keyboard.press(" ")
    assert figure.locator(".wb-run-play").inner_text() == "Play"
    said = figure.locator(".wb-run-scrub").get_attribute("aria-valuetext")
    assert said.startswith("Step ")


def test_keys_go_from_element_to_element_and_lane_to_lane(visit):
    page = visit().open("page")
    figure = first(page)
    focused = "document.activeElement.getAttribute('aria-label')"
    figure.locator('.wb-run-item[tabindex="0"]').focus()
    page.keyboard.press("ArrowDown")
    assert "into tile_a" in page.evaluate(focused)
    assert "tma_load_2d(tile_a" in told(figure) and "into tile_a" in told(figure)
    page.keyboard.press("ArrowRight")
    assert "box at (0, 64)" in page.evaluate(focused)
    page.keyboard.press("End")
    assert "box at (0, 128)" in page.evaluate(focused)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "wgmma group 1" in page.evaluate(focused)
    assert figure.locator('.wb-run-item[tabindex="0"]').count() == 1
    page.keyboard.press("Enter")
    begin = page.evaluate("Number(document.activeElement.dataset.begin)")
    assert moment(figure) == begin
    page.keyboard.press("ArrowUp")
    assert "into tile_b" in page.evaluate(focused)


def test_the_pointer_tells_what_it_is_over(visit):
    page = visit().open("page")
    figure = first(page)
    figure.locator(".wb-run-item[aria-label^='wgmma group 0']").hover()
    assert "8 × m64n128k16" in told(figure) and "wgmma_f32_f16_f16" in told(figure)
    page.locator("h1").hover()
    assert told(figure).startswith("Step 11.")
    figure.locator(".wb-run-item[aria-label^='wgmma group 0']").click(position={"x": 4, "y": 10})
    assert moment(figure) == 8


def test_a_finger_on_a_phone(visit):
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True).open("page")
    figure = first(page)
    figure.locator(".wb-run-forward").tap()
    assert moment(figure) == 1
    figure.locator(".wb-run-item[aria-label*='into tile_a']").first.tap()
    assert "into tile_a" in told(figure) and moment(figure) >= 2
    sizes = figure.locator("button, .wb-run-scrub").evaluate_all(
        "all => all.map(e => Math.min(e.offsetWidth, e.offsetHeight))"
    )
    assert min(sizes) >= 24


def test_labels_stay_in_view_and_the_place_is_followed(visit):
    page = visit(viewport=PHONE).open("page")
    figure = first(page)
    label = figure.locator(".wb-run-labels text").first
    left = label.bounding_box()["x"]
    figure.locator(".wb-run-scrub").focus()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.wb-run-scroll').scrollLeft > 300")
    page.wait_for_timeout(100)
    assert abs(label.bounding_box()["x"] - left) < 2
    head = figure.locator(".wb-run-head").bounding_box()["x"]
    assert 0 <= head <= PHONE["width"]


def test_figures_on_one_page_do_not_disturb_each_other(visit):
    page = visit().open("page")
    all_of_them = page.locator("figure.wb-run")
    starts = [moment(all_of_them.nth(i)) for i in range(3)]
    all_of_them.nth(2).locator(".wb-run-forward").click()
    all_of_them.nth(2).locator(".wb-run-forward").click()
    assert [moment(all_of_them.nth(i)) for i in range(3)] == [starts[0], starts[1], starts[2] + 2]
    all_of_them.nth(1).locator(".wb-run-back").click()
    assert moment(all_of_them.nth(0)) == starts[0] and moment(all_of_them.nth(2)) == 2


def test_a_broken_kernel_opens_where_the_rule_breaks(visit):
    page = visit(viewport=PHONE).open("page")
    figure = page.locator("figure.wb-run").nth(1)
    assert "✗ Rule broken, operand-overwritten" in told(figure)
    assert "tma_load_2d(tile_a" in told(figure)
    flag = figure.locator(".wb-run-flag").first.bounding_box()
    assert 0 <= flag["x"] <= PHONE["width"]
    assert figure.locator(".wb-run-broken li").count() >= 3
    assert "wait_group first" in figure.locator(".wb-run-broken").inner_text()
    state = figure.locator(".wb-run-states").inner_text()
    assert "a copy writes it while wgmma may still read it" in state
    figure.locator(".wb-run-back").click()
    assert "✗" not in told(figure)


def test_without_a_script_the_drawing_and_its_words_remain(visit):
    page = visit(java_script_enabled=False, viewport=PHONE).open("page")
    figure = first(page)
    svg = figure.locator("svg")
    assert svg.get_attribute("role") == "img"
    assert svg.get_attribute("aria-label") == "TMA, then the tensor core."
    assert svg.bounding_box()["width"] > PHONE["width"], "its own size, and it scrolls"
    for control in (".wb-run-controls", ".wb-run-now", ".wb-run-states"):
        assert not figure.locator(control).is_visible()
    figure.locator("summary").click()
    assert "asks TMA for a copy" in figure.locator(".wb-run-words").inner_text()
    assert page.locator(".wb-run-broken").is_visible()


def test_it_starts_where_a_notebook_inserts_it(visit, folder):
    page = visit().open("empty")
    as_a_notebook(page, folder)
    figure = first(page)
    figure.locator(".wb-run-forward").click()
    assert moment(figure) == 1
