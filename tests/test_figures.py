"""Drawings: well-formed, themed, legible on a phone, and with numbers that follow from the tile."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from hopper.errors import ProblemError
from hopper.figures import (
    hierarchy,
    issue_order,
    ldmatrix_addresses,
    mma_fragment,
    operand_path,
    operand_traffic,
    palette,
    tile_to_instructions,
    timeline,
    warpgroup_tile,
)
from hopper.figures.canvas import WIDTH, Canvas
from hopper.figures.figure import Figure
from hopper.figures.warpgroup import accumulator_registers, rows_of_warp
from hopper.paths import ROOT

PHONE = 328  # CSS pixels of text column on a phone 360 px wide
SMALLEST = 11  # CSS pixels
LANES = [
    ("TMA", [(0, 3, "load k=0", "load"), (3, 2, "idle", "wait")]),
    ("tensor core", [(0, 3, "waits", "wait"), (3, 2, "wgmma", "compute")]),
]


def drawings() -> dict[str, Figure]:
    return {
        "timeline": timeline(LANES, title="Turns", alt="Load, then compute."),
        "hierarchy": hierarchy(16),
        "hierarchy, widest": hierarchy(256),
        "warpgroup": warpgroup_tile(128),
        "narrowest": warpgroup_tile(8),
        "instructions": tile_to_instructions(128, 128, 64),
        "many": tile_to_instructions(256, 256, 128, outer="m"),
        "operands": operand_path(128, 256, 64),
        "addresses": ldmatrix_addresses(),
        "fragment": mma_fragment(31),
    }


@pytest.fixture(params=list(drawings()))
def drawing(request):
    return drawings()[request.param]


def elements(figure: Figure) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(figure.svg).iter())


def test_svg_is_well_formed_and_speaks(drawing):
    root = ElementTree.fromstring(drawing.svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == drawing.alt
    assert len(drawing.alt) > 15


def test_text_is_legible_on_a_phone(drawing):
    sizes = [float(size) for size in re.findall(r"font-size:([\d.]+)px", drawing.svg)]
    assert sizes
    assert min(sizes) * PHONE / WIDTH >= SMALLEST


def test_everything_lies_on_the_sheet(drawing):
    for element in elements(drawing):
        if element.tag.endswith("rect"):
            x, y = float(element.get("x", 0)), float(element.get("y", 0))
            assert 0 <= x and x + float(element.get("width")) <= drawing.width
            assert 0 <= y and y + float(element.get("height")) <= drawing.height
        if element.tag.endswith("text"):
            assert 0 <= float(element.get("x")) <= drawing.width
            assert 0 < float(element.get("y")) < drawing.height


def test_every_colour_is_a_variable_of_the_palette_with_its_light_fallback(drawing):
    without_variables = drawing.svg
    for name in palette.COLOURS:
        without_variables = without_variables.replace(palette.colour(name), "")
    assert "#" not in without_variables.replace("url(#", "")
    assert "var(--wb-" not in without_variables.replace("var(--wb-font", "")


def test_the_same_drawing_has_the_same_bytes_and_different_drawings_different_ids():
    first, second = drawings(), drawings()
    assert {k: f._repr_html_() for k, f in first.items()} == {
        k: f._repr_html_() for k, f in second.items()
    }
    ids = [name for f in first.values() for name in re.findall(r' id="([^"]+)"', f.svg)]
    assert ids and len(ids) == len(set(ids))
    for figure in first.values():
        own = set(re.findall(r' id="([^"]+)"', figure.svg))
        assert set(re.findall(r"url\(#([^)]+)\)", figure.svg)) == own


def test_no_alt_text_no_figure():
    with pytest.raises(ProblemError, match="alt=''"):
        timeline(LANES, title="Turns", alt="")
    with pytest.raises(ProblemError, match="title"):
        timeline(LANES, title=" ", alt="Load, then compute.")


def test_a_saved_drawing_stands_alone(tmp_path):
    path = warpgroup_tile(64).save(tmp_path / "drawing.svg")
    text = path.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert "prefers-color-scheme:dark" in text and palette.COLOURS["ink"][1] in text


def test_timeline_marks_kinds_without_colour():
    svg = timeline(
        [
            (
                "lane",
                [
                    (0, 1, "a", "load"),
                    (1, 1, "b", "compute"),
                    (2, 1, "c", "store"),
                    (3, 1, "d", "issue"),
                    (4, 1, "e", "wait"),
                ],
            )
        ],
        title="Kinds",
        alt="One block of each kind.",
    ).svg
    assert len(re.findall(r"<pattern ", svg)) == 3  # load, store and issue are hatched,
    assert svg.count("stroke-dasharray") == 1  # a wait is dashed, compute is plain
    assert all(f">{text}</text>" in svg for text in "abcde")


@pytest.mark.parametrize(
    ("lanes", "message"),
    [
        ([], "at least one"),
        ([("a", [(0, 1, "x", "dance")])], "dance"),
        ([("a", [(0, 0, "x", "load")])], "length 0"),
        ([("a", [(0, 2, "x", "load"), (1, 2, "y", "load")])], "starts at 1"),
        ([("a", [(0, 1, "x" * 90, "load")])], "shorten the text"),
    ],
)
def test_timeline_refuses(lanes, message):
    with pytest.raises(ProblemError, match=message):
        timeline(lanes, title="t", alt="a")


def test_rows_and_registers_of_an_accumulator_tile():
    assert [rows_of_warp(w) for w in range(4)] == [(0, 15), (16, 31), (32, 47), (48, 63)]
    assert accumulator_registers(256) == 128
    assert accumulator_registers(8) == 4
    assert "rows 48–63" in warpgroup_tile(128).svg


@pytest.mark.parametrize("n", [0, -8, 12, 264])
def test_n_that_wgmma_lacks_is_refused(n):
    with pytest.raises(ProblemError, match=f"N={n}"):
        warpgroup_tile(n)


def test_issue_order_follows_the_loops():
    by_k = [(i.m_chunk, i.k_step) for i in issue_order(128, 32)]
    assert by_k == [(0, 0), (1, 0), (0, 1), (1, 1)]
    by_m = [(i.m_chunk, i.k_step) for i in issue_order(128, 32, outer="m")]
    assert by_m == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [i.number for i in issue_order(192, 64)] == list(range(1, 13))


def test_issue_order_refuses_what_instructions_do_not_cover():
    with pytest.raises(ProblemError, match="tile_m=96.*choose 128"):
        issue_order(96, 64)
    with pytest.raises(ProblemError, match="tile_k=8.*choose 16"):
        issue_order(64, 8)
    with pytest.raises(ProblemError, match="outer='n'"):
        issue_order(64, 64, outer="n")
    with pytest.raises(ProblemError, match="room for"):
        tile_to_instructions(64, 64, 256)


def test_each_chunk_of_c_sums_its_own_instructions():
    figure = tile_to_instructions(128, 128, 64)
    assert "1 + 3 + 5 + 7" in figure.svg and "2 + 4 + 6 + 8" in figure.svg
    assert "rows 64 to 127 of C sum instructions 2, 4, 6, 8" in figure.alt


def test_operand_traffic_of_the_tile_in_the_chapter():
    traffic = operand_traffic(128, 256, 64)
    assert traffic.bytes == 48 * 1024
    assert traffic.ldmatrix == 96  # 512 bytes each
    assert traffic.mma_sync == 1024 and traffic.wgmma == 8
    flop = 2 * 128 * 256 * 64
    assert traffic.wgmma_bytes == 8 * 10 * 1024  # m64n256k16 reads 2 KB of A and 8 KB of B
    assert traffic.mma_sync_bytes == 1024 * (512 + 256)
    assert traffic.mma_sync * 2 * 16 * 8 * 16 == flop == traffic.wgmma * 2 * 64 * 256 * 16


def test_operand_path_shows_the_numbers_it_computes():
    svg = operand_path(64, 128, 64).svg
    assert "24 KiB" in svg and "≥ 48" in svg and "≥ 24 KiB" in svg
    assert "192 KiB" in svg, "256 mma.sync name 768 bytes each"
    assert ">24 KiB" in svg, "4 wgmma read 6 KB each"


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrast_of_text_and_outlines(theme):
    value = {name: pair[theme] for name, pair in palette.COLOURS.items()}
    text_on = [
        ("ink", paper)
        for paper in (
            "paper",
            "panel",
            "accent-soft",
            "warm-soft",
            "leaf-soft",
            "plum-soft",
            "peer-soft",
        )
    ] + [
        ("muted", "paper"),
        ("muted", "panel"),
        ("paper", "accent"),
        ("muted", "code-paper"),
        ("add-ink", "add"),
        ("remove-ink", "remove"),
    ]
    text_on += [
        (name, "code-paper") for name in value if name.startswith("code-") and name != "code-paper"
    ]
    for text, paper in text_on:
        assert palette.contrast(value[text], value[paper]) >= 4.5, (text, paper)
    for outline in ("accent", "warm", "leaf", "plum", "peer", "muted"):
        assert palette.contrast(value[outline], value["paper"]) >= 3, outline
    jupyter = "#ffffff" if theme == 0 else "#111111"  # JupyterLab's own <pre> background
    for name in value:
        if name.startswith("code-") and name != "code-paper":
            assert palette.contrast(value[name], jupyter) >= 4.5, name


def test_contrast_of_black_on_white_is_21():
    assert palette.contrast("#000000", "#ffffff") == pytest.approx(21)


def test_light_values_are_unique_so_that_plots_can_map_them_back():
    values = [light for light, _ in palette.COLOURS.values()]
    assert len(values) == len(set(values))


def test_the_stylesheet_is_the_palette():
    written = (ROOT / "_static" / "palette.css").read_text(encoding="utf-8")
    assert written == palette.stylesheet(), "run python -m hopper.figures"


def test_text_that_does_not_fit_is_refused():
    with pytest.raises(ProblemError, match="has 20"):
        Canvas().text(0, 0, "far too long", fit=20)
