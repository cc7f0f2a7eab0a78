"""Exercises of the chapter ``v5_in_flight``: time of a step, the last release, one stage."""

from collections import Counter
from collections.abc import Callable

import numpy

from hopper.check import compare
from hopper.compile import compile_cuda
from hopper.emulator import Emulator, EmulatorError
from hopper.errors import CompileError
from hopper.figures.streams import Way, run_streams
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS
from hopper.tensormap import TensorMap

KERNEL = "v5_in_flight"
_STEPS = 64  # of the model, enough for the ring to settle
_FINAL = "  wgmma_wait_group<0>();  // now this one, too\n"
_SMALL = {"TILE_M": 128, "TILE_N": 16, "STAGES": 3}


def step_time(answer: Callable[[float, float, int], float | None]) -> None:
    """Check (load, product, stages) → time of a step of one consumer with a group in flight.

    The gap is nothing: what the consumer does between two groups hides behind the running one.
    """
    for load in (4.0, 8.0, 12.0, 30.0):
        for product in (8.0, 5.0):
            for stages in (2, 3, 4):
                way = Way(consumers=1, in_flight=1, stages=stages)
                run = run_streams(way, load=load, product=product, gap=0, steps=_STEPS)
                right, got = run.step_time, answer(load, product, stages)
                if not isinstance(got, int | float):
                    print("not answered yet: return a time")
                    return
                if abs(got - right) > 1e-6 * right:
                    print(
                        f"not yet: a load of {load:g}, a product of {product:g}, {stages} stages: "
                        f"your answer is {got:g}, the model takes {right:g} a step; which stages "
                        f"are being filled while the youngest group runs?"
                    )
                    return
    print("right: 24 combinations of load, product and stages")


def last_release(lines: str | None) -> None:
    """Check what stands behind v5's loop: every stage is released as often as it was filled.

    ``lines``: CUDA C++ in the place of the last wait_group.
    """
    if lines is None or "__1__" in lines:
        print("not answered yet: fill the blank")
        return
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    assert source.count(_FINAL) == 1, f"{KERNEL}.cu must have its last wait once"
    try:
        program = compile_cuda(
            source.replace(_FINAL, lines.strip("\n") + "\n"), KERNEL, defines=_SMALL, lineinfo=True
        )
        program.require_clean()
    except CompileError as error:
        told = [line.strip() for line in str(error).splitlines() if "error" in line or "C7" in line]
        print("it does not compile cleanly:", *(told or [str(error)]), sep="\n  ")
        return
    for steps in (1, 2, 3, 4, 7, 8):
        wrong = _released(program, steps)
        if wrong:
            print(f"not yet: {wrong}")
            return
    print("right: every stage that was filled is free again when the block ends, for six depths")


def _released(program, steps: int) -> str:
    """Run so many steps: what is wrong, in words; else empty."""
    facts = program.facts
    a, b = Problem(facts.tile_m, facts.tile_n, steps * facts.tile_k).inputs()
    c = numpy.full((facts.tile_m, facts.tile_n), numpy.nan, "float16")
    launch = plan(program, a, b, c)
    args = (TensorMap(a, facts.a_box), TensorMap(b, facts.b_box), *launch.args[2:])
    try:
        run = Emulator().launch(
            program.ptx,
            KERNEL,
            launch.grid,
            launch.block,
            shared_bytes=facts.shared_bytes,
            args=args,
        )
    except EmulatorError as error:
        return "the emulator reports " + str(error).split("; ")[0].splitlines()[0]
    if not compare(c, a, b).ok:
        return f"{steps} steps: no rule is broken, and the result is wrong"
    inits = [event.detail["address"] for event in run.trace.of("mbarrier.init")]
    full, empty = inits[0::2], inits[1::2]  # initialised in turns
    arrived = run.trace.of("mbarrier.arrive")
    arrivals: Counter[int] = Counter()
    for event in arrived:
        arrivals[event.detail["address"]] += event.detail["count"]
    warps = 8  # that multiply
    for stage in range(facts.stages):
        filled = arrivals[full[stage]]
        if arrivals[empty[stage]] != warps * filled:
            return (
                f"{steps} steps: stage {stage} was filled {filled}×, which makes "
                f"{warps * filled} arrivals of warps at empty[{stage}], and there were "
                f"{arrivals[empty[stage]]}"
            )
    last_wait = max(event.step for event in run.trace.of("wgmma.wait"))
    if max(event.step for event in arrived) < last_wait:
        return (
            f"{steps} steps: a warp releases the last stage before it has waited for the last "
            f"group; nobody loads into it here, and a block with another tile to come would"
        )
    return ""


def one_stage(who: str | None, waits_for: str | None) -> None:
    """Check why v5 cannot have a single stage: who waits, and for what.

    ``who``: "producer" or "consumers", the one whose wait must end first; ``waits_for``: "full" or
    "empty".
    """
    if who is None or waits_for is None:
        print("not answered yet: who waits, and for which barrier")
        return
    if (who, waits_for) == ("producer", "empty"):
        print(
            "right: the stage is released when the next group has been issued; that group needs "
            "the next tiles, and the producer waits with them for the stage"
        )
    elif (who, waits_for) == ("consumers", "full"):
        print(
            "not yet: they do wait for full, for tiles that nobody asks for; who would have to "
            "ask, and what does it wait for?"
        )
    else:
        print(f"not yet: {who} and {waits_for}: the producer waits for empty, consumers for full")
