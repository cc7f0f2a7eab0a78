"""Plots of measurements: bars, lines and tuning tables that say where each number comes from.

Every function returns a `Figure`: inline SVG on a page and in JupyterLab, a table of the plotted
numbers in a terminal. The same data gives the same bytes. Drawing needs matplotlib, which is
imported only when something is drawn, so that `import hopper` stays quick.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hopper.errors import ProblemError
from hopper.figures.canvas import BODY, MARGIN, SMALL, WIDTH, paper, text_width
from hopper.figures.figure import Figure, unique_prefix
from hopper.figures.palette import light, with_variables

__all__ = ["Bar", "Figure", "bars", "lines", "tflops", "tuning"]

#: kind -> (fill, outline, hatch): what a bar stands for. The bar's text says it too.
_KINDS: dict[str, tuple[str, str, str | None]] = {
    "live": ("accent", "accent", None),
    "recorded": ("accent-soft", "accent", None),
    "peer": ("peer-soft", "peer", "..."),
    "cited": ("paper", "warm", "///"),
    "best": ("leaf-soft", "leaf", None),
    "other": ("panel", "muted", None),
}
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 2)), (0, (7, 2, 1.5, 2)), "-", (0, (5, 2)))
_LINE_COLOURS = ("accent", "warm", "leaf", "plum", "peer", "ink")

_ROW = 62
_BAR = 26
NOT_RECORDED = "not recorded, so not drawn"


@contextmanager
def _book_style() -> Iterator[None]:
    """matplotlib's defaults, whatever the reader's own settings, and text that stays text."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "hatch.linewidth": 1.2})
        yield


@dataclass(frozen=True)
class Bar:
    """One bar: what it is, its value, its kind (a key of `_KINDS`) and a remark in small type.

    A `value` of None stands for something that has no number; `detail` then says why.
    """

    label: str
    value: float | None
    kind: str = "recorded"
    detail: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ProblemError(f"kind={self.kind!r}: a bar is one of {', '.join(_KINDS)}")
        if self.value is None:
            if not self.detail:
                raise ProblemError(f"{self.label!r} has no value; say why in detail='…'")
        elif not (math.isfinite(self.value) and self.value >= 0):
            raise ProblemError(
                f"{self.label!r} = {self.value}: a bar shows a finite number that is not negative"
            )


@_book_style()
def bars(
    series: Iterable[Bar | tuple],
    *,
    title: str,
    alt: str,
    unit: str = "",
    ceiling: tuple[str, float] | None = None,
    caption: str = "",
    digits: int = 0,
) -> Figure:
    """Horizontal bars from zero, each with its label above it and its value beside it.

    series   Bars, or tuples of a Bar's fields: (label, value, kind, detail)
    ceiling  (label, value) of a dashed line that no bar should pass
    digits   decimals of the printed values
    Raises ProblemError for an empty series or alt, an unknown kind, a value that is not a number.
    """
    data = [bar if isinstance(bar, Bar) else Bar(*bar) for bar in series]
    if not data:
        raise ProblemError("series is empty: nothing to draw; pass at least one bar")
    values = [bar.value for bar in data if bar.value is not None]
    top = max([*values, ceiling[1] if ceiling else 0]) or 1.0
    head = 44 if ceiling else MARGIN
    height = head + _ROW * len(data) + 6
    room = WIDTH - 2 * MARGIN
    scale = room / top
    remark_end = WIDTH - MARGIN - (8 if ceiling else 0)

    figure, axes = _sheet(height)
    if ceiling:
        x = MARGIN + ceiling[1] * scale
        axes.plot(
            [x - 1, x - 1],
            [head - 8, height - 10],
            color=light("ink"),
            linewidth=1.4,
            linestyle=(0, (4, 3)),
        )
        _text(
            axes,
            WIDTH - MARGIN,
            20,
            f"{ceiling[0]}: {ceiling[1]:,.{digits}f} {unit}".rstrip(),
            anchor="right",
        )
    for index, bar in enumerate(data):
        y = head + index * _ROW
        _text(axes, MARGIN, y + 12, bar.label, size=SMALL, bold=True)
        used = text_width(bar.label, SMALL) * 1.06
        remark_fits = used + text_width(bar.detail, SMALL) + 8 < room
        if bar.value is None:
            _text(axes, MARGIN, y + 26 + _BAR / 2, bar.detail, colour="muted", italic=True)
            continue
        if bar.detail and remark_fits:
            _text(
                axes, remark_end, y + 12, bar.detail, colour="muted", anchor="right", over="paper"
            )
        _bar(axes, y + 25, bar, bar.value * scale)
        number = f"{bar.value:,.{digits}f} {unit}".rstrip()
        if bar.detail and not remark_fits:
            number += f" · {bar.detail}"
        _value(axes, y + 25 + _BAR / 2, number, bar, bar.value * scale)
    rows = [
        (bar.label, "—" if bar.value is None else f"{bar.value:,.{digits}f}", bar.kind, bar.detail)
        for bar in data
    ]
    if ceiling:
        rows.append((ceiling[0], f"{ceiling[1]:,.{digits}f}", "ceiling", ""))
    return _finish(
        figure,
        height,
        title=title,
        alt=alt,
        caption=caption,
        columns=("what", unit or "value", "kind", "remark"),
        rows=tuple(rows),
    )


@_book_style()
def lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    alt: str,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[float] | None = None,
    ceiling: tuple[str, float] | None = None,
    caption: str = "",
    digits: int = 0,
) -> Figure:
    """Lines over a common axis, y from zero. Lines differ by marker and dash as well as colour.

    series   name -> (x values, y values), of equal length
    x_ticks  where to write numbers under the axis; given, the x axis is logarithmic when they
             are powers of two, as sizes of matrices are
    ceiling  (label, value) of a dashed line
    A NaN is a gap; where there is nothing else, as without a recording, the figure says so.
    Raises ProblemError for an empty series, x and y of different lengths, more lines than markers.
    """
    if not series or len(series) > len(_MARKERS):
        raise ProblemError(f"{len(series)} lines: draw 1 to {len(_MARKERS)} in one figure")
    for name, (xs, ys) in series.items():
        if len(xs) != len(ys) or not len(xs):
            raise ProblemError(
                f"{name!r} has {len(xs)} x and {len(ys)} y values; give as many of each"
            )
    legend_rows = len(series) + (ceiling is not None)
    head = 16 + 23 * legend_rows
    plot_height, foot, left = 230, 58, 58
    height = head + 34 + plot_height + foot
    figure, sheet = _sheet(height)
    axes = figure.add_axes(
        (left / WIDTH, foot / height, (WIDTH - left - MARGIN - 6) / WIDTH, plot_height / height)
    )
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(light("line"))
    axes.grid(axis="y", color=light("line"), linewidth=0.8, alpha=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=light("muted"), labelsize=SMALL, labelcolor=light("ink"), length=4)
    for index, (name, (xs, ys)) in enumerate(series.items()):
        above = len(series) - 1 - index  # what is drawn over it: be larger, so as to look out
        style = dict(
            color=light(_LINE_COLOURS[index]),
            linestyle=_DASHES[index],
            linewidth=2.2 + 0.7 * above,
            marker=_MARKERS[index],
            markersize=7 + 2 * above,
            markerfacecolor=light("paper"),
            markeredgewidth=1.8,
        )
        axes.plot(xs, ys, clip_on=False, **style)
        y = 20 + 23 * index
        sheet.plot([MARGIN + 2, MARGIN + 22, MARGIN + 42], [y, y, y], **style)
        _text(sheet, MARGIN + 54, y, name)
    known = [y for _, ys in series.values() for y in ys if math.isfinite(y)]
    highest = max(known, default=0)
    if not known:
        middle = head + 34 + plot_height / 2
        _text(
            sheet, (left + WIDTH - MARGIN) / 2, middle, NOT_RECORDED, anchor="center", italic=True
        )
    if ceiling:
        y = 20 + 23 * len(series)
        style = dict(color=light("ink"), linewidth=1.4, linestyle=(0, (4, 3)))
        axes.axhline(ceiling[1], **style)
        sheet.plot([MARGIN + 2, MARGIN + 42], [y, y], **style)
        _text(sheet, MARGIN + 54, y, f"{ceiling[0]}: {ceiling[1]:,.{digits}f}")
        if math.isfinite(ceiling[1]):
            highest = max(highest, ceiling[1])
    axes.set_ylim(0, highest * 1.08 or 1)
    if x_ticks is not None:
        if all(tick > 0 and math.log2(tick).is_integer() for tick in x_ticks):
            axes.set_xscale("log", base=2)
        axes.set_xticks(list(x_ticks), [f"{tick:g}" for tick in x_ticks])
        axes.minorticks_off()
    _text(sheet, MARGIN, head + 16, y_label, colour="muted")
    _text(sheet, WIDTH - MARGIN, height - 18, x_label, colour="muted", anchor="right")
    rows = tuple(
        (name, f"{x:g}", f"{y:,.{digits}f}") if math.isfinite(y) else (name, "—", "—")
        for name, (xs, ys) in series.items()
        for x, y in zip(xs, ys, strict=True)
    )
    if ceiling:
        rows += ((ceiling[0], "any", f"{ceiling[1]:,.{digits}f}"),)
    return _finish(
        figure,
        height,
        title=title,
        alt=alt,
        caption=caption,
        columns=("line", x_label, y_label),
        rows=rows,
        fold_data=True,
    )


def tflops(
    measurements: Any,
    *,
    published: Mapping[str, float] | None = None,
    ceiling: tuple[str, float] | None = None,
    title: str | None = None,
    alt: str | None = None,
) -> Figure:
    """TFLOPS of one or several Measurements, each beside the cuBLAS of its own run.

    measurements  a hopper.Measurement, or several; a live one stands beside a recorded one
    published     name -> TFLOPS of figures that others published; hatched and marked as cited
    ceiling       (label, TFLOPS) of a dashed line
    alt           left out, it is composed from the plotted numbers
    """
    taken = [measurements] if hasattr(measurements, "tflops") else list(measurements)
    if not taken:
        raise ProblemError("measurements is empty: nothing to draw; pass at least one")
    sizes = list(dict.fromkeys(_size(one.problem) for one in taken))
    data: list[Bar] = []
    for one in taken:
        kind = "recorded" if one.recorded else "live"
        name = " ".join([one.kernel, *([_configuration(one.config)] if one.config else [])])
        at = f" at {_size(one.problem)}" if len(sizes) > 1 else ""
        if one.missing:
            data.append(Bar(f"{name}{at}", None, "recorded", one.label))
            continue
        remark = f"{one.ratio:.1%} of cuBLAS"
        data.append(Bar(f"{name}{at}, {kind}", one.tflops, kind, remark))
        data.append(Bar(f"cuBLAS{at}, same run, {kind}", one.peer_tflops, "peer"))
    for name, value in (published or {}).items():
        data.append(Bar(name, value, "cited", "published, H100, cited"))
    sources = list(dict.fromkeys(one.label for one in taken if not one.missing))
    caption = "; ".join(sources)
    caption = caption[:1].upper() + caption[1:]
    if published:
        caption += ". " if caption else ""
        caption += (
            "The published figures were measured by others on an H100, which was not run here"
        )
    if alt is None:
        alt = "Bars of TFLOPS: " + "; ".join(
            f"{bar.label} {'—' if bar.value is None else f'{bar.value:.0f}'}"
            + (f" ({bar.detail})" if bar.detail else "")
            for bar in data
        )
        if ceiling:
            alt += f"; {ceiling[0]} {ceiling[1]:.0f}"
        alt += "."
    kernels = " and ".join(dict.fromkeys(one.kernel for one in taken))
    where = f" at {sizes[0]}" if len(sizes) == 1 else ""
    return bars(
        data,
        title=title or f"{kernels} beside cuBLAS{where}",
        alt=alt,
        unit="TFLOPS",
        ceiling=ceiling,
        caption=caption + ("." if caption else ""),
    )


def tuning(
    table: Iterable[Mapping[str, Any]],
    *,
    title: str,
    alt: str | None = None,
    value: str = "tflops",
    unit: str = "TFLOPS",
    caption: str = "",
    digits: int = 0,
) -> Figure:
    """One bar for each configuration of a tuning table, the highest first and named best.

    table    a hopper.TuningTable, or rows with "config" (name -> number, as given to the
             compiler), `value` and, if known, "registers" a thread; a row whose value is missing
             or None did not run, and its "reason" says why
    alt      left out, it is composed from the plotted numbers
    caption  left out, it names the table's recording
    """
    caption = caption or getattr(table, "label", "")
    rows = [dict(row) for row in table] or [{"config": {}, "reason": caption or "no rows"}]
    ran = [row for row in rows if row.get(value) is not None]
    ran.sort(key=lambda row: -row[value])
    data = [
        Bar(
            _configuration(row["config"]),
            row[value],
            "best" if index == 0 else "other",
            ", ".join(["best"] * (index == 0) + _registers(row)),
        )
        for index, row in enumerate(ran)
    ]
    data += [
        Bar(
            _configuration(row["config"]),
            None,
            "other",
            _short(row.get("reason") or "not measured"),
        )
        for row in rows
        if row.get(value) is None
    ]
    if alt is None:
        alt = (
            f"Bars of {unit} by configuration, highest first: "
            + "; ".join(
                f"{bar.label} " + (bar.detail if bar.value is None else f"{bar.value:,.{digits}f}")
                for bar in data
            )
            + "."
        )
    return bars(data, title=title, alt=alt, unit=unit, caption=caption, digits=digits)


def _short(reason: str) -> str:
    """As much of a reason as fits under a bar's label: its first clause, or its beginning."""
    clause = reason.partition(";")[0]
    room = WIDTH - 2 * MARGIN
    if text_width(clause, SMALL) <= room:
        return clause
    words = clause.split()
    while text_width(" ".join(words) + " …", SMALL) > room:
        words.pop()
    return " ".join(words) + " …"


def _registers(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['registers']} registers"] if row.get("registers") else []


def _configuration(config: Mapping[str, Any]) -> str:
    lowered = {name.lower(): number for name, number in config.items()}
    tile = [lowered.pop(name) for name in ("tile_m", "tile_n", "tile_k") if name in lowered]
    parts = ["×".join(map(str, tile))] if tile else []
    parts += [f"{name} {number}" for name, number in lowered.items()]
    return ", ".join(parts) or "as written"


def _size(problem: Any) -> str:
    if problem.m == problem.n == problem.k:
        return f"{problem.m}³"
    return f"{problem.m}×{problem.n}×{problem.k}"


def _sheet(height: float) -> tuple[Any, Any]:
    """A matplotlib figure and axes whose data coordinates are SVG units, y downwards."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(WIDTH / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return figure, axes


def _text(
    axes: Any,
    x: float,
    y: float,
    text: str,
    *,
    colour: str = "ink",
    size: float = SMALL,
    anchor: str = "left",
    bold: bool = False,
    italic: bool = False,
    over: str | None = None,
) -> None:
    box = dict(facecolor=light(over), edgecolor="none", pad=1.5) if over else None
    axes.text(
        x,
        y + size * 0.36,
        text.replace("$", r"\$"),
        color=light(colour),
        fontsize=size,
        ha=anchor,
        va="baseline",
        bbox=box,
        fontweight="bold" if bold else "normal",
        fontstyle="italic" if italic else "normal",
    )


def _bar(axes: Any, y: float, bar: Bar, length: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    fill, outline, hatch = _KINDS[bar.kind]
    radius = min(4, length / 2)
    axes.add_patch(
        FancyBboxPatch(
            (MARGIN, y),
            length,
            _BAR,
            boxstyle=f"round,pad=0,rounding_size={radius}",
            facecolor=light(fill),
            edgecolor=light(outline),
            linewidth=1.5,
            hatch=hatch,
            linestyle=(0, (5, 3)) if bar.kind == "cited" else "-",
            joinstyle="round",
            clip_on=False,
        )
    )


def _value(axes: Any, y: float, number: str, bar: Bar, length: float) -> None:
    """The number inside the bar's end if there is room for it, else after the bar."""
    fill, _, hatch = _KINDS[bar.kind]
    if text_width(number, BODY) * 1.1 + 16 <= length:
        inside = "paper" if bar.kind == "live" else "ink"
        _text(
            axes,
            MARGIN + length - 9,
            y,
            number,
            colour=inside,
            size=BODY,
            anchor="right",
            bold=True,
            over=fill if hatch else None,
        )
    else:
        _text(axes, MARGIN + length + 8, y, number, size=BODY, bold=True, over="paper")


def _finish(figure: Any, height: float, **description: Any) -> Figure:
    """Render to SVG and keep what a page needs: no date, own ids, palette variables for colours."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    stream = io.StringIO()
    prefix = unique_prefix(description["title"], repr(sorted(description.items())))
    matplotlib.rcParams["svg.hashsalt"] = prefix
    FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})
    body = re.search(r"<svg[^>]*>(.*)</svg>", stream.getvalue(), re.DOTALL).group(1)
    # Its <style> would reach every element of the page; the group below says the same.
    body = re.sub(
        r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", body, flags=re.DOTALL
    )
    # The page's font, not the one that matplotlib measured with.
    body = re.sub(r"font-family:[^;\"]*;?", "", body)
    body = _own_ids(body, prefix)
    body = " ".join(re.sub(r">\s+<", "><", body).replace("xlink:href", "href").split())
    body = re.sub(r' transform="rotate\(-0 [^"]*"|<defs></defs>', "", body)
    body = f'{paper(WIDTH, height)}<g style="stroke-linejoin:round">{with_variables(body)}</g>'
    return Figure(body=body, width=WIDTH, height=height, **description)


def _own_ids(body: str, prefix: str) -> str:
    """Drop the ids that nothing refers to and prefix the others, so that pages have no twins."""
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", body))

    def rename(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match.group(1)}"' if match.group(1) in used else ""

    body = re.sub(r'\s+id="([^"]*)"', rename, body)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", body)
