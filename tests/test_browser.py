"""The book's pages in a browser, opened from disk: accessible, quiet, usable by phone and keys."""

from collections.abc import Callable, Iterator

import pytest
from browsing import (
    ALL_BUT_COLOURS,
    COLOURS,
    EVERY_RULE,
    PHONE,
    SMALL_TEXT,
    UNREACHABLE,
    Visit,
)
from playwright.sync_api import Browser
from site_building import CHAPTERS, PAGES, Site

pytestmark = pytest.mark.browser

# Time for fonts, formulas and the theme's scripts, all of which come from disk.
SETTLED_MS = 400


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Callable[..., Visit]]:
    opened: list[Visit] = []

    def start(**options) -> Visit:
        assert (site.folder / "index.html").is_file(), site.log
        opened.append(Visit(browser, site.folder, SETTLED_MS, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.context.close()


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_and_quiet(visit, name, mode):
    """axe finds nothing; no message on the console; nothing is asked of a network."""
    seen = visit(color_scheme=mode)
    page = seen.open(name)
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    assert seen.complaints == []
    assert seen.fetched() == []
    assert seen.violations(EVERY_RULE if mode == "light" else COLOURS) == []


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_a_phone(visit, name):
    """360 pixels: the page does not scroll sideways, what does is reached by keyboard, and no
    drawing has tiny text.
    """
    seen = visit(viewport=PHONE)
    page = seen.open(name)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"], page.evaluate(WIDER_THAN_THE_PAGE)
    assert page.evaluate(SMALL_TEXT) == []
    assert page.evaluate(UNREACHABLE) == []
    assert seen.violations(ALL_BUT_COLOURS) == []


WIDER_THAN_THE_PAGE = """() => [...document.querySelectorAll("main *")]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.outerHTML.slice(0, 120)).slice(0, 8)"""


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_open_search_and_open_menu_are_accessible(visit, mode):
    seen = visit(color_scheme=mode, viewport=PHONE)
    page = seen.open("index")
    page.click("button.search-button__button:visible")
    page.wait_for_selector("#pst-search-dialog[open]")
    assert seen.violations() == []
    page.keyboard.press("Escape")
    page.click("button.primary-toggle:visible")
    page.wait_for_selector("dialog#pst-primary-sidebar-modal[open]")
    page.wait_for_timeout(SETTLED_MS)
    assert seen.violations() == []


def test_first_tab_offers_to_skip_to_the_text_and_focus_shows(visit):
    page = visit(reduced_motion="reduce").open("docs/setup")
    page.keyboard.press("Tab")
    focused = "document.activeElement"
    assert page.evaluate(f"{focused}.textContent").strip() == "Skip to main content"
    assert page.evaluate(f"{focused}.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(f"document.getElementById('main-content').contains({focused})")
    assert page.evaluate(f"getComputedStyle({focused}).outlineStyle") == "solid"
    assert page.evaluate(f"parseFloat(getComputedStyle({focused}).outlineWidth)") >= 2


def test_colour_mode_can_be_switched(visit):
    page = visit(color_scheme="light").open("index")
    page.click("button.theme-switch-button:visible")
    page.click("button.theme-change-button[data-mode=dark]:visible")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_nothing_moves_for_a_reader_who_asked_for_that(visit):
    moving = "document.getAnimations().filter(a => a.playState === 'running').length"
    page = visit(reduced_motion="no-preference").open("index")
    assert page.evaluate(moving) > 0
    page = visit(reduced_motion="reduce").open("index")
    assert page.evaluate(moving) == 0


def test_search_works_from_disk(visit):
    seen = visit()
    page = seen.open("search", "?q=warpgroup")
    page.wait_for_selector("#search-results li a")
    hits = page.eval_on_selector_all("#search-results li a", "links => links.map(a => a.href)")
    assert any("docs/glossary.html" in hit for hit in hits)
    assert seen.complaints == []


def test_formulas_are_set(visit):
    page = visit().open("docs/measuring")
    page.wait_for_selector("mjx-container")
    assert page.evaluate("document.querySelectorAll('mjx-merror').length") == 0
    fonts = "[...document.fonts].filter(f => f.family.startsWith('MJX') && f.status === 'loaded')"
    assert page.evaluate(f"{fonts}.length") > 0


@pytest.mark.parametrize("slug", CHAPTERS[::4])  # one script serves all
def test_code_of_a_chapter_can_be_copied(visit, slug):
    seen = visit()
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = seen.open(f"chapters/{slug}")
    cell = page.locator("div.cell_input div.highlight").first
    cell.hover()
    cell.locator("button.copybtn").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == cell.locator("pre").inner_text().strip()


def test_recordings_tell_their_age(visit):
    """The built page holds the date alone, so that it is the same tomorrow."""
    page = visit().open("docs/status")
    page.evaluate(
        """() => {
            const time = document.createElement("time");
            time.className = "age";
            time.dateTime = new Date(Date.now() - 3.5 * 24 * 3600 * 1000).toISOString();
            time.textContent = "then";
            document.querySelector("main").append(time);
            dispatchEvent(new Event("DOMContentLoaded"));
        }"""
    )
    assert page.locator("time.age").last.inner_text() == "then (3 days ago)"
