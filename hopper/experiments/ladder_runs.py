"""Runs of a changed kernel of the ladder in the emulator: what is wrong with it, in words."""

import numpy

from hopper.check import compare
from hopper.compile import Program
from hopper.emulator import Emulator, Run
from hopper.gemm import Problem
from hopper.tensormap import TensorMap

#: A tile that is quickly emulated.
SMALL = {"TILE_M": 64, "TILE_N": 64}
#: Copies that land as late as they can, that land at once, and other orders of everything.
SCHEDULES = (
    Emulator(on_hazard="collect"),
    Emulator(on_hazard="collect", tma="eager"),
    *(Emulator(on_hazard="collect", schedule="random", tma="random", seed=s) for s in (1, 2)),
)


def launched(program: Program, emulator: Emulator, steps: int) -> tuple[Run, str]:
    """A run of one block over ``steps`` steps of K, and what is wrong with C; else empty.

    Nothing of ``Program.require_clean`` is asked. Raises EmulatorError before anything runs.
    """
    facts = program.facts
    problem = Problem(facts.tile_m, facts.tile_n, steps * facts.tile_k)
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    maps = TensorMap(a, facts.a_box), TensorMap(b, facts.b_box)
    sizes = (numpy.int32(size) for size in (problem.m, problem.n, problem.k))
    run = emulator.launch(
        program.ptx,
        program.kernel,
        (1, 1, 1),
        (facts.threads, 1, 1),
        shared_bytes=facts.shared_bytes,
        args=(*maps, c, *sizes),
    )
    found = compare(c, a, b)
    return run, "" if found.ok else f"{found.wrong:,} of {c.size:,} elements of C are wrong"


def broken_in(run: Run) -> str:
    """The first broken rule of a run that is no warning, in words; empty where there is none."""
    broken = [hazard for hazard in run.hazards if not hazard.warning]
    if not broken:
        return ""
    first = broken[0]
    told = first.message.removeprefix(f"{first.kind}: ").split("; ")[0].splitlines()[0]
    return f"the emulator reports {first.kind}: {told} ({first.threads})"
