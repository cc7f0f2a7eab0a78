"""What tests of the ladder share: products in the emulator and on a GPU, and which are right.

Inputs of exact tests are whole numbers, whose sums are exact in any order: right is what NumPy
says, to the bit.
"""

import threading
from dataclasses import dataclass, replace

import numpy

from hopper.backends import HopperGpu
from hopper.compile import Program
from hopper.emulator import Emulator, Run
from hopper.gemm import Launch, Problem, plan

SCHEDULES = (
    Emulator(),
    Emulator(tma="eager", shared_skew=16),
    *(Emulator(schedule="random", tma="random", seed=seed) for seed in (1, 2)),
)
GUARD = 64  # elements on either side of C
LAUNCHES = 1000


@dataclass(frozen=True, eq=False)
class Product:
    """C as the emulator left it, the run, and the launch, which can be run again."""

    c: numpy.ndarray
    run: Run
    launch: Launch

    def issued(self, start: str) -> int:
        """How many instructions were executed whose opcode starts so, by warps."""
        return sum(n for opcode, n in self.run.counts.items() if opcode.startswith(start))


def multiplied(
    program: Program,
    problem: Problem,
    emulator: Emulator | None = None,
    blocks: int | None = None,
    places: str | tuple[int, ...] = "gpc",
) -> Product:
    """A product in the emulator, which stops at a broken rule. Nothing around C has changed."""
    a, b = problem.inputs()
    everything = numpy.full(problem.m * problem.n + 2 * GUARD, 7, a.dtype)
    c = everything[GUARD:-GUARD].reshape(problem.m, problem.n)
    c[...] = numpy.nan
    launch = plan(program, a, b, c, blocks=blocks, places=places)
    backend = replace(launch.backend, emulator=emulator or Emulator())
    run = replace(launch, backend=backend).run()
    assert run.hazards == ()
    assert (everything[:GUARD] == 7).all() and (everything[-GUARD:] == 7).all()
    require_flags_lowered(launch)
    return Product(c, run, launch)


def exact(problem: Problem) -> numpy.ndarray:
    """A·Bᵀ of whole numbers, rounded once."""
    a, b = problem.inputs()
    return (a.astype("float32") @ b.astype("float32").T).astype(a.dtype)


def around(length: int, unit: int = 1) -> tuple[int, ...]:
    """Lengths at the edges of tiles, multiples of a unit: of none, of one, and of two."""
    return (unit, length - unit, length, length + unit, 2 * length + 3 * unit)


def require_flags_lowered(launch: Launch) -> None:
    """A workspace is left as it was found, or the next launch takes old sums for its own."""
    for flags in (array for array in launch.workspace if array.dtype == numpy.uint32):
        assert not bool(flags.any()), "a flag was left standing"


# ---- with a Hopper GPU --------------------------------------------------------------------------


def launched(
    gpu: HopperGpu, program: Program, problem: Problem, blocks: int | None = None
) -> numpy.ndarray:
    """C of a rung on the GPU. Nothing around C has changed."""
    import cupy

    a, b = (gpu.array(matrix) for matrix in problem.inputs())
    everything = cupy.full(problem.m * problem.n + 2 * GUARD, 0x7FFF, "uint16")  # NaN in both types
    c = everything[GUARD:-GUARD].view(a.dtype).reshape(problem.m, problem.n)
    launch = plan(program, a, b, c, blocks=blocks)
    launch.run()
    for guard in (everything[:GUARD], everything[-GUARD:]):
        assert bool((guard == 0x7FFF).all())
    require_flags_lowered(launch)
    return gpu.numpy(c)


def require_emulated_bits(
    gpu: HopperGpu, program: Program, problem: Problem, blocks: int | None = None
) -> None:
    """The GPU and the emulator return the same bits, launched with as many blocks."""
    found = launched(gpu, program, problem, blocks)
    assert found.tobytes() == multiplied(program, problem, blocks=blocks).c.tobytes(), problem


def wrong_elements(launch: Launch, expected, launches: int):
    """Launches on the current stream, and counts there the elements of C that differ in a bit.

    Waits for none of them; returns the count in GPU memory.
    """
    import cupy

    found = cupy.zeros((), "int64")
    for _ in range(launches):
        launch.c.fill(cupy.nan)
        launch.run()
        found += (launch.c.view("uint16") != expected.view("uint16")).sum()
    return found


def require_same_bits_again(program: Program, a, b, expected) -> None:
    """A thousand launches of one plan return the expected bits."""
    launch = plan(program, a, b, expected.copy())
    assert int(wrong_elements(launch, expected, LAUNCHES)) == 0


def require_streams_apart(gpu: HopperGpu, program: Program, shape: tuple[int, int, int]) -> None:
    """Two threads fill a stream each with launches that share nothing: none disturbs another."""
    import cupy

    launches, expected = [], []
    for seed in (1, 2):
        a, b = (gpu.array(matrix) for matrix in Problem(*shape, seed=seed).inputs())
        c = cupy.full(shape[:2], cupy.nan, a.dtype)
        launches.append(plan(program, a, b, c))
        launches[-1].run()
        expected.append(c.copy())
    gpu.synchronize()
    wrong = [-1, -1]
    together = threading.Barrier(2)

    def repeat(number: int) -> None:
        stream = cupy.cuda.Stream(non_blocking=True)
        with cupy.cuda.Device(0), stream:
            together.wait()
            wrong[number] = int(wrong_elements(launches[number], expected[number], 100))

    threads = [threading.Thread(target=repeat, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == [0, 0]
