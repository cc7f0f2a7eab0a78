"""The steps of ``protocol_loop``, and what becomes of it without one, or with two swapped.

A change replaces text of the kernel, so what is broken is what the page quotes. The compiler and
the emulator judge a changed kernel here and now; ``protocol.py`` tries it on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import combinations

import numpy

from hopper.compile import Program, advisories, compile_cuda
from hopper.emulator import Emulator, Run
from hopper.errors import HopperError
from hopper.paths import KERNELS
from hopper.tensormap import TensorMap

KERNEL = "protocol_loop"
ROWS, THREADS = 64, 256
#: A broken rule has to be found on some order; copies that land at once come first, because a
#: mistake then tells most about itself.
SCHEDULES = (
    Emulator(on_hazard="collect", tma="eager"),
    Emulator(on_hazard="collect"),
    Emulator(on_hazard="collect", schedule="random", tma="random", seed=1),
)


@cache
def kernel_text() -> str:
    """The kernel as written."""
    return (KERNELS / f"{KERNEL}.cu").read_text()


@dataclass(frozen=True)
class Step:
    """A step of one of the two loops, or of what follows. ``part``: "bring", "multiply", "end".

    ``name``: short, for a page. ``begins``: with what its text in the kernel begins; it ends
    before what ``until`` begins with, or else with its line. ``shown``: stands in the line that
    tells most.
    """

    key: str
    part: str
    name: str
    begins: str
    until: str = ""
    shown: str = ""

    @property
    def text(self) -> str:
        """Its lines in the kernel. Raises HopperError where they do not stand there once."""
        source = kernel_text()
        if source.count(self.begins) != 1:
            raise HopperError(
                f"step {self.key!r}: {self.begins.strip()!r} stands {source.count(self.begins)} "
                f"times in {KERNEL}.cu, it must stand once; update STEPS with the kernel"
            )
        start = source.index(self.begins)
        if self.until:
            return source[start : source.index(self.until, start)]
        return source[start : source.index("\n", start) + 1]

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")

    @property
    def code(self) -> str:
        """The line of it that tells most, without its comment."""
        lines = [line.split("//")[0].strip() for line in self.text.splitlines()]
        return next(line for line in lines if self.shown in line)


STEPS = (
    Step("wait empty", "bring", "wait for empty", "      mbarrier_wait_parity(&empty"),
    Step(
        "ask",
        "bring",
        "ask TMA for A",
        "      if (thread == 0) {\n",
        "      store_b(",
        "tma_load_2d",
    ),
    Step("store", "bring", "store B", "      store_b("),
    Step("proxy", "bring", "fence.proxy.async", "      fence_proxy_async();"),
    Step("arrive full", "bring", "arrive at full", "      mbarrier_arrive(&full"),
    Step("wait full", "multiply", "wait for full", "    mbarrier_wait_parity(&full"),
    Step("fence", "multiply", "wgmma.fence", "    wgmma_fence();"),
    Step(
        "mma",
        "multiply",
        "four wgmmas",
        "#pragma unroll\n    for (int i = 0; i < REPEAT",
        "    wgmma_commit",
        "tile_a[stage] + i",
    ),
    Step("commit", "multiply", "commit_group", "    wgmma_commit_group();"),
    Step("wait 1", "multiply", "wait_group<1>", "    wgmma_wait_group<1>();"),
    Step("release", "multiply", "arrive at empty", "    if (step > 0 && lane == 0)"),
    Step("wait 0", "end", "wait_group<0>", "  wgmma_wait_group<0>();"),
    Step("read", "end", "store the sums", "  const int top = row", "  // [/store]", "left[0]"),
)
_BY_KEY = {step.key: step for step in STEPS}
Changes = tuple[tuple[str, str], ...]


def step(key: str) -> str:
    """The lines of a step in the kernel."""
    return _BY_KEY[key].text


@dataclass(frozen=True)
class Variant:
    """A changed kernel. ``changes``: pieces of its text, and what stands there instead."""

    name: str
    changes: Changes = ()

    @property
    def source(self) -> str:
        """Its text. Raises HopperError where a piece does not stand in the kernel once."""
        source = kernel_text()
        for old, new in self.changes:
            if source.count(old) != 1:
                raise HopperError(
                    f"{self.name!r}: {old.strip()!r} stands {source.count(old)} times in "
                    f"{KERNEL}.cu, it must stand once; update the change with the kernel"
                )
            source = source.replace(old, new)
        return source

    @property
    def digest(self) -> str:
        """SHA-256 of what changes, comments left out."""
        code = [re.sub(r"//.*|\s", "", text) for change in self.changes for text in change]
        return sha256(repr(code).encode()).hexdigest()

    def compile(self, n: int = 8, repeat: int = 1) -> Program:
        """The changed kernel, with lines of its source."""
        defines = {"TILE_N": n} | ({"REPEAT": repeat} if repeat > 1 else {})
        return compile_cuda(self.source, KERNEL, defines=defines, lineinfo=True)

    @property
    def messages(self) -> dict[str, list[str]]:
        """What the compiler noticed, by code."""
        return advisories(self.compile().log)


def without(key: str) -> Variant:
    """The kernel without a step; its lines stay, empty."""
    step = _BY_KEY[key]
    return Variant(f"without {step.name}", ((step.text, "\n" * step.lines),))


def swapped(first: str, second: str) -> Variant:
    """The kernel with two steps of a loop in each other's place."""
    a, b = _BY_KEY[first], _BY_KEY[second]
    name = f"with {a.name} and {b.name} swapped"
    # One replacement of all that lies from one to the other: neither may be found twice.
    source = kernel_text()
    start, end = source.index(a.text), source.index(b.text)
    between = source[start + len(a.text) : end]
    return Variant(name, ((a.text + between + b.text, b.text + between + a.text),))


def steps_of(part: str) -> list[Step]:
    """The steps of a loop, or of what follows, in order."""
    return [step for step in STEPS if step.part == part]


def single_changes() -> Iterator[tuple[tuple[str, ...], Variant]]:
    """Every step left out, and every two of the same part swapped: keys of the steps, variant.

    The first has no keys, and is the kernel as written.
    """
    yield (), Variant("as written")
    for step in STEPS:
        if step.key != "read":
            yield (step.key,), without(step.key)
    for part in ("bring", "multiply", "end"):
        for a, b in combinations(steps_of(part), 2):
            yield (a.key, b.key), swapped(a.key, b.key)


# ---- what is right, and the emulator's verdict ---------------------------------------------------


def inputs(blocks: int, n: int, k: int, seed: int = 0) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A (64 · blocks, k) fp16 and B (n, k) int8, whole numbers from -3 to 3: sums are exact.

    Every sixteen blocks have the same rows of A.
    """
    random = numpy.random.default_rng(seed)
    rows = random.integers(-3, 4, (min(blocks, 16), ROWS, k), "int8").astype("float16")
    a = numpy.resize(rows, (blocks, ROWS, k)).reshape(-1, k)
    return a, random.integers(-3, 4, (n, k), "int8")


def product(a: numpy.ndarray, b: numpy.ndarray, repeat: int = 1) -> numpy.ndarray:
    """What the kernel has to return for ``inputs``: (rows, n) fp32."""
    rows = a[: 16 * ROWS].astype("float32") @ b.astype("float32").T * repeat
    return numpy.resize(rows, (len(a), len(b)))


def run(emulator: Emulator, program: Program, k: int) -> tuple[Run, numpy.ndarray]:
    """One block, ``k`` deep, on the inputs of seed 0: what the run left behind, and C."""
    n = program.facts.tile_n
    a, b = inputs(1, n, k)
    c = numpy.full((ROWS, n), numpy.nan, "float32")
    args = (TensorMap(a, program.facts.a_box), b, c, numpy.int32(k))
    done = emulator.launch(program.ptx, KERNEL, (1, 1, 1), (THREADS, 1, 1), args=args)
    return done, c


@dataclass(frozen=True)
class Verdict:
    """What the emulator says of a variant, on all schedules.

    ``kinds``: of broken rules, in the order found; ``right``: C was right on every schedule.
    """

    right: bool
    kinds: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        if not self.kinds:
            return "right" if self.right else "a wrong result"
        more = len(self.kinds) - 3
        return ", ".join(self.kinds[:3]) + (f" and {more} more" if more > 0 else "")


@cache
def verdict(variant: Variant, k: int = 256) -> Verdict:
    """The emulator's verdict, one block, four steps along K unless told otherwise."""
    program = variant.compile()
    right = product(*inputs(1, program.facts.tile_n, k))
    ends = [run(emulator, program, k) for emulator in SCHEDULES]
    kinds = dict.fromkeys(hazard.kind for done, _ in ends for hazard in done.hazards)
    return Verdict(all(done.completed and (c == right).all() for done, c in ends), tuple(kinds))


def may_hang(variant: Variant) -> bool:
    """Whether it comes to a deadlock in the emulator, on its first schedule."""
    done, _ = run(SCHEDULES[0], variant.compile(), 256)
    return any(hazard.kind == "deadlock" for hazard in done.hazards)
