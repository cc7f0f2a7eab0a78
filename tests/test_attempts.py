"""The attempts: each still applies and compiles as it says, verdicts, the record, the page."""

import json
import math
import re
import signal
from dataclasses import replace

import attempt_records as invented
import numpy
import pytest
from rungs import SCHEDULES, exact, multiplied
from site_building import CONF, build

from extension import attempt_tables
from extension import attempts as page
from hopper.attempts import (
    ABLATION,
    ATTEMPTS,
    BASES,
    BURST,
    EVERY,
    SUSTAINED,
    Edit,
    Lesson,
    Prediction,
    compile_attempt,
    find_attempt,
    number_of,
    texts,
)
from hopper.attempts import counted as shown
from hopper.attempts import outcome as outcomes
from hopper.attempts.best import best
from hopper.attempts.outcome import verdict
from hopper.attempts.shapes import V6, V9
from hopper.chip import ORDERS
from hopper.compile import compile_cuda
from hopper.errors import CompileError, HopperError
from hopper.experiments import ablation, attempts, experiments_of
from hopper.gemm import Problem
from hopper.paths import ROOT
from hopper.schema import Probe

#: Attempts that must not be launched, and a word of the reason.
REFUSED = {
    "v9-256x256": "spills",
    "wide-24-240": "spills",
    "wide-no-setmaxnreg": "spills",
    "wide-no-fence": "C7519",
}
#: Those that change who waits for whom, or who computes what. Small tiles keep the emulator quick.
WAITING = (
    "wide-one-arrival",
    "wide-turn-early",
    "wide-turn-late",
    "wide-wait-for-all",
    "wide-release-at-once",
    "wide-nap",
    "wide-suspend-hint",
    "wide-cluster-scope",
    "wide-longer-stream",
    "wide-all-stream",
    "wide-unshared",
    "wide-shuffled",
)
SMALL = {"TILE_M": 128, "TILE_N": 128, "STAGES": 3, "SHARE_A": 0, "HAND_OVER": 0}
TIMED = [one for one in ATTEMPTS if one.name not in REFUSED]


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """A folder without any recording."""
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))


def record(mode: str = BURST) -> outcomes.Recorded:
    return outcomes.recorded(mode, outcomes.refusals())


def became(name: str, mode: str = BURST) -> outcomes.Outcome:
    return outcomes.outcome(EVERY[name], record(mode), outcomes.refusals()[name][1])


def plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html)).split())


# ---- the list -----------------------------------------------------------------------------------


def test_at_least_thirty_attempts_are_predicted_and_may_be_timed():
    assert len(TIMED) >= 34
    assert len(EVERY) == len(ATTEMPTS) + len(BASES), "two have one name"
    for one in ATTEMPTS:
        assert one.burst and one.why and one.group and one.against in EVERY, one.name
        assert one.places in ORDERS, one.name
        assert {"TILE_M", "TILE_N", "STAGES"} <= set(one.defines), "defaults may change"
    assert 8 <= sum(one.sustained is not None for one in ATTEMPTS) <= 18
    assert [number_of(ATTEMPTS[0].name), number_of(ATTEMPTS[-1].name)] == [1, len(ATTEMPTS)]


@pytest.mark.slow
def test_every_edit_stands_once_and_changes_what_is_compiled():
    """Or the reason why it must not be launched is the one that it is listed for."""
    today = outcomes.refusals()
    for name, (identity, reason) in today.items():
        assert REFUSED.get(name, "") in reason and bool(reason) == (name in REFUSED), name
        attempt = EVERY[name]
        if attempt.base:
            continue
        same = identity == today[attempt.against][0]
        launched_otherwise = attempt.blocks or attempt.places != EVERY[attempt.against].places
        assert same == bool(launched_otherwise), f"{name} compiles to what it is compared with"


def test_an_edit_that_does_not_apply_names_its_attempt():
    lost = replace(EVERY["wide"], edits=(Edit("no such line", ""),))
    with pytest.raises(HopperError, match=r"attempt wide: 'no such line' stands 0 times in v9_"):
        texts(lost)
    with pytest.raises(CompileError, match=r"does not include ring\.cuh"):
        compile_cuda('extern "C" __global__ void f() {}', headers={"ring.cuh": ""})
    with pytest.raises(HopperError, match="there is no such attempt; there are wide, tall"):
        find_attempt("narrow")


def test_an_edit_of_a_header_reaches_every_file_that_includes_it():
    """pairs.cuh includes stream_k.cuh, too."""
    both = texts(EVERY["wide-min-steps-8"])
    assert list(both) == ["stream_k.cuh"] and "MIN_STEPS = 8;" in both["stream_k.cuh"][1]
    assert compile_attempt(EVERY["wide-min-steps-8"]).identity


def test_a_prediction_goes_from_low_to_high():
    with pytest.raises(ValueError, match="from low to high"):
        Prediction(1, 0)


def test_the_ablation_has_each_part_alone_and_away():
    for shape, (base, parts, whole) in ABLATION.items():
        assert EVERY[whole].base and EVERY[whole].kernel == V9
        for part, alone, away in parts:
            assert EVERY[away].against == whole, (shape, part)
            assert EVERY[alone].against in (base, *(one for _, one, _ in parts))
    assert len(ablation.variants()) == len(set(ablation.variants())) == 22
    assert {"attempts, burst", "attempts, sustained", "ablation"} <= {
        one.name for one in experiments_of(V9)
    }


# ---- in the emulator ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", WAITING)
def test_a_change_of_who_waits_is_right_and_breaks_no_rule(name):
    attempt = EVERY[name]
    kept = {key: value for key, value in attempt.defines.items() if key not in SMALL}
    program = compile_attempt(replace(attempt, defines=SMALL | kept))
    problem = Problem(256, 264, 64 * 5 + 8, distribution="integers", seed=3)
    found = multiplied(program, problem, SCHEDULES[1], blocks=4)  # a wave of units, then a stream
    assert (found.c == exact(problem)).all() and found.issued("st.release")


# ---- verdicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "noise", "low", "high", "expected"),
    [
        (0.4, 0.1, 0.2, 0.6, outcomes.AS_PREDICTED),
        (0.15, 0.1, 0.2, 0.6, outcomes.AS_PREDICTED),  # within the noise of it
        (0.15, 0.02, 0.2, 0.6, outcomes.LESS),
        (0.05, 0.1, 0.2, 0.6, outcomes.NOTHING),
        (-0.05, 0.1, 0.2, 0.6, outcomes.NOTHING),
        (-0.3, 0.1, 0.2, 0.6, outcomes.WRONG_SIGN),
        (0.9, 0.1, 0.2, 0.6, outcomes.MORE),
        (-2.0, 0.1, -3, -2.2, outcomes.LESS),
        (-2.15, 0.1, -3, -2.2, outcomes.AS_PREDICTED),
        (-26, 0.1, -0.5, 0, outcomes.SLOWER),
        (-5, 0.1, -3, -2.2, outcomes.MORE),
        (0.3, 0.1, -3, -2.2, outcomes.WRONG_SIGN),
        (0.5, 0.1, -0.3, 0.3, outcomes.FASTER),
        (0.2, 0.1, -0.3, 0.3, outcomes.AS_PREDICTED),
        (0.5, 0.6, -0.3, 0.3, outcomes.AS_PREDICTED),
    ],
)
def test_the_verdict_takes_the_noise_into_account(change, noise, low, high, expected):
    assert verdict(change, noise, Prediction(low, high)) == expected


def test_a_lesson_is_told_only_where_it_is_true():
    lessons = (
        Lesson("slower", high=-1),
        Lesson("nothing", -0.2, 0.2),
        Lesson("under load", high=-1, mode=SUSTAINED),
        Lesson("never ran", refused=True),
    )
    assert outcomes.true_lessons(lessons, BURST, -1.05, 0.1) == ["slower"]
    assert outcomes.true_lessons(lessons, BURST, -0.95, 0.1) == []
    assert outcomes.true_lessons(lessons, BURST, -1.05, 1.2) == [], "it may be noise"
    assert outcomes.true_lessons(lessons, BURST, 0.0, 0.1) == ["nothing"]
    assert outcomes.true_lessons(lessons, SUSTAINED, -2, 0.1) == ["under load"]
    assert outcomes.true_lessons(lessons, BURST, 1, 0.1) == []


def test_noise_is_of_both_medians_and_never_less_than_what_repeats_show():
    flat, other = (1.0,) * 20, (1.002,) * 20
    steady = outcomes.Timed((flat,))
    assert (steady.ratio, steady.notch, steady.drift) == (1.0, 0.0, 0.0)
    moved = outcomes.Timed((flat, other))
    assert moved.drift == pytest.approx(0.1, rel=1e-2)
    spread = outcomes.Timed((tuple(numpy.linspace(0.99, 1.01, 101)),))
    assert spread.notch == pytest.approx(100 * 1.57 * 0.01 / math.sqrt(101))
    found = outcomes.Recorded(BURST, "", {"wide": moved, "wide-turn-1": steady}, {})
    assert found.drift == moved.drift
    told = outcomes.outcome(EVERY["wide-turn-1"], found, "")
    assert told.noise == pytest.approx(moved.drift)


# ---- what is recorded ---------------------------------------------------------------------------


def test_where_nothing_is_recorded_nothing_is_claimed(nothing):
    assert became("wide-whole").verdict == outcomes.NOT_RECORDED
    assert became("v9-256x256").verdict == outcomes.NOT_TIMED, "the compiler says so, everywhere"
    assert best(record()) is None
    assert shown.counted(outcomes.refusals()) == ({}, "no recording")


def test_outcomes_are_those_of_the_record(nothing):
    changes = {"wide-whole": -2.5, "tall-whole": -2.5, "wide-keep-a": -0.1}
    invented.write_all(changes, {"tall-turn-1": "did not end"})
    told = became("wide-whole")
    assert told.change == pytest.approx(-2.5, abs=1e-3)
    assert told.ratio == pytest.approx(1.05 * 0.975, rel=1e-5)
    assert told.low < told.ratio < told.high and 0 < told.noise < 0.1
    assert told.verdict == outcomes.AS_PREDICTED and not told.lessons
    assert became("tall-whole").lessons
    assert became("wide-whole", SUSTAINED).verdict == outcomes.AS_PREDICTED
    assert outcomes.outcome(EVERY["tall-turn-1"], record(SUSTAINED), "") is None
    hung = became("tall-turn-1")
    assert (hung.verdict, hung.reason) == (outcomes.NOT_TIMED, "did not end")
    assert became("wide-keep-a").verdict in (outcomes.NOTHING, outcomes.SLOWER, "as predicted")
    top = best(record())
    assert EVERY[top.name].kernel != V6 and top.ratio == pytest.approx(1.06, rel=1e-5)


def test_an_attempt_that_compiles_to_something_else_is_not_recorded(nothing):
    invented.write_all()
    today = dict(outcomes.refusals())
    today["wide-whole"] = ("0" * 64, "")
    found = outcomes.recorded(BURST, today)
    assert "wide-whole" not in found.timed and "tall-whole" in found.timed
    assert outcomes.outcome(EVERY["wide-whole"], found, "").verdict == outcomes.NOT_RECORDED
    counters, _ = shown.counted(today)
    assert "wide-whole" not in counters and "tall-whole" in counters


def test_counters_become_quantities():
    made = shown.made(
        {alias: 1e9 for alias in ablation.COUNTERS} | {"cycles": 1e6, "tensor_pipe": 96.0}, sms=100
    )
    assert (made["pipe"], made["clock"], made["through"]) == (96.0, 1e3, 32.0)
    assert (made["read"], made["bank_reads"], made["conflicts"]) == (1.0, 20.0, 1e6)
    assert set(made) == set(shown.QUANTITIES)


# ---- how it is recorded -------------------------------------------------------------------------


def test_bases_are_timed_again_in_between():
    for mode in (BURST, SUSTAINED):
        names = attempts.schedule(mode)
        assert names.count("wide") == names.count("tall") >= 2
        assert {EVERY[name].against for name in names} - {""} <= set(names)
    assert len(attempts.schedule(BURST)) <= 130, "the part's time limit"
    assert len(attempts.schedule(SUSTAINED)) <= 26


def test_a_row_that_hangs_costs_itself_only(monkeypatch):
    calls = []

    def process(mode, names, seconds):
        calls.append(list(names))
        if "b" in names:
            return [attempts.Row("a")], "did not end within 20 s"
        return [attempts.Row(name) for name in names], None

    monkeypatch.setattr(attempts, "_in_process", process)
    rows = attempts._in_processes(BURST, ["a", "b", "c", "d"])
    assert [(row.name, row.refused) for row in rows] == [
        ("a", ""),
        ("b", "did not end within 20 s"),
        ("c", ""),
        ("d", ""),
    ]
    assert calls == [["a", "b", "c", "d"], ["c", "d"]]
    monkeypatch.setattr(attempts, "_in_process", lambda *_: (None, "status 1"))
    with pytest.raises(HopperError, match="did not begin: status 1"):
        attempts._in_processes(BURST, ["a"])


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (0, None),
        (1, "its process ended with status 1"),
        (-signal.SIGALRM, "did not end within 20 s"),
    ],
)
def test_rows_come_back_as_far_as_they_were_written(monkeypatch, status, ended):
    def run(command, **_):
        line = json.dumps({"name": "wide", "own_ms": [1.0], "peer_ms": [2.0]})
        with open(command[4], "w") as file:
            file.write(f'{line}\n{{"name": "ta')
        return type("Done", (), {"returncode": status})

    monkeypatch.setattr(attempts, "run_group", run)
    rows, told = attempts._in_process(BURST, ["wide", "tall"], 30)
    assert [row.name for row in rows] == ["wide"] and told == ended


def test_a_record_keeps_samples_identity_and_reason():
    rows = [attempts.Row("wide", [1.0, 2.0], [3.0, 4.0]), attempts.Row("wide", [1.0], [3.0])]
    made = Probe("attempts, burst", "", attempts._arrays("wide", "ab" * 32, "", rows))
    times = made.arrays["wide"].array()
    assert times.shape == (2, 2, 2) and math.isnan(times[1, 0, 1])
    assert made.arrays["wide identity"].array().tobytes().hex() == "ab" * 32
    refused = attempts._arrays("x", "", "spills", [])
    assert refused["x refused"].array().tobytes().decode() == "spills"
    assert refused["x"].array().shape == (0, 2, 0)


# ---- the page -----------------------------------------------------------------------------------


def test_numbers_on_the_page_are_short():
    assert [attempt_tables.signed(v) for v in (0.31, -1.25, -0.01)] == ["+0.3", "−1.2", "0.0"]
    assert attempt_tables.interval(Prediction(-0.3, 0.3)) == "no more than 0.3 % either way"
    assert attempt_tables.interval(Prediction(-3, 0)) == "−3 to 0 %"


def test_the_page_shows_gaps_without_a_record(nothing):
    assert "0 are measured (no recording)" in page.count()
    assert f"{len(REFUSED)} were refused" in page.count()
    assert page.table().count(outcomes.NOT_RECORDED) >= len(TIMED)
    assert page.best_ratios().count("not recorded") == 2
    assert "not recorded" in page.bases() and not re.search(r"\bnan\b", plain(page.ablation()))


def test_the_page_shows_what_is_recorded(nothing):
    invented.write_all({"wide-whole": -1.0, "tall-cluster-scope": -26.0})
    count = plain(page.count())
    assert f"{len(TIMED)} are measured (NVIDIA H200" in count and "not recorded" not in count
    table = page.table()
    row = plain(table[table.index('href="#attempt-wide-whole"') :].split("</tr>")[0])
    assert "−3 to −2.2 −1.0 ±" in row and "less than predicted" in row
    scope = plain(page.group("Waiting and releasing"))
    assert "predicted −0.5 to 0 %; measured −26.0 ±" in scope and "slower than predicted" in scope
    assert "a memory barrier of the whole GPU" in scope
    assert "burst: 1.060 of cuBLAS" in plain(page.best_ratios())
    assert "The target was 1.06:" in plain(page.best_ratios())
    ablated = plain(page.ablation())
    assert "v9 without stream-K" in ablated and "with alternating waves" in ablated
    for told in (table, page.ablation(), scope):
        assert not re.search(r"\bnan\b", plain(told))


def test_every_attempt_has_a_section_with_its_change():
    text = (ROOT / "docs" / "attempts.md").read_text(encoding="utf-8")
    assert re.findall(r"```\{attempts\} group (.+)", text) == page.groups()
    for heading in page.groups():
        html = page.group(heading)
        for one in ATTEMPTS:
            if one.group != heading:
                continue
            section = html[html.index(f'id="attempt-{one.name}"') :].split("</section>")[0]
            assert ("wb-add" in section or "wb-del" in section) == bool(one.edits), one.name
            changed = (
                one.edits
                or one.blocks
                or one.places != "gpc"
                or one.kernel != EVERY[one.against].kernel
            )
            assert changed or "<code" in section, f"{one.name}: what was changed?"


def test_an_unknown_part_is_refused_and_a_page_builds(tmp_path, nothing):
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text(CONF)
    fence = "```{{attempts}} {}\n```\n\n"
    groups = [f"group {heading}" for heading in page.groups()]
    parts = ("count", "bases", "table", "ablation", "best", *groups)
    (source / "index.md").write_text("# A\n\n## B\n\n### C\n\n" + "".join(map(fence.format, parts)))
    site = build(source, tmp_path / "out")
    assert site.status == 0, site.log
    html = (site.folder / "index.html").read_text(encoding="utf-8")
    assert 'id="attempt-wide-whole"' in html
    (source / "index.md").write_text("# A\n\n" + fence.format("all"))
    assert "attempts 'all': choose count, bases" in build(source, tmp_path / "out").log
