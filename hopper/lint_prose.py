"""Find measurements that were typed into prose: `python -m hopper.lint_prose [FILE…]`.

A number with a unit of measurement drifts from the truth as soon as a kernel changes. So prose
takes it from a record or from the list of constants, or says whose number it is:

    {recorded}`v1_wgmma tflops`      a value of our own, from results/
    {constant}`flop_per_sm_cycle`    a constant of the architecture, with its source
    540 TFLOPS {cite:p}`somebody`    someone else's, cited in the same paragraph, table row or item

What is looked at: the prose of index.md, README.md, docs/ and chapters/, directives such as notes
included. What is not: fenced code, inline code, roles, mathematics, links' targets, comments and
front matter. Times in seconds or minutes are not measurements of a kernel and pass.

In code cells it looks for results typed in as data, by these rules: a name that speaks of a result
(tflops, ms, speedup, bandwidth …), as a variable, a keyword or a dictionary's key, given a list,
tuple, dictionary or array of two or more numbers; and two or more numbers typed straight into a
call of bars, lines, tflops or tuning. A comment `# source: …` in the cell says whose they are.

Paths that exist on one machine only are reported as well, in prose and in code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hopper.paths import ROOT

_NUMBER = r"(?<![\w.,×])[-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_RANGE = rf"{_NUMBER}(?:\s*(?:[-–—]|to|or|and|±|/)\s*\d[\d,]*(?:\.\d+)?)?"
_GAP = r"(?:[ \u00a0\u202f-]|&nbsp;)?"
_UNITS = (
    r"[PTGMk]?FLOP(?:S|s|/s)(?!\w)|"  # rates; 4096 FLOP is a count
    r"[TGMk]i?B/s|[TGM]?bit/s|"
    r"(?:ms|µs|μs|us|ns)(?!\w)|(?:milli|micro|nano)seconds?|"
    r"[GM]Hz(?!\w)|m?W(?!\w)|watts?(?!\w)|[kmp]?J(?!\w)|joules?(?!\w)|°C|"
    r"%|percent(?!\w)|per cent(?!\w)"
)
_MEASUREMENT = re.compile(rf"{_RANGE}{_GAP}(?:{_UNITS})")
#: 1.3×, 2x; not the × of a shape, 64×128 or 64 × N.
_RATIO = re.compile(rf"{_NUMBER}\s?(?:×|x\b)(?!\s?[\w(`{{$])|{_NUMBER}\s?[×x](?=\s+[a-z]{{2,}})")
_TIMES = re.compile(
    rf"{_NUMBER}[ -]times (?:as (?:fast|slow|many|much|high|long)|faster|slower|more|less|the )|"
    rf"{_NUMBER} of (?:cuBLAS|CUTLASS|cuDNN)"
)

_MACHINE_PATH = re.compile(r"(?<![\w.~:/\]-])/(?:home|root|Users|work|tmp)/[\w.-]*")

_ROLE = re.compile(r"\{[\w:+.-]+\}(`+)(?:.|\n)+?\1(?!`)")
_CITE = re.compile(r"\{cite(?::\w+)?\}`")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`)(?:.|\n)+?(?<!`)\1(?!`)")
_HTML_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_INLINE_MATH = re.compile(r"\$\$.*?\$\$|(?<![\\$\w])\$(?!\s)[^$]+?(?<!\s)\$(?!\d)", re.DOTALL)
_LINK_TARGET = re.compile(r"\]\([^)\s]*\)|<https?://[^>]*>|https?://\S+")

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,}|:{3,})\s*(.*)$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
#: Directives whose body is not prose.
_NOT_PROSE = {
    "code",
    "code-block",
    "sourcecode",
    "code-cell",
    "literalinclude",
    "math",
    "raw",
    "mermaid",
    "toctree",
    "bibliography",
    "eval-rst",
    "image",
    "constant-table",
    "bare",
}

_RESULT_WORD = re.compile(
    r"(?:^|_)(?:[tgp]?flops?|ms|us|ns|millis\w*|seconds|times?|timings?|latenc\w+|speed_?ups?|"
    r"ratios?|bandwidths?|gbps|tbps|throughputs?|watts|power|joules|clocks?|mhz|ghz|utili[sz]ation|"
    r"results?|measured)(?:$|_)",
    re.IGNORECASE,
)
_PLOTS = {"bars", "lines", "tflops", "tuning"}
_SOURCE_COMMENT = re.compile(r"#\s*source:\s*\S")


@dataclass(frozen=True)
class Finding:
    """One thing to change: where, the text, and the way out."""

    path: str
    line: int
    text: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}\n    {self.way_out}"


_TAKE_IT_FROM = (
    "a typed-in measurement: take it from {recorded}`…` or {constant}`…`, "
    "or cite its source with {cite:p}`…` in the same paragraph, row or item"
)
_DATA = (
    "results typed into a cell: use hopper.measure or a record, or name whose numbers they are "
    "in a comment `# source: …`"
)
_PATH = "a path of one machine: write it relative to the repository or as a variable"


def pages(root: Path = ROOT) -> list[Path]:
    """The Markdown files of the book: index.md, README.md, docs/ and chapters/."""
    found = [root / "index.md", root / "README.md"]
    for folder in ("docs", "chapters"):
        found += sorted((root / folder).rglob("*.md"))
    return [path for path in found if path.is_file() and ".ipynb_checkpoints" not in path.parts]


def lint(text: str, path: str = "page.md") -> list[Finding]:
    """Everything to change in one Markdown page, in order of lines."""
    prose, cells = _split(text)
    found: list[Finding] = []
    for unit in _units(prose):
        found += _measurements(unit, path)
    for first, source in cells:
        found += _typed_in_data(first, source, path)
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _MACHINE_PATH.finditer(line):
            found.append(Finding(path, number, match.group(0), _PATH))
    return sorted(set(found), key=lambda finding: (finding.line, finding.text))


def main(arguments: Iterable[str] = ()) -> int:
    """Lint the named files, or the whole book; print what is found. Returns the exit status."""
    files = [Path(name) for name in arguments] or pages()
    found = []
    for file in files:
        resolved = file.resolve()
        shown = resolved.relative_to(ROOT) if resolved.is_relative_to(ROOT) else file
        found += lint(file.read_text(encoding="utf-8"), str(shown))
    for finding in found:
        print(finding)
    print(f"{len(files)} pages, {len(found)} typed-in measurements or paths")
    return 1 if found else 0


Numbered = tuple[int, str]


def _split(text: str) -> tuple[list[Numbered], list[tuple[int, str]]]:
    """Prose lines (number, text), and code cells (number of the first line, source).

    Lines that are not prose come as empty prose lines, so that they end a paragraph.
    """
    text = _HTML_COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    lines = text.splitlines()
    prose: list[Numbered] = []
    cells: list[tuple[int, str]] = []
    start = 0
    if lines and lines[0].strip() == "---":
        end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
        start = end + 1
    open_prose: list[str] = []  # fences of directives that hold prose
    code: tuple[str, str, int, list[str]] | None = None  # fence, directive, first line, body
    for number, line in enumerate(lines[start:], start=start + 1):
        fence = _FENCE.match(line)
        if code is not None:
            mark, directive, first, body = code
            if fence and fence.group(2).startswith(mark) and not fence.group(3):
                if directive == "code-cell":
                    cells.append((first, "\n".join(body)))
                code = None
            else:
                body.append(line)
            prose.append((number, ""))
            continue
        if fence:
            mark, info = fence.group(2), fence.group(3)
            if open_prose and not info and mark.startswith(open_prose[-1]):
                open_prose.pop()
                prose.append((number, ""))
                continue
            directive = re.match(r"\{([\w:-]+)\}\s*(.*)", info)
            if directive and directive.group(1) not in _NOT_PROSE:
                open_prose.append(mark)
                prose += [(number, ""), (number, directive.group(2)), (number, "")]
                continue
            code = (mark, directive.group(1) if directive else info, number + 1, [])
            prose.append((number, ""))
            continue
        is_option = open_prose and re.match(r"^\s*:[\w-]+:", line) and ":alt:" not in line
        is_comment = line.startswith("%")
        prose.append((number, "" if is_option or is_comment else line))
    return prose, cells


def _units(prose: list[Numbered]) -> Iterator[list[Numbered]]:
    """Paragraphs, list items and table rows: the reach of a citation."""
    unit: list[Numbered] = []
    for number, line in prose:
        is_row = line.lstrip().startswith("|")
        starts_new = not line.strip() or _ITEM.match(line) or is_row
        if starts_new and unit:
            yield unit
            unit = []
        if line.strip():
            unit.append((number, line))
        if is_row:
            yield unit
            unit = []
    if unit:
        yield unit


def _measurements(unit: list[Numbered], path: str) -> Iterator[Finding]:
    text = "\n".join(line for _, line in unit)
    if _CITE.search(text):
        return
    for pattern in (_ROLE, _INLINE_CODE, _INLINE_MATH, _LINK_TARGET):
        text = pattern.sub(lambda match: re.sub(r"[^\n]", "\x00", match.group(0)), text)
    for pattern in (_MEASUREMENT, _RATIO, _TIMES):
        for match in pattern.finditer(text):
            line = unit[text.count("\n", 0, match.start())][0]
            yield Finding(path, line, " ".join(match.group(0).split()), _TAKE_IT_FROM)


def _typed_in_data(first: int, source: str, path: str) -> Iterator[Finding]:
    if _SOURCE_COMMENT.search(source):
        return
    # Options of the cell (:tags: …, or a YAML block) are blanked, and so are notebook magics.
    body = re.sub(
        r"\A---\n.*?\n---\n", lambda m: "\n" * m.group(0).count("\n"), source, flags=re.DOTALL
    )
    body = re.sub(r"^(?::[\w-]+:.*|\s*[%!].*)$", "", body, flags=re.MULTILINE)
    try:
        tree = ast.parse(body)
    except SyntaxError as error:
        yield Finding(
            path,
            first + (error.lineno or 1) - 1,
            "the cell is not Python",
            f"{error.msg}; the lint cannot read it",
        )
        return
    for node in ast.walk(tree):
        for name, value in _named_values(node):
            if _RESULT_WORD.search(name) and _typed_numbers(value) >= 2:
                yield Finding(path, first + value.lineno - 1, f"{name} = {_short(value)}", _DATA)
        if isinstance(node, ast.Call) and _called(node) in _PLOTS:
            values = [
                *node.args,
                *(k.value for k in node.keywords if k.arg in ("series", "table", "published")),
            ]
            if sum(map(_typed_numbers, values)) >= 2:
                yield Finding(path, first + node.lineno - 1, f"{_called(node)}(…numbers…)", _DATA)


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield getattr(target, "id", None) or target.attr, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _typed_numbers(value: ast.expr) -> int:
    """How many numbers a list, tuple, dictionary or array(…) of literals holds."""
    if isinstance(value, ast.Call) and _called(value) in ("array", "asarray", "list", "tuple"):
        return sum(map(_typed_numbers, value.args))
    if isinstance(value, ast.Dict):
        return sum(map(_literal_numbers, value.values))
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return sum(map(_literal_numbers, value.elts))
    return 0


def _literal_numbers(value: ast.expr) -> int:
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Constant):
        return int(isinstance(value.value, int | float) and not isinstance(value.value, bool))
    return _typed_numbers(value)


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def _short(value: ast.expr) -> str:
    text = ast.unparse(value)
    return text if len(text) <= 60 else text[:59] + "…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
