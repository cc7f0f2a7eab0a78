"""What a GPU made of broken rules: recorded in every shape, sealed, and said in words."""

import json

import numpy
import pytest

from hopper.conformance import emulate
from hopper.emulator import Emulator
from hopper.emulator import hazard_trials as module
from hopper.emulator.hazard_inputs import Shape
from hopper.emulator.hazard_kernels import HAZARD_KERNELS
from hopper.emulator.hazard_trials import Outcome, Trial, Trials, load, ptx_hash, state, trials_path
from hopper.errors import RecordError
from hopper.records import NoRecording
from hopper.records.sealed import read_sealed, write_sealed
from hopper.schema import Provenance

WHERE = Provenance(
    gpu="NVIDIA H200", sm_count=132, driver="580", nvrtc="13.0.88", cupy="14", cublas="13",
    numpy="2", python="3.12", power_limit_watts=700.0, date="2026-01-31T12:00:00Z",
    commit="0" * 40, clean=True,
)  # fmt: skip
KERNEL = HAZARD_KERNELS[0]
EACH = len(module.SEEDS) * module.LAUNCHES


def outcome(right=EACH, wrong=0, hung=0, failed=0, size=1, cells=1) -> Outcome:
    return Outcome(size, cells, right, wrong, hung, failed)


def trial(*outcomes: Outcome, ptx: str = "0" * 64, twin: Outcome | None = None) -> Trial:
    return Trial(ptx, ("C7519",), outcomes or (outcome(),), (twin or outcome(),))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (outcome(), "right"),
        (outcome(right=288, wrong=12), "wrong 12 of 300"),
        (outcome(right=0, hung=1), "hangs"),
        (outcome(right=0, failed=1), "error"),
        (outcome(right=41, wrong=2, hung=1), "hangs after 43"),
    ],
)
def test_how_launches_ended_in_words(found, told):
    assert found.verdict == told


def test_one_shape_decides_what_a_kernel_is_called():
    wrong, hung = outcome(right=1, wrong=159, size=32), outcome(right=0, hung=1, cells=1056)
    assert trial(outcome()).kind == "right"
    assert trial(outcome(), wrong).kind == "wrong"
    assert trial(outcome(), wrong, hung).kind == "stops"
    assert trial(outcome(), wrong).at(32, 1) is wrong
    assert trial(outcome()).at(32, 1) is None
    assert trial(outcome()).twin_is_right
    for sick in (outcome(right=EACH - 1, wrong=1), outcome(right=0, failed=1), outcome(right=5)):
        assert not trial(outcome(), twin=sick).twin_is_right


def test_trials_are_written_sealed_and_belong_to_their_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    with pytest.raises(NoRecording, match="never tried on nvidia-h200"):
        load()
    nvrtc = KERNEL.compile(fixed=False).nvrtc
    found = Trials(nvrtc, WHERE, {KERNEL.name: trial(ptx=ptx_hash(KERNEL))})
    write_sealed(trials_path(), found, "trials")
    assert load() == found
    assert state(KERNEL, found) == "fresh"
    assert state(HAZARD_KERNELS[1], found) == "missing"
    assert state(KERNEL, Trials(nvrtc, WHERE, {KERNEL.name: trial()})) == "stale"
    assert state(KERNEL, Trials("12.9", WHERE, {KERNEL.name: trial()})) == "other compiler"
    whole = json.loads(trials_path().read_text())
    whole["held"]["trials"][KERNEL.name]["outcomes"][0]["wrong"] = 1
    trials_path().write_text(json.dumps(whole))
    with pytest.raises(RecordError, match="altered since it was recorded"):
        read_sealed(trials_path(), Trials)


def test_a_process_that_ends_goes_on_with_the_next_shape(monkeypatch):
    started = []

    def run(command, **_):
        started.append(command[7:])
        assert command[:6][-2:] == [KERNEL.name, "0"]
        with open(command[6], "a") as file:
            size, cells = started[-1][0].split("x")
            if len(started) == 1:  # a whole shape, and then two launches of the next
                file.write(f"{size} {cells} right\n" * EACH)
                size, cells = started[-1][1].split("x")
                file.write(f"{size} {cells} right\n{size} {cells} wrong\n")
            elif len(started) == 3:
                file.write(f"{size} {cells} wrong\n" * EACH)
        status = {1: 1, 2: -module.signal.SIGALRM, 3: 0}[len(started)]
        return type("Ended", (), {"returncode": status})

    monkeypatch.setattr(module, "run_group", run)
    assert module.shapes(KERNEL) == [(1, 1), (1, 1056), (32, 1), (32, 1056)]
    assert module.outcomes(KERNEL, fixed=False) == (
        outcome(EACH),
        outcome(1, wrong=1, failed=1, cells=1056),
        outcome(0, hung=1, size=32),
        outcome(0, wrong=EACH, size=32, cells=1056),
    )
    assert [len(one) for one in started] == [4, 2, 1]


LARGE = [kernel for kernel in HAZARD_KERNELS if len(kernel.sizes) > 1]


@pytest.mark.parametrize("kernel", LARGE, ids=lambda kernel: kernel.name)
def test_a_large_tile_breaks_the_same_rule_and_its_twin_is_right(kernel):
    shape = Shape(8, 1, seed=8)  # the recorded ones are larger, and slow to emulate
    (output,), run = emulate(kernel.case(True, shape), Emulator(on_hazard="collect"))
    assert run.hazards == ()
    assert output.tobytes() == kernel.expected(shape).tobytes()
    _, run = emulate(kernel.case(False, shape), Emulator(on_hazard="collect", step_limit=20_000))
    assert any(hazard.kind in (kernel.kind, *kernel.also) for hazard in run.hazards)


@pytest.mark.parametrize("kernel", HAZARD_KERNELS, ids=lambda kernel: kernel.name)
def test_every_copy_has_inputs_and_outputs_of_its_own(kernel):
    shape = Shape(1, 3, seed=9)
    (output,), run = emulate(kernel.case(True, shape), Emulator(on_hazard="collect"))
    expected = kernel.expected(shape)
    assert run.hazards == ()
    assert output.tobytes() == expected.tobytes()
    parts = numpy.split(expected.reshape(-1), 3)
    assert len({part.tobytes() for part in parts}) == 3
    assert kernel.expected(Shape(1, 3, seed=10)).tobytes() != expected.tobytes()


def test_names_are_those_of_files_and_kinds_of_the_watch():
    from hopper.emulator.hazards import KINDS
    from hopper.paths import KERNELS

    for kernel in HAZARD_KERNELS:
        assert (KERNELS / kernel.source).is_file()
        assert kernel.kind in KINDS
    assert {kernel.kind for kernel in HAZARD_KERNELS} == set(KINDS)


@pytest.mark.hopper
def test_the_corrected_twins_are_right_on_this_gpu():
    for kernel in HAZARD_KERNELS:
        for one in module.outcomes(kernel, fixed=True):
            assert one.right == EACH, (kernel.name, one)
