"""wgmma: a warpgroup multiplies matrices that lie in shared memory, and goes on meanwhile.

PTX ISA, "Asynchronous warpgroup level matrix instructions". ``hopper.descriptor`` says where an
element lies, ``hopper.fragment`` which thread holds it, ``tensorcore`` what is computed.

An instruction reads its operands and writes its accumulators when it is issued; on the hardware
both happen at some moment until ``wait_group`` retires its group. A kernel that keeps the rules
cannot tell. Whether it keeps them is not decided here: the watch is told what each uses.

Left out, with an error that says so: single-bit operands and sparse A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy

from hopper.descriptor import CORE_ROWS, STEP_BYTES, UNIT_BYTES, Major, decode
from hopper.emulator.errors import Fault
from hopper.emulator.fragments import RegisterMatrix, a_words, d_words, first_lanes
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARPGROUP, Machine
from hopper.emulator.ptx import Immediate, Instruction, Operand, Vector
from hopper.emulator.spaces import SYSTEM_SHARED_BYTES
from hopper.emulator.tensorcore import multiply_add
from hopper.errors import ProblemError
from hopper.swizzle import atom_bytes

ROWS = 64
_FP8, _INT8 = ("e4m3", "e5m2"), ("s8", "u8")
_EIGHTS = tuple(range(8, 257, 8))
_INTEGER_N = (8, 24, *range(16, 257, 16))
#: Types of A and B -> bytes of an element, accumulator types.
FORMS: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    ("f16", "f16"): (2, ("f16", "f32")),
    ("bf16", "bf16"): (2, ("f32",)),
    ("tf32", "tf32"): (4, ("f32",)),
    **{(a, b): (1, ("f16", "f32")) for a in _FP8 for b in _FP8},
    **{(a, b): (1, ("s32",)) for a in _INT8 for b in _INT8},
}


@dataclass(frozen=True)
class Form:
    """What an opcode and its immediate operands say."""

    a: str
    b: str
    d: str
    n: int
    item_bytes: int
    satfinite: bool
    negate_a: bool
    negate_b: bool
    a_major: Major
    b_major: Major


class Groups:
    """Of each warpgroup: how many instructions it issued since its last commit, and how many each
    group has that is not retired.
    """

    def __init__(self, machine: Machine) -> None:
        count = machine.lane_count // WARPGROUP
        self.open = [0] * count
        self.committed: list[list[int]] = [[] for _ in range(count)]
        #: Groups committed so far; the next one retires as this plus one.
        self.commits = [0] * count


@executes("wgmma.fence", together=WARPGROUP)
def fence(machine: Machine, x: Instruction) -> Step:
    """Orders accesses to registers before later wgmmas: here all are in order."""
    _plain(x, ("wgmma", "fence", "sync", "aligned"), 0)

    def step(lanes: Lanes) -> None:
        for lane in first_lanes(machine, lanes, WARPGROUP).flat:
            machine.event("wgmma.fence", int(lane))
        if machine.watch:
            machine.watch.registers.fence(lanes)

    return step


@executes("wgmma.commit_group", together=WARPGROUP)
def commit_group(machine: Machine, x: Instruction) -> Step:
    """Closes a group, which may be empty."""
    _plain(x, ("wgmma", "commit_group", "sync", "aligned"), 0)
    groups = machine.unit(Groups)

    def step(lanes: Lanes) -> None:
        for lane in first_lanes(machine, lanes, WARPGROUP).flat:
            warpgroup = int(lane) // WARPGROUP
            groups.committed[warpgroup].append(groups.open[warpgroup])
            groups.open[warpgroup] = 0
            groups.commits[warpgroup] += 1
            machine.event("wgmma.commit", int(lane), instructions=groups.committed[warpgroup][-1])

    return step


@executes("wgmma.wait_group", together=WARPGROUP)
def wait_group(machine: Machine, x: Instruction) -> Step:
    """Retires all but the latest N groups."""
    _plain(x, ("wgmma", "wait_group", "sync", "aligned"), 1)
    left = _immediate(x, x.operands[0], range(1 << 31), "the number of groups is a constant")
    groups = machine.unit(Groups)

    def step(lanes: Lanes) -> None:
        for lane in first_lanes(machine, lanes, WARPGROUP).flat:
            warpgroup = int(lane) // WARPGROUP
            mine = groups.committed[warpgroup]
            retired = max(len(mine) - left, 0)
            del mine[:retired]
            machine.event("wgmma.wait", int(lane), pending=left, retired=retired)
            if machine.watch:
                machine.watch.retired(warpgroup, groups.commits[warpgroup] - len(mine))

    return step


@executes("wgmma.mma_async", together=WARPGROUP)
def mma_async(machine: Machine, x: Instruction) -> Step:
    """D = A · B + D, or D = A · B where scale-d is false."""
    it = _form(x)
    d = RegisterMatrix(machine, x, x.operands[0], d_words(ROWS, it.n, it.d == "f16"))
    in_registers = isinstance(x.operands[1], Vector)
    words = STEP_BYTES // 4
    if in_registers:
        a_registers = RegisterMatrix(machine, x, x.operands[1], a_words(ROWS, words))
    else:
        a_shared = _SharedOperand(machine, x.operands[1], "A", ROWS, it.item_bytes, it.a_major)
    b_shared = _SharedOperand(machine, x.operands[2], "B", it.n, it.item_bytes, it.b_major)
    scale_d = machine.read(x.operands[3], "pred")
    groups = machine.unit(Groups)
    kind = numpy.dtype(f"u{it.item_bytes}")
    halves = it.d == "f16"

    def multiply(a, b, c) -> numpy.ndarray:
        if c is not None and halves:
            c = c.view("u2")
        result = multiply_add(
            a,
            b,
            c,
            a_type=it.a,
            b_type=it.b,
            d_type=it.d,
            instruction="wgmma",
            negate_a=it.negate_a,
            negate_b=it.negate_b,
            satfinite=it.satfinite,
        )
        return numpy.ascontiguousarray(result).view("u4")

    def step(lanes: Lanes) -> None:
        first = first_lanes(machine, lanes, WARPGROUP)
        if in_registers:
            a, operands = a_registers.read(lanes, first).view(kind), [b_shared]
        else:
            a, a_pieces = a_shared.read(lanes, first)
            operands = [a_shared, b_shared]
        b, b_pieces = b_shared.read(lanes, first)
        read = [b_pieces] if in_registers else [a_pieces, b_pieces]
        adds = _uniform(machine, scale_d, lanes, first, "scale-d")
        if adds.all():
            result = multiply(a, b, d.read(lanes, first))
        elif not adds.any():
            result = multiply(a, b, None)
        else:
            result = d.read(lanes, first)
            result[adds] = multiply(a[adds], b[adds], result[adds])
            result[~adds] = multiply(a[~adds], b[~adds], None)
        d.write(lanes, first, result)
        for place, lane in enumerate(first.flat):
            warpgroup = int(lane) // WARPGROUP
            if machine.watch:
                pieces = [chunks[place] for chunks in read]
                machine.watch.issued(x, warpgroup, pieces, groups.commits[warpgroup] + 1)
            groups.open[warpgroup] += 1
            spans = [operand.spans[place] for operand in operands]
            machine.event("wgmma.issue", int(lane), instruction=x.opcode, reads=spans)

    return step


class _SharedOperand:
    """A matrix that a descriptor leads to. ``rows``: of A, or of B as (N, K)."""

    def __init__(
        self,
        machine: Machine,
        operand: Operand,
        name: str,
        rows: int,
        item_bytes: int,
        major: Major,
    ) -> None:
        self.machine, self.name, self.major = machine, name, major
        self.rows, self.item_bytes = rows, item_bytes
        self.descriptor = machine.read(operand, "u64")
        #: Of each warpgroup that read last: first shared address, and that behind the last.
        self.spans: list[tuple[int, int]] = []

    def read(self, lanes: Lanes, first: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The elements' bits, (groups, rows, K), and the 16-byte pieces that were read."""
        machine = self.machine
        name = f"the descriptor of {self.name}"
        values = _uniform(machine, self.descriptor, lanes, first, name)
        found, self.spans = [], []
        for value in values.tolist():
            chunks, low, high = _chunks(value, self.rows, self.item_bytes, self.major)
            if high >= machine.launch.shared_end or low < SYSTEM_SHARED_BYTES:
                raise self._outside(value, low, high)
            found.append(chunks)
            if machine.watch and (behind := _behind_atom(value)):
                machine.watch.placed(int(first.flat[0]), *behind)
            self.spans.append((low, high + 1))
        block = machine.block[first.reshape(-1)] * (machine.shared.window // UNIT_BYTES)
        chunks = numpy.stack(found) + block.reshape(-1, *[1] * found[0].ndim)
        pieces = machine.shared.view(numpy.dtype("u8")).reshape(-1, 2)[chunks]
        items = pieces.view(f"u{self.item_bytes}")
        if self.major == "MN":
            # (groups, rows / 8, K, 8 rows): a piece holds eight rows of one k.
            items = items.swapaxes(-1, -2)
        return items.reshape(len(chunks), self.rows, -1), chunks

    def _outside(self, value: int, low: int, high: int) -> Fault:
        machine, it = self.machine, decode(value)
        return Fault(
            f"the descriptor of {self.name} ({value:#x}: start {it.start:#x}, leading byte offset "
            f"{it.leading}, stride byte offset {it.stride}, swizzle {it.swizzle}) makes "
            f"{self.rows} rows reach from {low:#x} to {high:#x}, and the block owns shared "
            f"addresses {SYSTEM_SHARED_BYTES:#x} up to {machine.launch.shared_end:#x}; correct "
            f"start or offsets, or give the tile more shared memory",
            "shared-out-of-bounds",
        )


@lru_cache(maxsize=8192)
def _behind_atom(value: int) -> tuple[int, int] | None:
    """Start of a tile and bytes of its swizzle atom, where its rows do not start with an atom's."""
    it = decode(value)
    rows = it.start - 128 * it.base_offset & -128
    atom = atom_bytes(it.swizzle) if it.swizzle else 128
    return (rows, atom) if rows % atom else None


@lru_cache(maxsize=8192)
def _chunks(value: int, rows: int, item_bytes: int, major: Major) -> tuple[numpy.ndarray, int, int]:
    """Which 16-byte pieces of a block an operand takes, and the first and last byte of them.

    K-major: (rows, 2); MN-major: (rows / 8, K). Raises Fault for what is no descriptor.
    """
    items = UNIT_BYTES // item_bytes
    if major == "K":
        r, k = numpy.indices((rows, STEP_BYTES // UNIT_BYTES))
        k *= items
    else:
        r, k = numpy.indices((rows // CORE_ROWS, STEP_BYTES // item_bytes))
        r *= CORE_ROWS
    try:
        address = decode(value).address(r, k, major=major, item_bytes=item_bytes)
    except ProblemError as error:
        raise Fault(str(error), "descriptor") from None
    chunks = address // UNIT_BYTES
    chunks.setflags(write=False)
    return chunks, int(address.min()), int(address.max()) + UNIT_BYTES - 1


def _uniform(
    machine: Machine,
    read: Callable[[Lanes], numpy.ndarray],
    lanes: Lanes,
    first: numpy.ndarray,
    name: str,
) -> numpy.ndarray:
    """One value a warpgroup. Raises Fault where its threads do not agree."""
    values = machine.each(read, lanes).reshape(first.shape[0], WARPGROUP)
    same = values == values[:, :1]
    if not same.all():
        group, thread = (int(place) for place in numpy.argwhere(~same)[0])
        raise Fault(
            f"{name} is {values[group, 0]:#x} in thread 0 and {values[group, thread]:#x} in thread "
            f"{thread} of the warpgroup ({machine.place(int(first.flat[group]))} is its first): "
            f"all 128 threads pass the same; compute it from what they have in common"
        )
    return values[:, 0]


def _form(x: Instruction) -> Form:
    """Raises Unsupported for what ptxas refuses, and for what is left out."""
    parts = [part for part in x.parts if part != "satfinite"]
    if parts[:4] != ["wgmma", "mma_async", "sync", "aligned"] or len(parts) != 8:
        raise unsupported(x, "the emulator executes dense wgmma.mma_async.sync.aligned only")
    shape, d, a, b = parts[4:]
    if (a, b) not in FORMS:
        raise unsupported(x, f"the emulator has no wgmma of .{a} and .{b}")
    item_bytes, accumulators = FORMS[a, b]
    if d not in accumulators:
        raise unsupported(x, f"the accumulator of .{a} and .{b} is {' or '.join(accumulators)}")
    depth = STEP_BYTES // item_bytes
    legal = _INTEGER_N if d == "s32" else _EIGHTS
    n = next((n for n in legal if shape == f"m64n{n}k{depth}"), None)
    if n is None:
        raise unsupported(
            x, f"shapes of .{a} are m64nNk{depth} with N = {', '.join(map(str, sorted(legal)))}"
        )
    satfinite = x.has("satfinite")
    if satfinite and d != "s32":
        raise unsupported(x, ".satfinite belongs to integers")
    if len(x.operands) < 4:
        raise unsupported(x, "it takes D, A, B and scale-d")
    in_registers = isinstance(x.operands[1], Vector)
    signs = 0 if d == "s32" else 2
    transposes = 0 if item_bytes != 2 else 1 if in_registers else 2
    if isinstance(x.operands[3], Immediate):
        _immediate(x, x.operands[3], (0, 1), "scale-d is a predicate, 0 or 1")
    constants = x.operands[4:]
    if len(constants) != signs + transposes:
        raise unsupported(x, f"{signs + transposes} constants follow scale-d in this form")
    sign = [_immediate(x, it, (1, -1), "a sign is 1 or -1") for it in constants[:signs]]
    flags = [_immediate(x, it, (0, 1), "a transposition is 0 or 1") for it in constants[signs:]]
    majors: list[Major] = ["MN" if flag else "K" for flag in flags]
    majors = ["K"] * (2 - len(majors)) + majors
    negate = [value == -1 for value in sign] or [False, False]
    return Form(a, b, d, n, item_bytes, satfinite, *negate, *majors)


def _immediate(x: Instruction, operand: Operand, allowed, rule: str) -> int:
    if not isinstance(operand, Immediate) or operand.value not in allowed:
        raise unsupported(x, rule)
    return operand.value


def _plain(x: Instruction, parts: tuple[str, ...], operands: int) -> None:
    if x.parts != parts or len(x.operands) != operands:
        raise unsupported(x, f"the form is {'.'.join(parts)}")
