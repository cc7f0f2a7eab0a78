"""The emulator computes what an H200 computed: every case, every bit."""

import json

import numpy
import pytest

from hopper import conformance
from hopper.conformance import Case, blank, cases, digest, emulate, tensorcore
from hopper.conformance import record as module
from hopper.conformance.kernels import CASES as KERNEL_CASES
from hopper.conformance.record import (
    Answer,
    Answers,
    answers_path,
    inputs_sha256,
    load,
    read_answers,
    state,
    units_with_cases,
    write_answers,
)
from hopper.errors import HopperError, RecordError
from hopper.records import NoRecording
from hopper.schema import Provenance

# The cases of the tensor core are large: they are compared below, without interpreting PTX.
EMULATED = [case for unit in units_with_cases() if unit != "tensorcore" for case in cases(unit)]
UNIT_OF = {case.name: unit for unit in units_with_cases() for case in cases(unit)}


def recorded(unit: str) -> Answers | None:
    try:
        return load(unit)
    except NoRecording:
        return None


@pytest.mark.parametrize("case", EMULATED, ids=lambda case: case.name)
def test_every_bit_is_the_one_that_the_h200_returned(case):
    used = case.compile().resources
    assert used.spill_loads == used.spill_stores == 0
    outputs, _ = emulate(case)
    answers = recorded(UNIT_OF[case.name])
    if state(case, answers) == "fresh":
        assert tuple(digest(outputs)) == answers.answers[case.name].outputs
    else:  # a case that was changed has no answer yet; check-records says so
        assert all(output.size for output in outputs)


@pytest.mark.parametrize("case", KERNEL_CASES, ids=lambda case: case.name)
def test_a_kernel_is_launched_as_it_says(case):
    facts = case.compile().facts
    assert (case.block, case.shared_bytes) == ((facts.threads, 1, 1), facts.shared_bytes)
    assert case.grid[0] % facts.cluster == 0


def _one_of_each_form() -> list[str]:
    """A case of every instruction, type and accumulator, another theme each time."""
    forms: dict[str, list[str]] = {}
    for case in cases("tensorcore"):
        forms.setdefault(case.name.rsplit(".", 1)[0], []).append(case.name)
    return [names[number % len(names)] for number, names in enumerate(forms.values())]


@pytest.mark.parametrize("name", _one_of_each_form())
def test_the_tensor_core_computes_what_the_h200_computed(name):
    answers = recorded("tensorcore")
    outputs = tensorcore.expected(name)
    if answers is not None:
        assert tuple(digest(outputs)) == answers.answers[name].outputs


SOURCE = """
extern "C" __global__ void twice(const int* in, int* out) {
  out[threadIdx.x] = 2 * in[threadIdx.x];
}
"""


@pytest.fixture
def case(tmp_path, monkeypatch):
    (tmp_path / "twice.cu").write_text(SOURCE)
    monkeypatch.setattr(conformance, "KERNELS", tmp_path)
    make = lambda: [numpy.arange(32, dtype=numpy.int32), blank(32, numpy.int32)]  # noqa: E731
    return Case("twice", "twice.cu", "twice", make, (1,), block=(32, 1, 1))


def answer(case: Case, outputs: list[numpy.ndarray]) -> Answers:
    program = case.compile()
    provenance = Provenance(
        gpu="NVIDIA H200", sm_count=132, driver="580", nvrtc=program.nvrtc, cupy="14", cublas="13",
        numpy="2", python="3.12", power_limit_watts=700.0, date="2026-01-31T12:00:00Z",
        commit="0" * 40, clean=True,
    )  # fmt: skip
    one = Answer(program.ptx_hash, program.nvrtc, inputs_sha256(case), tuple(digest(outputs)), 32)
    return Answers("demo", provenance, {case.name: one})


def test_an_answer_is_written_and_read_back_and_belongs_to_its_case(case, tmp_path):
    outputs, _ = emulate(case)
    assert outputs[0].tolist() == list(range(0, 64, 2))
    found = answer(case, outputs)
    path = answers_path("demo", root=tmp_path)
    write_answers(found, path)
    assert read_answers(path) == found
    assert state(case, found) == "fresh"
    assert state(case, None) == "missing"


def test_a_changed_kernel_and_changed_inputs_make_an_answer_stale(case, tmp_path, monkeypatch):
    found = answer(case, emulate(case)[0])
    other = lambda: [numpy.ones(32, numpy.int32), blank(32, numpy.int32)]  # noqa: E731
    assert state(Case("twice", "twice.cu", "twice", other, (1,)), found) == "stale"
    (tmp_path / "twice.cu").write_text(SOURCE.replace("2 *", "3 *"))
    assert state(case, found) == "stale"


def test_one_wrong_bit_is_another_digest(case):
    (output,), _ = emulate(case)
    before = digest([output])
    output[7] ^= 1
    assert digest([output]) != before


def test_an_altered_file_is_refused(case, tmp_path):
    path = answers_path("demo", root=tmp_path)
    write_answers(answer(case, emulate(case)[0]), path)
    whole = json.loads(path.read_text())
    whole["held"]["answers"]["twice"]["outputs"] = ["0" * 64]
    path.write_text(json.dumps(whole))
    with pytest.raises(RecordError, match="altered since it was recorded"):
        read_answers(path)
    path.write_text("{")
    with pytest.raises(RecordError, match="not readable"):
        read_answers(path)


def test_the_units_and_names_are_those_of_the_book():
    names = [case.name for case in cases()]
    assert len(names) == len(set(names)) == len(UNIT_OF)
    assert {"kernels", "tensorcore", "tma", "wgmma_layout"} <= set(units_with_cases())


def test_two_cases_of_one_name_are_refused(monkeypatch):
    monkeypatch.setattr(conformance, "units", lambda: ["alu", "alu"])
    with pytest.raises(HopperError, match="two cases are called"):
        cases()


def test_without_a_gpu_nothing_is_recorded(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    if module.main(["--out", str(tmp_path)]) == 0:
        pytest.skip("this machine has a Hopper GPU")
    assert "NoHopper" in capsys.readouterr().err


@pytest.mark.hopper
@pytest.mark.parametrize("unit", units_with_cases())
def test_this_gpu_answers_as_the_recorded_one_did(unit):
    from hopper.backends import find_hopper

    answers = load(unit)
    for case in cases(unit):
        if state(case, answers) == "fresh":
            found = tuple(digest(conformance.run_on_gpu(case, find_hopper())))
            assert found == answers.answers[case.name].outputs, case.name
