"""Records: strict reading, seals, freshness, look-up by name, bundles, provenance, the recorder."""

import base64
import dataclasses
import importlib
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import numpy
import pytest
from hypothesis import strategies as st

from hopper import (
    bench,
    compile_kernel,
    counters,
    experiments,
    kernel_names,
    notebooks,
    provenance,
    recording,
    records,
    schema,
)
from hopper.check import Worst, check, reference_rows
from hopper.errors import CompileError, HopperError, RecordError
from hopper.experiments import experiments_of
from hopper.gemm import Problem
from hopper.mutants import mutations
from hopper.paths import INCLUDE, KERNELS
from hopper.plans import KernelPlan
from hopper.processes import environment, run_group
from hopper.records import HEADLINE, NoRecording

KERNEL = "v1_wgmma"
SMALL = Problem(1024, 1024, 1024)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHERE = schema.Provenance(
    gpu="NVIDIA H200",
    sm_count=132,
    driver="580.159.04",
    nvrtc="13.0.88",
    cupy="14.2.0",
    cublas="13.1.0",
    numpy="2.5.2",
    python="3.12.3",
    power_limit_watts=700.0,
    date="2026-01-31T12:00:00Z",
    commit=COMMIT,
    clean=True,
)
PASSED = schema.Checked("all elements against fp64", 0.1, 2e-4, 4e-4, Worst(1, 2, 3.0, 3.1, 0.2))
STATE = schema.Conditions(
    1550.0,
    1560.0,
    None,
    schema.Spread(690.0, 600.0, 700.0, 20),
    None,
    {"software power cap": 3},
    20,
)
METRICS = {
    "gpu__time_duration.sum": schema.Metric(2.0e6, "ns"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": schema.Metric(67.0, "%"),
}


def identity(**defines: int) -> schema.Identity:
    return records.identity_of(compile_kernel(KERNEL, **defines))


def entry(data: schema.Data, **defines: int) -> schema.Entry:
    kind = next(name for name, cls in schema.KINDS.items() if isinstance(data, cls))
    return schema.Entry(KERNEL, kind, identity(**defines), WHERE, data)


def timing(problem: Problem = HEADLINE, mode: str = "burst", ms: float = 2.0) -> schema.Timing:
    return schema.Timing(
        problem,
        mode,
        bench.PEER,
        15,
        1,
        (ms, ms * 1.1, ms * 0.9),
        (1.5, 1.4, 1.6),
        STATE,
        None,
        PASSED,
    )


def row(**defines: int) -> schema.TuningRow:
    return schema.TuningRow(
        defines, identity(**defines), 90, "timed", None, 1, (4.0, 4.0), (2.0, 2.0), PASSED
    )


def refused(**defines: int) -> schema.TuningRow:
    return schema.TuningRow(defines, None, None, "refused", "does not fit", 0, (), (), None)


def chapter(slug: str = KERNEL) -> schema.Chapter:
    code = notebooks.code_sha256(notebooks.code_cells(slug))
    outputs = (schema.Output(1, "stdout", "hello\n"), schema.Output(2, "text/plain", "42"))
    return schema.Chapter(slug, code, {KERNEL: identity()}, 2, 12.5, outputs)


def example(kind: str) -> schema.Data:
    """A sound entry of every kind, those that no kernel fills yet included."""
    return {
        "timing": timing,
        "tuning": lambda: schema.Tuning(
            HEADLINE,
            bench.PEER,
            (row(TILE_M=64, TILE_N=128), refused(TILE_M=256, TILE_N=256)),
        ),
        "sweep": lambda: schema.Sweep(
            "rate over N", "N", "columns", (8.0, 16.0), "TFLOPS", {"fp16": (1.0, 2.0)}
        ),
        "counters": lambda: schema.Counters(
            HEADLINE,
            "ncu 2025.3.1.0",
            ("--clock-control", "none"),
            schema.Profile(KERNEL, METRICS),
            schema.Profile("nvjet_hsh", METRICS),
            ("lts__made_up.sum",),
        ),
        "mutants": lambda: schema.Mutants(
            mutations(KERNEL)[0].name,
            records.change_of(mutations(KERNEL)[0]),
            ("C7519: injected",),
            (schema.Trial(SMALL, 5, 2, 1, 1, 1, 0.5), schema.Trial(HEADLINE, 3, 3, 0, 0, 0, None)),
        ),
        "probe": lambda: schema.Probe(
            "descriptor",
            "which bits count?",
            {"out": schema.Array.of(numpy.arange(6, dtype="float16").reshape(2, 3))},
        ),
        "chapter": chapter,
    }[kind]()


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """An empty folder of recordings."""
    folder = tmp_path / "results"
    monkeypatch.setenv("HOPPER_RESULTS", str(folder))
    return folder


def write(*entries: schema.Entry) -> Path:
    path = records.record_path(KERNEL)
    records.write_record(records.Record(KERNEL, "NVIDIA H200", entries), path)
    return path


def reseal(path: Path, whole: dict) -> None:
    path.write_text(json.dumps({**whole, "seal": records.seal(whole)}))


# Schema


@pytest.mark.parametrize("kind", schema.KINDS)
def test_every_kind_reads_back_as_it_was_written(kind, results):
    written = entry(example(kind))
    write(written)
    assert records.load(KERNEL).entries == (written,)


def test_a_recorded_check_reports_like_the_check_itself():
    a, b = Problem(64, 64, 64).inputs()
    found = check(reference_rows(a, b, slice(None)).astype("float16"), a, b)
    assert schema.Checked.of(found).report == str(found)


def test_an_array_survives_its_encoding():
    array = numpy.arange(6, dtype=">i4").reshape(3, 2)
    assert (schema.Array.of(array).array() == array).all()


def paths_in(value, here=()):
    """Every place in a JSON value, as a tuple of keys and indices."""
    yield here
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from paths_in(inner, (*here, key))


def at(value, place):
    for key in place:
        value = value[key]
    return value


# Fields whose keys are names of the measured thing, not of the schema.
FREE = {"defines", "facts", "throttle", "metrics", "series", "arrays", "kernels"}


def fixed_objects(value) -> list[tuple]:
    return [
        place
        for place in paths_in(value)
        if isinstance(at(value, place), dict) and not (place and place[-1] in FREE)
    ]


@pytest.mark.parametrize("kind", schema.KINDS)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=40)
def test_a_missing_field_is_refused_by_name(kind, data):
    value = json.loads(json.dumps(entry(example(kind)).as_json()))
    place = data.draw(st.sampled_from([p for p in fixed_objects(value) if at(value, p)]))
    gone = data.draw(st.sampled_from(sorted(at(value, place))))
    del at(value, place)[gone]
    with pytest.raises(RecordError, match=rf"here.*({gone} is missing|kind None is unknown)"):
        schema.parse_entry(value, KERNEL, "here")


@pytest.mark.parametrize("kind", schema.KINDS)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=20)
def test_an_unknown_field_is_refused_by_name(kind, data):
    value = json.loads(json.dumps(entry(example(kind)).as_json()))
    place = data.draw(st.sampled_from(fixed_objects(value)))
    at(value, place)["surprise"] = 1
    with pytest.raises(RecordError, match="here.*surprise is unknown"):
        schema.parse_entry(value, KERNEL, "here")


@pytest.mark.parametrize("kind", schema.KINDS)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=40)
def test_a_wrong_type_is_refused(kind, data):
    value = json.loads(json.dumps(entry(example(kind)).as_json()))
    place = data.draw(st.sampled_from([p for p in paths_in(value) if p]))
    # No field may be a list of lists of objects, so this fits nowhere.
    at(value, place[:-1])[place[-1]] = [[{}]]
    with pytest.raises(RecordError, match="here"):
        schema.parse_entry(value, KERNEL, "here")


@pytest.mark.parametrize(
    ("kind", "place", "bad", "says"),
    [
        ("timing", ("kind",), "rumour", "kind 'rumour' is unknown.*known kinds: timing"),
        ("timing", ("data", "mode"), "warm", r"data.mode must be burst or sustained, not 'warm'"),
        ("timing", ("data", "samples_ms"), [], "samples_ms must not be empty"),
        ("timing", ("data", "samples_ms"), [1.0], "must pair up"),
        ("timing", ("data", "samples_ms", 1), -1.0, "every time must be positive"),
        ("timing", ("data", "samples_ms", 1), float("nan"), r"samples_ms\[1\] must be a finite"),
        ("timing", ("data", "samples_ms", 1), True, r"samples_ms\[1\] must be float, not True"),
        ("timing", ("data", "problem", "k"), 100, "K=100: a row of A is 200 bytes"),
        ("timing", ("identity", "ptx"), "abc", "ptx must be a SHA-256"),
        ("timing", ("provenance", "date"), "yesterday", "date must look like"),
        ("timing", ("provenance", "commit"), "main", "commit must be 40 hex digits"),
        ("timing", ("data", "conditions", "power_watts", "low"), 1000.0, "must be in order"),
        ("tuning", ("data", "rows", 1, "reason"), None, "a refused row needs a reason"),
        ("tuning", ("data", "rows", 0, "check"), None, "a timed row needs a check"),
        ("sweep", ("data", "series", "fp16"), [1.0], "series fp16 must have one value"),
        ("counters", ("data", "own", "metrics"), {}, "metrics must not be empty"),
        ("mutants", ("data", "trials", 0, "right"), 5, "must add up to runs"),
        ("probe", ("data", "arrays", "out", "data"), "AAAA", "3 bytes, the shape needs 12"),
        ("chapter", ("data", "cells"), 0, "a chapter that ran nothing is no run"),
    ],
)
def test_a_wrong_value_is_refused_with_its_rule(kind, place, bad, says):
    value = json.loads(json.dumps(entry(example(kind)).as_json()))
    at(value, place[:-1])[place[-1]] = bad
    with pytest.raises(RecordError, match=says):
        schema.parse_entry(value, KERNEL, "here")


# Files


def test_a_missing_record_says_how_to_make_one(results):
    with pytest.raises(NoRecording, match="never recorded on nvidia-h200.*make record OUT="):
        records.load(KERNEL)


def test_a_truncated_record_is_refused_wherever_it_ends(results):
    path = write(entry(timing()))
    whole = path.read_text()
    for length in (0, 1, len(whole) // 2, len(whole) - 3):
        path.write_text(whole[:length])
        with pytest.raises(RecordError, match="v1_wgmma.json: truncated.*from git again"):
            records.load(KERNEL)


def test_an_altered_number_breaks_the_seal(results):
    path = write(entry(timing(ms=2.0)))
    text = path.read_text()
    assert text.count("[2.0,") == 1
    path.write_text(text.replace("[2.0,", "[1.0,"))
    with pytest.raises(RecordError, match="altered since it was recorded.*from git again"):
        records.load(KERNEL)


def test_reformatting_does_not_break_the_seal(results):
    path = write(entry(timing()))
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7))
    assert len(records.load(KERNEL).entries) == 1


def test_a_refusal_names_file_entry_and_field(results):
    path = write(entry(timing()), entry(example("sweep")))
    whole = json.loads(path.read_text())
    del whole["entries"][1]["data"]["unit"]
    reseal(path, whole)
    with pytest.raises(RecordError, match=r"v1_wgmma.json: entry 1 \(sweep\): data: field unit is"):
        records.load(KERNEL)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("format", 2, "not a record of format 1"),
        ("kernel", "v2", "belongs elsewhere"),
        ("gpu", "NVIDIA H100", "belongs elsewhere"),
        ("note", "hi", "unknown field: note"),
    ],
)
def test_a_file_of_another_kind_is_refused(results, field, value, says):
    path = write(entry(timing()))
    reseal(path, {**json.loads(path.read_text()), field: value})
    with pytest.raises(RecordError, match=says):
        records.load(KERNEL)


def test_the_same_thing_twice_and_another_gpu_are_refused(results):
    path = write(entry(timing()))
    whole = json.loads(path.read_text())
    reseal(path, {**whole, "entries": whole["entries"] * 2})
    with pytest.raises(RecordError, match=r"entry 1 \(timing\) is there twice"):
        records.load(KERNEL)
    whole["entries"][0]["provenance"]["gpu"] = "NVIDIA H100"
    reseal(path, whole)
    with pytest.raises(RecordError, match="was measured on NVIDIA H100"):
        records.load(KERNEL)


# Freshness


@pytest.mark.parametrize("kind", schema.KINDS)
def test_what_was_just_recorded_is_fresh(kind):
    assert records.freshness(entry(example(kind))) == "fresh"


@pytest.fixture
def edited_kernel(tmp_path, monkeypatch):
    """Replace text in a copy of the kernel file for one test."""
    folder = tmp_path / "kernels"

    def edit(old: str, new: str) -> None:
        from hopper import compile as compiling

        source = compiling.KERNELS
        shutil.copytree(source, folder)
        path = folder / f"{KERNEL}.cu"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        monkeypatch.setattr(compiling, "KERNELS", folder)
        monkeypatch.setattr(compiling, "INCLUDE", folder / "include")

    return edit


def test_a_changed_kernel_is_stale_and_a_changed_comment_is_not(edited_kernel):
    recorded = [entry(example(kind)) for kind in schema.KINDS]
    edited_kernel("// v1", "// version one")
    assert {records.freshness(one) for one in recorded} == {"fresh"}


def test_a_changed_constant_makes_every_kind_stale(edited_kernel):
    recorded = [entry(example(kind)) for kind in schema.KINDS]
    edited_kernel("LAUNCH_FACT(cluster, 1)", "LAUNCH_FACT(cluster, 2)")
    assert {records.freshness(one) for one in recorded} == {"stale"}


def test_a_recording_of_another_configuration_under_this_name_is_stale():
    wrong = dataclasses.replace(identity(TILE_M=64), defines={})
    assert records.freshness(dataclasses.replace(entry(timing()), identity=wrong)) == "stale"


def test_another_compiler_is_neither_fresh_nor_stale():
    other = dataclasses.replace(identity(), nvrtc="12.9.86")
    one = dataclasses.replace(entry(timing()), identity=other)
    assert records.freshness(one) == "other compiler"


def test_a_refused_configuration_that_now_compiles_is_stale():
    good = refused(TILE_M=64, TILE_N=128)
    assert records.freshness(entry(schema.Tuning(HEADLINE, bench.PEER, (good,)))) == "stale"


def test_a_chapter_whose_code_changed_is_stale():
    other = dataclasses.replace(chapter(), code_sha256=64 * "0")
    assert records.freshness(entry(other)) == "stale"
    gone = dataclasses.replace(chapter(), slug="no_such_chapter")
    assert records.freshness(entry(gone)) == "stale"


def test_a_mutant_that_changed_is_stale():
    other = dataclasses.replace(example("mutants"), change="- this\n+ that")
    assert records.freshness(entry(other)) == "stale"


def test_without_a_compiler_nothing_is_called_stale(monkeypatch):
    recorded = entry(timing())

    def missing():
        raise CompileError("NVRTC is missing: pip install nvidia-cuda-nvrtc")

    monkeypatch.setattr("hopper.records.fresh.nvrtc_version", missing)
    with pytest.raises(CompileError, match="pip install"):
        records.freshness(recorded)


# Look-up


def test_find_narrows_by_problem_and_mode(results):
    write(entry(timing()), entry(timing(mode="sustained")), entry(timing(SMALL)))
    assert len(records.find("timing", KERNEL)) == 3
    assert len(records.find("timing", KERNEL, problem=HEADLINE)) == 2
    assert (
        records.find("timing", KERNEL, problem=HEADLINE, mode="sustained")[0].data.mode
        == "sustained"
    )
    assert records.find("sweep", KERNEL) == []


def test_current_refuses_what_is_absent_and_what_is_stale(results, edited_kernel):
    write(entry(example("tuning")))
    assert records.current("tuning", KERNEL).kind == "tuning"
    with pytest.raises(NoRecording, match="v1_wgmma has no counters"):
        records.current("counters", KERNEL)
    edited_kernel("LAUNCH_FACT(cluster, 1)", "LAUNCH_FACT(cluster, 2)")
    with pytest.raises(NoRecording, match="changed since its tuning was recorded"):
        records.current("tuning", KERNEL)


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("ms", 2.0, "ms"),
        ("tflops", 2 * 8192**3 / 2.0 / 1e9, "TFLOPS"),
        ("cublas ms", 1.5, "ms"),
        ("cublas tflops", 2 * 8192**3 / 1.5 / 1e9, "TFLOPS"),
        ("ratio", 75.0, "%"),
        ("clock", 1550.0, "MHz"),
        ("power", 690.0, "W"),
        ("relative_norm", 2e-4, ""),
        ("1024 ms", 3.0, "ms"),
        ("8191x8190x8184 ms", 5.0, "ms"),
        ("sustained ms", 4.0, "ms"),
        ("sustained ratio", 37.5, "%"),
        ("tuning 64x128 ratio", 50.0, "%"),
        ("tuning TILE_M=64,TILE_N=128 ms", 4.0, "ms"),
        ("tuning 64x128 registers", 90, "registers"),
        ("counters tensor_pipe", 67.0, "%"),
        ("counters gpu__time_duration.sum", 2.0e6, "ns"),
        ("counters cublas duration", 2.0e6, "ns"),
        ("mutants no_wgmma.fence right", 5, ""),
        ("mutants no_wgmma.fence runs", 8, ""),
        ("sweep rate_over_N fp16@16", 2.0, "TFLOPS"),
        ("chapter v1_wgmma cells", 2, ""),
    ],
)
def test_a_quantity_by_name(results, name, value, unit):
    write(
        entry(timing()),
        entry(timing(mode="sustained", ms=4.0)),
        entry(timing(SMALL, ms=3.0)),
        entry(timing(Problem(8191, 8190, 8184), ms=5.0)),
        # Neither of these is what a plain name means.
        entry(timing(ms=77.0), TILE_M=64),
        entry(timing(Problem(8192, 8192, 8192, distribution="zeros"), ms=88.0)),
        *(entry(example(kind)) for kind in ("tuning", "counters", "mutants", "sweep", "chapter")),
    )
    found = records.quantity(f"{KERNEL} {name}")
    assert found.value == pytest.approx(value)
    assert found.unit == unit
    assert found.source == "recorded on an NVIDIA H200, 2026-01-31, commit 0123456789"


def test_bf16_has_names_of_its_own():
    wide = dataclasses.replace(HEADLINE, dtype="bfloat16")
    compiled = dataclasses.replace(identity(), defines={"BF16": 1})
    told = [
        entry(timing()),
        dataclasses.replace(entry(timing(wide, ms=4.0)), identity=compiled),
        dataclasses.replace(entry(timing(wide, "sustained", ms=5.0)), identity=compiled),
        # A configuration of its own has no name of its own.
        dataclasses.replace(
            entry(timing(wide, ms=77.0)),
            identity=dataclasses.replace(identity(), defines={"BF16": 1, "STAGES": 2}),
        ),
    ]
    for entries in (told, told[::-1]):
        found = {name: one.value for name, (one, _) in records.named_quantities(entries).items()}
        assert (found["ms"], found["bf16 ms"], found["bf16 sustained ms"]) == (2.0, 4.0, 5.0)
    with pytest.raises(NoRecording):
        records.quantity("v5_in_flight bf16 4096 sustained ratio low", gpu="none")


def test_every_listed_quantity_can_be_asked_for(results):
    write(*(entry(example(kind)) for kind in schema.KINDS))
    listed = records.quantities(KERNEL)
    assert len(listed) > 20
    for name, found in listed.items():
        assert records.quantity(f"{KERNEL} {name}") == found


def test_a_gap_is_told_from_a_typing_error(results):
    with pytest.raises(NoRecording, match="never recorded"):
        records.quantity(f"{KERNEL} tflops")
    write(entry(timing()))
    with pytest.raises(NoRecording, match="nothing like this was recorded on nvidia-h200"):
        records.quantity(f"{KERNEL} counters tensor_pipe")
    for wrong in ("tflop", "counters tensor_pip", "sustained", "tuning 64x128 colour", ""):
        with pytest.raises(RecordError, match="no such quantity.*tflops") as refusal:
            records.quantity(f"{KERNEL} {wrong}")
        assert not isinstance(refusal.value, NoRecording)
    with pytest.raises(RecordError, match="there is no kernel v9; there are .*v1_wgmma"):
        records.quantity("v9 tflops")


def test_a_quantity_of_a_changed_kernel_is_a_gap(results, edited_kernel):
    write(entry(timing()))
    edited_kernel("LAUNCH_FACT(cluster, 1)", "LAUNCH_FACT(cluster, 2)")
    with pytest.raises(NoRecording, match="no recording of this variant.*changed since 2026-01-31"):
        records.quantity(f"{KERNEL} tflops")


def test_an_ambiguous_tile_has_no_short_name():
    data = schema.Tuning(HEADLINE, bench.PEER, (row(TILE_M=64, TILE_N=128), row(TILE_M=64)))
    names = records.named_quantities([entry(data)])
    assert "tuning TILE_M=64 ms" in names
    assert "tuning 64x128 ms" not in names


def test_tables_for_a_chapter(results):
    write(entry(example("tuning")), entry(example("counters")))
    timed, not_timed = records.tuning_table(KERNEL)
    assert timed["config"] == {"TILE_M": 64, "TILE_N": 128}
    assert timed["ratio"] == 0.5 and timed["reason"] is None
    assert not_timed["tflops"] is None and not_timed["reason"] == "does not fit"
    assert records.counter(KERNEL, "tensor_pipe") == 67.0
    assert math.isnan(records.counter(KERNEL, "dram_read")), "ncu did not have it"
    counters = records.counters_table(KERNEL)
    pipe = next(cells for cells in counters.rows if cells[0] == "tensor pipe")
    assert pipe[1] == "67" and pipe[4].startswith("sm__")
    assert "nvjet_hsh" in counters.label
    assert "NVIDIA H200, 2026-01-31, recorded" in counters.label


def test_a_live_measurement_is_shown_beside_the_recorded_one(results, no_gpu):
    write(entry(timing()))
    found = bench.measure(KERNEL, HEADLINE)
    assert bench.beside_recording(found) == [found]
    live = dataclasses.replace(found, recorded=False)
    assert bench.beside_recording(live) == [live, found]
    elsewhere = dataclasses.replace(live, problem=SMALL)
    assert bench.beside_recording(elsewhere)[1].label == "no recording of this variant"


# measure() without a GPU


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(bench, "available", lambda: None)


def test_measure_loads_the_recording(results, no_gpu):
    write(entry(timing()), entry(timing(mode="sustained", ms=4.0)))
    found = bench.measure(KERNEL, HEADLINE)
    assert found.recorded and found.ms == 2.0 and found.ratio == pytest.approx(0.75)
    assert found.label == "NVIDIA H200, 2026-01-31, recorded"
    assert "75.0% of cuBLAS" in str(found)
    assert bench.measure(KERNEL, HEADLINE, mode="sustained").ms == 4.0


def test_measure_finds_a_variant_by_what_it_compiles_to(results, no_gpu):
    write(entry(timing()), entry(example("tuning")))
    assert bench.measure(KERNEL, HEADLINE, TILE_M=128, TILE_N=128).ms == 2.0
    assert bench.measure(KERNEL, HEADLINE, TILE_M=64).ms == 4.0  # out of the tuning table
    assert bench.measure(compile_kernel(KERNEL, TILE_M=64), HEADLINE).ms == 4.0


def test_measure_of_what_was_not_recorded_lists_what_was(results, no_gpu):
    write(entry(timing()), entry(example("tuning")))
    says = (
        "TILE_N=64.*no recording of this variant; run on a Hopper GPU, or use what is recorded: "
        "as written at 8192×8192×8192, burst; TILE_M=64 TILE_N=128 at 8192×8192×8192, burst$"
    )
    unrecorded = bench.measure(KERNEL, HEADLINE, TILE_N=64)
    assert re.search(says, unrecorded.missing)
    assert unrecorded.label == "no recording of this variant"
    assert unrecorded.report == str(unrecorded) == unrecorded.missing
    numbers = [unrecorded.ms, unrecorded.tflops, unrecorded.peer_tflops, unrecorded.ratio]
    assert all(map(math.isnan, [*numbers, *unrecorded.ratio_spread, unrecorded.clock_mhz]))
    assert "1024×1024×1024, burst: no recording" in bench.measure(KERNEL, SMALL).missing
    with pytest.raises(NoRecording, match=says):
        bench.recorded(KERNEL, HEADLINE, TILE_N=64)


def test_measure_of_a_changed_kernel_has_no_numbers(results, no_gpu, edited_kernel):
    write(entry(timing()))
    edited_kernel("LAUNCH_FACT(cluster, 1)", "LAUNCH_FACT(cluster, 2)")
    found = bench.measure(KERNEL, HEADLINE)
    assert "this variant: v1_wgmma changed since 2026-01-31" in found.missing
    assert not found.samples_ms


def test_a_damaged_record_is_an_error_and_no_gap(results, no_gpu):
    path = write(entry(timing()))
    path.write_text(path.read_text().replace("NVIDIA H200", "NVIDIA H100"))
    with pytest.raises(RecordError, match="altered"):
        bench.measure(KERNEL, HEADLINE)


def test_tables_of_what_was_not_recorded_say_so(results):
    assert not list(records.tuning_table(KERNEL))
    assert "never recorded" in records.tuning_table(KERNEL).label
    assert not records.counters_table(KERNEL).rows
    assert math.isnan(records.counter(KERNEL, "tensor_pipe"))
    assert "never recorded" in records.counters_table(KERNEL).label


def test_measure_under_another_compiler_says_so(results, no_gpu):
    where = dataclasses.replace(WHERE, nvrtc="12.9.86")
    other = dataclasses.replace(identity(), nvrtc="12.9.86", ptx=64 * "0")
    write(dataclasses.replace(entry(timing()), identity=other, provenance=where))
    found = bench.measure(KERNEL, HEADLINE)
    assert found.label == "NVIDIA H200, 2026-01-31, recorded with NVRTC 12.9.86"


# Bundles and the reader's own runs


def bundle_of(folder: Path, *entries: schema.Entry) -> Path:
    path = records.record_path(KERNEL, root=folder)
    records.write_record(records.Record(KERNEL, "NVIDIA H200", entries), path)
    return folder


def test_merge_replaces_the_like_keeps_the_fresh_and_drops_the_stale(results, tmp_path):
    stale = dataclasses.replace(entry(example("sweep")), identity=identity(TILE_M=64))
    stale = dataclasses.replace(stale, identity=dataclasses.replace(stale.identity, defines={}))
    write(entry(timing(ms=2.0)), entry(timing(SMALL)), stale)
    bundle = bundle_of(tmp_path / "bundle", entry(timing(ms=3.0)), entry(example("probe")))
    assert records.merge(bundle) == [records.record_path(KERNEL)]
    merged = records.load(KERNEL).entries
    assert sorted(one.kind for one in merged) == ["probe", "timing", "timing"]
    assert records.quantity(f"{KERNEL} ms").value == 3.0
    assert records.quantity(f"{KERNEL} 1024 ms").value == 2.0


def test_a_bundle_of_some_timings_leaves_every_other_entry_alone(results, tmp_path):
    wide = dataclasses.replace(SMALL, dtype="bfloat16")
    others = [entry(timing()), entry(timing(mode="sustained")), entry(timing(wide))]
    others += [entry(timing(SMALL), TILE_M=64), entry(example("tuning")), entry(chapter())]
    write(entry(timing(SMALL, ms=2.0)), *others)
    again = entry(timing(SMALL, ms=3.0))
    records.merge(bundle_of(tmp_path / "bundle", again))
    merged = records.load(KERNEL).entries
    assert len(merged) == len(others) + 1 and all(one in merged for one in (again, *others))


def test_merge_refuses_what_is_no_sound_recording(results, tmp_path):
    with pytest.raises(RecordError, match="no bundle"):
        records.merge(tmp_path)
    bundle = bundle_of(tmp_path / "bundle", entry(timing()))
    path = records.record_path(KERNEL, root=bundle)
    path.write_text(path.read_text().replace("2.0", "1.0"))
    with pytest.raises(RecordError, match="altered"):
        records.merge(bundle)
    dirty = dataclasses.replace(WHERE, clean=False)
    bundle_of(bundle, dataclasses.replace(entry(timing()), provenance=dirty))
    with pytest.raises(RecordError, match="made from a changed tree"):
        records.merge(bundle)
    assert not results.exists()


def test_a_readers_own_run_goes_to_their_cache(results, fresh_cache):
    first = records.save_own(entry(timing(ms=2.0)))
    records.save_own(entry(timing(SMALL)))
    records.save_own(entry(timing(ms=3.0)))
    assert first == fresh_cache.resolve() / "results" / "nvidia-h200" / "v1_wgmma.json"
    kept = records.read_record(first).entries
    assert sorted(one.data.samples_ms[0] for one in kept) == [2.0, 3.0]
    assert not results.exists()
    first.write_text("{")
    records.save_own(entry(timing()))
    assert len(records.read_record(first).entries) == 1


# check_records


def states(findings) -> dict[str, str]:
    return {one.what: one.state for one in findings if not one.ok}


@pytest.fixture
def one_kernel(monkeypatch):
    """A book of one kernel and its chapter, without experiments."""
    audit = importlib.import_module("hopper.records.audit")
    monkeypatch.setattr(audit, "check_emulator", lambda gpu: [])
    monkeypatch.setattr(audit, "kernel_names", lambda: [KERNEL])
    monkeypatch.setattr(audit.notebooks, "chapter_slugs", lambda: [KERNEL])
    monkeypatch.setattr(audit.notebooks, "kernels_named", lambda cells: [KERNEL])
    monkeypatch.setattr(experiments, "registered", lambda: ())


def test_check_passes_a_complete_fresh_record(results, one_kernel):
    write(entry(timing()), *(entry(example(kind)) for kind in ("tuning", "counters", "chapter")))
    findings = records.check_records()
    assert states(findings) == {}
    assert len(findings) == 4


def test_check_asks_for_answers_and_trials_too(results):
    audit = importlib.import_module("hopper.records.audit")
    found = states(audit.check_emulator())
    assert "no answers of nvidia-h200" in found["conformance kernels"]
    assert "never tried on nvidia-h200" in found["hazard kernels"]


def test_check_reports_what_is_missing(results, one_kernel):
    found = states(records.check_records())
    assert "never recorded" in found[KERNEL]
    assert "no live execution" in found["chapter v1_wgmma"]
    write(entry(timing(SMALL)), entry(chapter()))
    assert "no burst timing at 8192×8192×8192" in states(records.check_records())[KERNEL]


def test_check_reports_stale_altered_dirty_and_orphaned_records(results, one_kernel, edited_kernel):
    write(entry(timing()), entry(chapter()))
    path = records.record_path("v0_gone")
    path.write_text("{}")
    assert states(records.check_records()) == {"v0_gone.json": "no such kernel: remove the file"}
    path.unlink()
    dirty = dataclasses.replace(WHERE, clean=False)
    record = write(dataclasses.replace(entry(timing()), provenance=dirty), entry(chapter()))
    assert list(states(records.check_records()).values()) == ["fresh, made from a changed tree"]
    record.write_text(record.read_text()[:-5])
    assert "truncated" in states(records.check_records())[KERNEL]
    write(entry(timing()), entry(chapter()))
    edited_kernel("LAUNCH_FACT(cluster, 1)", "LAUNCH_FACT(cluster, 2)")
    assert set(states(records.check_records()).values()) == {"stale"}


def command(*arguments: str, results: Path, **variables: str) -> subprocess.CompletedProcess:
    return run_group(
        [sys.executable, *arguments],
        timeout=60,
        environment=environment(HOPPER_RESULTS=str(results), **variables),
    )


def test_the_command_line_prints_a_table_and_its_status(results):
    done = command("-m", "hopper.records", "check", results=results)
    assert done.returncode == 1 and "FAIL v1_wgmma" in done.stdout and not done.stderr
    write(entry(timing()), entry(chapter()))
    done = command("-m", "hopper.records", "check", results=results)
    assert "ok   v1_wgmma timing 8192×8192×8192 burst" in done.stdout
    done = command("-m", "hopper.records", "list", KERNEL, results=results)
    assert "v1_wgmma tflops: 549.756 TFLOPS (recorded on an NVIDIA H200" in done.stdout
    assert command("-m", "hopper.records", results=results).returncode == 2


# Provenance


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path) -> Path:
    root = tmp_path / "checkout"
    (root / "kernels").mkdir(parents=True)
    (root / "kernels" / "one.cu").write_text("first\n")
    (root / ".gitignore").write_text("_build/\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "start")
    return root


def copy_without_git(root: Path) -> Path:
    copy = root.parent / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git"))
    return copy


def test_a_clean_checkout_gives_its_commit(checkout):
    assert provenance.source(checkout) == provenance.Source(
        git(checkout, "rev-parse", "HEAD"), True
    )


@pytest.mark.parametrize("name", ["kernels/one.cu", "kernels/two.cu"])
def test_a_dirty_tree_is_refused(checkout, name):
    (checkout / name).write_text("changed\n")
    with pytest.raises(RecordError, match=rf"the tree differs.*{name}.*commit the change"):
        provenance.source(checkout)
    with pytest.raises(RecordError, match="the tree differs"):
        provenance.stamp(checkout)
    assert provenance.source_or_unknown(checkout) == provenance.Source("unknown", False)


def test_a_stamp_stands_in_for_git(checkout):
    provenance.stamp(checkout)
    copy = copy_without_git(checkout)
    assert provenance.source(copy) == provenance.source(checkout)
    (copy / "kernels" / "__pycache__").mkdir()
    (copy / "kernels" / "__pycache__" / "x.pyc").write_text("")
    assert provenance.source(copy).clean


def test_a_copy_that_differs_from_its_stamp_is_refused(checkout):
    provenance.stamp(checkout)
    copy = copy_without_git(checkout)
    (copy / "kernels" / "one.cu").write_text("second\n")
    with pytest.raises(RecordError, match="kernels/one.cu differs from commit"):
        provenance.source(copy)
    (copy / "kernels" / "one.cu").unlink()
    with pytest.raises(RecordError, match="kernels/one.cu is missing"):
        provenance.source(copy)
    (copy / "kernels" / "one.cu").write_text("first\n")
    (copy / "kernels" / "extra.cuh").write_text("")
    with pytest.raises(RecordError, match="kernels/extra.cuh is not part of commit"):
        provenance.source(copy)


def test_without_git_and_stamp_the_way_out_is_named(checkout):
    copy = copy_without_git(checkout)
    with pytest.raises(RecordError, match="neither git nor a stamp.*hopper.provenance stamp"):
        provenance.source(copy)
    (copy / "_build").mkdir()
    (copy / "_build" / "source-stamp.json").write_text("{}")
    with pytest.raises(RecordError, match="not a stamp"):
        provenance.source(copy)
    with pytest.raises(RecordError, match="no git checkout"):
        provenance.stamp(copy)


def test_version_numbers_are_spelled_out():
    assert provenance.cublas_version(130100) == "13.1.0"
    assert provenance.cuda_version(13020) == "13.2"


# Counters

NCU_OUTPUT = """==PROF== Connected to process 4711
a line of the profiled program, with "quotes", and commas
==PROF== Profiling "v1_wgmma": 0%....100% - 5 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4711","python3","127.0.0.1","v1_wgmma(TensorMap, TensorMap, half *, int, int, int)","1","7","(128, 1, 1)","(64, 64, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","2,012,345"
"0","4711","python3","127.0.0.1","v1_wgmma(TensorMap, TensorMap, half *, int, int, int)","1","7","(128, 1, 1)","(64, 64, 1)","0","9.0","Command line profiler metrics","lts__t_sector_hit_rate.pct","%","74.25"
"0","4711","python3","127.0.0.1","v1_wgmma(TensorMap, TensorMap, half *, int, int, int)","1","7","(128, 1, 1)","(64, 64, 1)","0","9.0","Command line profiler metrics","sm__broken.sum","","n/a"
"1","4711","python3","127.0.0.1","memset","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","2,000"
"2","4711","python3","127.0.0.1","nvjet_sm90_hsh","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","1,500,000"
"""  # noqa: E501


def test_counters_are_read_out_of_everything_ncu_prints():
    own, peer = recording.split_profiles(KERNEL, counters.read_csv(NCU_OUTPUT))
    assert own.metrics == {
        "gpu__time_duration.sum": schema.Metric(2012345.0, "ns"),
        "lts__t_sector_hit_rate.pct": schema.Metric(74.25, "%"),
    }
    assert peer.kernel == "nvjet_sm90_hsh"
    assert counters.read_csv("==ERROR== nothing\n") == []
    with pytest.raises(HopperError, match="ncu profiled memset, nvjet_sm90_hsh, and not v1_wgmma"):
        recording.split_profiles(KERNEL, counters.read_csv(NCU_OUTPUT)[1:])


def test_a_metric_that_ncu_does_not_know_is_left_out():
    listing = "Device gh100\n-----\nsm__throughput   Throughput  %  # SM\n"
    listing += "dram__bytes_read  Counter  byte\n"
    wanted = ["sm__throughput.avg.pct", "sm__made_up.sum", "launch__registers_per_thread"]
    have, lack = counters.available(wanted, counters.known_metrics(listing))
    assert have == ["sm__throughput.avg.pct", "launch__registers_per_thread"]
    assert lack == ["sm__made_up.sum"]
    assert counters.available(wanted, set()) == (wanted, [])
    assert counters.unknown_in("==ERROR== Failed to find metric sm__made_up.sum", wanted) == [
        "sm__made_up.sum"
    ]


def fake_ncu(folder: Path, body: str) -> dict[str, str]:
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return environment(PATH=f"{folder}:/usr/bin:/bin")


def test_profiling_drops_what_ncu_refuses_and_keeps_the_rest(tmp_path, monkeypatch):
    (tmp_path / "csv").write_text(NCU_OUTPUT)
    variables = fake_ncu(
        tmp_path,
        f"""case "$*" in
        *--version*) echo 'Version 2025.3.1.0 (build 1)';;
        *--query-metrics*) exit 1;;
        *sm__throughput*) echo '==ERROR== Failed to find metric sm__throughput.avg'; exit 1;;
        *) cat {tmp_path}/csv;;
        esac""",
    )
    monkeypatch.setenv("PATH", variables["PATH"])
    found = counters.profile(["true"], timeout=30, environment=variables)
    assert found.tool == "ncu 2025.3.1.0"
    assert len(found.profiles) == 3
    assert found.unavailable == ("sm__throughput.avg.pct_of_peak_sustained_elapsed",)


def test_profiling_without_counters_shows_what_ncu_said(tmp_path, monkeypatch):
    variables = fake_ncu(tmp_path, "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1")
    monkeypatch.setenv("PATH", variables["PATH"])
    with pytest.raises(HopperError, match="no counters(.|\n)*ERR_NVGPUCTRPERM"):
        counters.profile(["true"], timeout=30, environment=variables)
    (tmp_path / "ncu").unlink()
    with pytest.raises(HopperError, match="ncu is not on PATH"):
        counters.profile(["true"], timeout=30, environment=variables)


def test_a_command_that_runs_too_long_takes_its_children_along(tmp_path):
    mark = tmp_path / "mark"
    script = f"(sleep 2; touch {mark}) & sleep 30"
    with pytest.raises(subprocess.TimeoutExpired):
        run_group(["sh", "-c", script], timeout=0.3, environment=environment())
    subprocess.run(["sleep", "2.2"], check=True)
    assert not mark.exists()


# Chapters


def test_a_chapter_is_executed_in_a_kernel_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "CHAPTERS", tmp_path)
    head = "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n"
    head += "kernelspec:\n  name: python3\n  display_name: Python 3\n---\n"
    cell = "```{code-cell} ipython3\n%s\n```\n\n"
    (tmp_path / "small.md").write_text(
        head
        + "# Title\n\n"
        + cell % "import hopper, os\nprint('kernel', 'v1_wgmma' in hopper.kernel_names())"
        + "Prose.\n\n"
        + cell % "os.getcwd()"
    )
    cells = notebooks.code_cells("small")
    assert len(cells) == 2 and cells[1] == "os.getcwd()"
    assert notebooks.kernels_named(cells) == [KERNEL]
    assert notebooks.main_kernel("small", [KERNEL]) == KERNEL
    outputs, count, seconds = notebooks.execute("small")
    assert count == 2 and seconds > 0
    assert outputs == [
        schema.Output(1, "stdout", "kernel True\n"),
        schema.Output(2, "text/plain", repr(str(tmp_path))),
    ]
    (tmp_path / "broken.md").write_text(head + cell % "1 / 0")
    with pytest.raises(
        RecordError, match="chapters/broken.md does not run(.|\n)*ZeroDivisionError"
    ):
        notebooks.execute("broken")
    with pytest.raises(RecordError, match="there is no such chapter; there are broken, small"):
        notebooks.read_chapter("none")


def test_prose_does_not_change_a_chapters_hash_and_code_does():
    assert notebooks.code_sha256(["a", "b"]) != notebooks.code_sha256(["ab"])
    assert notebooks.code_sha256(["a"]) != notebooks.code_sha256(["a "])


# The recorder


@pytest.fixture
def recorder(monkeypatch, results, tmp_path):
    """The recorder on a machine that seems to have a GPU; parts are played by ``plays``."""
    from hopper.backends import HopperGpu

    plays: dict[str, object] = {}
    seen: list[dict[str, float]] = []

    def start(part, kernel, path, seconds, folder, only):
        monkeypatch.setenv("HOPPER_RESULTS", str(folder))
        try:
            seen.append({n: q.value for n, q in records.quantities(kernel).items()})
        except NoRecording:
            seen.append({})
        monkeypatch.setenv("HOPPER_RESULTS", str(results))
        play = plays[part]
        if isinstance(play, Exception):
            raise play
        recording.write_entries(play, path)
        return 0 if play else 3

    monkeypatch.setattr(recording, "RESULTS", tmp_path / "nothing recorded before")
    monkeypatch.setattr(recording, "source", lambda: provenance.Source(COMMIT, True))
    monkeypatch.setattr(recording, "find_hopper", lambda: HopperGpu("NVIDIA H200", 132))
    monkeypatch.setattr(recording, "start_part", start)

    def record(*parts: str, minutes: float = 9) -> int:
        return recording.record(tmp_path / "out", [KERNEL], list(parts), minutes)

    record.plays, record.seen, record.out = plays, seen, tmp_path / "out"
    return record


def test_the_recorder_writes_a_bundle_that_merges(recorder):
    recorder.plays.update(timing=[entry(timing())], counters=[entry(example("counters"))])
    assert recorder("timing", "counters") == 0
    files = [path.relative_to(recorder.out).as_posix() for path in recorder.out.rglob("*.*")]
    assert files == ["nvidia-h200/v1_wgmma.json"]
    records.merge(recorder.out)
    assert records.quantity(f"{KERNEL} tflops").unit == "TFLOPS"
    # The second part, a chapter for example, already saw what the first one measured.
    assert "tflops" not in recorder.seen[0] and recorder.seen[1]["ms"] == 2.0


def test_a_part_that_fails_costs_only_itself(recorder, capsys):
    recorder.plays.update(
        timing=[entry(timing())],
        tuning=subprocess.TimeoutExpired("tuning", 1),
        counters=[],
        chapter=[entry(chapter())],
    )
    assert recorder("timing", "tuning", "counters", "chapter") == 1
    told = capsys.readouterr().out
    assert "FAILED v1_wgmma tuning: not done within" in told
    assert "FAILED v1_wgmma counters: exit status 3" in told
    kept = records.read_record(records.record_path(KERNEL, root=recorder.out)).entries
    assert [one.kind for one in kept] == ["timing", "chapter"]


def test_the_recorder_stops_starting_parts_when_time_is_up(recorder, capsys):
    recorder.plays.update(timing=[entry(timing())])
    assert recorder("timing", minutes=0.1) == 1
    assert "v1_wgmma timing: no time left" in capsys.readouterr().out


def test_another_compiler_than_the_pinned_one_is_reported(recorder, capsys, monkeypatch):
    monkeypatch.setattr(recording, "pinned_nvrtc", lambda: "13.0.1")
    recorder.plays.update(timing=[entry(timing())])
    assert recorder("timing") == 1
    assert "requirements.txt pins 13.0.1" in capsys.readouterr().out


def overridable(source: Path) -> set[str]:
    """Macros that ``-D`` overrides: a default guarded by #ifndef, in a file or what it includes."""
    text = source.read_text()
    found = set(re.findall(r"^#ifndef (\w+)\n#define \1\b", text, re.MULTILINE))
    headers = re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
    return found.union(*(overridable(INCLUDE / header) for header in headers))


def test_every_kernel_has_a_plan_whose_configurations_mean_something():
    for kernel, plan in recording.PLANS.items():
        assert HEADLINE in plan.problems or experiments.experiments_of(kernel)
        macros = overridable(KERNELS / f"{kernel}.cu")
        for defines in (*plan.configurations, *(problem.defines for problem in plan.problems)):
            assert defines.keys() <= macros, kernel
        different = {frozenset(defines.items()) for defines in plan.configurations}
        assert len(different) == len(plan.configurations), f"{kernel}: one of them twice"
        assert len(set(plan.problems)) == len(plan.problems), f"{kernel}: one of them twice"
    assert sorted(recording.PLANS) == kernel_names()


def test_a_macro_that_is_only_mentioned_or_of_another_kernel_is_not_overridable():
    found = overridable(KERNELS / "v8_multicast.cu")
    assert {"TILE_M", "BF16", "CLUSTER_SCOPE"} <= found
    assert not {"THREADS", "CLUSTER", "STREAM", "TILE_MM"} & found


def test_the_reason_of_a_refusal_is_one_line():
    assert recording.compiled_or_refused(KERNEL, {"TILE_M": 256, "TILE_N": 256})[1].startswith(
        "tiles"
    )
    _, spilled = recording.compiled_or_refused(KERNEL, {"TILE_M": 128, "TILE_N": 248})
    assert spilled.startswith("spills") and "\n" not in spilled


def test_one_failing_item_does_not_cost_the_others_theirs():
    def make(item):
        if item == 2:
            raise HopperError("two is odd")
        yield item

    done = []
    with pytest.raises(HopperError, match="2: two is odd"):
        for item in recording.each(make, [1, 2, 3]):
            done.append(item)
    assert done == [1, 3]


def test_a_broken_kernel_becomes_an_entry(monkeypatch):
    trials = (schema.Trial(SMALL, 5, 5, 0, 0, 0, None),)
    monkeypatch.setattr(recording, "try_on_hopper", lambda _: trials)
    monkeypatch.setattr(recording, "find_hopper", lambda: None)
    monkeypatch.setattr(recording, "collect", lambda *_: WHERE)
    found = list(recording.mutants(KERNEL, 60))
    assert [one.data.name for one in found] == [one.name for one in mutations(KERNEL)]
    assert any(one.data.messages for one in found)  # the compiler notices at least one of them
    assert {records.freshness(one) for one in found} == {"fresh"}


def test_some_experiments_can_be_recorded_without_the_others(monkeypatch, tmp_path):
    names = [one.name for one in experiments_of("ceiling")]
    monkeypatch.setattr(recording, "find_hopper", lambda: None)
    monkeypatch.setattr(recording, "each", lambda make, items: [one.name for one in items])
    assert list(recording.experiments("ceiling", 60)) == names and len(names) > 1
    assert list(recording.experiments("ceiling", 60, only=names[1:2])) == names[1:2]


def test_an_experiment_that_nobody_has_is_refused_before_anything_runs(recorder):
    with pytest.raises(RecordError, match="experiment 'speeed': these kernels have"):
        recording.record(recorder.out, [KERNEL], ["experiments"], 9, only_experiments=["speeed"])
    assert not recorder.out.exists()


def test_some_problems_can_be_timed_without_the_others(monkeypatch):
    planned = (HEADLINE, SMALL, dataclasses.replace(SMALL, dtype="bfloat16"))
    monkeypatch.setitem(recording.PLANS, KERNEL, KernelPlan(planned))
    monkeypatch.setattr(recording, "find_hopper", lambda: None)
    monkeypatch.setattr(recording, "each", lambda make, items: items)
    assert list(recording.timing(KERNEL, 60)) == list(planned)
    assert list(recording.timing(KERNEL, 60, only=["1024x1024x1024"])) == list(planned[1:])


def test_a_problem_that_is_not_planned_is_refused_before_anything_runs(recorder):
    says = "problem '1024x1024': these kernels have 8192x8192x8192, .*1024x1024x1024, .*name one"
    with pytest.raises(RecordError, match=says):
        recording.record(recorder.out, [KERNEL], ["timing"], 9, only_problems=["1024x1024"])
    assert not recorder.out.exists()


def test_a_choice_reaches_its_part_and_no_other(recorder, monkeypatch):
    chosen = {}

    def start(part, kernel, path, seconds, folder, only):
        chosen[part] = list(only)
        recording.write_entries([entry(example(part))], path)
        return 0

    monkeypatch.setattr(recording, "start_part", start)
    arguments = ["--out", str(recorder.out), "--kernel", KERNEL, "--parts", "timing", "counters"]
    assert recording.main([*arguments, "--problem", "1024x1024x1024", "2048x2048x2048"]) == 0
    assert chosen == {"timing": ["1024x1024x1024", "2048x2048x2048"], "counters": []}


def test_a_part_is_started_with_its_choice(monkeypatch, tmp_path):
    taken = []
    monkeypatch.setitem(
        recording.PARTS, "timing", lambda *_, only=(): taken.append(only) or iter(())
    )
    for choice in ([], ["1024x1024x1024"]):
        assert recording.main(["part", "timing", KERNEL, str(tmp_path / "x"), "9", *choice]) == 0
    assert taken == [(), ["1024x1024x1024"]]


def test_entries_cross_between_processes(tmp_path):
    path = tmp_path / "entries.json"
    assert recording.read_entries(KERNEL, path) == []
    whole = [entry(example(kind)) for kind in schema.KINDS]
    recording.write_entries(whole, path)
    assert recording.read_entries(KERNEL, path) == whole
    assert all(recording.describe(one) for one in whole)


def test_base64_is_what_numpy_wrote():
    array = schema.Array.of(numpy.float32([1.0]))
    assert base64.b64decode(array.data) == b"\x00\x00\x80?"


def test_without_a_gpu_the_recorder_refuses_in_a_sentence(results, tmp_path):
    done = command("-m", "hopper.recording", "part", "timing", KERNEL, "x", "9", results=results)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1


@pytest.mark.hopper
def test_on_hopper_a_part_records_its_entries(tmp_path, monkeypatch):
    monkeypatch.setitem(recording.PLANS, KERNEL, KernelPlan((SMALL,), ()))
    monkeypatch.setattr(provenance, "source", lambda: provenance.Source(COMMIT, True))
    path = tmp_path / "entries.json"
    recording.run_part("timing", KERNEL, path, 60)
    (found,) = recording.read_entries(KERNEL, path)
    assert found.data.problem == SMALL and min(found.data.samples_ms) > 0


# Experiments


@pytest.fixture
def one_experiment(monkeypatch):
    """The book with a single experiment, named like the example sweep."""
    sweep = example("sweep")
    one = experiments.Experiment(KERNEL, sweep.name, lambda gpu, program: sweep)
    monkeypatch.setattr(experiments, "registered", lambda: (one,))
    return one


def test_an_experiment_is_recorded_and_read_back(results, one_experiment, monkeypatch):
    monkeypatch.setattr(recording, "find_hopper", lambda: None)
    monkeypatch.setattr(recording, "collect", lambda *_: WHERE)
    (found,) = recording.experiments(KERNEL, 60)
    write(found)
    read = experiments.experiment(KERNEL, one_experiment.name)
    assert (read.kind, read.data) == ("sweep", example("sweep"))


def test_an_experiment_that_is_missing_or_unknown_is_told_apart(results, one_experiment):
    write(entry(timing()))
    with pytest.raises(NoRecording, match="no recording of this variant"):
        experiments.experiment(KERNEL, one_experiment.name)
    with pytest.raises(HopperError, match=f"no such experiment.*{one_experiment.name}"):
        experiments.experiment(KERNEL, "nonsense")
    states = {found.what: found.state for found in records.check_records() if not found.ok}
    assert "no experiment" in states[KERNEL]


def test_an_experiment_whose_data_has_another_name_is_refused(one_experiment, monkeypatch):
    other = dataclasses.replace(one_experiment, name="another")
    monkeypatch.setattr(experiments, "registered", lambda: (other,))
    monkeypatch.setattr(recording, "find_hopper", lambda: None)
    with pytest.raises(HopperError, match="name both alike"):
        list(recording.experiments(KERNEL, 60))
