"""The protocol's explorer in a browser: its order of steps, pointer, keys, touch, modes, a phone.

The page is one that this test writes itself from the figure's HTML, opened from disk.
"""

import base64
import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import DESKTOP, PHONE, SMALL_TEXT, UNREACHABLE, Visit
from figure_pages import as_a_notebook, write_pages
from playwright.sync_api import Locator, Page

from hopper import figures
from hopper.experiments.protocol_variants import single_changes, steps_of

pytestmark = pytest.mark.browser


# Changes that these tests choose. The figure of the page has all of them.
CHOSEN = (
    *("", "wait 1", "commit", "store", "proxy", "fence", "commit + wait 1"),
    *("wait 0 + read", "proxy + arrive full", "store + proxy"),
)


@pytest.fixture(scope="module")
def explorer():
    few = [one for one in single_changes() if " + ".join(one[0]) in CHOSEN]
    with pytest.MonkeyPatch.context() as patch:
        module = sys.modules["hopper.figures.protocol_explorer"]
        patch.setattr(module, "single_changes", lambda: iter(few))
        return figures.protocol_explorer()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, explorer) -> Path:
    """A page with two explorers."""
    shown = explorer._repr_html_()
    target = write_pages(tmp_path_factory.mktemp("protocol"), "Protocol", [shown])
    (target / "page.html").rename(target / "one.html")
    return write_pages(target, "Protocol", [shown, "<h2>Another</h2>", shown])


def opened(visit: Callable[..., Visit], name: str = "one", **options) -> Page:
    page = visit(**options).open(name)
    shown(page, "")
    return page


def figure_of(page: Page, number: int = 0) -> Locator:
    return page.locator("figure.wb-protocol-explorer").nth(number)


def shown(page: Page, key: str, number: int = 0) -> Locator:
    """The figure, once the timeline of a change is there."""
    figure = figure_of(page, number)
    figure.and_(page.locator(f'[data-shown="{key}"]')).wait_for()
    return figure


def step(figure: Locator, key: str) -> Locator:
    return figure.locator(f'.wb-protocol-step[data-key="{key}"]')


def now(figure: Locator) -> str:
    return figure.locator(".wb-explorer-now").inner_text()


def names(figure: Locator) -> list[str]:
    return figure.locator(".wb-protocol-name").all_inner_texts()


# ---- what the script computes --------------------------------------------------------------------


def test_its_order_of_steps_is_that_of_the_changed_kernels(visit):
    """For every change: the places of its steps in the text that was compiled."""
    page = opened(visit)
    compute = """([steps, part, keys]) =>
        [hopperProtocol.order(steps, part, keys), hopperProtocol.keyOf(steps, keys)]"""
    data = json.loads(page.locator(".wb-explorer-data").first.text_content())
    for keys, variant in single_changes():
        for part in ("bring", "multiply", "end"):
            order, key = page.evaluate(compute, [data["steps"], part, [*reversed(keys)]])
            assert key == " + ".join(keys)
            steps = [one for one in steps_of(part) if len(keys) != 1 or one.key not in keys]
            source = variant.source
            text = sorted(steps, key=lambda one, source=source: source.index(one.text))
            away = [one for one in order if len(keys) == 1 and one in keys]
            assert [one for one in order if one not in away] == [one.key for one in text]


def test_every_timeline_unpacks_to_what_was_packed(visit, explorer):
    page = opened(visit)
    variants = explorer.data["variants"]
    assert list(sorted(variants)) == sorted(CHOSEN)
    for one in variants.values():
        packed = json.loads(zlib.decompress(base64.b64decode(one["timeline"])))
        assert page.evaluate("text => hopperProtocol.unpack(text)", one["timeline"]) == packed


# ---- how it looks -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_accessible_quiet_and_fits(visit, mode, size):
    seen = visit(color_scheme=mode, viewport=size)
    page = seen.open("one")
    figure = shown(page, "")
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    assert seen.fetched() == []
    assert page.evaluate(SMALL_TEXT.replace("svg[role=img]", "svg")) == []
    assert page.evaluate(UNREACHABLE) == []
    assert seen.violations() == []
    step(figure, "wait 1").click()
    assert seen.violations() == []
    figure.locator("button[name=away]").click()
    shown(page, "wait 1")
    figure.locator("summary").last.click()
    assert seen.violations() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_on_a_phone_verdict_and_buttons_stay_in_sight(visit):
    page = opened(visit, viewport=PHONE, has_touch=True, is_mobile=True)
    figure = figure_of(page)
    step(figure, "commit").tap()
    dock = figure.locator(".wb-protocol-dock").bounding_box()
    assert 0 <= dock["y"] and dock["y"] + dock["height"] <= PHONE["height"] + 1
    figure.locator("button[name=away]").tap()
    shown(page, "commit")
    assert "operand-overwritten" in now(figure)


# ---- what it does -------------------------------------------------------------------------------


def test_it_opens_with_the_kernel_as_written(visit):
    figure = figure_of(opened(visit))
    assert "The emulator: right" in now(figure)
    assert "no rule is broken" in figure.locator(".wb-protocol-verdict").inner_text()
    assert not figure.locator(".wb-explorer-drawing").is_visible()
    assert figure.locator(".wb-run-flag").count() == 0
    assert figure.locator("button[name=away]").is_disabled()
    assert figure.locator("button[name=reset]").is_disabled()


def test_a_step_is_taken_away_and_comes_back(visit):
    page = opened(visit)
    figure, written = figure_of(page), names(figure_of(page))
    step(figure, "proxy").click()
    assert now(figure).startswith("Chosen: fence.proxy.async.")
    assert step(figure, "proxy").get_attribute("aria-pressed") == "true"
    partners = figure.locator(".is-partner .wb-protocol-name").all_inner_texts()
    assert partners == ["wait for empty", "ask TMA for A", "store B", "arrive at full"]
    figure.locator("button[name=away]").click()
    shown(page, "proxy")
    assert names(figure) == written, "it keeps its place"
    assert "taken away" in step(figure, "proxy").inner_text()
    verdict = figure.locator(".wb-protocol-verdict").inner_text()
    assert "no-proxy-fence" in verdict and "nothing" in verdict
    assert figure.locator(".wb-run-flag").count() == 1
    figure.locator("button[name=reset]").click()
    shown(page, "")
    assert "The emulator: right" in now(figure)


def test_two_steps_are_swapped_in_either_order_of_choosing(visit):
    page = opened(visit)
    figure = figure_of(page)
    for first, second in (("commit", "wait 1"), ("wait 1", "commit")):
        step(figure, first).click()
        step(figure, second).click()
        shown(page, "commit + wait 1")
        assert names(figure)[5:11] == [
            "wait for full",
            "wgmma.fence",
            "four wgmmas",
            "wait_group<1>",
            "commit_group",
            "arrive at empty",
        ]
        assert "operand-overwritten" in now(figure)
        figure.locator("button[name=reset]").click()
        shown(page, "")


def test_a_step_of_other_warps_is_chosen_instead_and_not_swapped(visit):
    figure = figure_of(opened(visit))
    step(figure, "fence").click()
    step(figure, "store").click()
    assert now(figure) == (
        "Chosen: store B. wgmma.fence is in another list, so these two are not swapped. Take it "
        "away, or choose another step of this list to swap the two."
    )
    assert figure.get_attribute("data-shown") == ""
    step(figure, "wait 0").click()
    assert "store B is in another list" in now(figure)


def test_choosing_again_lets_go_and_choosing_behind_a_change_starts_anew(visit):
    page = opened(visit)
    figure = figure_of(page)
    step(figure, "fence").click()
    step(figure, "fence").click()
    assert "The emulator: right" in now(figure)
    step(figure, "fence").press("Delete")
    shown(page, "fence")
    step(figure, "store").click()
    shown(page, "")
    assert now(figure).startswith("Chosen: store B.")
    assert figure.locator(".is-away").count() == 0


def test_what_cannot_be_taken_away_can_be_swapped(visit):
    page = opened(visit)
    figure = figure_of(page)
    step(figure, "read").click()
    assert figure.locator("button[name=away]").is_disabled()
    assert now(figure) == (
        "Chosen: store the sums. It cannot be taken away, for nothing would be returned. Choose "
        "another step of this list to swap the two."
    )
    step(figure, "wait 0").click()
    shown(page, "wait 0 + read")
    assert "C7514" in now(figure)


def test_keys_walk_take_away_swap_and_reset(visit):
    page = opened(visit)
    figure = figure_of(page)
    step(figure, "wait empty").focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dataset.key") == "read"
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.key") == "proxy"
    page.keyboard.press("Delete")
    shown(page, "proxy")
    assert page.evaluate("document.activeElement.dataset.key") == "proxy"
    page.keyboard.press("Escape")
    shown(page, "")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    shown(page, "proxy + arrive full")
    assert page.evaluate("document.activeElement.dataset.key") == "arrive full"


def test_the_timeline_is_alive(visit):
    page = opened(visit)
    figure = figure_of(page)
    step(figure, "wait 1").press("Delete")
    shown(page, "wait 1")
    run = figure.locator("figure.wb-run")
    assert "operand-overwritten" in run.locator(".wb-run-now").inner_text()
    place = int(run.locator(".wb-run-scrub").input_value())
    run.locator(".wb-run-forward").click()
    assert int(run.locator(".wb-run-scrub").input_value()) == place + 1


def test_the_timeline_shows_the_stores_of_threads_and_their_fence(visit):
    page = opened(visit)
    figure = figure_of(page)

    def marks() -> list[str]:
        return figure.locator('.wb-run-mark[data-lane="1"] text').all_text_contents()

    assert marks()[:5] == ["a", "T", "s", "p", "a"]
    step(figure, "store").click()
    step(figure, "proxy").click()
    shown(page, "store + proxy")
    assert marks()[:5] == ["a", "T", "p", "s", "a"]
    assert "p fence.proxy.async" in figure.locator(".wb-run-letters").inner_text()
    said = figure.locator(".wb-run-item").evaluate_all(
        "nodes => nodes.map((node) => node.getAttribute('aria-label'))"
    )
    assert any("has executed no fence.proxy.async in between" in words for words in said)


def test_figures_on_one_page_do_not_disturb_each_other(visit):
    page = opened(visit, "page")
    shown(page, "", 1)
    step(figure_of(page, 1), "fence").press("Delete")
    shown(page, "fence", 1)
    assert "The emulator: right" in now(figure_of(page, 0))
    assert figure_of(page, 0).get_attribute("data-shown") == ""


def test_without_a_script_the_drawing_and_the_table_remain(visit):
    page = visit(java_script_enabled=False, viewport=PHONE).open("one")
    figure = figure_of(page)
    assert figure.locator(".wb-explorer-drawing svg").is_visible()
    figure.locator("summary").click()
    assert figure.locator(".wb-protocol-table tbody tr").count() == len(CHOSEN)
    assert "no-proxy-fence" in figure.locator(".wb-protocol-table").inner_text()
    for hidden in (".wb-explorer-controls", ".wb-explorer-now", ".wb-protocol-lists"):
        assert not figure.locator(hidden).is_visible()


def test_it_starts_where_a_notebook_inserts_it(visit, folder):
    """JupyterLab sets an output's HTML and makes its scripts anew, before it attaches them."""
    page = visit().open("empty")
    as_a_notebook(page, folder)
    figure = figure_of(page)
    figure.locator(".wb-protocol-step").first.wait_for()
    step(figure, "mma").click()
    assert now(figure).startswith("Chosen: four wgmmas.")
