"""The two tables of the page of attempts: all of them in rows, and the ablation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from hopper.attempts import (
    ABLATION,
    ATTEMPTS,
    BURST,
    EVERY,
    SUSTAINED,
    Attempt,
    Prediction,
    number_of,
)
from hopper.attempts.counted import QUANTITIES, Row, rows
from hopper.attempts.outcome import NOT_TIMED, Outcome, Recorded
from hopper.figures.explorer import static_text

NOTHING = "–"


def anchor(name: str) -> str:
    """The id of an attempt's section."""
    return f"attempt-{name}"


def titled(attempt: Attempt) -> str:
    """The title as HTML; a shape stays in one line."""
    return escape(attempt.title).replace(" × ", "\u00a0×\u00a0")


def signed(value: float, digits: int = 1) -> str:
    """'+0.3', '−1.2', '0.0': with a sign unless it is shown as zero."""
    text = f"{abs(value):.{digits}f}"
    sign = "" if float(text) == 0 else "+" if value > 0 else "−"
    return sign + text


def plus_minus(value: float) -> str:
    """Half a width: one decimal, or two where one would show zero."""
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def percent(ratio: float) -> str:
    """'104.5%'; a dash for NaN."""
    return NOTHING if math.isnan(ratio) else f"{ratio:.1%}"


def interval(predicted: Prediction) -> str:
    """A prediction in words: '+0.2 to +0.6 %', 'no more than 0.3 % either way'."""
    low, high = predicted.low, predicted.high
    if low == -high:
        return f"no more than {high:g} % either way"
    return f"{_plain(low)} to {_plain(high)} %"


def _plain(value: float) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{abs(value):g}"


def overview(found: Mapping[str, Mapping[str, Outcome]], records: Mapping[str, Recorded]) -> str:
    """A row for each attempt: predicted, measured and verdict, in a burst and under load."""
    head = (
        '<tr><td colspan="2"></td><th scope="colgroup" colspan="4">burst</th>'
        '<th scope="colgroup" colspan="4">sustained</th></tr><tr><th scope="col">attempt</th>'
        '<th scope="col" class="wb-against">against</th>'
    )
    for _ in records:
        head += (
            '<th scope="col">predicted, %</th><th scope="col">measured, %</th>'
            '<th scope="col" class="wb-verdict">verdict</th><th scope="col">of cuBLAS</th>'
        )
    body = []
    for one in ATTEMPTS:
        cells = [f'<td class="wb-against">{_against(one)}</td>']
        for mode in (BURST, SUSTAINED):
            cells += _cells(found[mode].get(one.name))
        name = (
            f'<a href="#{anchor(one.name)}">{number_of(one.name)}.</a> '
            f'<span class="wb-title">{titled(one)}</span>'
        )
        body.append(f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>')
    return _scrolled(
        "Every attempt: predicted and measured", head + "</tr>", body, "wb-attempts-overview"
    )


def _against(one: Attempt) -> str:
    """A base by its title; another attempt by its number."""
    base = EVERY[one.against]
    if base.base:
        return titled(base)
    return f'<a href="#{anchor(base.name)}">{number_of(base.name)}.</a>'


def _cells(one: Outcome | None) -> list[str]:
    """Predicted, measured, verdict and ratio of one mode; dashes where it was not asked."""
    if one is None:
        return [f"<td>{NOTHING}</td>"] * 4
    predicted = interval(one.prediction).removesuffix(" %").replace("no more than", "within")
    predicted = predicted.replace(" % either way", "")
    measured = NOTHING
    if not math.isnan(one.change):
        measured = (
            f'{signed(one.change)}<br><span class="wb-spread">± {plus_minus(one.noise)}</span>'
        )
    ratio = percent(one.ratio)
    if not math.isnan(one.low):
        ratio += f'<br><span class="wb-spread">{100 * one.low:.1f} to {100 * one.high:.1f}</span>'
    kind = "wb-verdict wb-refused" if one.verdict == NOT_TIMED else "wb-verdict"
    return [
        f"<td>{predicted}</td>",
        f"<td>{measured}</td>",
        f'<td class="{kind}">{one.verdict}</td>',
        f"<td>{ratio}</td>",
    ]


def ablation_table(burst: Recorded, counters: Mapping[str, Mapping[str, float]], label: str) -> str:
    """A table for each shape of tile: values, and below each the difference to its row."""
    head = '<tr><th scope="col">variant</th><th scope="col">of cuBLAS, %</th>'
    head += "".join(
        f'<th scope="col">{one.heading}, {one.unit}</th>' for one in QUANTITIES.values()
    )
    made = []
    for shape in ABLATION:
        all_rows = {row.name: row for row in rows(shape, burst, counters)}
        body = [_ablation_row(row, all_rows.get(row.against)) for row in all_rows.values()]
        made.append(f"<p><strong>Tiles of {shape}</strong></p>")
        made.append(_scrolled(f"The ablation with tiles of {shape}", head + "</tr>", body))
    source = f"<p>Speed: burst, {escape(burst.label)}. Counters: {escape(label)}.</p>"
    return "".join(made) + source


def _ablation_row(row: Row, against: Row | None) -> str:
    number = f'<a href="#{anchor(row.name)}">{escape(row.what)}</a>'
    name = number if not EVERY[row.name].base else escape(row.what)
    cells = [_pair(100 * row.ratio, 100 * against.ratio if against else math.nan, 1)]
    for key, quantity in QUANTITIES.items():
        before = against.counted[key] if against else math.nan
        cells.append(_pair(row.counted[key], before, quantity.digits))
    return f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>'


def _pair(value: float, before: float, digits: int) -> str:
    """A value, and its difference to the one it is compared with."""
    if math.isnan(value):
        return f"<td>{NOTHING}</td>"
    less = "" if math.isnan(before) else signed(value - before, digits)
    below = f'<br><span class="wb-spread">{less}</span>' if less else ""
    return f"<td>{value:,.{digits}f}{below}</td>"


def _scrolled(title: str, head: str, body: list[str], kind: str = "") -> str:
    """A table that scrolls, with its first column in sight."""
    return (
        f"<style>{static_text('ladder_table.css')}{static_text('attempts.css')}</style>"
        f'<div class="wb-ladder-table wb-attempts {kind}" tabindex="0" role="group" '
        f'aria-label="{title}"><table><thead>{head}</thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
