"""What a GPU made of broken rules: recorded, sealed, and said in words."""

import json

import pytest

from hopper.emulator import hazard_trials as module
from hopper.emulator.hazard_kernels import HAZARD_KERNELS
from hopper.emulator.hazard_trials import Trial, Trials, load, state, trials_path
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


def trial(ptx: str = "0" * 64, right=300, wrong=0, hung=0, failed=0) -> Trial:
    return Trial(ptx, ("C7519",), right, wrong, hung, failed, twin_right=300, twin_wrong=0)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (trial(), "right, 300 of 300"),
        (trial(right=288, wrong=12), "wrong, 12 of 300"),
        (trial(right=0, hung=1), "hangs"),
        (trial(right=0, failed=1), "ends with an error"),
        (trial(right=41, wrong=2, hung=1), "hangs after 43 launches, 41 right"),
    ],
)
def test_how_launches_ended_in_words(found, told):
    assert found.verdict == told


def test_trials_are_written_sealed_and_belong_to_their_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    with pytest.raises(NoRecording, match="never tried on nvidia-h200"):
        load()
    program = KERNEL.compile(fixed=False)
    found = Trials(program.nvrtc, WHERE, {KERNEL.name: trial(program.ptx_hash)})
    write_sealed(trials_path(), found, "trials")
    assert load() == found
    assert state(KERNEL, found) == "fresh"
    assert state(HAZARD_KERNELS[1], found) == "missing"
    assert state(KERNEL, Trials(program.nvrtc, WHERE, {KERNEL.name: trial()})) == "stale"
    assert state(KERNEL, Trials("12.9", WHERE, {KERNEL.name: trial()})) == "other compiler"
    whole = json.loads(trials_path().read_text())
    whole["held"]["trials"][KERNEL.name]["wrong"] = 1
    trials_path().write_text(json.dumps(whole))
    with pytest.raises(RecordError, match="altered since it was recorded"):
        read_sealed(trials_path(), Trials)


def test_a_process_that_ends_early_is_told_from_one_that_hangs(monkeypatch):
    def ended(status, lines):
        def run(command, **_):
            with open(command[-1], "a") as file:
                file.write("".join(f"{line}\n" for line in lines))
            return type("Ended", (), {"returncode": status})

        monkeypatch.setattr(module, "run_group", run)
        return module._verdicts(KERNEL, fixed=False)

    assert ended(0, ["right"] * module.LAUNCHES) == ["right"] * module.LAUNCHES
    assert ended(1, ["right", "wrong"]) == ["right", "wrong", "failed"]
    assert ended(-module.signal.SIGALRM, []) == ["hung"]


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
        verdicts = module._verdicts(kernel, fixed=True)
        assert verdicts == ["right"] * module.LAUNCHES, kernel.name
