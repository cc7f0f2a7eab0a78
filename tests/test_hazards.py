"""Each rule's kernel is found out, on schedules too where it does no harm; its twin is clean.

The kernels are written from the rules (``kernels/hazards``); a line marked ``// HERE`` is the one
that a report must name.
"""

import re

import numpy
import pytest

from hopper.conformance import digest, emulate
from hopper.conformance.kernels import CASES
from hopper.emulator import Emulator, Fault, HazardError, Run, Stopped
from hopper.emulator.hazard_kernels import HAZARD_KERNELS, HazardKernel
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
FIRST = {"schedule": "fixed", "tma": "lazy"}

each = pytest.mark.parametrize("it", HAZARD_KERNELS, ids=lambda it: it.name)


def launched(it: HazardKernel, fixed: bool, **how) -> tuple[Run, numpy.ndarray]:
    """A run of the kernel or its twin, and its output."""
    program, values = it.compile(fixed), it.arguments()
    args = [
        value
        if isinstance(value, numpy.ndarray | numpy.generic)
        else TensorMap(value.argument, value.box, value.swizzle)
        for value in values
    ]
    run = Emulator(step_limit=STEPS, **how).launch(
        program.ptx, it.name, it.grid, it.block, shared_bytes=it.shared_bytes, args=args
    )
    return run, values[it.output]


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
    for how in SCHEDULES:
        for skew in (0, 16) if it.shared_bytes else (how.get("shared_skew", 0),):
            run, output = launched(it, True, on_hazard="collect", **how | {"shared_skew": skew})
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


SMALL = [case for case in CASES if re.search("one_wgmma|ceiling|128x128x64|129x257x72", case.name)]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_the_books_kernels_break_no_rule(case):
    """A sample; all cases with twenty seeds, all orders of copies and both skews were run, too."""
    runs = [
        emulate(case, Emulator(on_hazard="collect", **how)) for how in (SCHEDULES[0], SCHEDULES[4])
    ]
    assert [run.hazards for _, run in runs] == [(), ()]
    assert digest(runs[0][0]) == digest(runs[1][0])
