"""The ladder in a browser: its bars lead to chapters, any two versions compare, also on a phone.

The page is one that this test writes itself, of invented records, opened from disk.
"""

import re
from itertools import product
from pathlib import Path

import ladder_records as invented
import pytest
from browsing import DESKTOP, PHONE, SMALL_TEXT, UNREACHABLE
from figure_pages import as_a_notebook, write_pages
from playwright.sync_api import Page

from extension import ladder as parts
from hopper import ladder, show

pytestmark = pytest.mark.browser

KERNELS = ladder.names()
CHAPTER = "<!doctype html><html lang='en'><title>{0}</title><h1>{0}</h1></html>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page of all three parts, and a page a chapter."""
    target = tmp_path_factory.mktemp("ladder")
    chapters = {kernel: f"{kernel}.html" for kernel in KERNELS}
    for kernel, name in chapters.items():
        (target / name).write_text(CHAPTER.format(kernel))
    address = parts.Addresses(chapters, chapters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPPER_RESULTS", str(tmp_path_factory.mktemp("records")))
        invented.write_all()
        made = {name: part(address) for name, part in parts.PARTS.items()}
    shown = [made["diffs"], made["figure"], made["table"]]
    return write_pages(target, "Ladder", shown)


def chosen(page: Page) -> tuple[str, str]:
    values = [page.locator(f"select[name={name}]").input_value() for name in ("before", "after")]
    return values[0], values[1]


def told(page: Page) -> str:
    return page.locator(".wb-explorer-now").inner_text()


def shown(page: Page) -> str:
    return page.locator(".wb-ladder-shown pre").evaluate("pre => pre.textContent").rstrip("\n")


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


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_bar_is_a_link_by_pointer(visit, size):
    page = visit(viewport=size).open("page")
    drawing = page.locator(".wb-ladder-bars svg")
    text = drawing.locator("text", has_text="v3 · roles")
    text.scroll_into_view_if_needed()
    place = text.bounding_box()
    link = page.locator("a[aria-label^='v3, roles']")
    over = link.bounding_box()
    assert over["y"] <= place["y"] and place["y"] + place["height"] <= over["y"] + over["height"]
    assert min(over["width"], over["height"]) >= 24
    page.mouse.click(place["x"] + 5, place["y"] + 5)
    page.wait_for_url("**/v3_specialized.html")


def test_bars_are_reached_by_tab_and_followed_by_enter(visit):
    page = visit(reduced_motion="reduce").open("page")
    page.locator("a[aria-label^='v0,']").focus()
    page.keyboard.press("Tab")
    at = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert re.match(r"v1, the first wgmma: burst \d+ TFLOPS, 60% of cuBLAS", at)
    outline = "parseFloat(getComputedStyle(document.activeElement).outlineWidth)"
    assert page.evaluate(outline) >= 2
    page.keyboard.press("Enter")
    page.wait_for_url("**/v1_wgmma.html")


def test_every_pair_is_what_hopper_computes(visit):
    page = visit().open("page")
    for before, after in product(KERNELS, repeat=2):
        page.select_option("select[name=before]", before)
        page.select_option("select[name=after]", after)
        code = show.diff(before, after)
        assert shown(page) == str(code), (before, after)
        assert told(page) == code.title


def test_numbers_are_those_of_the_files(visit):
    page = visit().open("page", "#diff-v1_wgmma-v2_ring")
    numbers = page.locator(".wb-ladder-line").evaluate_all("all => all.map(e => e.dataset.number)")
    lines = show.diff("v1_wgmma", "v2_ring").lines
    assert numbers == [str(line.number or "") for line in lines]


def test_keys_choose_and_swap(visit):
    page = visit().open("page")
    assert chosen(page) == tuple(KERNELS[-2:])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "before"
    page.keyboard.press("ArrowUp")
    assert chosen(page) == (KERNELS[-3], KERNELS[-1])
    assert f"{KERNELS[-3]}.cu → kernels/{KERNELS[-1]}.cu" in told(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert chosen(page) == (KERNELS[-3], KERNELS[0])
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert chosen(page) == (KERNELS[0], KERNELS[-3])
    assert shown(page) == str(show.diff(KERNELS[0], KERNELS[-3]))
    assert page.url.endswith(f"#diff-{KERNELS[0]}-{KERNELS[-3]}"), "the address to pass on"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "PRE", "a keyboard can scroll it"


def test_an_address_names_a_pair_and_nonsense_names_none(visit):
    page = visit().open("page", "#diff-v1_wgmma-v4_two_consumers")
    assert chosen(page) == ("v1_wgmma", "v4_two_consumers")
    page.evaluate("location.hash = '#diff-v0_mma_sync-v1_wgmma'")
    page.wait_for_timeout(50)
    assert chosen(page) == ("v0_mma_sync", "v1_wgmma")
    page.evaluate("location.hash = '#diff-v0_mma_sync-nothing'")
    page.wait_for_timeout(50)
    assert chosen(page) == ("v0_mma_sync", "v1_wgmma")


def test_the_tables_links_show_the_step_to_a_version_again_and_again(visit):
    page = visit().open("page")
    link = page.locator(".wb-ladder-table a", has_text="diff").nth(1)
    for _ in range(2):
        page.locator(".wb-ladder-diff button").click()
        link.click()
        assert chosen(page) == ("v1_wgmma", "v2_ring")
        box = page.locator(".wb-ladder-diff").bounding_box()
        assert -1 <= box["y"] < DESKTOP["height"] / 2, "it is in view"


def test_on_a_phone_lines_wrap_and_the_version_stays_in_view(visit):
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True).open("page")
    pre = page.locator(".wb-ladder-shown pre")
    assert pre.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    table = page.locator(".wb-ladder-table")
    assert table.evaluate("e => e.scrollWidth > e.clientWidth")
    first = table.locator("tbody th").first
    left = first.bounding_box()["x"]
    table.evaluate("e => e.scrollLeft = 600")
    assert abs(first.bounding_box()["x"] - left) < 1
    page.locator(".wb-ladder-diff button").tap()
    assert chosen(page) == (KERNELS[-1], KERNELS[-2])


def test_without_a_script_links_and_every_step_remain(visit):
    page = visit(java_script_enabled=False).open("page")
    for control in (".wb-explorer-controls", ".wb-explorer-now", ".wb-ladder-shown"):
        assert not page.locator(control).is_visible()
    steps = page.locator(".wb-ladder-steps details")
    assert steps.count() == len(KERNELS) - 1
    page.locator(".wb-ladder-table a", has_text="diff").nth(1).click()
    step = page.locator("#diff-v1_wgmma-v2_ring")
    assert -1 <= step.bounding_box()["y"] < DESKTOP["height"]
    step.locator("summary").click()
    assert "mbarrier_init(&full[stage], 1)" in step.locator("pre").inner_text()
    page.locator("a[aria-label^='v3, roles']").click()
    page.wait_for_url("**/v3_specialized.html")


def test_it_starts_where_a_notebook_inserts_it(visit, folder):
    page = visit().open("empty")
    as_a_notebook(page, folder)
    page.locator(".wb-ladder-diff button").click()
    assert chosen(page) == (KERNELS[-1], KERNELS[-2])
