"""The chapter ``protocol``: what a GPU returns for each change of its loop, and what repairs cost.

Every changed kernel runs in a process of its own: one that hangs or fails harms no other, and goes
on with the next shape. To try one, the module starts itself with ``python -m``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy

from hopper.architecture import constant
from hopper.backends import Backend, HopperGpu, find_hopper
from hopper.compile import Program
from hopper.emulator.hazard_trials import Outcome
from hopper.emulator.hazards import KINDS
from hopper.emulator.spaces import SYSTEM_SHARED_BYTES
from hopper.errors import CheckError
from hopper.experiments import Arrays, Curves, Experiment, arrays
from hopper.experiments.protocol_breaks import BREAKS, every_break
from hopper.experiments.protocol_messages import codes
from hopper.experiments.protocol_variants import (
    KERNEL,
    ROWS,
    THREADS,
    Variant,
    inputs,
    may_hang,
    product,
    single_changes,
    verdict,
)
from hopper.processes import environment, run_group
from hopper.schema import Array, Probe, Sweep
from hopper.tensormap import TensorMap

DEPTH = 512  # K: eight steps
#: (N, REPEAT): a small tile, and a large one whose groups run long enough to be caught.
SMALL, LARGE = (8, 1), (96, 16)
#: One block, and eight for each SM of an H200.
BLOCKS = (1, 8 * 132)
SHAPES = tuple((tile, blocks) for tile in (SMALL, LARGE) for blocks in BLOCKS)
SEEDS, LAUNCHES = (1, 2, 3), 30  # launches with each seed
ENDS = ("right", "wrong", "hung", "failed")
HANG_SECONDS, PROCESS_SECONDS = 3, 60
_AT_ONCE = 8
# More than the L2 cache holds: every second launch finds its inputs in memory only.
_FLUSH_BYTES = 96 << 20


def every_variant() -> list[Variant]:
    """Every change of the page once: its tables' and its figure's."""
    both = [*(variant for _, variant in single_changes()), *(one.variant for one in every_break())]
    return list({variant.digest: variant for variant in both}.values())


# ---- read back ----------------------------------------------------------------------------------


def outcomes(variant: Variant, recorded: Arrays | None = None) -> tuple[Outcome, ...]:
    """How a variant's launches ended, an Outcome for each of SHAPES; none where not recorded."""
    recorded = recorded or arrays(KERNEL, "trials")
    if recorded.probe is None:
        return ()
    digests = [bytes(one).hex() for one in recorded["digests"]]
    if variant.digest not in digests:
        return ()
    ends = recorded["ends"][digests.index(variant.digest)]
    return tuple(
        Outcome(n, blocks, *(int(count) for count in counts))
        for ((n, _), blocks), counts in zip(SHAPES, ends, strict=True)
    )


def returned(variant: Variant, recorded: Arrays | None = None) -> str:
    """What the GPU returned, in one phrase for all shapes."""
    found = outcomes(variant, recorded)
    if not found:
        return "not recorded"
    total = sum(one.launches for one in found)
    counts = [(sum(getattr(one, end) for one in found), end) for end in ENDS]
    return ", ".join(f"{count} {end}" for count, end in counts if count) + f" of {total}"


SHAPE_COLUMNS = ("shape", "N", "wgmmas a group", "K", "blocks")


def shapes() -> tuple[tuple[str, ...], ...]:
    """The shapes in which a change is tried: rows for SHAPE_COLUMNS."""
    found = []
    for name, (n, repeat), blocks in zip(COLUMNS[3:], *zip(*SHAPES, strict=True), strict=True):
        found.append((name, str(n), str(4 * repeat), str(DEPTH), f"{blocks:,}"))
    return tuple(found)


COLUMNS = (
    "what was changed",
    "the compiler says",
    "the emulator says",
    "small tile, alone",
    "small tile, full GPU",
    "large tile, alone",
    "large tile, full GPU",
)


def rows(group: str, recorded: Arrays) -> tuple[tuple[str, ...], ...]:
    """The changes of a group of BREAKS, judged now and tried on a GPU: rows for COLUMNS."""
    found = []
    for one in BREAKS[group]:
        ends = [_ended(shape) for shape in outcomes(one.variant, recorded)]
        ends = ends or ["not recorded"] * len(SHAPES)
        judged = str(verdict(one.variant))
        found.append((f"{one.name}\n{one.about}", compiler_says(one.variant), judged, *ends))
    return tuple(found)


def compiler_says(variant: Variant) -> str:
    """What the compiler has to say of a change with small tiles, and with large ones if it differs.

    "C7520, serialised", or "nothing".
    """
    small, large = (codes(variant.compile(*tile)) for tile in (SMALL, LARGE))
    return small if small == large else f"{small}; with N = {LARGE[0]}: {large}"


def _ended(one: Outcome) -> str:
    """How the launches of a shape ended, with those before one that did not end or failed."""
    if not one.hung and not one.failed:
        return one.verdict
    end = "hangs" if one.hung else "error"
    before = [f"{count} {word}" for count, word in ((one.right, "right"), (one.wrong, "wrong"))]
    told = ", ".join(text for text in before if text[:2] != "0 ")
    return f"{end} after {told}" if told else end


def summary(recorded: Arrays) -> str:
    """Of all changes, of the tables and of the figure together: who noticed, in words."""
    changed = every_variant()[1:]
    judged = [verdict(one) for one in changed]
    broken = [one for one, found in zip(changed, judged, strict=True) if _breaks(found.kinds)]
    warned = sum(bool(found.kinds) and not _breaks(found.kinds) for found in judged)
    wrong = sum(not found.kinds and not found.right for found in judged)
    right = len(changed) - len(broken) - warned - wrong
    told = sum(bool(one.messages) for one in broken)
    lines = [
        f"{len(changed)} changed kernels, of the tables and the figure together:",
        f"{len(broken):4} break a rule",
        f"{warned:4} keep every rule, and the emulator warns of them",
        f"{wrong:4} keep every rule, and their result is wrong",
        f"{right:4} keep every rule, and their result is right",
        f"Of the {len(broken)} that break a rule,",
        f"{told:4} have a message of the compiler",
    ]
    ends = [outcomes(one, recorded) for one in broken]
    if recorded.probe and all(ends):
        always = sum(all(shape.right == shape.launches for shape in one) for one in ends)
        alone = sum(one[0].right == one[0].launches for one in ends)
        launches = sum(shape.launches for one in ends for shape in one)
        lines += [
            f"{alone:4} were right in every launch on the H200, with a small tile alone",
            f"{always:4} were right in every launch on the H200, in all shapes "
            f"({launches:,} launches)",
        ]
    return "\n".join([*lines, recorded.label])


def _breaks(kinds: Sequence[str]) -> bool:
    """Whether one of these is a broken rule, and not a warning."""
    return any(not KINDS[kind].warning for kind in kinds)


# ---- on a Hopper GPU ----------------------------------------------------------------------------


def tried(variant: Variant) -> numpy.ndarray:
    """Launches of a variant by how they ended: int32 (shapes, ENDS)."""
    found = numpy.zeros((len(SHAPES), len(ENDS)), "int32")
    left = list(range(len(SHAPES)))
    while left:
        status, lines = _process(variant, left)
        for shape, end in lines:
            found[shape, ENDS.index(end)] += 1
        while left and found[left[0]].sum() == len(SEEDS) * LAUNCHES:
            left.pop(0)
        if left:  # the shape in which it ended
            end = "hung" if status == -signal.SIGALRM else "failed"
            found[left.pop(0), ENDS.index(end)] += 1
    return found


def _process(variant: Variant, left: Sequence[int]) -> tuple[int, list[tuple[int, str]]]:
    """Exit status, and shape and end of each launch that came to one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ends"
        path.write_text("")
        command = [sys.executable, "-m", "hopper.experiments.protocol", variant.digest, str(path)]
        command += [str(shape) for shape in left]
        status = -signal.SIGALRM
        with suppress(subprocess.TimeoutExpired):
            ended = run_group(command, timeout=PROCESS_SECONDS, environment=environment())
            status = ended.returncode
        lines = [line.split() for line in path.read_text().splitlines()]
    return status, [(int(shape), end) for shape, end in lines]


def launches(gpu: HopperGpu, variant: Variant, shape: int) -> Iterator[str]:
    """In the child: "right" or "wrong" for each launch. A hang ends the process by SIGALRM."""
    import cupy

    (n, repeat), blocks = SHAPES[shape]
    program = variant.compile(n, repeat)
    flush = cupy.zeros(_FLUSH_BYTES, "uint8")
    for seed in SEEDS:
        a, b = inputs(blocks, n, DEPTH, seed)
        expected = gpu.array(product(a, b, repeat))
        c = cupy.empty_like(expected)
        launch = launcher(gpu, program, gpu.array(a), gpu.array(b), c)
        for number in range(LAUNCHES):
            c.fill(cupy.nan)
            if number % 2:
                flush.fill(number)
            gpu.synchronize()
            signal.alarm(HANG_SECONDS)
            launch()
            gpu.synchronize()
            signal.alarm(0)
            yield "right" if bool((c == expected).all()) else "wrong"


def launcher(here: Backend, program: Program, a, b, c) -> Callable[[], object]:
    """Starts ``protocol_loop``, or what became of it, on these arrays of ``here``, at each call."""
    described = here.tensor_map(TensorMap(a, program.facts.a_box))
    args = (described, b, c, numpy.int32(a.shape[1]))
    return lambda: here.launch(program, (len(a) // ROWS, 1, 1), (THREADS, 1, 1), args, 0)


def probe_trials(gpu: HopperGpu, program: Program) -> Probe:
    """Every variant, in every shape. Raises CheckError unless the kernel as written is right."""
    variants = every_variant()
    # What hangs takes turns with everybody else on the GPU, so it comes last.
    wild = [one for one in variants if may_hang(one)]
    calm = [one for one in variants if one not in wild]
    found = {}
    for group in (calm, wild):
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found |= dict(zip([one.digest for one in group], pool.map(tried, group), strict=True))
    sound = found[variants[0].digest]
    if (sound[:, 0] != len(SEEDS) * LAUNCHES).any():
        raise CheckError(f"{KERNEL} as written is wrong: {sound.tolist()}; nothing was recorded")
    ends = numpy.array([found[one.digest] for one in variants])
    digests = numpy.array([list(bytes.fromhex(one.digest)) for one in variants], "uint8")
    held = {"digests": Array.of(digests), "ends": Array.of(ends)}
    return Probe("trials", "What does the GPU return without a step, or with two swapped?", held)


#: What is timed: curve -> name of a change, "" for none.
COSTS = {
    "as written": "",
    "no fence, C7520": "no wgmma.fence",
    "fence before the loop, C7519": "wgmma.fence once, before the loop",
    "fence before the wait, C7520": "wgmma.fence before the wait for full",
    "sums touched, C7514": "sums doubled behind wait_group<1>, halved at once",
}
BLOCKS_A_SM = (1, 2, 3)
COST_DEPTH = 8192  # K: long enough that a launch is not waiting for the host
_COUNTED, _TIMED = 20, 7


COST_COLUMNS = (
    *("", "registers a thread", "blocks that fit", "instructions"),
    *("1 block an SM", "ratio", "2 blocks", "ratio", "3 blocks", "ratio"),
)


def cost_rows(cost: Curves) -> tuple[tuple[str, ...], ...]:
    """Recorded microseconds of COSTS, beside what is compiled here: rows for COST_COLUMNS."""
    named = {one.name: one.variant for one in every_break()} | {"": Variant("as written")}
    found = []
    for curve, name in COSTS.items():
        program = named[name].compile(*LARGE)
        cells = [curve, str(program.resources.registers), str(blocks_that_fit(program))]
        cells.append(str(len(program.sass().instructions)))
        recorded = cost.sweep is not None and curve in cost.sweep.series
        for blocks in BLOCKS_A_SM:
            if recorded:
                took, usual = cost.at(curve, blocks), cost.at("as written", blocks)
                cells += [f"{took:.0f}", f"{took / usual:.2f}"]
            else:
                cells += ["not recorded", "–"]
        found.append(tuple(cells))
    return tuple(found)


def blocks_that_fit(program: Program) -> int:
    """Blocks of THREADS that an SM holds: by registers, shared memory and threads."""
    used = program.resources
    # Registers are handed out eight at a time; the system takes some shared memory of each block.
    registers = -(-used.registers // 8) * 8 * THREADS
    shared = used.static_shared_bytes + SYSTEM_SHARED_BYTES
    return min(
        constant("registers_per_sm").value // registers,
        constant("shared_bytes_per_sm").value // shared,
        constant("threads_per_sm").value // THREADS,
    )


def cost_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """Microseconds of a launch with large tiles, over blocks an SM.

    A changed kernel that returns something wrong has no curve. Raises CheckError if the kernel as
    written does.
    """
    import cupy

    named = {one.name: one.variant for one in every_break()} | {"": Variant("as written")}
    n, repeat = LARGE
    changed = {curve: named[name].compile(n, repeat) for curve, name in COSTS.items()}
    series: dict[str, list[float]] = {curve: [] for curve in COSTS}
    for blocks in BLOCKS_A_SM:
        a, b = inputs(blocks * gpu.sm_count, n, COST_DEPTH)
        expected, there = gpu.array(product(a, b, repeat)), (gpu.array(a), gpu.array(b))
        for curve in list(series):
            c = cupy.full_like(expected, cupy.nan)
            launch = launcher(gpu, changed[curve], *there, c)
            launch()
            if bool((c == expected).all()):
                series[curve].append(_microseconds(launch))
            elif changed[curve] is changed["as written"]:
                raise CheckError(f"{KERNEL} as written is wrong; nothing was recorded")
            else:
                del series[curve]
    curves = {curve: tuple(times) for curve, times in series.items()}
    return Sweep("cost", "blocks an SM", "blocks", BLOCKS_A_SM, "µs", curves)


def _microseconds(launch: Callable[[], object]) -> float:
    import cupy

    samples = []
    for _ in range(_TIMED):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for _ in range(_COUNTED):
            launch()
        end.record()
        end.synchronize()
        samples.append(1000 * cupy.cuda.get_elapsed_time(start, end) / _COUNTED)
    return float(numpy.median(samples))


EXPERIMENTS = (
    Experiment(KERNEL, "trials", probe_trials),
    Experiment(KERNEL, "cost", cost_curves),
)


def main(arguments: Sequence[str]) -> None:
    """In the child: a variant's digest, a file for the ends, shapes by their place in SHAPES."""
    digest, path, *shapes = arguments
    variant = next(one for one in every_variant() if one.digest == digest)
    gpu = find_hopper()
    with Path(path).open("a") as file:
        for shape in map(int, shapes):
            for end in launches(gpu, variant, shape):
                print(shape, end, file=file, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
