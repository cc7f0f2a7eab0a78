"""Each rule's kernel is found out, on schedules too where it does no harm; its twin is clean.

The kernels are written from the rules (``kernels/hazards``); a line marked ``// HERE`` is the one
that a report must name.
"""

import re
from functools import cache
from itertools import product

import numpy
import pytest

from hopper.compile import Program, compile_cuda
from hopper.conformance import digest, emulate
from hopper.conformance.kernels import CASES
from hopper.emulator import Emulator, Fault, HazardError, Run, Stopped
from hopper.emulator.hazard_kernels import HAZARD_KERNELS, PIPELINE, HazardKernel
from hopper.emulator.hazards import KINDS, Hazard
from hopper.paths import KERNELS
from hopper.tensormap import TensorMap

TMA = ("lazy", "eager", "random")
SCHEDULES = [
    {"schedule": "fixed", "tma": "lazy"},
    {"schedule": "fixed", "tma": "eager"},
    *(
        {"schedule": "random", "tma": tma, "seed": seed, "shared_skew": skew}
        for seed, tma, skew in zip(range(5), (*TMA, *TMA), (0, 16, 0, 16, 16), strict=False)
    ),
]
# Enough for the kernels that end, and soon reached by the one that does not.
STEPS = 4_000
LONGER = {"step_limit": 100_000}  # for the pipeline
FIRST = {"schedule": "fixed", "tma": "lazy"}

each = pytest.mark.parametrize("it", HAZARD_KERNELS, ids=lambda it: it.name)


@cache
def compiled(it: HazardKernel, fixed: bool) -> Program:
    """The program, looked up once."""
    return it.compile(fixed)


def launched(
    it: HazardKernel, fixed: bool, program: Program | None = None, **how
) -> tuple[Run, numpy.ndarray]:
    """A run of the kernel, of its twin or of a given program, and its output."""
    program, values = program or compiled(it, fixed), it.arguments()
    args = [
        value
        if isinstance(value, numpy.ndarray | numpy.generic)
        else TensorMap(value.argument, value.box, value.swizzle)
        for value in values
    ]
    run = Emulator(**{"step_limit": STEPS} | how).launch(
        program.ptx, it.name, it.grid, it.block, shared_bytes=it.shared_bytes, args=args
    )
    return run, values[it.output]


def with_header(name: str) -> str:
    """A kernel with its header's text in it, ready to be changed."""
    header = (KERNELS / "hazards/hazard.cuh").read_text().replace("#pragma once", "")
    return (KERNELS / f"hazards/{name}.cu").read_text().replace('#include "hazard.cuh"', header)


def marked(it: HazardKernel) -> set[str]:
    """The lines that a report must name."""
    lines = (KERNELS / it.source).read_text().splitlines()
    return {f"{it.name}.cu:{n}" for n, line in enumerate(lines, 1) if "// HERE" in line}


def fits(it: HazardKernel, found: Hazard) -> bool:
    """Whether a hazard is the kernel's own, with its line and its threads."""
    named = found.source_line in marked(it) and re.search(it.threads, found.threads)
    return found.kind == it.kind and bool(named)


@each
def test_it_is_reported_on_every_schedule(it):
    for how in SCHEDULES:
        run, _ = launched(it, False, on_hazard="collect", **how)
        found = [(h.kind, h.source_line, h.threads) for h in run.hazards]
        if it.also and how != FIRST:
            assert any(h.kind in (it.kind, *it.also) for h in run.hazards), (how, found)
        else:
            assert any(fits(it, h) for h in run.hazards), (how, found)


@each
def test_it_is_the_first_to_be_raised_unless_it_is_a_warning(it):
    for how in SCHEDULES[::3]:
        if KINDS[it.kind].warning:
            run, output = launched(it, False, **how)
            assert [h.kind for h in run.hazards] == [it.kind] and run.completed
            assert output.tobytes() == it.expected().tobytes()
            continue
        with pytest.raises((HazardError, Stopped)) as raised:
            launched(it, False, **how)
        found = raised.value.hazard
        assert fits(it, found) or found.kind in it.also, (how, found)
        assert KINDS[found.kind].rule == found.rule
        assert found.message in str(raised.value)


@each
def test_its_twin_is_clean_and_right_on_every_schedule(it):
    # Only dynamic shared memory can be moved.
    skews = (0, 16) if it.shared_bytes else (0,)
    orders = product(range(3), TMA, skews)
    hows = [{"seed": n, "tma": tma, "shared_skew": skew} for n, tma, skew in orders]
    for how in [FIRST, *({"schedule": "random"} | how for how in hows)]:
        run, output = launched(it, True, on_hazard="collect", **how)
        assert run.completed and run.hazards == (), how
        assert output.tobytes() == it.expected().tobytes(), how


@each
def test_its_twin_needs_no_repair_by_the_compiler(it):
    it.compile(True).require_clean()


def test_every_kind_has_a_kernel():
    assert {it.kind for it in HAZARD_KERNELS} == set(KINDS)


@pytest.mark.parametrize("name", ["misaligned", "deadlock", "never_ends"])
def test_what_stops_a_run_ends_it_with_a_hazard(name):
    it = next(it for it in HAZARD_KERNELS if it.name == name)
    run, _ = launched(it, False, on_hazard="collect")
    assert not run.completed
    assert fits(it, run.hazards[-1])
    with pytest.raises(Stopped) as stopped:
        launched(it, False, on_hazard="ignore")
    assert stopped.value.hazard == run.hazards[-1]
    assert stopped.value.kind == it.kind


def test_nothing_is_looked_for_where_hazards_are_ignored():
    it = next(it for it in HAZARD_KERNELS if it.name == "no_proxy_fence_read")
    run, output = launched(it, False, on_hazard="ignore")
    assert run.hazards == () and run.completed
    assert output.tobytes() == it.expected().tobytes()


def test_a_fault_without_a_rule_of_its_own_is_called_so():
    assert Fault("value, rule, way out").kind == "fault"


def test_a_hazard_reads_as_a_compiler_would_write_it():
    it = next(it for it in HAZARD_KERNELS if it.name == "no_proxy_fence_write")
    (found,) = launched(it, False, on_hazard="collect")[0].hazards
    assert str(found).startswith(f"{next(iter(marked(it)))}: no-proxy-fence: ")
    assert KINDS["no-proxy-fence"].help in found.message


SMALL = [
    case
    for case in CASES
    if re.search(r"one_wgmma\.(40|256)|ceiling\...\.8$|128x128x64|v1.*129x257x72", case.name)
]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_the_books_kernels_break_no_rule(case):
    """A sample; all cases with twenty seeds, all orders of copies and both skews were run, too."""
    runs = [
        emulate(case, Emulator(on_hazard="collect", **how)) for how in (SCHEDULES[0], SCHEDULES[4])
    ]
    assert [run.hazards for _, run in runs] == [(), ()]
    assert digest(runs[0][0]) == digest(runs[1][0])


STUCK = {
    "partial-warpgroup": (
        "wgmma_fence();  // HERE",
        "if (threadIdx.x >= 64) { __syncthreads(); return; } wgmma_fence();",
    ),
    "deadlock": (
        "wgmma_fence();  // HERE",
        """__shared__ unsigned long long never;
        if (threadIdx.x == 96) { mbarrier_init(&never, 1); mbarrier_wait_parity(&never, 0); }
        wgmma_fence();""",
    ),
}


@pytest.mark.parametrize("kind", STUCK)
def test_a_warpgroup_that_waits_for_its_others_blames_them_if_they_cannot_come(kind):
    text = with_header("partial_warpgroup").replace(*STUCK[kind])
    program = compile_cuda(
        text.replace("wait_group<0>();", "wait_group<0>(); __syncthreads();"),
        "partial_warpgroup",
        defines={"FIXED": 1},
    )
    it = next(it for it in HAZARD_KERNELS if it.name == "partial_warpgroup")
    for how in (FIRST, SCHEDULES[4]):
        run, _ = launched(it, True, program, on_hazard="collect", **how)
        assert run.hazards[-1].kind == kind


# ---- a pipeline of everything -------------------------------------------------------------------


def test_a_pipeline_of_everything_breaks_no_rule():
    for how in SCHEDULES[::2]:
        run, output = launched(PIPELINE, False, on_hazard="collect", **LONGER, **how)
        assert run.completed and run.hazards == (), how
        assert output.tobytes() == PIPELINE.expected().tobytes(), how


CHANGES = {
    "the producer starts with the wrong parity": ("% 2 ^ 1", "% 2", {"deadlock"}),
    "empty counts one block only": ("2 * WARPS", "WARPS", {"deadlock", "fault", "expect-tx"}),
    "no proxy fence in the epilogue": ("      fence_proxy_async();", "", {"no-proxy-fence"}),
    "no closing cluster barrier": ("  cluster_sync();\n}", "}", {"peer-gone"}),
    "a stage is released one step early": ("group<1>", "group<2>", {"operand-overwritten"}),
    "the last store may still read": (
        "bulk_wait_group_read();  //",
        ";  //",
        {"store-overwritten"},
    ),
    "nobody waits for the last store": (
        "    if (thread == 0) bulk_wait_group_read();\n    __sync",
        "    __sync",
        {"group-never-waited"},
    ),
    "one thread knows of the store, the others do not": (
        "store\n      warpgroup_sync(1 + group);",
        "store",
        {"store-overwritten"},
    ),
    "the product is stored before all have written": (
        "fence_proxy_async();\n      warpgroup_sync(1 + group);",
        "fence_proxy_async();",
        {"shared-race"},
    ),
    "no wgmma.fence": ("wgmma_fence();", "", {"no-wgmma-fence"}),
    "half of B is not announced": ("BOTH_A + B_BYTES)", "BOTH_A + B_BYTES / 2)", {"expect-tx"}),
    "only the own producer is told": (
        "to < 2 && releases",
        "to < 1 && releases",
        {"deadlock", "expect-tx"},
    ),
    "three registers too few are given up": ("u32 24;", "u32 40;", {"register-budget"}),
    "barriers are initialised for the own block only": (
        "  }\n  cluster_sync();\n\n",
        "  }\n  __syncthreads();\n\n",
        {"barrier-not-visible"},
    ),
    "the tiles are not waited for": (
        "mbarrier_wait_parity(&full[stage], n / STAGES % 2);",
        "",
        {"copy-not-arrived", "shared-unwritten"},
    ),
    "stages are not waited for": (
        "mbarrier_wait_parity(&empty[stage], n / STAGES % 2 ^ 1);",
        "",
        {"fault", "expect-tx", "operand-overwritten"},
    ),
    "one warp releases for its warpgroup": (
        "2 * WARPS);",
        "4);",
        {"one-warp-release"},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_pipeline_is_found_out(name):
    old, new, kinds = CHANGES[name]
    text = with_header("none")
    assert text.count(old) >= 1, f"none.cu no longer says {old!r}"
    text = text.replace(old, new)
    if name == "one warp releases for its warpgroup":
        text = text.replace("thread % 32 == 0", "thread == 0")
    program = compile_cuda(text, "none")
    run, _ = launched(PIPELINE, False, program, on_hazard="collect", **LONGER)
    assert kinds & {h.kind for h in run.hazards}, run.hazards
