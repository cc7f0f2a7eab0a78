"""The pages in a browser, opened from disk: accessible, quiet, usable on a phone and by keyboard.

Uses the Chromium of the system: `CHROMIUM=/path/to/it`, or the first of the usual names on PATH.
"""

import os
import shutil
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from site_building import CHAPTERS, PAGES, Site

pytestmark = pytest.mark.browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# WCAG 2.2 AA, and axe's best practices, which include landmarks and heading order.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
# Time for fonts, formulas and the theme's scripts, all of which come from disk.
SETTLED_MS = 400


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium: install the package chromium, or set CHROMIUM to its path")
    options = ["--disable-background-networking", "--disable-component-update"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")  # Chromium refuses to start as root otherwise
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=options)
        yield started
        started.close()


class Visit:
    """One page of the site, opened from disk, and what it did besides showing itself."""

    def __init__(self, browser: Browser, site: Site, **options) -> None:
        self.site = site
        self.context = browser.new_context(**({"viewport": DESKTOP} | options))
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self.hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda request: self.complaints.append(request.url))

    def hear(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def open(self, name: str, after: str = "") -> Page:
        path = self.site.folder / f"{name}.html"
        assert path.is_file(), self.site.log
        self.page.goto(path.as_uri() + after)
        self.page.wait_for_timeout(SETTLED_MS)
        return self.page

    def violations(self) -> list[str]:
        # Without preload, axe does not try to fetch the style sheets, which file:// forbids.
        options = {"preload": False, "runOnly": RULES, "resultTypes": ["violations"]}
        found = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
            for one in found
            for node in one["nodes"]
        ]


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator:
    opened = []

    def start(**options) -> Visit:
        opened.append(Visit(browser, site, **options))
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
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    assert seen.violations() == []


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_a_phone(visit, name):
    """360 pixels: the page does not scroll sideways, and no drawing has tiny text."""
    seen = visit(viewport=PHONE)
    page = seen.open(name)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"], page.evaluate(WIDER_THAN_THE_PAGE)
    assert page.evaluate(SMALL_TEXT) == []
    assert seen.violations() == []


WIDER_THAN_THE_PAGE = """() => [...document.querySelectorAll("main *")]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.outerHTML.slice(0, 120)).slice(0, 8)"""

# Drawn text is scaled with its drawing, so its size is measured on the screen.
SMALL_TEXT = """() => [...document.querySelectorAll("main svg[role=img] text")]
    .map(t => [t.textContent, parseFloat(getComputedStyle(t).fontSize)
        * t.getScreenCTM().a / (t.closest("svg").currentScale || 1)])
    .filter(([, size]) => size > 0 && size < 10.5)"""


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


@pytest.mark.parametrize("name", [name for name in PAGES if name != "search"])
def test_what_scrolls_can_be_reached_by_keyboard(visit, name):
    page = visit(viewport=PHONE).open(name)
    assert page.evaluate(UNREACHABLE) == []


UNREACHABLE = """() => [...document.querySelectorAll("main *")]
    .filter(e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX)
        && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
    .filter(e => e.tabIndex < 0 && !e.querySelector("a, button, [tabindex='0']"))
    .map(e => e.outerHTML.slice(0, 160))"""


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


@pytest.mark.parametrize("slug", CHAPTERS)
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
