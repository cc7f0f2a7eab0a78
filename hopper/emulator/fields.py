"""Bit fields, counts and byte permutations (PTX ISA, "Integer Arithmetic" and "Data Movement")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, apply, elementwise, expect, form
from hopper.emulator.instructions import Step, unsupported
from hopper.emulator.ptx import Immediate, Instruction
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

_ONES = numpy.uint32(0xFFFFFFFF)


@form(r"bfe\.(?P<type>[us](?:32|64))")
def extract(machine: Machine, x: Instruction, how: Form) -> Step:
    """The field of ``c`` bits from bit ``b`` up; a signed one repeats its topmost bit.

    A signed field that reaches past the register repeats the register's topmost bit; an empty one
    is 0. Position and length are the low 8 bits of their operands, but for 64 bits ptxas makes
    shifts of it, which look at all of them; then a signed field longer than the register repeats
    only that register's sign, as the shift does (probe case alu.bits.64).
    """
    expect(x, 4)
    _check_constants(x)
    kind, (position, length) = how["type"], x.operands[2:]
    if kind[0] == "u" and isinstance(position, Immediate) and isinstance(length, Immediate):
        wanted = numpy_type(kind)
        start, count = (min(operand.value, int(kind[1:])) for operand in (position, length))
        shift, kept = wanted.type(start), wanted.type((1 << count) - 1)
        put, read = machine.write(x.operands[0], kind), machine.read(x.operands[1], kind)
        return apply(put, lambda a: a >> shift & kept, [read])
    return elementwise(machine, x, _extracts(kind), kind, (kind, "u32", "u32"))


def _check_constants(x: Instruction) -> None:
    for operand in x.operands[-2:]:
        if isinstance(operand, Immediate) and not 0 <= operand.value <= 255:
            raise unsupported(x, f"{operand.value}: a field's place and length are 0 to 255")


def _counts(kind: str):
    """Positions or lengths that the instruction takes for uint32 operands: at most the width."""
    low, full = numpy.uint32(0xFF if kind[1:] == "32" else 0xFFFFFFFF), numpy.uint32(kind[1:])
    return lambda values: numpy.minimum(values & low, full)


def _extracts(kind: str):
    unsigned = numpy.dtype(f"u{int(kind[1:]) // 8}")
    counted, full, one = _counts(kind), numpy.uint32(kind[1:]), unsigned.type(1)
    before = numpy.uint32(1)

    def compute(a, position, length):
        start, count = counted(position), counted(length)
        # The register's sign comes in from above where the field reaches past the top.
        field = (a >> start.astype(a.dtype)).view(unsigned)
        mask = (one << count.astype(unsigned)) - one
        if kind[0] == "u":
            return field & mask
        last = numpy.minimum(count - before, full).astype(unsigned)
        negative = (field >> last & one).astype(bool)
        return numpy.where(negative, field | ~mask, field & mask)

    return compute


@form(r"bfi\.(?P<type>b32|b64)")
def insert(machine: Machine, x: Instruction, how: Form) -> Step:
    """``b`` with its field of ``d`` bits from bit ``c`` up replaced by the low bits of ``a``.

    Position and length are the low 8 bits of their operands, for 64 bits all of them; what reaches
    past the top is dropped.
    """
    _check_constants(x)
    kind = how["type"]
    wanted = numpy_type(kind)
    counted, one = _counts(kind), wanted.type(1)

    def compute(a, b, position, length):
        position, length = counted(position).astype(wanted), counted(length).astype(wanted)
        field = ((one << length) - one) << position
        return (a << position & field) | (b & ~field)

    return elementwise(machine, x, compute, kind, (kind, kind, "u32", "u32"))


@form(r"szext\.(?P<mode>clamp|wrap)\.(?P<type>[us]32)")
def extend(machine: Machine, x: Instruction, how: Form) -> Step:
    """The low ``b`` bits, extended with zeros (u32) or with the topmost of them (s32).

    ``.wrap`` takes 5 bits of ``b``; with ``.clamp`` 32 and more leave ``a`` as it is.
    """
    signed, clamp = how["type"] == "s32", how["mode"] == "clamp"
    low, one = numpy.uint32(31), numpy.uint32(1)

    def compute(a, b):
        count = b & low
        whole = (b > low) if clamp else numpy.bool_(False)
        mask = numpy.where(whole, numpy.uint32(0), _ONES << count)
        if not signed:
            return a & ~mask
        negative = (a >> (count - one & low) & one).astype(bool) & (count > 0)
        return numpy.where(negative, a & ~mask | mask, a & ~mask)

    return elementwise(machine, x, compute, "b32", ("b32", "u32"))


@form(r"bmsk\.(?P<mode>clamp|wrap)\.b32")
def mask(machine: Machine, x: Instruction, how: Form) -> Step:
    """``b`` ones from bit ``a`` up. ``.wrap`` takes 5 bits of each; ``.clamp`` stops at 32."""
    wrap, low, most = how["mode"] == "wrap", numpy.uint32(31), numpy.uint32(32)

    def compute(a, b):
        a, b = (a & low, b & low) if wrap else (numpy.minimum(a, most), numpy.minimum(b, most))
        # A count of 32 shifts everything out.
        return (_ONES << a) & ~(_ONES << numpy.minimum(a + b, most))

    return elementwise(machine, x, compute, "b32", ("u32", "u32"))


@form(r"popc\.(?P<type>b32|b64)")
def population(machine: Machine, x: Instruction, how: Form) -> Step:
    """How many bits are set."""
    return elementwise(machine, x, numpy.bitwise_count, "u32", (how["type"],))


@form(r"clz\.(?P<type>b32|b64)")
def leading_zeros(machine: Machine, x: Instruction, how: Form) -> Step:
    """How many zeros stand above the topmost set bit: the width where there is none."""
    bits = numpy.uint32(how["type"][1:])
    return elementwise(machine, x, lambda a: bits - bit_length(a), "u32", (how["type"],))


@form(r"bfind(?P<amount>\.shiftamt)?\.(?P<type>[us](?:32|64))")
def find(machine: Machine, x: Instruction, how: Form) -> Step:
    """Place of the topmost bit that is set (of a negative number: clear), all ones for none.

    ``.shiftamt``: how far it is from the top instead.
    """
    kind, one = how["type"], numpy.uint32(1)
    top = numpy.uint32(int(kind[1:]) - 1)

    def compute(a):
        if kind[0] == "s":
            a = numpy.where(a < 0, ~a, a).astype(f"u{a.dtype.itemsize}")
        place = bit_length(a) - one
        return numpy.where(place == _ONES, place, top - place) if how["amount"] else place

    return elementwise(machine, x, compute, "u32", (kind,))


def bit_length(values: numpy.ndarray) -> numpy.ndarray:
    """Bits of unsigned numbers up to the topmost set one, as uint32: 0 for 0."""
    if values.dtype.itemsize == 8:
        upper, lower = values >> numpy.uint64(32), values & numpy.uint64(0xFFFFFFFF)
        above = bit_length(upper.astype(numpy.uint32)) + numpy.uint32(32)
        return numpy.where(upper > 0, above, bit_length(lower.astype(numpy.uint32)))
    # Exact in f64, whose exponent counts the bits.
    return numpy.frexp(values.astype(numpy.float64))[1].astype(numpy.uint32)


@form(r"brev\.(?P<type>b32|b64)")
def reverse(machine: Machine, x: Instruction, how: Form) -> Step:
    """The bits in opposite order."""
    wanted = numpy_type(how["type"])
    swaps = []
    for distance in (1, 2, 4, 8, 16, 32)[: int.bit_length(wanted.itemsize) + 2]:
        ones = (1 << distance) - 1
        pattern = sum(ones << at for at in range(0, 8 * wanted.itemsize, 2 * distance))
        swaps.append((wanted.type(distance), wanted.type(pattern)))

    def compute(a):
        for distance, pattern in swaps:
            a = (a >> distance & pattern) | (a & pattern) << distance
        return a

    return elementwise(machine, x, compute, how["type"], (how["type"],))


@form(r"fns\.b32")
def find_nth(machine: Machine, x: Instruction, how: Form) -> Step:
    """Place of the n-th set bit of ``mask`` from bit ``base``, upward or (n < 0) downward.

    n = 0 asks for ``base`` itself; n = 1 is the first one there or beyond. All ones: there is none,
    as for a base outside the mask, which the PTX ISA leaves undefined (probe case alu.bits.32).
    """

    def compute(bits, base, n):
        # One row a place, one column a lane: which places count, in the order of the search.
        bits, base, n = numpy.broadcast_arrays(bits, base, n)
        place = numpy.arange(32, dtype=numpy.int64)[:, None]
        base, n = base.astype(numpy.int64), n.astype(numpy.int64)
        on = (bits >> place.astype(numpy.uint32) & numpy.uint32(1)).astype(bool)
        up = numpy.cumsum(on & (place >= base), axis=0)
        down = numpy.cumsum((on & (place <= base))[::-1], axis=0)[::-1]
        hit = numpy.where(n > 0, (up == n) & (place >= base), (down == -n) & (place <= base))
        hit = on & numpy.where(n == 0, place == base, hit) & (base < 32)
        found = numpy.where(hit.any(axis=0), hit.argmax(axis=0), 0xFFFFFFFF)
        # -2**31 has no opposite: ptxas' loop then ends with 0 (probe case alu.bits.32).
        return numpy.where(n == -(1 << 31), 0, found)

    return elementwise(machine, x, compute, "b32", ("b32", "u32", "s32"))


#: Selectors of ``prmt`` by mode and by the low two bits of ``c`` (PTX ISA, prmt).
_SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


@form(r"prmt\.b32(?:\.(?P<mode>f4e|b4e|rc8|ecl|ecr|rc16))?")
def permute(machine: Machine, x: Instruction, how: Form) -> Step:
    """Four of the eight bytes ``b:a``, each chosen by four bits of ``c``.

    The fourth of these bits fills the byte with copies of the chosen byte's sign.
    """
    selector = x.operands[3] if len(x.operands) == 4 else None
    if not how["mode"] and isinstance(selector, Immediate) and not selector.value & 0x8888:
        kinds = ("b32", "b32", "b32")
        return elementwise(machine, x, _constant_permutation(selector.value), "b32", kinds)
    modes = numpy.array(_SELECTORS.get(how["mode"], ()), numpy.uint32)
    low, one = numpy.uint32(3), numpy.uint32(1)
    half, byte, seven = numpy.uint64(32), numpy.uint64(0xFF), numpy.uint64(7)

    def compute(a, b, c):
        both = b.astype(numpy.uint64) << half | a
        selector = modes[c & low] if modes.size else c
        result = numpy.uint32(0)
        for place in range(4):
            chosen = selector >> numpy.uint32(4 * place)
            shift = (chosen & numpy.uint32(7)) * numpy.uint32(8)
            value = both >> shift.astype(numpy.uint64) & byte
            signs = chosen >> low & one
            if signs.any():
                value = numpy.where(signs, (value >> seven) * byte, value)
            result = result | value.astype(numpy.uint32) << numpy.uint32(8 * place)
        return result

    return elementwise(machine, x, compute, "b32", ("b32", "b32", "b32"))


def _constant_permutation(selector: int):
    """A permutation whose selector is known: bytes that move equally far move together."""
    moves: dict[tuple[bool, int], int] = {}
    for place in range(4):
        chosen = selector >> 4 * place & 7
        move = chosen > 3, place - chosen % 4
        moves[move] = moves.get(move, 0) | 0xFF << 8 * place
    steps = [
        (upper, numpy.uint32(8 * abs(far)), far > 0, numpy.uint32(mask))
        for (upper, far), mask in moves.items()
    ]

    def compute(a, b, c):
        result = None
        for upper, distance, left, mask in steps:
            source = b if upper else a
            part = (source << distance if left else source >> distance) & mask
            result = part if result is None else result | part
        return result

    return compute
