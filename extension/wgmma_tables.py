"""Reference tables of the instruction, computed from `hopper.instruction` and its neighbours.

`{wgmma-table} types` lists the types with their K and N, `options` what they can be told, `shapes`
every N with its registers, `operands` where A and B may be and how they may lie, `constants` what
follows scale-d, `modes` the codes of the swizzles, `alignments` what they do to addresses,
`offsets` where a descriptor's two offsets lead, `advance` how far it is to the next instruction
along K, and `steps` how many instructions a row of a swizzled tile feeds. A test asks ptxas about
their cells.
"""

from dataclasses import dataclass
from itertools import product

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.freshness import note_computed
from extension.tables import table
from hopper.descriptor import STEP_BYTES, SWIZZLE_CODE, Major, k_step
from hopper.descriptor.mistakes import TENSOR_MAP_CODE
from hopper.descriptor.sentences import DIRECTIONS
from hopper.instruction import (
    FLOAT_N,
    INTEGER_N,
    KINDS,
    Kind,
    M,
    accumulator_registers,
    operand_bytes,
)
from hopper.swizzle import SPANS, alignment, swizzled

Cell = nodes.Node | str
PLACES = ("shared", "registers")
_YES, _NO = "yes", "no"


@dataclass(frozen=True)
class Content:
    """A table. ``widths``: of its columns, in shares; headings and cells wrap inside them."""

    headings: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    widths: tuple[int, ...]


def families() -> dict[str, tuple[Kind, ...]]:
    """Names of the types of A and B, "e4m3, e5m2" where they may be mixed -> instructions."""
    found: dict[str, list[Kind]] = {}
    for one in KINDS:
        partners = ", ".join(dict.fromkeys(other.b for other in KINDS if other.a == one.a))
        found.setdefault(partners, []).append(one)
    for names, kinds in found.items():
        each = names.split(", ")
        accumulators = {one.d for one in kinds}
        if {(one.a, one.b, one.d) for one in kinds} != set(product(each, each, accumulators)):
            raise ValueError(f"{names}: not every mixture of these exists")
    return {names: tuple(kinds) for names, kinds in found.items()}


def _classes() -> dict[str, tuple[Kind, ...]]:
    """Names of types -> instructions whose operands are handled alike."""
    alike: dict[tuple, list[str]] = {}
    for names, kinds in families().items():
        (how,) = {(one.majors, one.signs) for one in kinds}
        alike.setdefault(how, []).append(names)
    every = families()
    return {
        ", ".join(names): tuple(one for name in names for one in every[name])
        for names in alike.values()
    }


CLASSES = _classes()


def _listed(names: tuple[str, ...] | list[str]) -> nodes.Node:
    cell = nodes.inline()
    for number, name in enumerate(names):
        cell += [nodes.Text(", ")] if number else []
        cell += nodes.literal("", name)
    return cell


def types() -> Content:
    """A row for each family of types: accumulators, K and N."""
    rows = []
    for names, kinds in families().items():
        one = kinds[0]
        allowed = "8, 24, multiples of 16" if one.integer else "multiples of 8"
        held = list(dict.fromkeys(other.d for other in kinds))
        rows.append((_listed(names.split(", ")), _listed(held), f"{one.depth}", allowed))
    return Content(("A and B", "D", "K", "N"), rows, (5, 4, 2, 6))


def options() -> Content:
    """A row for each family of types: what it can be told, and its name in machine code."""
    rows = []
    for names, kinds in families().items():
        one = kinds[0]
        told = {"negate": one.signs, "MN-major": "MN" in one.majors, "saturate": one.saturates}
        allowed = ", ".join(name for name, there in told.items() if there)
        rows.append((_listed(names.split(", ")), allowed, nodes.literal("", one.machine_name)))
    return Content(("A and B", "Allows", "In SASS"), rows, (3, 5, 3))


def shapes() -> Content:
    """A row for each N: the registers of a thread that hold D, and what is read of B."""
    heads = ("N", "Registers for D in f32, s32", "for D in f16", "Bytes of B")
    rows = [
        (
            f"{n}",
            f"{accumulator_registers('f32', n)}{'' if n in INTEGER_N else ', f32 only'}",
            f"{accumulator_registers('f16', n)}",
            f"{operand_bytes(n):,}",
        )
        for n in FLOAT_N
    ]
    return Content(heads, rows, (3, 6, 4, 4))


def operands() -> Content:
    """A row for each way in which A and B may be given."""
    sixteen = {names: kinds for names, kinds in CLASSES.items() if kinds[0].item_bytes == 2}
    (transposed,) = sixteen
    others = tuple(one for one in KINDS if one not in sixteen[transposed])
    rows = []
    for place, a_major, b_major in product(PLACES, ("K", "MN"), ("K", "MN")):
        answers = []
        for kinds in (sixteen[transposed], others):
            (legal,) = {one.refusal(M, place, a_major, b_major) is None for one in kinds}
            answers.append(_YES if legal else _NO)
        rows.append((f"{place}, {a_major}-major", f"{b_major}-major", *answers))
    return Content(("A", "B", transposed, "others"), rows, (5, 4, 3, 4))


def constants() -> Content:
    """A row for each class of types and place of A: what follows scale-d in PTX."""
    names = ("imm-scale-a", "imm-scale-b")
    transposed = {"shared": ("imm-trans-a", "imm-trans-b"), "registers": ("imm-trans-b",)}
    rows = []
    for heading, kinds in CLASSES.items():
        one = kinds[0]
        for place in PLACES:
            given = names * one.signs + transposed[place] * (len(one.majors) == 2)
            if len(given) != one.constants(place):
                raise ValueError(f"{one.types}: {given} are not {one.constants(place)} constants")
            rows.append((heading, place, _listed(given) if given else "none"))
    return Content(("A and B", "A is in", "Constants behind scale-d"), rows, (3, 3, 4))


def modes() -> Content:
    """A row for each swizzle: its codes."""
    rows = [
        (f"{span or 'none'}", f"{SWIZZLE_CODE[span]}", f"{TENSOR_MAP_CODE[span]}") for span in SPANS
    ]
    heads = ("Span, bytes", "Mode of a descriptor", "Code in a tensor map")
    return Content(heads, rows, (3, 4, 4))


def alignments() -> Content:
    """A row for each swizzle: its XOR, and where a tile may start."""
    rows = []
    for span in SPANS:
        bits = [bit for bit in (4, 5, 6) if swizzled(8 << bit, span) != 8 << bit]
        last = bits[-1] if bits else 0
        exchange = f"4–{last} with 7–{last + 3}" if last > 4 else "4 with 7"
        rows.append((f"{span or 'none'}", exchange if bits else "none", f"{alignment(span):,}"))
    return Content(("Span, bytes", "XOR of bits", "Aligned to, bytes"), rows, (3, 4, 4))


def _layouts() -> list[tuple[str, Major, int]]:
    return [
        (f"{major}-major, {'swizzled' if span else 'no swizzle'}", major, span)
        for major, span in product(("K", "MN"), (0, 128))
    ]


def offsets() -> Content:
    """A row for each major, with and without a swizzle: where the offsets lead."""
    rows = []
    for name, major, span in _layouts():
        leading, stride = DIRECTIONS[major][bool(span)]
        rows.append((name, leading.format(e="span ÷ 2"), stride))
    return Content(("Layout", "Leading byte offset", "Stride byte offset"), rows, (3, 4, 4))


def advance() -> Content:
    """A row for each major, with and without a swizzle: from one instruction to the next."""
    rows = []
    for name, major, span in _layouts():
        step = k_step(1, major=major, swizzle=span, leading=1 << 12, stride=1 << 16)
        words = {STEP_BYTES: "32 bytes", 2 << 12: "2 × leading", 2 << 16: "2 × stride"}
        rows.append((name, words[step]))
    return Content(("Layout", "Add to the start"), rows, (1, 1))


def steps() -> Content:
    """A row for each span: what it holds, and how many instructions it feeds."""
    rows = [
        (
            f"{span}",
            ", ".join(f"{span // size}" for size in (1, 2, 4)),
            f"{span // STEP_BYTES}",
            f"{span // 2}",
        )
        for span in SPANS
        if span
    ]
    heads = ("Span, bytes", "K in 8, 16, 32 bits", "Steps along K", "MN-major: rows")
    return Content(heads, rows, (3, 5, 4, 4))


TABLES = {
    made.__name__: made
    for made in (
        types,
        options,
        shapes,
        operands,
        constants,
        modes,
        alignments,
        offsets,
        advance,
        steps,
    )
}


class WgmmaTable(SphinxDirective):
    """`wgmma-table` with one argument, the name of the table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table; an error names those there are."""
        note_computed(self.env, self.env.docname)
        if self.arguments[0] not in TABLES:
            raise self.error(
                f"wgmma-table {self.arguments[0]!r}: choose one of {', '.join(TABLES)}"
            )
        content = TABLES[self.arguments[0]]()
        made = table(content.headings, content.rows, classes=["book-words", "colwidths-given"])
        for column, width in zip(made.findall(nodes.colspec), content.widths, strict=True):
            column["colwidth"] = width
        return [made]


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("wgmma-table", WgmmaTable)
