"""Launch facts: what a kernel tells its launcher, read back from its PTX.

A kernel file states each fact once, ``LAUNCH_FACT(tile_m, TILE_M)``, with the macro of
``kernels/include/launch_facts.cuh``. The macro makes a constant, which the compiler evaluates
and prints in the PTX: ``.const .align 4 .u32 fact_tile_m = 128;``. So the launcher and
the kernel cannot disagree, ``-D`` on the command line included, and nothing parses C++.
"""

import re
from dataclasses import MISSING, asdict, dataclass, fields
from math import prod

from hopper.errors import CompileError

# A constant whose value is 0 is printed without an initialiser.
_FACT = re.compile(r"\.const \.align 4 \.[ub]32 fact_(\w+)(?: = (\d+))?;")
_COMMENT = re.compile(r"//[^\n]*")


@dataclass(frozen=True)
class LaunchFacts:
    """How to launch a kernel of the ladder, and on what.

    ``tile_m``, ``tile_n``, ``tile_k``: elements of A·Bᵀ one block computes, and of K one stage
    holds. ``stages``: how many (A, B) tile pairs shared memory holds. ``threads``: a block's.
    ``shared_bytes``: dynamic shared memory to pass at launch. ``cluster``: blocks a cluster,
    1 without clusters.

    The others only such a kernel states that has them. ``bf16``: 1 where its matrices are bf16.
    ``c_rows``, ``c_columns``: elements of C that one TMA store writes; the kernel takes a tensor
    map of C and no pointer. ``a_rows``, ``b_rows``: rows that one TMA load brings, where those are
    fewer than the tile's. ``persistent``: 1 where a block takes tile after tile, so that there are
    at most as many as run at once. ``partial_floats``, ``flags``: of the workspace, for each block.
    ``places``: 1 where it takes the numbers of its clusters by place on the chip. ``fp16_sums``: 1
    where sums are rounded to fp16 step by step.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    stages: int
    threads: int
    shared_bytes: int
    cluster: int
    bf16: int = 0
    c_rows: int = 0
    c_columns: int = 0
    a_rows: int = 0
    b_rows: int = 0
    persistent: int = 0
    partial_floats: int = 0
    flags: int = 0
    places: int = 0
    fp16_sums: int = 0

    @property
    def dtype(self) -> str:
        """The element type of A, B and C."""
        return "bfloat16" if self.bf16 else "float16"

    @property
    def a_box(self) -> tuple[int, int]:
        """Rows and columns of A that one TMA load brings."""
        return (self.a_rows or self.tile_m, self.tile_k)

    @property
    def b_box(self) -> tuple[int, int]:
        """Rows and columns of B, stored (N, K), that one TMA load brings."""
        return (self.b_rows or self.tile_n, self.tile_k)

    @property
    def c_box(self) -> tuple[int, int] | None:
        """Rows and columns of C that one TMA store writes; None where threads store."""
        return (self.c_rows, self.c_columns) if self.c_rows else None

    def as_dict(self) -> dict[str, int]:
        """The stated facts by name, as a record keeps them."""
        return {n: value for n, value in asdict(self).items() if n not in OPTIONAL or value}


#: What a kernel need not state: it is 0 then.
OPTIONAL = frozenset(f.name for f in fields(LaunchFacts) if f.default is not MISSING)


def entries(ptx: str) -> list[str]:
    """Names of the kernels in a PTX text, in order."""
    return re.findall(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)", ptx, re.MULTILINE)


def threads_directive(ptx: str, kernel: str) -> int | None:
    """Threads a block that the kernel's ``.reqntid`` or ``.maxntid`` states, None without one."""
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\b([^{{]*)\{{", ptx)
    directive = re.search(r"\.(?:req|max)ntid\s+([\d, ]+)", head[1]) if head else None
    return prod(int(n) for n in directive[1].split(",")) if directive else None


def stated_facts(ptx: str) -> dict[str, int]:
    """Every ``fact_<name>`` constant of a PTX text; empty where the kernel states none."""
    return {name: int(value or 0) for name, value in _FACT.findall(_COMMENT.sub("", ptx))}


def read_launch_facts(ptx: str, kernel: str) -> LaunchFacts:
    """The launch facts that ``kernel``'s PTX states.

    Raises CompileError when one is missing, or when the launch bounds contradict ``threads``.
    """
    stated = stated_facts(ptx)
    names = [field.name for field in fields(LaunchFacts)]
    missing = [name for name in names if name not in stated and name not in OPTIONAL]
    if missing:
        raise CompileError(
            f"{kernel} does not state {', '.join(missing)}: a launcher needs every launch fact; "
            f"add LAUNCH_FACT({missing[0]}, value) from launch_facts.cuh to the kernel file"
        )
    facts = LaunchFacts(**{name: stated[name] for name in names if name in stated})
    bound = threads_directive(ptx, kernel)
    if bound is not None and bound != facts.threads:
        raise CompileError(
            f"{kernel} states threads = {facts.threads}, its launch bounds say {bound}: both must "
            f"agree; use one constant for LAUNCH_FACT(threads, …) and __launch_bounds__"
        )
    return facts
