"""The page of the ladder: `{ladder} figure`, `{ladder} table` and `{ladder} diffs`.

All of it comes from `hopper.ladder`: what the kernels compile to now, and recordings. It is put in
when every page is read, since its links lead to the chapters that there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.freshness import note_computed
from hopper import ladder
from hopper.figures.explorer import static_text
from hopper.figures.ladder import ladder as bars
from hopper.figures.ladder_diff import LadderDiff, anchor
from hopper.ladder import Ceiling, Counted, Rung, Speed

NOTHING = "–"
CHAPTER = "chapters/{}"
STATUS = "docs/status"


class Part(nodes.General, nodes.Element):
    """Stands where a part of the page goes."""


class LadderPart(SphinxDirective):
    """`ladder` with one argument: which part of the page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A placeholder."""
        note_computed(self.env, self.env.docname)
        if self.arguments[0] not in PARTS:
            raise self.error(f"ladder {self.arguments[0]!r}: choose one of {', '.join(PARTS)}")
        return [Part("", part=self.arguments[0])]


@dataclass(frozen=True)
class Addresses:
    """Where links of the page lead: kernel -> chapter, kernel -> row of the status page."""

    chapters: Mapping[str, str]
    records: Mapping[str, str]


@dataclass(frozen=True)
class Column:
    """A column: its heading, below that of its group, and a rung's cell in HTML."""

    group: str
    heading: str
    cell: Callable[[Rung], str]


def number(value: float | None, digits: int = 0, scale: float = 1) -> str:
    """A number with so many decimals, or a dash where there is none."""
    if value is None or math.isnan(value):
        return NOTHING
    return f"{value * scale:,.{digits}f}"


def of_speed(take: Callable[[Rung], Speed | None], show: Callable[[Speed], str]):
    """A cell of a timing that may be missing."""

    def cell(rung: Rung) -> str:
        speed = take(rung)
        return NOTHING if speed is None else show(speed)

    return cell


def of_counted(show: Callable[[Counted], str]) -> Callable[[Rung], str]:
    """A cell of counters that may be missing."""
    return lambda rung: NOTHING if rung.counted is None else show(rung.counted)


def share(speed: Speed) -> str:
    """Percent of cuBLAS, and from where to where."""
    return (
        f'{speed.ratio:.1%}<br><span class="wb-spread">{100 * speed.low:.1f} to '
        f"{100 * speed.high:.1f}</span>"
    )


def best(rung: Rung) -> str:
    """The best configuration of the tuning table."""
    if rung.best is None:
        return NOTHING
    lines = "<br>".join(escape(word) for word in rung.best.configuration.split())
    return f'{rung.best.ratio:.1%}<br><span class="wb-spread">{lines}</span>'


def columns(limits: Ceiling, address: Addresses) -> list[Column]:
    """All columns behind the first."""
    burst, sustained = (of_speed_of(name) for name in ("burst", "sustained"))

    def of_limit(limit: float) -> Callable[[Speed], str]:
        return lambda speed: NOTHING if math.isnan(limit) else f"{speed.tflops / limit:.1%}"

    return [
        Column("", "idea", lambda rung: escape(rung.idea)),
        Column("burst", "TFLOPS", burst(lambda one: number(one.tflops))),
        Column("burst", "ms", burst(lambda one: number(one.ms, 3))),
        Column("burst", "of cuBLAS", burst(share)),
        Column("burst", "of the ceiling", burst(of_limit(limits.burst))),
        Column("sustained", "TFLOPS", sustained(lambda one: number(one.tflops))),
        Column("sustained", "of cuBLAS", sustained(share)),
        Column("sustained", "of the ceiling", sustained(of_limit(limits.sustained))),
        Column("bf16, burst", "TFLOPS", of_speed_of("bf16")(lambda one: number(one.tflops))),
        Column("bf16, burst", "of cuBLAS", of_speed_of("bf16")(share)),
        Column("tuned", "best of cuBLAS", best),
        *counter_columns(),
        Column("as compiled", "registers", lambda rung: number(rung.compiled.registers)),
        Column("as compiled", "shared bytes", lambda rung: number(rung.compiled.shared_bytes)),
        Column("as compiled", "stages", lambda rung: number(rung.compiled.stages)),
        Column("as compiled", "blocks an SM", lambda rung: number(rung.compiled.blocks)),
        Column("as compiled", "lines of code", lambda rung: number(rung.code_lines)),
        Column("published, H100", "of cuBLAS", lambda rung: number(rung.published, 2)),
        Column("", "recording", lambda rung: recording(rung, address)),
    ]


def of_speed_of(name: str) -> Callable[[Callable[[Speed], str]], Callable[[Rung], str]]:
    """`of_speed` for one of a rung's timings."""
    return lambda show: of_speed(lambda rung: getattr(rung, name), show)


def counter_columns() -> list[Column]:
    """What ncu counted."""
    shown: tuple[tuple[str, Callable[[Counted], str]], ...] = (
        ("tensor pipe, %", lambda one: number(one.tensor_pipe, 1)),
        ("issue slots, %", lambda one: number(one.issue_slots, 1)),
        ("wgmma wavefronts a cycle", lambda one: number(one.wgmma_wavefronts, 2)),
        ("load wavefronts a cycle", lambda one: number(one.load_wavefronts, 2)),
        ("L2 hits, %", lambda one: number(one.l2_hits, 1)),
        ("DRAM, GB", lambda one: number(one.dram_bytes, 2, 1e-9)),
    )
    return [Column("ncu", heading, of_counted(show)) for heading, show in shown]


def recording(rung: Rung, address: Addresses) -> str:
    """The day of the recording, linked to its row, and what is missing."""
    where = address.records.get(rung.kernel)
    parts = [rung.note] if rung.note else []
    if rung.burst:
        parts.insert(0, rung.burst.provenance.date[:10])
    told = escape(", ".join(parts))
    return f'<a href="{escape(where)}">{told}</a>' if where else told


def name_cell(rung: Rung, before: Rung | None, address: Addresses) -> str:
    """The first cell of a row: the version, linked to its chapter, and its difference."""
    where = address.chapters.get(rung.kernel)
    name = f'<a href="{escape(where)}">{rung.version}</a>' if where else rung.version
    if before is None:
        return name
    return (
        f'{name}<br><a class="wb-spread" href="#{anchor(before.kernel, rung.kernel)}" '
        f'aria-label="difference from {before.version} to {rung.version}">diff</a>'
    )


def stand_in(
    rungs: Sequence[Rung], limits: Ceiling
) -> list[tuple[str, dict[tuple[str, str], str]]]:
    """The rows of cuBLAS and of the ceiling: a name, and cells by group and heading."""
    rows = []
    last = next((rung for rung in reversed(rungs) if rung.burst), None)
    if last is not None:
        cells = {
            ("", "idea"): f"cuBLAS, in turns with {last.version}",
            ("burst", "TFLOPS"): number(last.burst.peer_tflops),
            ("burst", "ms"): number(last.burst.peer_ms, 3),
            ("burst", "of the ceiling"): part_of(last.burst.peer_tflops, limits.burst),
        }
        if last.sustained:
            rate = last.sustained.peer_tflops
            cells["sustained", "TFLOPS"] = number(rate)
            cells["sustained", "of the ceiling"] = part_of(rate, limits.sustained)
        if last.bf16:
            cells["bf16, burst", "TFLOPS"] = number(last.bf16.peer_tflops)
        counted = last.peer_counted
        if counted:
            asked = Rung(**{**vars(last), "counted": counted})
            cells |= {(one.group, one.heading): one.cell(asked) for one in counter_columns()}
            cells["as compiled", "registers"] = number(counted.registers)
            cells["as compiled", "shared bytes"] = number(counted.shared_bytes)
        rows.append(("cuBLAS", cells))
    rows.append(
        (
            "ceiling",
            {
                ("", "idea"): "nothing but wgmma, on tiles that never change",
                ("burst", "TFLOPS"): number(limits.burst),
                ("sustained", "TFLOPS"): number(limits.sustained),
                ("", "recording"): escape(limits.label),
            },
        )
    )
    return rows


def part_of(rate: float, limit: float) -> str:
    """A share in percent, or a dash where the limit is not known."""
    return NOTHING if math.isnan(limit) else f"{rate / limit:.1%}"


def table(rungs: Sequence[Rung], limits: Ceiling, address: Addresses) -> str:
    """The table of all versions: HTML that scrolls, with its first column in sight."""
    shown = columns(limits, address)
    groups: list[tuple[str, int]] = []
    for column in shown:
        if groups and groups[-1][0] == column.group:
            groups[-1] = (column.group, groups[-1][1] + 1)
        else:
            groups.append((column.group, 1))
    upper = "".join(
        f'<th scope="colgroup" colspan="{span}">{group}</th>'
        if group
        else f'<td colspan="{span}"></td>'
        for group, span in groups
    )
    lower = "".join(f'<th scope="col"{alignment(column)}>{column.heading}</th>' for column in shown)
    body = []
    for before, rung in zip([None, *rungs], rungs, strict=False):
        cells = [(column, column.cell(rung)) for column in shown]
        body.append(row(name_cell(rung, before, address), cells))
    for name, known in stand_in(rungs, limits):
        cells = [(one, known.get((one.group, one.heading), NOTHING)) for one in shown]
        body.append(row(name, cells))
    return (
        f"<style>{static_text('ladder_table.css')}</style>"
        '<div class="wb-ladder-table" tabindex="0" role="group" '
        'aria-label="Every version beside cuBLAS and the ceiling">'
        f'<table><thead><tr><td></td>{upper}</tr><tr><th scope="col">version</th>{lower}</tr>'
        f"</thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def row(name: str, cells: Sequence[tuple[Column, str]]) -> str:
    """A row; text to the left, numbers to the right."""
    made = "".join(f"<td{alignment(column)}>{cell}</td>" for column, cell in cells)
    return f'<tr><th scope="row">{name}</th>{made}</tr>'


def alignment(column: Column) -> str:
    """The class of a column of words; columns of numbers have none."""
    return "" if column.group else ' class="wb-words"'


def figure_html(address: Addresses) -> str:
    """The bars, each a link to its chapter."""
    return bars(ladder.rungs(), ladder.ceiling(), address.chapters)._repr_html_()


def table_html(address: Addresses) -> str:
    """The table of all versions."""
    return table(ladder.rungs(), ladder.ceiling(), address)


def diffs_html(address: Addresses) -> str:
    """The difference between any two versions."""
    rungs = ladder.rungs()
    labels = tuple(f"{rung.version} · {rung.short_idea}" for rung in rungs)
    return LadderDiff(tuple(rung.kernel for rung in rungs), labels)._repr_html_()


PARTS: dict[str, Callable[[Addresses], str]] = {
    "figure": figure_html,
    "table": table_html,
    "diffs": diffs_html,
}


def addresses(app: Sphinx, docname: str) -> Addresses:
    """Relative addresses of the pages that this build has."""
    there = app.env.found_docs
    kernels = ladder.names()
    chapters = {
        kernel: app.builder.get_relative_uri(docname, CHAPTER.format(kernel))
        for kernel in kernels
        if CHAPTER.format(kernel) in there
    }
    if STATUS not in there:
        return Addresses(chapters, {})
    status = app.builder.get_relative_uri(docname, STATUS)
    return Addresses(
        chapters, {kernel: f"{status}#{nodes.make_id(f'record-{kernel}')}" for kernel in kernels}
    )


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the parts in."""
    for node in list(doctree.findall(Part)):
        made = PARTS[node["part"]](addresses(app, docname))
        node.replace_self(nodes.raw("", made, format="html"))


def setup(app: Sphinx) -> None:
    """Register the directive and complete its parts late."""
    app.add_node(Part)
    app.add_directive("ladder", LadderPart)
    app.connect("doctree-resolved", fill)
