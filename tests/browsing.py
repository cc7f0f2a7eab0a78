"""Pages in a headless Chromium: visits, and what is asked of every page.

Uses the Chromium of the system: `CHROMIUM=/path/to/it`, or the first of the usual names on PATH.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# WCAG 2.2 AA, and axe's best practices, which include landmarks and heading order.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
EVERY_RULE = {"runOnly": RULES}
# Contrast takes axe longer than all else. A dark page differs in its colours only, and a narrow one
# in everything but its colours.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
ALL_BUT_COLOURS = {"runOnly": RULES, "rules": {"color-contrast": {"enabled": False}}}
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}

# Drawn text is scaled with its drawing, so its size is measured on the screen.
SMALL_TEXT = """() => [...document.querySelectorAll("main svg[role=img] text")]
    .map(t => [t.textContent, parseFloat(getComputedStyle(t).fontSize)
        * t.getScreenCTM().a / (t.closest("svg").currentScale || 1)])
    .filter(([, size]) => size > 0 && size < 10.5)"""

UNREACHABLE = """() => [...document.querySelectorAll("main *")]
    .filter(e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX)
        && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
    .filter(e => e.tabIndex < 0 && !e.querySelector("a, button, [tabindex='0']"))
    .map(e => e.outerHTML.slice(0, 160))"""

# A chapter has up to 9,000 coloured words of code in a dozen colours, and axe looks under each.
# It gets three of each colour on each ground that are in sight; the others of that colour become
# plain text of their line, and so do single characters, which axe does not judge.
FEW_WORDS_OF_EACH_COLOUR = """() => {
    const grounds = new Map([[document.documentElement, ""]]);
    const ground = (e) => {
        if (!grounds.has(e)) {
            const { backgroundColor, opacity } = getComputedStyle(e);
            grounds.set(e, `${ground(e.parentElement)} ${backgroundColor}/${opacity}`);
        }
        return grounds.get(e);
    };
    const inSight = (e) => e.checkVisibility()
        && e.getBoundingClientRect().right <= e.closest("pre").getBoundingClientRect().right;
    const plain = [];
    const seen = new Map();
    const words = [...document.querySelectorAll(".highlight pre span:not(:has(*))")];
    for (const word of words.filter(inSight)) {
        const { color, fontSize, fontWeight } = getComputedStyle(word);
        const look = [color, fontSize, fontWeight, ground(word)].join();
        const judged = word.textContent.trim().length > 1;
        if (!judged || seen.get(look) >= 3) plain.push(word);
        else seen.set(look, (seen.get(look) ?? 0) + 1);
    }
    for (const word of plain) word.replaceWith(word.textContent);
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, started; skips the test where there is none."""
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
    """One page of a folder, opened from disk, and what it did besides showing itself.

    ``settled_ms``: how long to wait for what a page loads late.
    """

    def __init__(self, browser: Browser, folder: Path, settled_ms: int = 0, **options) -> None:
        self.folder, self.settled_ms = folder, settled_ms
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
        self.page.goto((self.folder / f"{name}.html").as_uri() + after)
        if self.settled_ms:
            self.page.wait_for_timeout(self.settled_ms)
        return self.page

    def fetched(self) -> list[str]:
        """What was asked of a network."""
        local = ("file:", "data:", "blob:")
        return [url for url in self.requests if not url.startswith(local)]

    def violations(self, rules: Mapping[str, object] = EVERY_RULE) -> list[str]:
        """What axe finds, by some of its rules. Afterwards code has lost most of its colours."""
        self.page.evaluate(FEW_WORDS_OF_EACH_COLOUR)
        # Without preload, axe does not try to fetch the style sheets, which file:// forbids.
        options = {"preload": False, "resultTypes": ["violations"], **rules}
        found = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
            for one in found
            for node in one["nodes"]
        ]
