"""Exercises of the chapter ``tma_mbarrier``: counts, parities, bytes under way, two loads.

An answer of the wrong type, or one that raises, is told in a sentence: a check raises nothing.
"""

import math
import operator
import re
from collections.abc import Callable

import numpy

from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, EmulatorError
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import CompileError
from hopper.experiments.tma_launches import Ring, random_words
from hopper.figures.mbarrier_stepper import deadlock_in_words
from hopper.paths import KERNELS
from hopper.tensormap import TensorMap

#: The stage of the exercise ``counts``: A is 128 × 64, B 96 × 64 in fp16; eight warps consume.
_COUNTS = {"full": 1, "empty": 8, "announced": (128 + 96) * 64 * 2}
#: What to think of, and what some wrong answers come from.
_HINTS = {
    "full": "who executes an arrival at full? Copies report bytes, and that is no arrival",
    "empty": "count who says that the stage has been read",
    "announced": "what do the two copies report, in bytes, and what do they report at the edge?",
}
_SLIPS = {
    ("full", 2): "two copies, but a copy does not arrive: it reports bytes",
    ("empty", 2): "a warpgroup has no arrival of its own; who in it says that it has read?",
    ("empty", 256): "not every thread says so",
    ("announced", (128 + 56) * 64 * 2): "TMA reports a box whole, also what lies outside",
    ("announced", (128 + 96) * 64): "these are elements; bytes are announced",
    ("announced", 128 * 64 * 2): "that is A alone",
    ("announced", 96 * 64 * 2): "that is B alone",
}
_RING = Ring(stages=3, box_rows=32)
_PRODUCER = re.compile(r"(// \[producer\]\n).*?( *// \[/producer\])", re.DOTALL)
_SCHEDULES = (
    Emulator(),
    Emulator(tma="eager"),
    *(Emulator(schedule="random", tma="random", seed=seed) for seed in (1, 2, 3)),
)


def counts(full: int | None, empty: int | None, announced: int | None) -> None:
    """Check the counts of a stage's two mbarriers, and the bytes that are announced to ``full``."""
    given = {"full": full, "empty": empty, "announced": announced}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        print(f"not answered yet: {', '.join(missing)}")
        return
    for name, value in given.items():
        got = _whole(value)
        if got is None:
            print(f"not yet: {name} = {value!r} is no int; pass one, such as 3")
            return
        if got != _COUNTS[name]:
            print(f"not yet: {name} = {value!r}: {_SLIPS.get((name, got), _HINTS[name])}")
            return
    print("right: 1 arrival and all bytes fill a stage, 8 arrivals free it")


def _whole(answer: object) -> int | None:
    """The answer as an int, None if it is none; NumPy's integers are some."""
    if isinstance(answer, bool | numpy.bool_):
        return None
    try:
        return operator.index(answer)  # type: ignore[arg-type]
    except TypeError:
        return None


def _asked(answer: object, names: str, *args: object) -> int | str:
    """What a reader's function says to some arguments, or what is wrong with that, in a sentence.

    ``names``: of its parameters.
    """
    if answer is None:
        return "not answered yet: pass a function"
    if not callable(answer):
        return f"not yet: {answer!r} is no function; pass one of ({names})"
    try:
        got = answer(*args)
    except Exception as error:  # whatever the reader's own code raises
        return (
            f"not yet: your function was called with ({names}) = {args}, and raised "
            f"{type(error).__name__}: {error}"
        )
    if got is None or got is Ellipsis:
        return "not answered yet: return a number"
    whole = _whole(got)
    if whole is None:
        return f"not yet: for ({names}) = {args} your answer is {got!r}, which is no int"
    return whole


def parities(answer: Callable[[str, int, int], int | None]) -> None:
    """Check (role, n, stages) → the parity that is waited for before box n is loaded or read.

    ``role``: "producer", which waits for ``empty``, or "consumer", which waits for ``full``.
    """
    for stages in range(1, 6):
        for n in range(4 * stages):
            for role, start in (("producer", 1), ("consumer", 0)):
                got = _asked(answer, "role, n, stages", role, n, stages)
                right = n // stages % 2 ^ start
                if isinstance(got, str):
                    print(got)
                    return
                if got != right:
                    print(
                        f"not yet: {role}, box {n} of a ring of {stages}: your answer is {got}; it "
                        f"is turn {n // stages} of stage {n % stages}, and the {role} starts at "
                        f"parity {start}"
                    )
                    return
    print("right: for both roles, rings of 1 to 5 stages, four turns each")


def in_flight(answer: Callable[[float, float, int], int | None]) -> None:
    """Check (turn, rate, box) → the fewest stages that keep an SM supplied.

    ``turn``: ns from asking for a box until its stage may be filled again; ``rate``: bytes a
    nanosecond that the SM shall get; ``box``: bytes. Some products are a whole number of boxes.
    """
    for turn in (600.0, 1024.0, 1750.0):
        for rate in (10.0, 16.0, 36.0, 40.0):
            for box in (2048, 8192, 16384):
                got = _asked(answer, "turn, rate, box", turn, rate, box)
                if isinstance(got, str):
                    print(got)
                    return
                if got != math.ceil(turn * rate / box):
                    print(
                        f"not yet: a turn of {turn:g} ns at {rate:g} bytes a nanosecond, boxes of "
                        f"{box} bytes: your answer is {got}; {turn * rate:,.0f} bytes must be "
                        f"under way, and a stage has {box}"
                    )
                    return
    print("right: as many whole boxes as cover turn times rate")


def two_loads(producer: str | None) -> None:
    """Check a producer of ``tma_ring`` that fills a stage by two loads of half a box each.

    ``producer``: CUDA C++, in the place of the region of that name.
    """
    if producer is None:
        print("not answered yet: fill the blanks")
        return
    if not isinstance(producer, str):
        print(f"not yet: {producer!r} is no text; pass the producer's CUDA C++")
        return
    if "__1__" in producer or "__2__" in producer:
        print("not answered yet: fill the blanks")
        return
    text = (KERNELS / "tma_ring.cu").read_text(encoding="utf-8")
    text, found = _PRODUCER.subn(lambda m: m[1] + producer.strip("\n") + "\n" + m[2], text)
    assert found == 1, "tma_ring.cu must mark one region named producer"
    try:
        program = compile_cuda(text, "tma_ring", defines=_RING.defines, lineinfo=True)
    except CompileError as error:
        told = [line for line in str(error).splitlines() if "error" in line]
        print("it does not compile:", *(told or [str(error)]), sep="\n  ")
        return
    for emulator in _SCHEDULES:
        wrong = _ring_of_halves(program, emulator)
        if wrong:
            print(f"not yet: {wrong}")
            return
    print("right: every box is read once, and no rule is broken, on five schedules")


def _ring_of_halves(program: Program, emulator: Emulator) -> str:
    """Run a ring whose map has boxes of half the rows: what is wrong, in words; else empty."""
    matrix, boxes, blocks = random_words(70, 72), 23, 2
    sums = numpy.zeros((blocks, 128), "uint32")
    received = numpy.zeros(blocks, "uint64")
    numbers = (numpy.int32(number) for number in (*_RING.tiles(matrix), boxes))
    half = TensorMap(matrix, (_RING.box_rows // 2, 32), swizzle=0)
    facts = program.facts
    try:
        EmulatedGpu(emulator).launch(
            program, (blocks, 1, 1), (facts.threads, 1, 1), (half, sums, received, *numbers),
            facts.shared_bytes,
        )  # fmt: skip
    except EmulatorError as error:
        told = deadlock_in_words(program, str(error))
        if not told.startswith("deadlock"):
            told = told.splitlines()[0].split("; ")[0]
        return f"the emulator reports {told}"
    wrong = int((sums != _RING.expected(matrix, boxes, blocks)[0]).sum())
    return f"{wrong} of {sums.size} sums are wrong" if wrong else ""
