"""Run one PTX instruction over arrays in the emulator: an element a thread."""

import numpy

from hopper.emulator import Emulator
from hopper.emulator.types import bits_type, width

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def ptx_of(text: str, results: list[str], sources: list[str]) -> str:
    """A kernel around ``text``, in which ``%r0 …`` are results and ``%s0 …`` sources."""
    names = [f"r{i}" for i in range(len(results))] + [f"s{i}" for i in range(len(sources))]
    types = [*results, *sources]
    parameters = ", ".join(f".param .u64 p{name}" for name in names)
    lines = [
        HEAD,
        f".visible .entry k({parameters}) {{",
        ".reg .b64 %at, %base; .reg .b32 %tid, %n, %c, %x, %flag;",
        "mov.u32 %x, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %c, %ctaid.x;",
        "mad.lo.u32 %tid, %c, %n, %x;",
    ]
    for name, kind in zip(names, types, strict=True):
        lines.append(f".reg .{kind if kind == 'pred' else f'b{width(kind)}'} %{name};")
    for name, kind in zip(names, types, strict=True):
        size = 1 if kind == "pred" else width(kind) // 8
        lines.append(f"ld.param.u64 %base, [p{name}]; mad.wide.u32 %at, %tid, {size}, %base;")
        if name[0] == "s" and kind == "pred":
            lines.append(f"ld.global.u8 %flag, [%at]; setp.ne.u32 %{name}, %flag, 0;")
        elif name[0] == "s":
            lines.append(f"ld.global.b{8 * size} %{name}, [%at];")
    lines.append(text)
    for name, kind in zip(names, types, strict=True):
        if name[0] == "r":
            size = 1 if kind == "pred" else width(kind) // 8
            lines.append(f"ld.param.u64 %base, [p{name}]; mad.wide.u32 %at, %tid, {size}, %base;")
            if kind == "pred":
                lines.append(f"selp.u32 %flag, 1, 0, %{name}; st.global.u8 [%at], %flag;")
            else:
                lines.append(f"st.global.b{8 * size} [%at], %{name};")
    return "\n".join([*lines, "ret;", "}"])


def run(text: str, results: list[str], sources: list[str], *arrays, **how) -> list[numpy.ndarray]:
    """Execute ``text`` for each element. Returns the results' bits (bool for predicates)."""
    arrays = [numpy.ascontiguousarray(array) for array in arrays]
    count = arrays[0].size
    block = 128
    padded = -(-count // block) * block
    given = []
    for array, kind in zip(arrays, sources, strict=True):
        bits = numpy.dtype("u1") if kind == "pred" else bits_type(kind)
        whole = numpy.zeros(padded, bits)
        whole[:count] = array.view(bits)
        given.append(whole)
    made = [
        numpy.full(padded, 0xEE, "u1" if kind == "pred" else bits_type(kind)) for kind in results
    ]
    Emulator(**how).launch(
        ptx_of(text, results, sources),
        "k",
        (padded // block, 1, 1),
        (block, 1, 1),
        args=made + given,
    )
    return [
        out[:count].astype(bool) if kind == "pred" else out[:count]
        for out, kind in zip(made, results, strict=True)
    ]


def one(opcode: str, result: str, sources: list[str], *arrays) -> numpy.ndarray:
    """``opcode result, source …`` for each element."""
    operands = ", ".join(["%r0", *[f"%s{i}" for i in range(len(sources))]])
    return run(f"{opcode} {operands};", [result], sources, *arrays)[0]
