"""Mutants of the book's kernels: every instruction runs, a sample is caught, the rest is recorded.

`make mutants` tries them all.
"""

from dataclasses import replace
from fnmatch import fnmatchcase

import numpy
import pytest
from docutils import nodes

from extension import status
from hopper.compile import kernel_names
from hopper.emulator import Emulator, mutation, mutation_record
from hopper.emulator.mutation import judge, subject_mutants
from hopper.emulator.mutation_changes import mutants
from hopper.emulator.mutation_record import (
    Equivalent,
    Outcome,
    Trials,
    Tried,
    equivalents,
    idle_reasons,
    load,
    open_questions,
    reason_for,
    sources_hash,
    state,
    unreached,
    write,
)
from hopper.emulator.mutation_subjects import SUBJECTS
from hopper.emulator.ptx import parse
from hopper.errors import HopperError, RecordError
from hopper.paths import KERNELS

EVERY = 21  # mutants of a kernel that the sample takes: one in so many,
MOST = 6  # and about so many at most; `make mutants` tries all


def test_every_kernel_of_the_book_is_tried():
    exercises = [f"exercises/{path.name}" for path in (KERNELS / "exercises").glob("*.cu")]
    tried = {subject.source for subject in SUBJECTS.values()}
    assert {f"{name}.cu" for name in kernel_names()} | set(exercises) <= tried


@pytest.mark.parametrize("name", SUBJECTS)
def test_trials_are_right_break_no_rule_and_execute_every_instruction(name):
    subject = SUBJECTS[name]
    program = subject.compile()
    kernel = parse(program.ptx, subject.kernel)
    executed = numpy.zeros(len(kernel.code), numpy.int64)
    for prepare in subject.trials:
        trial = prepare(program)
        run = trial.run(program.ptx, subject.kernel, Emulator())
        assert (trial.wrong(), run.hazards) == ("", ())
        executed += run.executed
    left = [x for x in kernel.code if not executed[x.index]]
    idle, known = {x.line for x in left}, equivalents()
    changed = [mutant.name for mutant in mutants(kernel) if mutant.line in idle]
    assert [one for one in changed if not reason_for(name, one, known)] == []
    assert [x.text for x in left if not _explained(subject, x)] == []


def _explained(subject, x) -> bool:
    if x.source is None:  # set up before a loop, and of no line
        return x.parts[0] in ("mov", "cvta", "setp")
    text = (KERNELS / subject.source).read_text().splitlines()
    line = text[x.source.outermost.line - 1].strip()
    return any(
        fnmatchcase(line, pattern)
        for one in unreached()
        if any(fnmatchcase(subject.name, kernel) for kernel in one.kernels)
        for pattern in one.lines
    )


@pytest.mark.parametrize("name", SUBJECTS)
def test_mutants_have_names_of_their_own_and_can_be_read(name):
    program, made = subject_mutants(name)
    assert len({mutant.name for mutant in made}) == len(made)
    for mutant in made[::EVERY]:
        changed = mutant.applied(program.ptx)
        assert changed != program.ptx
        assert changed.count("\n") == program.ptx.count("\n")
        parse(changed, program.kernel)


def test_a_kernel_offers_each_kind_of_change():
    names = [mutant.name for mutant in subject_mutants("v1_wgmma")[1]]
    for wanted in (
        "mbarrier.init #1: count + 1",
        "bar.sync #2: dropped",
        "mbarrier.arrive #1: 16 bytes less",
        "cp.async.bulk.tensor #2: destination and barrier swapped",
        "mbarrier.try_wait #1: the other parity",
        "phase flip #1: dropped",
        "wgmma.fence #1: dropped",
        "wgmma.wait_group #1: one group more may run",
        "wgmma.wait_group #1: moved behind the next bar.sync",
        "wgmma.commit_group #1: dropped",
        "wgmma.mma_async #1: adds to D always",
        "descriptor #1: another swizzle",
    ):
        assert wanted in names


def test_mutants_of_other_ptx_are_refused():
    mutant = subject_mutants("v1_wgmma")[1][0]
    with pytest.raises(HopperError, match="does not stand once in line"):
        mutant.applied(subject_mutants("k_loop")[0].ptx)


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_sample_of_mutants_is_caught(name):
    """Of those that break a rule: to try one that breaks none takes every schedule, to its end.

    So of these a crash is seen by `make mutants` only.
    """
    known = equivalents()
    made = [one for one in subject_mutants(name)[1] if not reason_for(name, one.name, known)]
    for mutant in made[:: max(EVERY, len(made) // MOST)]:
        found = judge(name, mutant)
        assert found.verdict not in ("crash", "survived"), found


def test_without_the_watch_a_mutant_survives(monkeypatch):
    dropped = next(m for m in subject_mutants("v1_wgmma")[1] if m.name == "bar.sync #2: dropped")
    found = judge("v1_wgmma", dropped)
    assert (found.verdict, found.hazard) == ("warning", "one-warp-release")
    monkeypatch.setattr(mutation, "SCHEDULES", (Emulator(on_hazard="ignore"),))
    assert judge("v1_wgmma", dropped).verdict == "survived"


# ---- survivors and their reasons ----------------------------------------------------------------

SURVIVOR = Outcome("bar.sync #1: dropped", 7, "k.cu:3", "bar.sync 0", "survived", "", "", 10)
CAUGHT = replace(SURVIVOR, mutant="bar.sync #2: dropped", verdict="hazard", hazard="shared-race")


def test_a_survivor_needs_a_reason():
    tried = [Tried("k", "0", (SURVIVOR, CAUGHT))]
    assert open_questions(tried, [Equivalent(("k",), ("bar.sync #1: *",), "why")]) == []
    (line,) = open_questions(tried, [Equivalent(("other",), ("bar.sync *",), "why")])
    assert "k: bar.sync #1: dropped survives" in line
    assert "k.cu:3" in line


def test_a_reason_needs_a_survivor():
    tried = [Tried("k", "0", (CAUGHT,))]
    for kernels in (("k",), ("*",)):
        (line,) = idle_reasons(tried, [Equivalent(kernels, ("bar.sync #2: *",), "why")])
        assert "no mutant 'bar.sync #2: *' survives" in line


def test_a_crash_is_never_explained():
    tried = [Tried("k", "0", (replace(CAUGHT, verdict="crash", told="TypeError: no"),))]
    assert "crashes the emulator: TypeError: no" in open_questions(tried, [])[0]


def test_an_explanation_of_another_form_is_refused(tmp_path):
    path = tmp_path / "reasons.toml"
    path.write_text('[[equivalent]]\nkernels = ["k"]\nwhy = "no such field"\n')
    with pytest.raises(RecordError, match="equivalent"):
        equivalents(path)


# ---- the record ---------------------------------------------------------------------------------


def test_a_record_reads_back_and_says_when_it_is_stale(tmp_path, monkeypatch):
    subject = SUBJECTS["k_loop"]
    program = subject.compile()
    path = tmp_path / "mutants.json"
    tried = Tried(subject.name, program.ptx_hash, (SURVIVOR, CAUGHT))
    found = Trials(sources_hash(), program.nvrtc, (tried,))
    write(found, path)
    assert load(path) == found
    assert state(subject, found) == "fresh"
    assert "the emulator" in state(subject, replace(found, emulator="0"))
    assert "NVRTC" in state(subject, replace(found, nvrtc="1.0"))
    assert "the kernel" in state(subject, replace(found, tried=(replace(tried, ptx="0"),)))
    assert state(SUBJECTS["v1_wgmma"], found) == "never tried"


@pytest.mark.parametrize(
    "change", [("survived", "lived"), ('"format": 1', '"format": 0'), ("]", "")]
)
def test_a_damaged_record_is_refused(tmp_path, change):
    path = tmp_path / "mutants.json"
    write(Trials("0", "13", (Tried("k", "0", (SURVIVOR,)),)), path)
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(RecordError, match="make mutants"):
        load(path)


def test_the_record_of_the_book_can_be_read_and_no_mutant_crashed_the_emulator():
    found = load(mutation_record.record_path())
    assert {one.subject for one in found.tried} <= set(SUBJECTS)
    assert [row for one in found.tried for row in one.outcomes if row.verdict == "crash"] == []


def test_the_status_page_counts_mutants_by_what_gave_them_away(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    assert "make mutants" in status.mutants().astext()
    assert "make mutants" in status.survivors().astext()
    program = SUBJECTS["k_loop"].compile()
    explained = replace(SURVIVOR, mutant="bar.sync #1: another id")
    tried = Tried("k_loop", program.ptx_hash, (SURVIVOR, explained, CAUGHT))
    write(Trials("another", program.nvrtc, (tried,)), mutation_record.record_path())
    cells = [[c.astext() for c in row] for row in status.mutants().findall(nodes.row)]
    of = {row[0]: row[1:] for row in cells}
    changed = "stale: the emulator changed since"
    assert of["k_loop"] == ["3", "1", "0", "0", "0", "1", "1", changed]
    assert of["v1_wgmma"][-1] == "never tried"
    assert "corrected twins of broken kernels" in of
    assert "its number does not matter" in status.survivors().astext()


def test_the_command_names_its_subjects(capsys):
    assert mutation.main(["nonsense"]) == 2
    assert "v1_wgmma" in capsys.readouterr().err


def test_the_command_prints_a_table_and_what_is_open(monkeypatch, capsys):
    tried = Trials("0", "13", (Tried("k", "0", (SURVIVOR, CAUGHT)),))
    monkeypatch.setattr(mutation, "try_all", lambda names: tried)
    assert mutation.main(["k_loop"]) == 1
    told = capsys.readouterr().out
    assert "1 shared-race" in told
    assert "nobody says why" in told
