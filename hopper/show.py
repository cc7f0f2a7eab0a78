"""Quote kernels on a page: a region, a whole file, a difference, PTX, SASS, instruction counts.

A chapter never pastes code. A kernel file marks its regions with comment lines,

    // [load]
    ...
    // [/load]

and `region("v1_wgmma", "load")` shows what stands between them today, with the file's own line
numbers. The same object is highlighted HTML on the site and in JupyterLab and plain text in a
terminal.
"""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from hopper.compile import Program, advisories
from hopper.emulator import hazard_trials
from hopper.emulator.hazard_kernels import HAZARD_KERNELS, HazardKernel
from hopper.errors import HopperError
from hopper.figures.palette import colour, dark_jupyter_style
from hopper.mutants import compile_mutation, emulated, mutations
from hopper.paths import KERNELS
from hopper.records import NoRecording, change_of, counters_table, find, freshness
from hopper.schema import Entry, Mutants

__all__ = [
    "Code",
    "Table",
    "broken_rules",
    "counts",
    "diff",
    "mutants",
    "ptx",
    "region",
    "sass",
    "whole",
]

_MARKER = re.compile(r"^\s*// \[(/?)([a-z0-9][a-z0-9_-]*)\]\s*$")

#: SASS mnemonics that the book speaks about, and the PTX or CUDA that they come from.
_MEANINGS = {
    "HGMMA": "wgmma on fp16, bf16 or tf32: one warpgroup's matrix multiply",
    "QGMMA": "wgmma on fp8",
    "IGMMA": "wgmma on integers",
    "HMMA": "mma.sync: one warp's matrix multiply, operands in registers",
    "LDSM": "ldmatrix: shared memory to registers, laid out for mma.sync",
    "STSM": "stmatrix: 8 × 8 matrices from registers to shared memory",
    "UTMALDG": "cp.async.bulk.tensor: a TMA load from global to shared memory",
    "UTMASTG": "cp.async.bulk.tensor: a TMA store from shared to global memory",
    "SYNCS": "mbarrier: initialise, arrive, expect bytes, wait",
    "WARPGROUP": "wgmma.fence and wgmma.wait_group",
    "USETMAXREG": "setmaxnreg: registers given back or asked for",
    "BAR": "__syncthreads and named barriers",
    "FENCE": "fence.proxy.async: ordinary writes before asynchronous reads",
    "STG": "stores to global memory",
    "LDL": "loads from local memory: a spill or a stack",
    "STL": "stores to local memory: a spill or a stack",
}

#: The same for mnemonics that a table has only where its page asks: most kernels have them.
_MEANINGS_IF_ASKED = {
    "I2F": "an integer becomes fp32",
    "F2FP": "two fp32 become fp16, packed into one register",
}

_STYLE = (
    # Specificity 0: the site's theme and JupyterLab both decide about <pre> where they can.
    f":where(.wb-code pre){{background:{colour('code-paper')};color:{colour('ink')};"
    "padding:.7em .9em;border-radius:6px}"
    ".wb-code{margin:1em 0}"
    ".wb-code pre{white-space:pre;overflow-x:auto;margin:0;line-height:1.45;tab-size:4}"
    ".jp-ThemedContainer .wb-code .highlight pre{white-space:pre;padding:.5em .7em}"
    ".wb-code-title{font-size:.85em;margin-bottom:.3em}"
    f".wb-code .linenos{{color:{colour('muted')};user-select:none;margin-right:1em}}"
    f".wb-code .k,.wb-code .kr,.wb-code .kd,.wb-code .kp{{color:{colour('code-keyword')}}}"
    f".wb-code .kt,.wb-code .nc{{color:{colour('code-type')}}}"
    f".wb-code .nf,.wb-code .ni{{color:{colour('code-name')}}}"
    f".wb-code .s,.wb-code .se{{color:{colour('code-string')}}}"
    f".wb-code .mi,.wb-code .mf,.wb-code .mh{{color:{colour('code-number')}}}"
    f".wb-code .c1,.wb-code .cm{{color:{colour('code-comment')};font-style:italic}}"
    f".wb-code .cp,.wb-code .cpf{{color:{colour('code-macro')}}}"
    f".wb-code .wb-gap{{color:{colour('muted')};font-style:italic}}"
    f".wb-code .wb-add{{background:{colour('add')};color:{colour('add-ink')}}}"
    f".wb-code .wb-del{{background:{colour('remove')};color:{colour('remove-ink')}}}"
    ".wb-code table{border-collapse:collapse;margin:0}"
    ".wb-code div .wb-table th,.wb-code div .wb-table td"
    "{text-align:left;padding:.25em .8em .25em 0;vertical-align:top}"
    ".wb-code div .wb-table td.wb-number{text-align:right}"
    f".wb-code div .wb-table td{{border-top:1px solid {colour('line')}}}"
    ".wb-table{font-size:.92em;line-height:1.4}"
    ".wb-table .wb-name{font-weight:600}"
    ".wb-code summary{cursor:pointer}"
)


@dataclass(frozen=True)
class Line:
    """One shown line: its number in the file (None if it has none), its text, and its mark.

    The mark is "" for code, "+" and "-" for a difference, and "gap" for a remark of ours.
    """

    number: int | None
    text: str
    mark: str = ""


@dataclass(frozen=True)
class Code:
    """Quoted code. `title` names the source; `language` is a Pygments lexer's name."""

    title: str
    lines: tuple[Line, ...]
    language: str = "cuda"
    folded: bool = False

    @property
    def added(self) -> int:
        """Lines that a difference adds."""
        return sum(line.mark == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        """Lines that a difference takes away."""
        return sum(line.mark == "-" for line in self.lines)

    def __str__(self) -> str:
        return "\n".join(_marked(line, self._is_diff) for line in self.lines)

    __repr__ = __str__

    @property
    def _is_diff(self) -> bool:
        return bool(self.added or self.removed)

    def _repr_html_(self) -> str:
        digits = max((len(str(line.number)) for line in self.lines if line.number), default=0)
        shown = "".join(
            self._line_html(line, code, digits)
            for line, code in zip(self.lines, self._highlighted(), strict=True)
        )
        title = html.escape(self.title)
        # role="group": an element without a role may not carry a label, and a landmark for
        # every quotation would be noise. tabindex: a keyboard can scroll long lines.
        block = (
            f'<div class="highlight-{self.language} notranslate"><div class="highlight">'
            f'<pre tabindex="0" role="group" aria-label="{title}"><span></span>{shown}</pre>'
            "</div></div>"
        )
        if self.folded:
            inner = f"<details><summary>{title}</summary>{block}</details>"
        else:
            inner = f'<div class="wb-code-title">{title}</div>{block}'
        return f'{_style()}<div class="wb-code">{inner}</div>'

    def _highlighted(self) -> list[str]:
        """HTML of each line; remarks and changed lines stay plain, so that their ink is legible."""
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name

        plain = [html.escape(_marked(line, self._is_diff), quote=False) for line in self.lines]
        if self.language == "text":
            return plain
        source = "\n".join("" if line.mark == "gap" else line.text for line in self.lines)
        lexer = get_lexer_by_name(self.language, stripnl=False)
        coloured = highlight(source, lexer, HtmlFormatter(nowrap=True))
        # The … of a shortened list is no error of the code.
        coloured = re.sub(r'<span class="err">(…+)</span>', r"\1", coloured).split("\n")
        indent = " " if self._is_diff else ""
        return [
            escaped if line.mark else indent + code
            for line, escaped, code in zip(self.lines, plain, coloured, strict=False)
        ]

    @staticmethod
    def _line_html(line: Line, code: str, digits: int) -> str:
        number = ""
        if digits:
            shown = str(line.number or "").rjust(digits)
            number = f'<span class="linenos" aria-hidden="true">{shown}</span>'
        kind = {"+": "wb-add", "-": "wb-del", "gap": "wb-gap"}.get(line.mark)
        return number + (f'<span class="{kind}">{code}</span>' if kind else code) + "\n"


@dataclass(frozen=True)
class Table:
    """A small table: HTML on a page, aligned columns in a terminal.

    A cell of several lines has its first line set as a name.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        flat = [tuple(cell.replace("\n", ": ") for cell in row) for row in self.rows]
        table = [self.columns, *flat]
        widths = [max(len(row[i]) for row in table) for i in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        return "\n".join([self.title, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # A heading that says nothing is none: an empty corner is an empty cell.
        head = "".join(
            f'<th scope="col">{html.escape(name)}</th>' if name else "<td></td>"
            for name in self.columns
        )
        body = "".join(
            "<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in self.rows
        )
        title = html.escape(self.title)
        return (
            f'{_style()}<div class="wb-code"><div class="wb-code-title">{title}</div>'
            f'<div tabindex="0" role="group" aria-label="{title}" style="overflow-x:auto">'
            f'<table class="wb-table"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div></div>"
        )


def region(kernel: str, name: str) -> Code:
    """The lines of a kernel file between `// [name]` and `// [/name]`, dedented.

    kernel  a file of kernels/, `.cu` understood: "v1_wgmma", "include/wgmma.cuh"
    Raises HopperError, listing what exists, for an unknown file or region, and for a region that
    is opened twice or not closed.
    """
    path, text = _read(kernel)
    regions = _regions(path, text)
    if name not in regions:
        listed = ", ".join(regions) or "none: mark one with `// [name]` and `// [/name]`"
        raise HopperError(f"{_shown(path)} has no region {name!r}; its regions: {listed}")
    first, last = regions[name]
    lines = [line for line in _code_lines(text) if first < line.number < last]
    return Code(f"{_shown(path)}, lines {first + 1}–{last - 1}", tuple(_dedented(lines)))


def whole(kernel: str) -> Code:
    """A whole kernel file, folded on a page; region markers are left out."""
    path, text = _read(kernel)
    lines = _trimmed(_code_lines(text))
    return Code(f"The whole file: {_shown(path)}, {len(lines)} lines", tuple(lines), folded=True)


def diff(before: str, after: str, *, context: int = 3, folded: bool = False) -> Code:
    """What changed from one kernel file to the next, as a unified difference of the code.

    The comment at the head of each file tells its own story and is left out, and so are region
    markers. A line keeps the number it has in its file: removed lines in `before`, others in
    `after`. `added` and `removed` count. `folded`: a page shows the title, and the rest on a click.
    """
    (path_a, text_a), (path_b, text_b) = _read(before), _read(after)
    old, new = (_trimmed(_without_header(_code_lines(text))) for text in (text_a, text_b))
    shown = _difference(old, new, context)
    added = sum(line.mark == "+" for line in shown)
    removed = sum(line.mark == "-" for line in shown)
    title = f"{_shown(path_a)} → {_shown(path_b)}: {added} lines added, {removed} removed"
    if not shown:
        shown = [Line(None, "the code is the same", "gap")]
    return Code(title, tuple(shown), folded=folded)


def edited(title: str, before: str, after: str, *, context: int = 1) -> Code:
    """What a change of one text changes in it, as `diff` shows it; folded on a page."""
    return Code(
        title, tuple(_difference(_code_lines(before), _code_lines(after), context)), folded=True
    )


def _difference(old: list[Line], new: list[Line], context: int) -> list[Line]:
    """Changed lines with some around them; a gap between those that are apart."""
    matcher = difflib.SequenceMatcher(
        None, [line.text for line in old], [line.text for line in new], autojunk=False
    )
    shown: list[Line] = []
    for group in matcher.get_grouped_opcodes(context):
        if shown:
            shown.append(Line(None, "⋯", "gap"))
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                shown += new[b0:b1]
                continue
            shown += [Line(line.number, line.text, "-") for line in old[a0:a1]]
            shown += [Line(line.number, line.text, "+") for line in new[b0:b1]]
    return shown


def ptx(program: Program, pattern: str, *, context: int = 0, limit: int = 12) -> Code:
    """The instructions of a compiled kernel's PTX whose name matches a regular expression.

    pattern  looked for in the name, as "wgmma" or "mbarrier.*expect"; if no instruction has it,
             in whole lines, directives and operands included
    context  lines shown before and after each match; comments and blank lines do not count
    limit    most matches shown; how many are left out is said
    Long operand lists are shortened: {%f1, … 64 values …, %f64}. Line numbers are the PTX's.
    Raises HopperError if nothing matches.
    """
    lines = [
        Line(number, " ".join(shorten_operands(text).split()))
        for number, text in enumerate(program.ptx.splitlines(), start=1)
        if text.strip() and not text.strip().startswith("//")
    ]
    named = [bool(re.search(pattern, _ptx_name(line.text))) for line in lines]
    return _excerpt(
        lines,
        pattern,
        context,
        limit,
        f"PTX of {program.kernel}",
        "ptx",
        hits=[index for index, hit in enumerate(named) if hit],
    )


def sass(program: Program, prefix: str, *, limit: int = 12) -> Code:
    """The machine instructions of a compiled kernel whose mnemonic starts with `prefix`.

    Raises HopperError if there is none.
    """
    lines = [Line(number, text) for number, text in enumerate(program.sass().instructions, start=1)]
    return _excerpt(lines, "^" + re.escape(prefix), 0, limit, f"SASS of {program.kernel}", "text")


def counts(program: Program, mnemonics: Sequence[str] = ()) -> Table:
    """How often the instructions that matter stand in a compiled kernel.

    mnemonics  prefixes to count, as "HGMMA"; left out, every one that the book explains and that
               occurs. A static count: an unrolled loop counts once for each copy.
    """
    found = program.sass()
    wanted = mnemonics or [name for name in _MEANINGS if found.count(name)]
    meanings = _MEANINGS | _MEANINGS_IF_ASKED
    rows = tuple((name, str(found.count(name)), meanings.get(name, "")) for name in wanted)
    used = program.resources
    spilled = used.spill_stores + used.spill_loads
    title = (
        f"{program.kernel}, compiled: {used.registers} registers a thread, "
        f"{'nothing spilled' if not spilled else f'{spilled} bytes spilled'}, "
        f"{used.static_shared_bytes:,} bytes of static shared memory"
    )
    return Table(title, ("instruction", "in the code", "what it is"), rows)


def counters(kernel: str) -> Table:
    """The recorded hardware counters of a kernel beside cuBLAS's, under ncu's own names."""
    found = counters_table(kernel)
    return Table(f"{kernel} under ncu; {found.label}", found.columns, found.rows)


def mutants(kernel: str) -> Table:
    """Every deliberate break of a kernel: what compiler and emulator say, what the GPU returned.

    The broken kernels are compiled and emulated here and now; what the hardware did is recorded.
    Raises HopperError if the kernel has no mutations, RecordError if its record is damaged.
    """
    broken = mutations(kernel)
    if not broken:
        raise HopperError(f"{kernel!r} has no mutations; hopper/mutants.py lists those there are")
    try:
        tried = {entry.data.name: entry for entry in find("mutants", kernel)}
    except NoRecording:
        tried = {}
    rows = tuple(
        (
            f"{mutation.name}\n{mutation.rule}",
            ", ".join(advisories(compile_mutation(mutation).log)) or "nothing",
            ", ".join(emulated(mutation)),
            _returned(tried.get(mutation.name), change_of(mutation)),
        )
        for mutation in broken
    )
    sources = sorted({entry.provenance.label for entry in tried.values()})
    title = f"{kernel}, broken on purpose" + (f"; {'; '.join(sources)}" if sources else "")
    return Table(
        title, ("broken rule", "the compiler says", "the emulator says", "the GPU returned"), rows
    )


def broken_rules() -> Table:
    """A kernel for every rule that the emulator watches: what a compiler and a GPU made of it.

    Both are recorded. Raises RecordError for a damaged record.
    """
    try:
        trials = hazard_trials.load()
    except NoRecording:
        trials = None
    rows = []
    for kernel in HAZARD_KERNELS:
        trial = trials.trials.get(kernel.name) if trials else None
        said = ", ".join(trial.messages) or "nothing" if trial else "not recorded"
        rows.append((kernel.name, kernel.kind, said, *_in_each_shape(kernel, trial)))
    where = trials.provenance.label if trials else "no recording"
    number = len(hazard_trials.SEEDS) * hazard_trials.LAUNCHES
    title = f"One rule broken each, {number} launches of a shape; {where}"
    small, large = ("small tile", "large tile")
    heads = ("kernel", "the emulator reports", "the compiler says")
    heads += (f"{small}, alone", f"{small}, full GPU", f"{large}, alone", f"{large}, full GPU")
    return Table(title, heads, tuple(rows))


def _in_each_shape(kernel: HazardKernel, trial: hazard_trials.Trial | None) -> Iterator[str]:
    """What a GPU returned, in words: small tile and large, alone and with all SMs full."""
    sizes = (*kernel.sizes, None)[:2]
    for size, cells in product(sizes, hazard_trials.CELLS):
        if size is None:
            yield "–"
        else:
            yield trial.at(size, cells).verdict if trial else "not recorded"


def _returned(entry: Entry | None, change: str) -> str:
    if entry is None:
        return "not recorded"
    tried: Mutants = entry.data
    if tried.change != change or freshness(entry) == "stale":
        return "recorded before the kernel changed"
    total = sum(trial.runs for trial in tried.trials)
    ends = [
        (sum(getattr(trial, verdict) for trial in tried.trials), verdict)
        for verdict in ("right", "wrong", "hung", "failed")
    ]
    return ", ".join(f"{count} {verdict}" for count, verdict in ends if count) + f" of {total}"


def shorten_operands(text: str) -> str:
    """Shorten every {…} list of more than four registers, saying how many there are."""

    def shortened(match: re.Match[str]) -> str:
        items = [item.strip() for item in match.group(1).split(",")]
        if len(items) <= 4:
            return match.group(0)
        return f"{{{items[0]}, … {len(items)} values …, {items[-1]}}}"

    return re.sub(r"\{\s*(%[^{}]*?)\s*\}", shortened, text)


def _ptx_name(text: str) -> str:
    """The instruction of a PTX line, a guard like @%p1 skipped; "" for a directive."""
    words = text.lstrip("{ ").split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return words[0] if words and not words[0].startswith(".") else ""


def _excerpt(
    lines: list[Line],
    pattern: str,
    context: int,
    limit: int,
    title: str,
    language: str,
    *,
    hits: Sequence[int] = (),
) -> Code:
    """The lines at `hits`, or else those that match `pattern`, with their surroundings."""
    hits = hits or [index for index, line in enumerate(lines) if re.search(pattern, line.text)]
    if not hits:
        raise HopperError(
            f"{title}: no line matches {pattern!r}; look at the whole text, or widen the pattern"
        )
    wanted = sorted(
        {
            near
            for hit in hits[:limit]
            for near in range(max(0, hit - context), min(len(lines), hit + context + 1))
        }
    )
    shown: list[Line] = []
    for before, index in zip([None, *wanted], wanted, strict=False):
        if context and before is not None and index != before + 1:
            shown.append(Line(None, "⋯", "gap"))
        shown.append(lines[index])
    left_out = len(hits) - limit
    if left_out > 0:
        shown.append(Line(None, f"⋯ {left_out} more", "gap"))
    times = "1 line" if len(hits) == 1 else f"{len(hits)} lines"
    return Code(f"{title}: {times} with {pattern.lstrip('^')}", tuple(shown), language)


def _read(kernel: str) -> tuple[Path, str]:
    path = KERNELS / kernel
    if not path.suffix:
        path = path.with_suffix(".cu")
    if not path.is_file():
        files = sorted(p.relative_to(KERNELS).as_posix() for p in KERNELS.rglob("*.cu*"))
        raise HopperError(
            f"{kernel!r}: no such file in kernels/; there are {', '.join(files) or 'none'}"
        )
    return path, path.read_text(encoding="utf-8")


def _shown(path: Path) -> str:
    return f"kernels/{path.relative_to(KERNELS).as_posix()}"


def _regions(path: Path, text: str) -> dict[str, tuple[int, int]]:
    """Region name -> numbers of its opening and closing marker lines."""
    opened: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        marker = _MARKER.match(line)
        if not marker:
            continue
        closing, name = marker.groups()
        where = f"{_shown(path)}:{number}"
        if closing:
            if name not in opened:
                raise HopperError(f"{where} closes region {name!r}, which is not open there")
            found[name] = (opened.pop(name), number)
        elif name in opened or name in found:
            raise HopperError(f"{where} opens region {name!r} again; give it a name of its own")
        else:
            opened[name] = number
    if opened:
        name, number = next(iter(opened.items()))
        raise HopperError(
            f"{_shown(path)}:{number} opens region {name!r}, which nothing closes; "
            f"add `// [/{name}]`"
        )
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _code_lines(text: str) -> list[Line]:
    """Every line with its number, without the lines that are region markers."""
    return [
        Line(number, line.rstrip().expandtabs(4))
        for number, line in enumerate(text.splitlines(), start=1)
        if not _MARKER.match(line)
    ]


def _without_header(lines: list[Line]) -> list[Line]:
    for index, line in enumerate(lines):
        if not line.text.startswith("//"):
            return lines[index:]
    return []


def _trimmed(lines: list[Line]) -> list[Line]:
    filled = [index for index, line in enumerate(lines) if line.text]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _dedented(lines: list[Line]) -> list[Line]:
    """Without the common indentation; `#pragma` and friends stand at the margin and stay there."""
    lines = _trimmed(lines)
    indents = [
        len(line.text) - len(line.text.lstrip())
        for line in lines
        if line.text and not line.text.startswith("#")
    ]
    common = min(indents, default=0)
    return [
        line if line.text.startswith("#") else Line(line.number, line.text[common:])
        for line in lines
    ]


def _marked(line: Line, in_diff: bool) -> str:
    if line.mark in ("+", "-"):
        return line.mark + line.text
    return (" " if in_diff and line.mark != "gap" else "") + line.text


def _cell(value: str) -> str:
    kind = ' class="wb-number"' if re.fullmatch(r"[\d.,]+ ?%?", value) else ""
    name, _, more = html.escape(value).partition("\n")
    shown = f'<span class="wb-name">{name}</span><br>{more}' if more else name
    return f"<td{kind}>{shown}</td>"


def _style() -> str:
    return f"<style>{_STYLE}</style>{dark_jupyter_style('.wb-code')}"
