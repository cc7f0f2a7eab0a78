"""Plots: honest labels, numbers printed, the same bytes, no trace of the reader's set-up."""

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import pytest

from hopper import plots
from hopper.errors import ProblemError
from hopper.figures import palette
from hopper.figures.canvas import WIDTH

MEASURED = SimpleNamespace(
    kernel="v1_wgmma",
    config={},
    tflops=541.2,
    ms=2.03,
    ratio=0.741,
    ratio_spread=(0.73, 0.75),
    peer_tflops=731.4,
    recorded=True,
    label="NVIDIA H200, 2030-01-02, recorded",
    problem=SimpleNamespace(m=8192, n=8192, k=8192),
    missing="",
)
LIVE = SimpleNamespace(
    **{**vars(MEASURED), "recorded": False, "tflops": 545.0, "label": "this machine, live"}
)


def every_plot() -> list[plots.Figure]:
    return [
        plots.bars(
            [("a", 1.0), ("b", 2.5, "peer"), ("c", None, "other", "spills")],
            title="Bars",
            alt="Three bars.",
            unit="TFLOPS",
            digits=1,
            ceiling=("top", 3.0),
        ),
        plots.lines(
            {"ours": ([64, 128], [1, 2]), "theirs": ([64, 128], [3, 4])},
            title="Lines",
            alt="Two lines.",
            x_label="N",
            y_label="TFLOPS",
            x_ticks=[64, 128],
            ceiling=("top", 5),
        ),
        plots.tflops([LIVE, MEASURED], published={"v1, their ladder": 540.0}),
        plots.tuning(
            [
                {"config": {"TILE_M": 64, "TILE_N": 128}, "tflops": 400.0},
                {"config": {"TILE_M": 128, "TILE_N": 128}, "tflops": 500.0},
                {"config": {"TILE_M": 128, "TILE_N": 256}, "reason": "registers spill"},
            ],
            title="By tile",
        ),
    ]


@pytest.fixture(scope="module")
def figures():
    return every_plot()


def test_svg_is_well_formed_and_speaks(figures):
    for figure in figures:
        root = ElementTree.fromstring(figure.svg)
        assert root.get("role") == "img" and root.get("aria-label") == figure.alt


def test_the_same_data_gives_the_same_bytes_whatever_the_readers_settings(figures):
    import matplotlib

    with matplotlib.rc_context(
        {
            "font.size": 40,
            "lines.linewidth": 9,
            "hatch.linewidth": 7,
            "axes.facecolor": "red",
            "svg.hashsalt": None,
        }
    ):
        again = [figure._repr_html_() for figure in every_plot()]
        assert matplotlib.rcParams["font.size"] == 40
    assert again == [figure._repr_html_() for figure in figures]


def test_ids_are_unique_on_a_page_and_resolve(figures):
    ids = [name for f in figures for name in re.findall(r' id="([^"]+)"', f.svg)]
    assert ids and len(ids) == len(set(ids))
    for figure in figures:
        own = set(re.findall(r' id="([^"]+)"', figure.svg))
        assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', figure.svg)) <= own
        assert all(name.startswith("wb-") for name in own)


def test_no_date_no_font_of_this_machine_no_colour_outside_the_palette(figures):
    for figure in figures:
        assert "metadata" not in figure.svg and "<!--" not in figure.svg
        assert "<style" not in figure.svg  # it would reach every element of the page
        assert "DejaVu" not in figure.body
        rest = figure.body
        for name in palette.COLOURS:
            rest = rest.replace(palette.colour(name), "")
        assert set(re.findall(r"#[0-9a-fA-F]{3,6}\b(?![\w-])", rest)) == set()


def test_text_stays_text_and_is_legible_on_a_phone(figures):
    for figure in figures:
        sizes = [float(s) for s in re.findall(r"font(?:-size)?:[^;\"]*?([\d.]+)px", figure.body)]
        assert sizes and min(sizes) * 328 / WIDTH >= 11


def test_values_are_printed_on_bars(figures):
    bars, _, tflops, tuning = figures
    assert ">2.5 TFLOPS</text>" in bars.svg and ">spills</text>" in bars.svg
    assert ">541 TFLOPS</text>" in tflops.svg and ">731 TFLOPS</text>" in tflops.svg
    assert ">registers spill</text>" in tuning.svg


def test_a_bar_says_without_colour_whether_it_is_live_recorded_or_cited(figures):
    svg = figures[2].svg
    for text in (
        "v1_wgmma, live",
        "v1_wgmma, recorded",
        "published, H100, cited",
        "cuBLAS, same run, recorded",
        "74.1% of cuBLAS",
    ):
        assert f">{text}</text>" in svg
    assert svg.count("<pattern") >= 2  # cuBLAS dotted, cited hatched


def test_the_recording_is_named_and_the_h100_disowned(figures):
    assert figures[2].caption.startswith("This machine, live; NVIDIA H200, 2030-01-02, recorded")
    assert "not run" in figures[2].caption
    assert "H100" not in plots.tflops(MEASURED).caption


def test_variants_and_sizes_are_told_apart():
    small = SimpleNamespace(
        **{
            **vars(MEASURED),
            "config": {"TILE_M": 64, "TILE_N": 128},
            "problem": SimpleNamespace(m=100, n=200, k=64),
        }
    )
    figure = plots.tflops([MEASURED, small])
    assert figure.title == "v1_wgmma beside cuBLAS"
    assert [row[0] for row in figure.rows][::2] == [
        "v1_wgmma at 8192³, recorded",
        "v1_wgmma 64×128 at 100×200×64, recorded",
    ]


def test_a_variant_that_was_not_recorded_is_named_and_has_no_bar():
    gap = SimpleNamespace(
        **{
            **vars(MEASURED),
            "missing": "never recorded",
            "tflops": math.nan,
            "label": "no recording of this variant",
        }
    )
    figure = plots.tflops([gap], published={"theirs": 540.0})
    assert figure.rows[0] == ("v1_wgmma", "—", "recorded", "no recording of this variant")
    assert figure.caption.startswith("The published figures")
    empty = plots.tuning(iter(()), title="Tiles", caption="never recorded")
    assert [row[1:] for row in empty.rows] == [("—", "other", "never recorded")]


def test_alt_text_is_composed_from_the_numbers_or_given_but_never_empty():
    assert "v1_wgmma, recorded 541" in plots.tflops(MEASURED).alt
    assert plots.tflops(MEASURED, alt="Mine.").alt == "Mine."
    with pytest.raises(ProblemError, match="alt"):
        plots.tflops(MEASURED, alt="")
    with pytest.raises(ProblemError, match="alt"):
        plots.bars([("a", 1)], title="t", alt="  ")


def test_repr_is_a_table_of_the_plotted_numbers(figures):
    text = repr(figures[2]).splitlines()
    assert text[0] == "v1_wgmma beside cuBLAS at 8192³"
    assert any(line.split()[:3] == ["v1_wgmma,", "recorded", "541"] for line in text)
    lines = repr(figures[1])
    assert re.search(r"theirs +128 +4", lines)


def test_tuning_puts_the_best_first_and_keeps_what_failed(figures):
    assert [row[0] for row in figures[3].rows] == ["128×128", "64×128", "128×256"]
    assert figures[3].rows[0][2] == "best" and figures[3].rows[2][1] == "—"


def test_tuning_names_registers_and_the_tables_own_recording():
    class Recorded(list):
        label = "NVIDIA H200, 2030-01-02, recorded"

    figure = plots.tuning(
        Recorded(
            [
                {"config": {"tile_m": 128, "tile_n": 64}, "tflops": 5.0, "registers": 90},
                {"config": {"tile_m": 64, "tile_n": 64}, "tflops": 9.0, "registers": 50},
            ]
        ),
        title="By tile",
    )
    assert [row[3] for row in figure.rows] == ["best, 50 registers", "90 registers"]
    assert figure.caption == Recorded.label


def test_bars_are_proportional():
    svg = plots.bars([("a", 100), ("b", 50)], title="t", alt="a").svg
    widths = []
    for path in re.findall(r'<path d="(M[^"]*)" style="fill: var\(--wb-accent-soft', svg):
        xs = [float(x) for x in re.findall(r"[ML] ([\d.]+) ", path)]
        widths.append(max(xs) - min(xs) + 4)  # one corner of radius 4 is not on these lines
    assert len(widths) == 2
    assert widths[1] / widths[0] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.tflops([]), "empty"),
        (lambda: plots.bars([], title="t", alt="a"), "empty"),
        (lambda: plots.bars([("a", float("nan"))], title="t", alt="a"), "finite"),
        (lambda: plots.bars([("a", -1)], title="t", alt="a"), "negative"),
        (lambda: plots.bars([("a", 1, "mine")], title="t", alt="a"), "kind='mine'"),
        (lambda: plots.bars([("a", None)], title="t", alt="a"), "detail"),
        (lambda: plots.lines({}, title="t", alt="a", x_label="x", y_label="y"), "0 lines"),
        (
            lambda: plots.lines({"a": ([1], [1, 2])}, title="t", alt="a", x_label="x", y_label="y"),
            "1 x and 2 y",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ProblemError, match=message):
        call()


def test_lines_leave_a_gap_for_nan_and_say_when_nothing_was_recorded():
    nan = math.nan
    some = {"a": ([1, 2, 4], [1.0, nan, 3.0])}
    gap = plots.lines(some, title="t", alt="a", x_label="x", y_label="y", x_ticks=[1, 2, 4])
    assert gap.rows == (("a", "1", "1"), ("a", "—", "—"), ("a", "4", "3"))
    assert plots.NOT_RECORDED not in gap.svg
    nothing = plots.lines(
        {"a": ([nan], [nan]), "b": ([nan], [nan])},
        title="t",
        alt="a",
        x_label="x",
        y_label="y",
        x_ticks=[1, 2, 4],
        ceiling=("top", nan),
    )
    assert plots.NOT_RECORDED in nothing.svg


def test_importing_plots_does_not_import_matplotlib():
    code = "import sys, hopper.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
