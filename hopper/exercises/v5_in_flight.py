"""Exercises of the chapter ``v5_in_flight``: time of a step, the last release, one stage."""

from collections import Counter
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy

from hopper.check import compare
from hopper.compile import compile_cuda
from hopper.emulator import Emulator, EmulatorError
from hopper.errors import CompileError
from hopper.exercises.v4_two_consumers import called
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
                right = run.step_time
                got, wrong = called(answer, load, product, stages)
                if wrong:
                    print(f"not yet: {wrong}")
                    return
                if not isinstance(got, Real):
                    print("not answered yet: return a time")
                    return
                if not abs(got - right) <= 1e-6 * right:  # NaN is not right either
                    if got < product:
                        hint = "the product of a step alone takes longer"
                    elif right > product:
                        hint = "which stages are being filled while the youngest group runs?"
                    else:
                        hint = "every load comes in time here, so what is left to wait for?"
                    print(
                        f"not yet: a load of {load:g}, a product of {product:g}, {stages} stages: "
                        f"your answer is {got:g}, the model takes {right:g} a step; {hint}"
                    )
                    return
    print("right: 24 combinations of load, product and stages")


def last_release(lines: str | None) -> None:
    """Check what stands behind v5's loop: every stage is released as often as it was filled.

    ``lines``: CUDA C++ in the place of the last wait_group.
    """
    if lines is None or lines is Ellipsis:
        print("not answered yet: fill the blank")
        return
    if not isinstance(lines, str):
        print(f"not yet: lines of CUDA C++, in a string; this is {lines!r}")
        return
    if "__1__" in lines:
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


def one_stage(*, consumers: Any, producer: Any, released_in_step: Any) -> None:
    """Check why v5 cannot have a single stage: the circle of those who wait.

    ``consumers``, ``producer``: "full" or "empty", the barrier for which each waits when nothing
    goes on; ``released_in_step``: in which step the consumers would release the stage of step 0.
    """
    if any(one is None or one is Ellipsis for one in (consumers, producer, released_in_step)):
        print("not answered yet: two barriers and a step")
        return
    waits = {"the consumers": (consumers, "full"), "the producer": (producer, "empty")}
    for who, (got, right) in waits.items():
        word = str(got).strip().lower()
        if word.partition("[")[0] != right:
            hint = "have landed" if right == "full" else "may be overwritten"
            print(f"not yet: {who} and {got!r}: the barrier that says that tiles {hint}")
            return
    if str(released_in_step).strip().lower().removeprefix("step").strip() != "1":
        print(
            f"not yet: step {released_in_step}: behind which wait does the arrival stand, and "
            f"about which group is this wait?"
        )
        return
    print(
        "right: consumers wait for the tiles of step 1, those for the stage, and the stage for "
        "consumers that have issued step 1"
    )
