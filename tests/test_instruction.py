"""Which instructions there are: module and tables against ptxas, emulator and machine code."""

import re
from itertools import product

import pytest
from docutils import nodes
from ptxas import refused_by_ptxas, refused_by_the_emulator, vector

from extension.wgmma_tables import CLASSES, TABLES
from hopper import fragment, tensormap
from hopper.compile import compile_cuda
from hopper.conformance import wgmma as conformance
from hopper.descriptor import Descriptor
from hopper.descriptor.mistakes import mistakes
from hopper.emulator import wgmma as emulated
from hopper.errors import ProblemError
from hopper.figures.warpgroup import accumulator_registers as drawn_registers
from hopper.instruction import (
    A_REGISTERS,
    FLOAT_N,
    INTEGER_N,
    ITEM_BYTES,
    KINDS,
    Kind,
    accumulator_registers,
    kind,
    operand_bytes,
)
from hopper.placement import Placement
from hopper.swizzle import SPANS, swizzled

TYPES = tuple(ITEM_BYTES)
PLACES = ("shared", "registers")


def instruction(
    one: Kind,
    n: int,
    place: str = "shared",
    tail: tuple[int, ...] | None = None,
    *,
    saturate: bool = False,
) -> str:
    """PTX with as many accumulators as the module says, and constants behind scale-d."""
    if tail is None:
        tail = (1, 1)[: 2 * one.signs] + (0, 0)[: one.constants(place) - 2 * one.signs]
    first = vector("r", A_REGISTERS, 130) if place == "registers" else "d0"
    held = vector("f" if one.d == "f32" else "r", accumulator_registers(one.d, n))
    opcode = one.opcode(n) + ".satfinite" * saturate
    return f"{opcode} {held}, {first}, d1, p{''.join(f', {value}' for value in tail)};"


def agree(wanted: dict[str, bool]) -> None:
    """ptxas and the emulator accept what the module calls legal, and nothing else."""
    refused = refused_by_ptxas(list(wanted))
    assert set(wanted.values()) == {True, False}
    for text, legal in wanted.items():
        assert (text not in refused) == legal, (text, refused.get(text))
        assert (refused_by_the_emulator(text) is None) == legal, text


# ---- the module ---------------------------------------------------------------------------------


def test_all_combinations_of_types_are_legal_where_the_module_has_them():
    agree(
        {
            instruction(one, 16): one in KINDS
            for one in (Kind(a, b, d) for a, b, d in product(TYPES, TYPES, ("f16", "f32", "s32")))
        }
    )


def test_every_n_is_legal_where_the_module_has_it():
    some = [kind(*types) for types in (("f16", "f16", "f32"), ("u8", "s8", "s32"))]
    some.append(kind("e4m3", "e5m2", "f16"))
    wanted = {}
    for one, n in product(some, (*FLOAT_N, 4, 12, 264)):
        place = PLACES[n // 8 % 2]
        legal = one.refusal(n, place, "K", "K") is None
        assert legal == (n in one.every_n)
        if n <= 256:
            wanted[instruction(one, n, place)] = legal
    agree(wanted)


def test_signs_transpositions_and_saturation_are_legal_where_the_module_has_them():
    wanted = {}
    for one, place in product(KINDS, PLACES):
        for count in range(5):
            legal = count == one.constants(place)
            for tail in {(1,) * min(count, 2) + (0,) * (count - 2), (-1, 1, 1, 1)[:count]}:
                wanted[instruction(one, 24, place, tail)] = legal
        wanted[instruction(one, 32, place, saturate=True)] = one.saturates
    agree(wanted)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("b_major", ["K", "MN"])
@pytest.mark.parametrize("a_major", ["K", "MN"])
def test_majors_are_legal_where_constants_can_ask_for_them(place, a_major, b_major):
    """A transposition that has no constant cannot be asked for; ptxas has just counted them."""
    asked = [a_major, b_major] if place == "shared" else [b_major]
    for one in KINDS:
        flags = one.constants(place) - 2 * one.signs
        unasked = (a_major, b_major)[: 2 - flags]
        possible = "MN" not in unasked and flags in (0, len(asked))
        assert (one.refusal(64, place, a_major, b_major) is None) == possible, one


def test_emulator_conformance_and_figures_have_the_same_types_and_shapes():
    forms = {Kind(a, b, d): size for (a, b), (size, held) in emulated.FORMS.items() for d in held}
    assert forms == {one: one.item_bytes for one in KINDS}
    assert INTEGER_N == tuple(sorted(conformance.INTEGER_N))
    assert FLOAT_N == conformance.EVERY_N
    for n in FLOAT_N:
        assert accumulator_registers("f32", n) == drawn_registers(n)


def test_fragments_fill_the_registers_that_are_counted():
    for n in (8, 72, 256):
        _, register = fragment.holder(63, n - 1)
        assert register + 1 == accumulator_registers("f32", n) == accumulator_registers("s32", n)
        _, register, half = fragment.f16_holder(63, n - 1)
        assert (register + 1, half) == (accumulator_registers("f16", n), 1)
    for size in (1, 2, 4):
        assert fragment.a_holder(63, 32 // size - 1, item_bytes=size)[1] + 1 == A_REGISTERS


ALL_KINDS = r"""
#include "wgmma.cuh"
template <typename Instruction, typename T, int kRegisters>
__device__ void issue(unsigned long long descriptor, T* out) {
  T d[kRegisters] = {};
  wgmma_fence();
  Instruction::ss(d, descriptor, descriptor, true);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int r = 0; r < kRegisters; ++r) out[r * 128 + threadIdx.x] = d[r];
}
extern "C" __global__ void k(unsigned long long descriptor, float* f32, int* s32, unsigned* f16) {
  CALLS
}"""


def test_machine_code_calls_them_so():
    held = {"f32": "float", "s32": "int", "f16": "unsigned"}
    calls = "\n  ".join(
        f"issue<wgmma_{one.d}_{one.a}_{one.b}<8>, {held[one.d]}, "
        f"{accumulator_registers(one.d, 8)}>(descriptor, {one.d} + {number} * 1024);"
        for number, one in enumerate(KINDS)
    )
    sass = compile_cuda(ALL_KINDS.replace("CALLS", calls), "k").sass()
    for name in ("HGMMA", "QGMMA", "IGMMA"):
        expected = sum(one.machine_name == name for one in KINDS)
        assert expected and sass.count(name) == expected, name


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: kind("bf16", "bf16", "f16"), r"\.f16\.bf16\.bf16: wgmma has no such types.*tf32"),
        (lambda: KINDS[0].refusal(64, "global", "K", "K"), "place='global'"),
        (lambda: KINDS[0].refusal(64, "shared", "M", "K"), "a_major='M'"),
        (lambda: KINDS[0].refusal(64, "shared", "K", "N"), "b_major='N'"),
    ],
)
def test_what_nothing_has_is_refused(call, named):
    with pytest.raises(ProblemError, match=named):
        call()


@pytest.mark.parametrize(
    ("types", "how", "named"),
    [
        (("s8", "s8", "s32"), (40, "shared", "K", "K"), "N=40: .*16, 24, 32, then multiples of 16"),
        (("f16", "f16", "f32"), (20, "shared", "K", "K"), "N=20: .*multiples of 8"),
        (("f16", "f16", "f32"), (64, "registers", "MN", "K"), "A in registers is not transposed"),
        (("tf32", "tf32", "f32"), (64, "shared", "K", "MN"), "32-bit operands; 16-bit ones are"),
    ],
)
def test_a_refusal_says_why(types, how, named):
    assert re.search(named, kind(*types).refusal(*how))


# ---- the tables ---------------------------------------------------------------------------------


def cells(name: str) -> tuple[tuple[str, ...], list[list[str]]]:
    made = TABLES[name]()
    heads, rows = made.headings, made.rows
    plain = [
        [cell.astext() if isinstance(cell, nodes.Node) else cell for cell in row] for row in rows
    ]
    assert {len(row) for row in plain} == {len(heads)} == {len(made.widths)}
    return heads, plain


def test_the_tables_of_types_and_options_say_what_ptxas_accepts():
    (_, types), (_, options) = cells("types"), cells("options")
    assert [row[0] for row in types] == [row[0] for row in options]
    wanted, listed = {}, []
    for (names, held, k, allowed), (_, allows, _) in zip(types, options, strict=True):
        rule = {
            "multiples of 8": lambda n: n % 8 == 0,
            "8, 24, multiples of 16": lambda n: n in (8, 24) or n % 16 == 0,
        }[allowed]
        each = names.split(", ")
        for a, b, d in product(each, each, held.split(", ")):
            one = kind(a, b, d)
            listed.append(one)
            assert f"k{k}.{d}" in one.opcode(8)
            for n in (8, 24, 40, 48, 56, 72, 200, 208, 248, 256):
                wanted[instruction(one, n)] = rule(n)
            tail = (-1, -1) * ("negate" in allows) + (1, 1) * ("MN-major" in allows)
            wanted[instruction(one, 64, "shared", tail)] = True
            wanted[instruction(one, 80, saturate=True)] = "saturate" in allows
    assert sorted(listed, key=str) == sorted(KINDS, key=str)
    agree(wanted)


def test_the_table_of_shapes_counts_registers_and_bytes():
    _, rows = cells("shapes")
    assert [int(row[0]) for row in rows] == list(range(8, 257, 8))
    wanted = {}
    for n, words, halves, size in rows:
        n, integers = int(n), "only" not in words
        words = words.split(",")[0]
        assert 128 * int(words) == 64 * n and 2 * int(halves) == int(words)
        assert int(size.replace(",", "")) == n * 32 == operand_bytes(n)
        for types, registers, legal in (
            (".f32.bf16.bf16", words, True),
            (".s32.s8.s8", words, integers),
        ):
            depth = 16 if "bf16" in types else 32
            opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}"
            held = vector("f" if "f32" in types else "r", int(registers))
            tail = ", 1, 1, 0, 0" if "bf16" in types else ""
            wanted[f"{opcode}{types} {held}, d0, d1, p{tail};"] = legal
    agree(wanted)


def test_the_tables_of_operands_and_constants_belong_together():
    """A cell says yes where the constants of that place can ask for it, and ptxas takes them."""
    given = {(kinds, place): names for kinds, place, names in cells("constants")[1]}
    (_, _, *columns), rows = cells("operands")
    assert columns == ["f16, bf16", "others"] and len(rows) == 8
    assert {one for kinds in CLASSES.values() for one in kinds} == set(KINDS)
    wanted = {}
    for a, b, *answers in rows:
        place, a_major = a.split(", ")
        for heading in CLASSES:
            answer = answers[heading != "f16, bf16"]
            names = given[heading, place].replace("none", "")
            flags = {"imm-trans-a": a_major == "MN-major", "imm-trans-b": b == "MN-major"}
            possible = all(name in names for name, needed in flags.items() if needed)
            assert (answer == "yes") == possible, (a, b, heading)
            tail = tuple(
                int(flags[name]) if name in flags else 1 for name in names.split(", ") if name
            )
            for one in CLASSES[heading]:
                wanted[instruction(one, 16, place, tail)] = True
                wanted[instruction(one, 16, place, (*tail, 1))] = False
    assert sum(answer == "yes" for row in rows for answer in row[2:]) == 6 + 2
    agree(wanted)


def test_the_table_of_swizzles_says_how_addresses_and_tiles_are():
    (_, modes), (_, alignments) = cells("modes"), cells("alignments")
    assert [row[0] for row in modes] == [row[0] for row in alignments]
    assert len(modes) == 4
    for (span, mode, code), (_, exchange, least) in zip(modes, alignments, strict=True):
        size = 0 if span == "none" else int(span)
        one = Descriptor(0x400, 16, 8 * size or 256, swizzle=size)
        assert one.encode() >> 62 == int(mode)
        assert tensormap._SWIZZLE[size] == int(code)
        numbers = [int(n) for n in re.findall(r"\d", exchange)]
        low, high = (numbers[0], numbers[1] if len(numbers) > 2 else numbers[0]) if size else (4, 3)
        mask = (1 << high - low + 1) - 1
        for address in range(0, 4096, 16):
            assert swizzled(address, size) == address ^ (address >> 7 & mask) << low
        least = int(least.replace(",", ""))
        aligned = Descriptor(0x400 + least, 128, 8 * size or 256, swizzle=size)
        assert mistakes(aligned.encode(), major="K") == ()
        if size:
            between = Descriptor(0x400 + least // 2, 128, 8 * size, swizzle=size)
            assert [each.key for each in mistakes(between.encode(), major="K")] == [
                "start-inside-atom"
            ]


#: What a direction of the table says, as rows and k (of 16-bit elements).
LEADS = {
    "to the next 16 bytes along K": lambda span: (0, 8),
    "to the next 8 of k": lambda span: (0, 8),
    "to the next 8 rows": lambda span: (8, 0),
    "to the next span ÷ 2 rows": lambda span: (span // 2, 0),
}


def test_the_table_of_offsets_leads_where_it_says():
    (_, rows), (_, further) = cells("offsets"), cells("advance")
    assert [row[0] for row in rows] == [row[0] for row in further]
    assert len(rows) == 4
    for (layout, leading, stride), (_, step) in zip(rows, further, strict=True):
        major, which = layout.split("-major, ")
        for span in (0,) if which == "no swizzle" else SPANS[:3]:
            tile = Placement(128, span // 2 if major == "K" and span else 64, major, span)
            for length, words in ((tile.leading, leading), (tile.stride, stride)):
                if words == "unused":
                    assert mistakes(tile.descriptor(0x400).encode() | 0x3FFF << 16, major="K") == ()
                else:
                    assert tile.offset(*LEADS[words](span)) == length
            added = {"32 bytes": 32, "2 × leading": 2 * tile.leading, "2 × stride": 2 * tile.stride}
            if tile.depth > 16:
                assert tile.descriptor(0, 1).start == added[step]


def test_the_table_of_steps_says_how_deep_a_row_is():
    _, rows = cells("steps")
    assert len(rows) == 3
    for span, held, steps, across in rows:
        span = int(span)
        for size, items in zip((1, 2, 4), held.split(", "), strict=True):
            tile = Placement(64, int(items), "K", span, size)
            starts = [tile.descriptor(0x400, step).start for step in range(int(steps))]
            assert starts == [0x400 + 32 * step for step in range(int(steps))]
            behind = Descriptor(starts[-1] + 32, 16, 8 * span, swizzle=span).encode()
            assert mistakes(behind, major="K", swizzle=span), "it has left the row"
        wide = Descriptor(0x400, 0, 8 * span, swizzle=span).encode()
        assert mistakes(wide, major="MN", rows=int(across), swizzle=span) == ()
        assert mistakes(wide, major="MN", rows=int(across) + 8, swizzle=span) != ()
