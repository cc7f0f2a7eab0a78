"""PTX text to typed instructions: parsed once, executed many times.

Reads what NVRTC writes (PTX ISA 9.0, "Syntax"): one kernel of a module, its variables, its
registers, its labels. Inline assembly brings ``{ }`` scopes with registers and labels of their own,
so every name is looked up from its scope outwards.
"""

import bisect
import re
import struct
from dataclasses import dataclass, field
from functools import lru_cache

from hopper.emulator.errors import PtxError
from hopper.emulator.types import width


@dataclass(frozen=True, slots=True)
class Register:
    """A register. ``row``: its place among the registers of its width, by first use."""

    name: str
    type: str
    row: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. ``type``: "int", or "f32"/"f64" where ``value`` holds the bits of a float."""

    value: int
    type: str = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A special register (%tid.x), a variable or a parameter, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target: the index of the instruction behind it."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result that is thrown away."""


@dataclass(frozen=True, slots=True)
class Not:
    """``!p``: the negation of a predicate."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, …}``."""

    items: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``a|b``: two results of one instruction."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``, or ``[base, {coordinates}]`` of a tensor."""

    base: "Operand"
    offset: int = 0
    coordinates: Vector | None = None


Operand = Register | Immediate | Symbol | Label | Sink | Not | Vector | Pair | Address


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Source:
    """A line of CUDA C++, from ``-lineinfo``; ``inlined_at`` is where its function was called."""

    file: str
    line: int
    inlined_at: "Source | None" = None

    @property
    def outermost(self) -> "Source":
        """The line of the kernel's own text that everything here was inlined into."""
        return self.inlined_at.outermost if self.inlined_at else self

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction.

    ``opcode``: "add.s32"; ``parts``: the opcode split at its dots. ``line``: of the PTX text,
    counted from 1; ``index``: among the kernel's instructions.
    """

    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    text: str
    line: int
    index: int
    source: Source | None = None

    def has(self, part: str) -> bool:
        """Whether the opcode has this part: ``has("parity")``."""
        return part in self.parts


@dataclass(frozen=True)
class Variable:
    """A variable of a state space. ``bytes``: its size, None for ``extern .shared x[]``."""

    name: str
    space: str
    align: int
    bytes: int | None
    initial: bytes = b""


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter. ``type``: PTX type; ``bytes``: its size; ``offset``: in the block."""

    name: str
    type: str
    bytes: int
    offset: int


@dataclass(frozen=True)
class Kernel:
    """A kernel, parsed.

    ``rows``: registers of each width in bits (1, 8, 16, 32, 64). ``max_threads``, ``cluster``,
    ``max_registers``, ``min_blocks``: its performance directives, None where it states none.
    """

    name: str
    target: str
    parameters: tuple[Parameter, ...]
    variables: tuple[Variable, ...]
    code: tuple[Instruction, ...]
    rows: dict[int, int]
    max_threads: int | None = None
    exact_threads: bool = False
    cluster: tuple[int, int, int] | None = None
    explicit_cluster: bool = False
    max_registers: int | None = None
    min_blocks: int | None = None

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameter block."""
        last = self.parameters[-1] if self.parameters else None
        return last.offset + last.bytes if last else 0


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s*(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?"
    r"([\w$]+)(?:\[(\d+)\])?"
)
_VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:visible|extern|weak|common)\s+)*\.(global|const|shared|local)\s+"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)\s*"
    r"(?:=\s*([^;]*))?;",
    re.MULTILINE,
)
# One statement of a body. A brace inside a statement opens a vector, at its start a scope.
_STATEMENT = re.compile(
    r"\s*(?:(?P<loc>\.loc[^\n]*)|(?P<open>\{)|(?P<close>\})|(?P<label>[\w$]+)\s*:(?!:)"
    r"|(?P<text>[^;{}]*(?:\{[^{}]*\}[^;{}]*)*);)"
)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_GUARD = re.compile(r"@(!?)\s*([\w$%]+)\s+")
_RANGE = re.compile(r"(%?[\w$]+)<(\d+)>")
_ADDRESS = re.compile(r"([^+]+?)\s*(?:\+\s*(-?\w+))?")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_HEX_FLOAT = re.compile(r"(-?)0([fFdD])([0-9a-fA-F]+)")
_DECIMAL_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?")
_PACK = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(slots=True)
class _Scope:
    """The names of a pair of braces."""

    outer: "_Scope | None"
    types: dict[str, str] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)


@lru_cache(maxsize=64)
def parse(ptx: str, kernel: str) -> Kernel:
    """Parse one kernel of a PTX module.

    Raises PtxError for a kernel that the module has not (naming those it has), for a target other
    than sm_90a, and for a statement of unknown form, with its line.
    """
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), ptx.rstrip("\0"))
    target = re.search(r"\.target\s+([\w,\s]+?)\n", text)
    if not target:
        raise PtxError("no .target: this is not PTX; pass the .ptx of a compiled program")
    target = target[1].split(",")[0].strip()
    if target != "sm_90a":
        raise PtxError(
            f"PTX for {target}: the emulator is an sm_90a (wgmma exists only there); compile with "
            f"compile_cuda, or with -arch=sm_90a"
        )
    entries = {found[1]: found for found in _ENTRY.finditer(text)}
    if kernel not in entries:
        has = ", ".join(entries) or "none"
        raise PtxError(
            f"no kernel {kernel!r} in this PTX, which has {has}; C++ mangles names: declare the "
            f'kernel extern "C"'
        )
    header = entries[kernel]
    return _Parser(text, header).kernel(kernel, target)


class _Parser:
    """One pass over a kernel's body, then one over its statements once all labels are known."""

    def __init__(self, text: str, header: re.Match) -> None:
        self.text, self.header = text, header
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        self.files = {number: name.rsplit("/", 1)[-1] for number, name in _FILE.findall(text)}
        self.places: dict[tuple[str, ...], Source] = {}
        self.rows: dict[int, int] = {}
        self.variables = list(self._module_variables())
        self.immediates: dict[str, Immediate] = {}

    def kernel(self, name: str, target: str) -> Kernel:
        parameters = tuple(self._parameters(self.header[2] or ""))
        code = tuple(self._body(self.header.end()))
        directives = self.header[3]
        threads = re.search(r"\.(maxntid|reqntid)\s+([\d,\s]+)", directives)
        cluster = re.search(r"\.reqnctapercluster\s+([\d,\s]+)", directives)
        return Kernel(
            name,
            target,
            parameters,
            tuple(self.variables),
            code,
            dict(self.rows),
            max_threads=_product(threads[2]) if threads else None,
            exact_threads=bool(threads) and threads[1] == "reqntid",
            cluster=_three(cluster[1]) if cluster else None,
            explicit_cluster=".explicitcluster" in directives,
            max_registers=_number(r"\.maxnreg\s+(\d+)", directives),
            min_blocks=_number(r"\.minnctapersm\s+(\d+)", directives),
        )

    def _line(self, position: int) -> int:
        return bisect.bisect_left(self.newlines, position) + 1

    def _parameters(self, text: str):
        offset = 0
        for found in _PARAMETER.finditer(text):
            size = width(found[2]) // 8 * int(found[4] or 1)
            align = int(found[1] or width(found[2]) // 8)
            offset = -(-offset // align) * align
            yield Parameter(found[3], found[2], size, offset)
            offset += size

    def _module_variables(self):
        """Variables of the module and of this kernel; those of other functions stay out."""
        entry, end = self.header.start(), self._end_of_body(self.header.end())
        depth = 0
        position = 0
        outside = []
        # Only text outside all braces is the module's.
        for found in re.finditer(r"[{}]", self.text):
            at = found.start()
            if found[0] == "{":
                if depth == 0 and not self.text[position:at].rstrip().endswith("="):
                    outside.append((position, at))
                depth += 1
            else:
                depth -= 1
                if depth == 0 and self.text[at + 1 : at + 2] != ";":
                    position = at + 1
        outside.append((position, len(self.text)))
        for start, stop in [*outside, (entry, end)]:
            for found in _VARIABLE.finditer(self.text, start, stop):
                yield self._variable(found)

    def _end_of_body(self, position: int) -> int:
        depth = 1
        for found in re.compile(r"[{}]").finditer(self.text, position):
            depth += 1 if found[0] == "{" else -1
            if depth == 0:
                return found.start()
        raise PtxError(f"PTX line {self._line(position)}: the kernel's body has no end")

    def _variable(self, found: re.Match) -> Variable:
        space, align, kind, name, lengths, initial = found.groups()
        item = width(kind) // 8
        count: int | None = 1
        for length in re.findall(r"\[(\d*)\]", lengths):
            count = count * int(length) if length else None
        values = b""
        if initial:
            words = initial.strip().strip("{}").split(",")
            try:
                numbers = [int(word.strip().rstrip("U"), 0) for word in words]
            except ValueError:
                numbers = [_float_bits(word.strip(), item) for word in words]
            values = b"".join(
                struct.pack(f"<{_PACK[item]}", n & (1 << 8 * item) - 1) for n in numbers
            )
        size = None if count is None else count * item
        return Variable(name, space, int(align or item), size, values)

    def _body(self, position: int):
        """The instructions, in order."""
        scope = root = _Scope(None)
        waiting: list[tuple[str, int, _Scope, Source | None]] = []
        source = None
        while True:
            found = _STATEMENT.match(self.text, position)
            if not found:
                line = self._line(position)
                raise PtxError(f"PTX line {line}: no statement could be read from here")
            position = found.end()
            kind = found.lastgroup
            if kind == "open":
                scope = _Scope(scope)
            elif kind == "close":
                if scope is root:
                    break
                scope = scope.outer
            elif kind == "label":
                scope.labels[found["label"]] = len(waiting)
            elif kind == "loc":
                source = self._source(found["loc"])
            else:
                statement = found["text"].strip()
                if statement.startswith(".reg"):
                    _declare(scope, statement)
                elif statement and statement[0] != ".":
                    waiting.append((statement, found.start("text"), scope, source))
        for index, (statement, start, scope, source) in enumerate(waiting):
            line = self._line(start)
            try:
                yield self._instruction(statement, scope, line, index, source)
            except PtxError as error:
                raise PtxError(f"PTX line {line}: {statement[:100]}: {error}") from None

    def _source(self, loc: str) -> Source | None:
        found = _LOC.match(loc)
        if not found or found[2] == "0":
            return None
        place, call = found.groups()[:3], found.groups()[3:]
        outer = None
        if call[0]:
            # The place of the call has a .loc further up, which says where it was inlined itself.
            outer = self.places.get(call) or Source(self.files.get(call[0], "?"), int(call[1]))
        source = Source(self.files.get(place[0], "?"), int(place[1]), outer)
        self.places[place] = source
        return source

    def _instruction(
        self, statement: str, scope: _Scope, line: int, index: int, source: Source | None
    ) -> Instruction:
        rest, guard = statement, None
        if statement[0] == "@":
            found = _GUARD.match(statement)
            register = self._register(found[2], scope) if found else None
            if register is None:
                raise PtxError("the guard is not a declared predicate")
            guard = Guard(register, bool(found[1]))
            rest = statement[found.end() :]
        opcode, *operands = rest.split(None, 1)
        return Instruction(
            opcode,
            tuple(opcode.split(".")),
            tuple(self._operand(word, scope) for word in _split("".join(operands))),
            guard,
            statement,
            line,
            index,
            source,
        )

    def _register(self, name: str, scope: _Scope | None) -> Register | None:
        while scope is not None:
            if name in scope.registers:
                return scope.registers[name]
            if name in scope.types:
                kind = scope.types[name]
                bits = width(kind)
                row = self.rows.get(bits, 0)
                self.rows[bits] = row + 1
                scope.registers[name] = Register(name, kind, row)
                return scope.registers[name]
            scope = scope.outer
        return None

    def _operand(self, word: str, scope: _Scope) -> Operand:
        first = word[0]
        if first == "[":
            base, *coordinates = _split(word[1:-1])
            found = _ADDRESS.fullmatch(base)
            if not found:
                raise PtxError(f"an address of unknown form: {word}")
            offset = int(found[2], 0) if found[2] else 0
            vector = self._operand(coordinates[0], scope) if coordinates else None
            return Address(self._operand(found[1].strip(), scope), offset, vector)
        if first == "{":
            return Vector(tuple(self._operand(item, scope) for item in _split(word[1:-1])))
        if first == "!":
            return Not(self._operand(word[1:].strip(), scope))
        if first == "(":
            return Vector(tuple(self._operand(item, scope) for item in _split(word[1:-1])))
        if "|" in word:
            left, right = (self._operand(half.strip(), scope) for half in word.split("|"))
            return Pair(left, right)
        if word == "_":
            return Sink()
        register = self._register(word, scope)
        if register is not None:
            return register
        if first.isdigit() or first == "-":
            return self._immediate(word)
        inner: _Scope | None = scope
        while inner is not None:
            if word in inner.labels:
                return Label(word, inner.labels[word])
            inner = inner.outer
        return Symbol(word)

    def _immediate(self, word: str) -> Immediate:
        if word not in self.immediates:
            self.immediates[word] = _immediate(word)
        return self.immediates[word]


def _immediate(word: str) -> Immediate:
    if _INTEGER.fullmatch(word):
        digits = word.rstrip("U")
        octal = re.fullmatch(r"(-?)0([0-7]+)", digits)
        return Immediate(int(octal[1] + "0o" + octal[2], 0) if octal else int(digits, 0))
    found = _HEX_FLOAT.fullmatch(word)
    if found:
        bits = int(found[3], 16)
        single = found[2] in "fF"
        if found[1]:
            bits ^= 1 << (31 if single else 63)
        return Immediate(bits, "f32" if single else "f64")
    if _DECIMAL_FLOAT.fullmatch(word):
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(word)))[0], "f64")
    raise PtxError(f"a constant of unknown form: {word}")


def _float_bits(word: str, item: int) -> int:
    found = _HEX_FLOAT.fullmatch(word)
    if not found:
        raise PtxError(f"a variable's initial value {word!r} is not a number")
    bits = int(found[3], 16)
    return bits ^ (1 << 8 * item - 1) if found[1] else bits


def _declare(scope: _Scope, statement: str) -> None:
    """``.reg .b32 %r<10>;`` or ``.reg .pred p, q;``."""
    _, kind, names = statement.split(None, 2)
    for name in names.split(","):
        name = name.strip()
        found = _RANGE.fullmatch(name)
        if found:
            for number in range(int(found[2])):
                scope.types[f"{found[1]}{number}"] = kind[1:]
        else:
            scope.types[name] = kind[1:]


def _split(text: str) -> list[str]:
    """Operands: separated by commas outside brackets."""
    if "{" not in text and "[" not in text and "(" not in text:
        words = [word.strip() for word in text.split(",")]
        return [word for word in words if word]
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _three(text: str) -> tuple[int, int, int]:
    numbers = [int(word) for word in text.split(",") if word.strip()]
    return tuple((*numbers, 1, 1)[:3])


def _product(text: str) -> int:
    x, y, z = _three(text)
    return x * y * z
