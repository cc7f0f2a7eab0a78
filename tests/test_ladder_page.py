"""The page of the ladder: what it takes from recordings, the differences it packs, its links."""

import math
import re
from itertools import product

import ladder_records as invented
import pytest
from site_building import CONF, FRONT_MATTER, build

from extension import ladder as page
from extension import pagecheck
from hopper import ladder, show
from hopper.compile import kernel_names
from hopper.errors import HopperError, ProblemError
from hopper.figures.ladder import ladder as bars
from hopper.figures.ladder_diff import LadderDiff, numbered, packed
from hopper.records import HEADLINE

KERNELS = ladder.names()
ADDRESS = page.Addresses({"v1_wgmma": "v1.html"}, {"v1_wgmma": "status.html#v1"})


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """A folder without any recording."""
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def recorded(nothing):
    invented.write_all()
    return nothing


def plain(html: str) -> str:
    return re.sub(r"<[^>]+>", " ", html)


def cells(html: str, name: str) -> dict[str, str]:
    """A row of the table by its first cell: heading, with its group where there is one, -> text."""
    head = re.search(r"<thead>(.*?)</thead>", html)[1]
    upper, lower = re.findall(r"<tr>(.*?)</tr>", head)
    groups = []
    for opened, text in re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", upper):
        groups += [text] * int((re.search(r'colspan="(\d+)"', opened) or [0, 1])[1])
    heads = [f"{g} {h}".strip() for g, h in zip(groups, re.findall(r">([^<]+)</th>", lower))]  # noqa: B905
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', html)
    row = next(rest for first, rest in rows if plain(first).split()[0] == name)
    texts = [" ".join(plain(one).split()) for one in re.findall(r"<td[^>]*>(.*?)</td>", row)]
    return dict(zip(heads[1:], texts, strict=True))


# ---- rungs --------------------------------------------------------------------------------------


def test_every_version_is_a_rung_in_the_order_of_its_number(monkeypatch):
    assert KERNELS == [name for name in kernel_names() if re.match(r"v\d", name)]
    there = ["ceiling", "v10_far", "v2_ring", "v1_wgmma", "vector", "v7x"]
    monkeypatch.setattr(ladder, "kernel_names", lambda: there)
    assert ladder.names() == ["v1_wgmma", "v2_ring", "v10_far"]


def test_the_idea_is_the_files_first_line():
    assert ladder.first_line("v9_x", "// v9 · roles: one loads, one adds\n#include") == (
        "v9",
        "roles: one loads, one adds",
    )


@pytest.mark.parametrize("line", ["// v8 · another's", "// v9 roles", "#include <a>", ""])
def test_a_file_that_does_not_say_its_idea_is_refused(line):
    with pytest.raises(HopperError, match=r"kernels/v9_x\.cu starts .* write `// v9 · what"):
        ladder.first_line("v9_x", line + "\nint x;")


def test_lines_of_code_are_neither_blank_nor_a_comment():
    assert ladder.code_lines("// a\n\nint x;  // b\n  // [tile]\n#define A\n  }\n") == 3


def test_where_nothing_is_recorded_every_number_is_a_gap(nothing):
    for rung in ladder.rungs():
        gaps = (rung.burst, rung.sustained, rung.bf16, rung.best, rung.counted, rung.peer_counted)
        assert gaps == (None,) * 6
        assert rung.note == ladder.NOT_RECORDED
        assert rung.compiled.stages >= 1 and rung.compiled.blocks >= 1 and rung.code_lines > 50
    limits = ladder.ceiling()
    assert math.isnan(limits.burst) and math.isnan(limits.sustained)


def test_numbers_are_those_of_the_records(recorded):
    rung = ladder.rungs()[3]
    assert rung.kernel == "v3_specialized"
    assert rung.burst.ratio == pytest.approx(0.8)
    assert rung.burst.low == pytest.approx(0.8 / 1.009, rel=2e-3)
    assert rung.burst.low < rung.burst.ratio < rung.burst.high
    assert rung.burst.ms == pytest.approx(1.5 / 0.8)
    assert rung.burst.tflops == pytest.approx(HEADLINE.flop / rung.burst.ms / 1e9)
    assert rung.burst.peer_tflops == pytest.approx(HEADLINE.flop / 1.5 / 1e9)
    assert rung.sustained.ratio == pytest.approx(0.82)
    assert rung.bf16.ratio == pytest.approx(0.79)
    assert rung.best == ladder.Best(pytest.approx(0.83), "TILE_M=128 TILE_N=128 STAGES=2")
    counted = rung.counted
    assert counted.issue_slots == pytest.approx(10), "instructions / (4 · SMs · cycles)"
    assert counted.wgmma_wavefronts == pytest.approx(0.75)
    assert (counted.load_wavefronts, counted.dram_bytes, counted.l2_hits) == (0, 1.75e9, 77.5)
    assert rung.peer_counted.shared_bytes == 188636
    assert rung.note == ""
    assert ladder.rungs()[1].bf16 is None
    assert (ladder.ceiling().burst, ladder.ceiling().sustained) == (850, 800)


def test_a_timing_of_another_configuration_is_not_the_versions(nothing):
    timed = invented.timing(HEADLINE, "burst", 0.9, 1.5)
    invented.write("v2_ring", [invented.entry("v2_ring", timed, STAGES=2)])
    assert ladder.rungs()[2].burst is None


def test_a_version_that_changed_since_says_so(nothing):
    timed = invented.timing(HEADLINE, "burst", 0.9, 1.5)
    invented.write("v2_ring", [invented.entry("v2_ring", timed, stale=True)])
    rung = ladder.rungs()[2]
    assert rung.burst is None and rung.note == "not recorded since it changed"


def test_missing_counters_are_said(nothing):
    timed = invented.timing(HEADLINE, "burst", 0.9, 1.5)
    invented.write("v2_ring", [invented.entry("v2_ring", timed)])
    assert ladder.rungs()[2].note == "no counters recorded"


# ---- figure and table ---------------------------------------------------------------------------


def test_bars_say_what_was_recorded_and_link_to_the_chapters(recorded):
    shown = bars(ladder.rungs(), ladder.ceiling(), {"v3_specialized": "../v3.html"})
    html = shown._repr_html_()
    assert html.count("<a ") == 1
    rung = ladder.rungs()[3]
    said = f"burst {rung.burst.tflops:.0f} TFLOPS, 80% of cuBLAS"
    assert f'<a href="../v3.html" aria-label="v3, roles: {said}' in html
    assert said in shown.figure.alt and "ceiling: burst 850 TFLOPS" in shown.figure.alt
    assert f">bf16 {rung.bf16.tflops:.0f} TFLOPS, 79%<" in html
    assert "2026-01-31" in shown.figure.caption
    assert "not recorded" not in html


def test_rows_do_not_overlap_and_bars_are_to_scale(recorded):
    shown = bars(ladder.rungs(), ladder.ceiling())
    for one, other in zip(shown.rows, shown.rows[1:], strict=False):
        assert one.top + one.height <= other.top
    assert shown.rows[-1].top + shown.rows[-1].height <= shown.figure.height
    drawn = re.findall(
        r'<rect x="14" y="[\d.]+" width="([\d.]+)" [^>]*fill:var\(--wb-acc', shown.figure.body
    )
    rates = [rung.burst.tflops for rung in ladder.rungs()]
    assert [float(width) for width in drawn] == pytest.approx(
        [392 * rate / 850 for rate in rates], abs=0.01
    )


def test_bars_without_recordings_say_so_and_show_no_number(nothing):
    shown = bars(ladder.rungs(), ladder.ceiling())
    texts = re.findall(r"<text[^>]*>([^<]*)", shown.figure.body)
    assert texts.count("burst: not recorded") == len(KERNELS)
    assert "ceiling, burst: not recorded" in texts
    assert not [text for text in texts if "TFLOPS" in text]


def test_a_long_idea_is_cut_to_what_fits(recorded):
    rung = ladder.rungs()[0]
    words = "an idea that takes many more words than there is room for in one line of a drawing"
    longer = ladder.Rung(**{**vars(rung), "idea": words})
    texts = re.findall(r"<text[^>]*>([^<]*)", bars([longer], ladder.ceiling()).figure.body)
    assert any(text.startswith("v0 · an idea") and text.endswith("…") for text in texts)


def test_the_table_has_every_number(recorded):
    html = page.table(ladder.rungs(), ladder.ceiling(), ADDRESS)
    found = cells(html, "v3")
    rung = ladder.rungs()[3]
    assert found == {
        "idea": rung.idea,
        "burst TFLOPS": f"{rung.burst.tflops:.0f}",
        "burst ms": "1.875",
        "burst of cuBLAS": "80.0% 79.3 to 80.7",
        "burst of the ceiling": f"{rung.burst.tflops / 850:.1%}",
        "sustained TFLOPS": f"{rung.sustained.tflops:.0f}",
        "sustained of cuBLAS": "82.0% 81.3 to 82.7",
        "sustained of the ceiling": f"{rung.sustained.tflops / 800:.1%}",
        "bf16, burst TFLOPS": f"{rung.bf16.tflops:.0f}",
        "bf16, burst of cuBLAS": "79.0% 78.3 to 79.7",
        "tuned best of cuBLAS": "83.0% TILE_M=128 TILE_N=128 STAGES=2",
        "ncu tensor pipe, %": "88.2",
        "ncu issue slots, %": "10.0",
        "ncu wgmma wavefronts a cycle": "0.75",
        "ncu load wavefronts a cycle": "0.00",
        "ncu L2 hits, %": "77.5",
        "ncu DRAM, GB": "1.75",
        "as compiled registers": str(rung.compiled.registers),
        "as compiled shared bytes": f"{rung.compiled.shared_bytes:,}",
        "as compiled stages": str(rung.compiled.stages),
        "as compiled blocks an SM": str(rung.compiled.blocks),
        "as compiled lines of code": str(rung.code_lines),
        "published, H100 of cuBLAS": "0.78",
        "recording": "2026-01-31",
    }
    assert cells(html, "cuBLAS")["burst TFLOPS"] == f"{rung.burst.peer_tflops:.0f}"
    assert cells(html, "cuBLAS")["as compiled shared bytes"] == "188,636"
    assert cells(html, "ceiling")["sustained TFLOPS"] == "800"
    assert '<a href="v1.html">v1</a>' in html and '<a href="status.html#v1">2026-01-31</a>' in html
    assert 'href="#diff-v2_ring-v3_specialized"' in html and "#diff-v0_mma_sync-v1" in html


def test_the_table_where_nothing_was_recorded(nothing):
    html = page.table(ladder.rungs(), ladder.ceiling(), page.Addresses({}, {}))
    for rung in ladder.rungs():
        found = cells(html, rung.version)
        assert found["recording"] == "not recorded"
        measured = [
            text for head, text in found.items() if re.match("burst|sust|bf16|tun|ncu", head)
        ]
        assert set(measured) == {page.NOTHING}
        assert found["as compiled registers"] == str(rung.compiled.registers)
    assert "cuBLAS, in turns" not in html


def test_a_version_after_those_that_were_published_has_no_published_number(recorded):
    later = ladder.Rung(**{**vars(ladder.rungs()[5]), "version": "v6"})
    html = page.table([later], ladder.ceiling(), ADDRESS)
    assert cells(html, "v6")["published, H100 of cuBLAS"] == page.NOTHING


# ---- differences --------------------------------------------------------------------------------


def unpacked(before: str, after: str) -> str:
    """What the script shows of a packed difference, as text."""
    lines = {kernel: numbered(kernel) for kernel in (before, after)}
    shown = []
    for mark, first, count in packed(before, after)["runs"]:
        if mark == "~":
            shown += [first] * count
            continue
        for _, html in lines[before if mark == "-" else after][first : first + count]:
            text = re.sub(r"<[^>]+>", "", html)
            for written, meant in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"),
                                   ("&amp;", "&")):  # fmt: skip
                text = text.replace(written, meant)
            shown.append((" " if mark == "=" else mark) + text)
    return "\n".join(shown)


@pytest.mark.parametrize(("before", "after"), list(product(KERNELS, repeat=2)))
def test_packed_differences_are_those_that_hopper_computes(before, after):
    code = show.diff(before, after)
    assert unpacked(before, after) == str(code)
    assert packed(before, after)["title"] == code.title
    numbers = dict(numbered(after))
    assert all(line.number in numbers for line in code.lines if line.mark in ("", "+"))


def test_the_chooser_knows_every_pair_and_one_version_has_no_difference():
    some = LadderDiff(("v1_wgmma", "v2_ring", "v3_specialized"), ("one", "two", "three"))
    data = some.data()
    assert len(data["pairs"]) == 9 and set(data["lines"]) == set(some.kernels)
    html = some._repr_html_()
    assert '<div id="diff-v1_wgmma-v2_ring">' in html
    assert "v1_wgmma.cu → kernels/v2_ring.cu" in repr(some)
    with pytest.raises(ProblemError, match="give two or more"):
        LadderDiff(("v1_wgmma",), ("one",))


# ---- in a book ----------------------------------------------------------------------------------

BOOK = "# Ladder\n\n" + "\n".join(f"```{{ladder}} {part}\n```\n" for part in page.PARTS)


def book(folder, text=BOOK, chapters=("v1_wgmma",)):
    """A book of the ladder's page and chapters of one cell."""
    for name in ("chapters", "docs"):
        (folder / name).mkdir(parents=True)
    (folder / "conf.py").write_text(CONF)
    listed = "\n".join(["docs/ladder", "docs/status", *(f"chapters/{one}" for one in chapters)])
    (folder / "index.md").write_text(f"# Cover\n\n```{{toctree}}\n{listed}\n```\n")
    (folder / "docs/ladder.md").write_text(text)
    (folder / "docs/status.md").write_text("# Status\n\n```{status-table} kernels\n```\n")
    for one in chapters:
        cell = "\n```{code-cell} python\nprint(1)\n```\n"
        front = FRONT_MATTER.format(kernels="")
        (folder / f"chapters/{one}.md").write_text(f"{front}# {one}\n{cell}")
    return folder


def test_the_page_builds_where_nothing_is_recorded_and_links_to_what_there_is(nothing):
    made = build(book(nothing / "book"), nothing)
    assert made.status == 0, made.log
    html = (made.folder / "docs/ladder.html").read_text()
    assert html.count('href="../chapters/v1_wgmma.html"') >= 2, "a bar's, and a row's"
    assert 'href="../chapters/v2_ring.html"' not in html, "there is no such chapter in this book"
    assert 'href="../docs/status.html#record-v2-ring"' in html or (
        'href="status.html#record-v2-ring"' in html
    )
    assert pagecheck.check_site(made.folder) == []
    assert str(nothing) not in html


def test_a_part_that_there_is_not_fails_the_build(nothing):
    made = build(book(nothing / "book", "# Ladder\n\n```{ladder} nonsense\n```\n"), nothing)
    assert made.status != 0
    assert "choose one of figure, table, diffs" in made.log
