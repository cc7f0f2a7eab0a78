"""A kernel's mutants: its PTX with one synchronisation instruction dropped or changed.

What is changed: fences, commits, waits, arrivals and what they count, parities, announced bytes,
barriers, the order of two neighbours, ``setmaxnreg``, clusters' addresses and barriers, copies,
and of ``wgmma`` its descriptors and modes. A mutant is an edit of the PTX's text, so that each says
which line it changed, and into what.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hopper.emulator.mutation_text import (
    added,
    answered,
    computed,
    doubled,
    moved,
    predicate,
    rewritten,
    words,
)
from hopper.emulator.ptx import Immediate, Instruction, Kernel, Label, Register, Sink, Vector
from hopper.emulator.ptx import Operand as PtxOperand
from hopper.errors import HopperError

#: What an instruction becomes: the change in words, and the new text.
Change = tuple[str, str]


@dataclass(frozen=True)
class Mutant:
    """A kernel with one instruction changed.

    ``name``: "mbarrier.init #1: count + 1", the instruction counted among those of its kind.
    ``line``: of the PTX; ``source``: of CUDA C++, where the kernel itself says it; ``text``: the
    instruction as it was. ``edits``: line, old text and new text.
    """

    name: str
    line: int
    source: str
    text: str
    edits: tuple[tuple[int, str, str], ...]

    def applied(self, ptx: str) -> str:
        """The mutant's PTX. Raises HopperError where an instruction is not where it was."""
        lines = ptx.split("\n")
        for line, old, new in self.edits:
            if lines[line - 1].count(old) != 1:
                raise HopperError(
                    f"{self.name}: {old[:60]!r} does not stand once in line {line} of the PTX; "
                    f"make the mutants of the PTX that is to be changed"
                )
            lines[line - 1] = lines[line - 1].replace(old, new)
        return "\n".join(lines)


def mutants(kernel: Kernel) -> list[Mutant]:
    """Every mutant of a kernel, in the order of its code."""
    slices = {
        **_found(kernel, "phase flip", _flips(kernel)),
        **_found(kernel, "descriptor", _descriptors(kernel)),
    }
    labels = {o.index for x in kernel.code for o in x.operands if isinstance(o, Label)}
    number: Counter[str] = Counter()
    made = []
    for x in kernel.code:
        operation, changes = slices.get(x.index) or _rule(x)
        if not operation:
            continue
        number[operation] += 1
        what = f"{operation} #{number[operation]}"
        for told, new in changes(x, kernel):
            made.append(_mutant(x, f"{what}: {told}", ((x.line, x.text, new),)))
        behind = _neighbour(kernel, x, labels)
        if behind:
            edits = ((x.line, x.text, ""), (behind.line, behind.text, f"{behind.text}; {x.text}"))
            told = f"moved behind the next {_rule(behind)[0]}"
            made.append(_mutant(x, f"{what}: {told}", edits))
    return made


def _mutant(x: Instruction, name: str, edits: tuple[tuple[int, str, str], ...]) -> Mutant:
    source = x.source
    while source and source.inlined_at:
        source = source.inlined_at
    return Mutant(name, x.line, str(source or ""), _shortened(x.text), edits)


def _shortened(text: str) -> str:
    """An instruction without the middle of a long list of registers."""
    text = " ".join(text.split())
    return re.sub(r"\{([^{},]*),[^{}]{40,},([^{},]*)\}", r"{\1, … \2}", text)


# ---- changes by operation -----------------------------------------------------------------------


def _drop(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""


def _drop_or_double(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""
    yield "doubled", doubled(x)


def _proxy_fence(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""
    if not x.has("global"):
        yield "of global memory only", rewritten(x, opcode="fence.proxy.async.global")


def _wait_group(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""
    yield "one group more may run", added(x, 0, 1)
    if x.opcode.startswith("cp.async.bulk") and not x.has("read"):
        yield "for reads only", rewritten(x, opcode=f"{x.opcode}.read")


def _init(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""
    yield "count + 1", added(x, 1, 1)
    yield "count - 1", added(x, 1, -1)


def _arrive(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "doubled", doubled(x)
    yield "at the next barrier", moved(x, 1, 8)
    if not isinstance(x.operands[0], Sink):
        yield "dropped", rewritten(x, {0: words(x)[0]}, opcode="mov.b64").split(",")[0] + ", 0"
    else:
        yield "dropped", ""
    if x.has("expect_tx"):
        yield "16 bytes more", added(x, 2, 16)
        yield "16 bytes less", added(x, 2, -16)
        state, address, count = words(x)
        plain = x.opcode.replace(".expect_tx", "")
        yield "announces nothing", f"{plain} {state}, {address}"
        space = "".join(f".{part}" for part in x.parts if part.startswith("shared"))
        yield "announces only", f"mbarrier.expect_tx{space}.b64 {address}, {count}"
    elif len(x.operands) == 3:
        yield "count + 1", added(x, 2, 1)
    if not x.has("relaxed") and not x.has("noComplete"):
        yield "relaxed", rewritten(x, opcode=_relaxed(x.opcode, "release"))


def _relaxed(opcode: str, order: str) -> str:
    """An mbarrier's opcode without its memory order."""
    if f".{order}." in opcode:
        return opcode.replace(f".{order}.", ".relaxed.")
    return re.sub(r"((?:\.shared[:\w]*)?\.b64)$", r".relaxed.cta\1", opcode)


def _expect(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield from _drop_or_double(x, kernel)
    yield "16 bytes more", added(x, 1, 16)
    yield "16 bytes less", added(x, 1, -16)
    yield "at the next barrier", moved(x, 0, 8)


def _wait(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", answered(x, 0)
    if x.has("parity"):
        yield "the other parity", computed(x, 2, "b32", "xor.b32 {}, 1")
    yield "at the next barrier", moved(x, 1, 8)
    if not x.has("relaxed"):
        yield "relaxed", rewritten(x, opcode=_relaxed(x.opcode, "acquire"))


def _barrier(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""
    named = len(x.operands) > 1 and not x.has("red")
    yield "another named barrier" if named else "another id", added(x, 0, 1)
    if named:
        yield "32 threads more", added(x, 1, 32)
        yield "32 threads less", added(x, 1, -32)
    elif kernel.max_threads and kernel.max_threads > 32 and not x.has("red"):
        half = kernel.max_threads // 64 * 32
        yield "for half of the threads", f"{x.text}, {half}"


def _cluster_arrive(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""
    if not x.has("relaxed"):
        opcode = x.opcode.replace(".release", "").replace(".arrive", ".arrive.relaxed")
        yield "relaxed", rewritten(x, opcode=opcode)


def _registers(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", ""
    yield "8 registers more", added(x, 0, 8)
    yield "8 registers less", added(x, 0, -8)


def _elect(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "everyone is elected", answered(x, 0)
    yield "nobody is elected", answered(x, 0, holds=False)


def _mapa(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "another block", computed(x, 2, "b32", "xor.b32 {}, 1")


def _copy(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    """Bulk copies, by tensor map or not: who is told, what is moved, how often."""
    yield from _drop_or_double(x, kernel)
    barriers = [part for part in x.parts if part.startswith("mbarrier::")]
    written, tensor = words(x), x.has("tensor")
    barrier = (2 if tensor else 3) if barriers else 0
    if barrier:
        yield "reports to the next barrier", moved(x, barrier, 8)
        swapped = {0: written[barrier], barrier: written[0]}
        yield "destination and barrier swapped", rewritten(x, swapped)
        yield "lands 128 bytes further", moved(x, 0, 128)
    if tensor:
        place = next(i for i, word in enumerate(written) if "{" in word)
        inner = re.search(r"\{([^{}]*)\}", written[place])[1].split(",")
        if len({word.strip() for word in inner}) > 1:
            turned = ",".join([*inner[1:], inner[0]])
            text = written[place].replace(",".join(inner), turned)
            yield "coordinates turned", rewritten(x, {place: text})
    else:
        yield "16 bytes less", added(x, 2, -16)
    if any(part.startswith("multicast") for part in x.parts):
        mask = barrier + 1
        yield "to one block less", computed(x, mask, "b16", "and.b16 {}, 0xfffe")


def _store_async(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield from _drop_or_double(x, kernel)
    yield "reports to the next barrier", moved(x, 2, 8)


def _weaker(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    """A load, store or atomic operation that orders others does so no longer."""
    order = re.compile(r"\.(acquire|release|acq_rel)\b")
    if order.search(x.opcode):
        yield "relaxed", rewritten(x, opcode=order.sub(".relaxed", x.opcode))


def _mma(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    """``wgmma.mma_async d, a, b, scale-d, scale-a, scale-b, transposed a, transposed b``."""
    yield from _drop_or_double(x, kernel)
    written = words(x)
    adds = _known(kernel, x.operands[3])
    if adds is not True:
        yield "adds to D always", predicate(x, 3, True)
    if adds is not False:
        yield "adds to D never", predicate(x, 3, False)
    in_registers = isinstance(x.operands[1], Vector)
    if not in_registers:
        yield "A and B swapped", rewritten(x, {1: written[2], 2: written[1]})
    if len(written) > 4:
        yield "A negated", rewritten(x, {4: str(-int(written[4]))})
    for place, name in zip(range(6, len(written)), "B" if in_registers else "AB", strict=False):
        yield f"{name} transposed", rewritten(x, {place: str(1 - int(written[place]))})


def _known(kernel: Kernel, operand: PtxOperand) -> bool | None:
    """A predicate that is a constant: what the inlined test of a literal argument leaves."""
    by = [x for x in kernel.code if operand in x.operands[:1]]
    if len(by) != 1 or by[0].parts[:2] != ("setp", "ne"):
        return None
    value, zero = by[0].operands[1:3]
    moves = [x for x in kernel.code if value in x.operands[:1]]
    if len(moves) == 1 and moves[0].parts[0] == "mov":
        value = moves[0].operands[1]
    if isinstance(value, Immediate) and isinstance(zero, Immediate):
        return value.value != zero.value
    return None


Rule = Callable[[Instruction, Kernel], Iterator[Change]]

#: By the beginning of the opcode; the longest that fits counts.
RULES: dict[str, Rule] = {
    "fence": _drop,
    "fence.proxy.async": _proxy_fence,
    "membar": _drop,
    "wgmma.fence": _drop,
    "wgmma.commit_group": _drop_or_double,
    "wgmma.wait_group": _wait_group,
    "wgmma.mma_async": _mma,
    "cp.async.commit_group": _drop_or_double,
    "cp.async.wait_group": _wait_group,
    "cp.async.wait_all": _drop,
    "cp.async.mbarrier.arrive": _drop_or_double,
    "cp.async.bulk": _copy,
    "cp.async.bulk.commit_group": _drop_or_double,
    "cp.async.bulk.wait_group": _wait_group,
    "cp.reduce.async.bulk": _copy,
    "mbarrier.init": _init,
    "mbarrier.inval": _drop,
    "mbarrier.arrive": _arrive,
    "mbarrier.arrive_drop": _arrive,
    "mbarrier.expect_tx": _expect,
    "mbarrier.complete_tx": _expect,
    "mbarrier.test_wait": _wait,
    "mbarrier.try_wait": _wait,
    "bar": _barrier,
    "bar.warp": _drop,
    "barrier": _barrier,
    "barrier.cluster.arrive": _cluster_arrive,
    "barrier.cluster.wait": _drop,
    "setmaxnreg": _registers,
    "elect": _elect,
    "mapa": _mapa,
    "griddepcontrol": _drop,
    "st.async": _store_async,
    "red.async": _store_async,
    "ld": _weaker,
    "st": _weaker,
    "atom": _weaker,
    "red": _weaker,
}
_PREFETCHES = "cp.async.bulk.prefetch"  # hints


def _rule(x: Instruction) -> tuple[str, Rule]:
    """The operation of a synchronisation instruction, and how it is changed; "" for others."""
    if x.opcode.startswith(_PREFETCHES):
        return "", _drop
    for length in range(len(x.parts), 0, -1):
        rule = RULES.get(".".join(x.parts[:length]))
        if rule:
            ordinary = rule is _weaker and not next(rule(x, None), None)
            return "" if ordinary else ".".join(_spoken(x)), rule
    return "", _drop


def _spoken(x: Instruction) -> list[str]:
    """The parts of an opcode that say what it does, without how and where."""
    keep = 3 if x.parts[0] in ("cp", "barrier", "fence") else 2
    how = ("sync", "aligned", "global", "shared")
    parts = [part for part in x.parts[:keep] if part.split("::")[0] not in how]
    if x.opcode.startswith(("cp.async.bulk.commit", "cp.async.bulk.wait", "cp.async.bulk.tensor")):
        parts.append(x.parts[3])
    if x.parts[0] in ("bar", "barrier", "setmaxnreg", "elect") and x.parts[1] != "cluster":
        parts = list(x.parts[:2])
    return parts


# ---- the order of two neighbours ----------------------------------------------------------------


def _neighbour(kernel: Kernel, x: Instruction, labels: set[int]) -> Instruction | None:
    """The next synchronisation instruction, where ``x`` can be moved behind it.

    It must lie in the same piece of straight code, be of another kind, and what ``x`` names must be
    known there: a wait is a loop with names of its own.
    """
    moves = ("fence", "membar", "wgmma", "bar", "barrier", "mbarrier", "cp", "setmaxnreg", "red")
    if x.parts[0] not in moves or _local_names(x) or x.opcode.startswith("mbarrier.t"):
        return None
    for y in kernel.code[x.index + 1 :]:
        if y.index in labels or y.parts[0] in ("bra", "ret", "exit", "trap"):
            return None
        operation = _rule(y)[0]
        if operation:
            fits = operation not in (_rule(x)[0], "mapa") and not y.opcode.startswith("mbarrier.t")
            return y if fits else None
    return None


def _local_names(x: Instruction) -> bool:
    """Whether an instruction names registers of a scope of inline assembly."""
    named = re.findall(r"(?<![\w%.$:])[a-z]\w*\b", " ".join(words(x)))
    return bool(named)


# ---- what an operand was computed by ------------------------------------------------------------


def _found(kernel: Kernel, operation: str, changes: dict[int, Rule]) -> dict[int, tuple[str, Rule]]:
    return {index: (operation, rule) for index, rule in changes.items()}


def _sources(kernel: Kernel, operands: list[PtxOperand], through: tuple[str, ...]) -> set[int]:
    """Indices of instructions that computed operands, by moves and arithmetic named."""
    by_register: dict[Register, list[Instruction]] = {}
    for x in kernel.code:
        if x.parts[0] in through and x.operands and isinstance(x.operands[0], Register):
            by_register.setdefault(x.operands[0], []).append(x)
    found: set[int] = set()
    left = [operand for operand in operands if isinstance(operand, Register)]
    while left:
        for x in by_register.get(left.pop(), ()):
            if x.index not in found:
                found.add(x.index)
                left += [o for o in x.operands[1:] if isinstance(o, Register)]
    return found


def _flips(kernel: Kernel) -> dict[int, Rule]:
    """Where the parity of the next phase is computed."""
    parities = [x.operands[2] for x in kernel.code if x.parts[0] == "mbarrier" and x.has("parity")]
    found = _sources(kernel, parities, ("mov", "selp", "xor", "and", "not"))
    return {index: _unflipped for index in found if kernel.code[index].parts[0] == "xor"}


def _unflipped(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    yield "dropped", f"mov.b32 {', '.join(words(x)[:2])}"


def _descriptors(kernel: Kernel) -> dict[int, Rule]:
    """Where the constant fields of a matrix descriptor are put together."""
    operands = [
        operand
        for x in kernel.code
        if x.opcode.startswith("wgmma.mma_async")
        for operand in x.operands[1:3]
    ]
    found = _sources(kernel, operands, ("mov", "or", "add", "and", "shr", "shl", "cvt"))
    return {index: _fields for index in found if _constant(kernel.code[index]) is not None}


def _constant(x: Instruction) -> int | None:
    """The place of a descriptor's constant fields among the operands."""
    if x.parts[0] not in ("mov", "or", "add") or not x.parts[-1].endswith("64"):
        return None
    for place, operand in enumerate(x.operands):
        if isinstance(operand, Immediate) and operand.value & (1 << 64) - (1 << 32):
            return place
    return None


def _fields(x: Instruction, kernel: Kernel) -> Iterator[Change]:
    """Leading and stride byte offset, base offset and swizzle (PTX ISA, "Matrix Descriptor")."""
    place = _constant(x)
    value = x.operands[place].value & (1 << 64) - 1
    for told, new in (
        ("leading byte offset + 16", value + (1 << 16)),
        ("stride byte offset + 16", value + (1 << 32)),
        ("base offset 1", value ^ 1 << 49),
        ("another swizzle", value ^ 3 << 62),
    ):
        yield told, rewritten(x, {place: str(new)})
