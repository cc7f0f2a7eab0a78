#!/usr/bin/env python3
"""Writes wgmma_operands.cuh: the operand lists that inline PTX needs for every accumulator size.

Inline assembly can neither loop nor count, and a wgmma names each accumulator register. So for
each count R this writes three macros; wgmma.cuh builds every instruction from them.

    python3 kernels/include/wgmma_operands.py > kernels/include/wgmma_operands.cuh
"""

FOLLOWING = 9  # operands after the accumulators: RS needs 4 A registers, B, scale-d, 3 immediates


def header() -> str:
    """The text of wgmma_operands.cuh: registers a thread, R = N/2 (32-bit) or N/4 (packed f16)."""
    counts = sorted({n // 2 for n in range(8, 257, 8)} | {n // 4 for n in range(8, 257, 8)})
    lines = [
        "// Made by wgmma_operands.py; do not edit. For R accumulator registers:",
        "//   WGMMA_LIST_R           their names in the PTX text",
        "//   WGMMA_REGS_R(c, d)     their constraints",
        "//   WGMMA_ARGi_R           the name of the i-th operand after them (i = 0 … 8)",
        "#pragma once",
    ]
    for r in counts:
        names = ",".join(f"%{i}" for i in range(r))
        regs = ",".join(f"c(d[{i}])" for i in range(r))
        lines.append(f'#define WGMMA_LIST_{r} "{names}"')
        lines.append(f"#define WGMMA_REGS_{r}(c,d) {regs}")
        lines.extend(f'#define WGMMA_ARG{i}_{r} "%{r + i}"' for i in range(FOLLOWING))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(header(), end="")
