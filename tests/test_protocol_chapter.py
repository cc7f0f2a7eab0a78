"""The chapter on the protocol: its kernel, every change of it, the messages, the experiments."""

import base64
import json
import re
import signal
import sys
import time
import zlib
from dataclasses import asdict
from types import SimpleNamespace

import numpy
import pytest
import test_figures
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper import exercises, figures, notebooks
from hopper.backends import find_hopper
from hopper.compile import compile_cuda, compile_kernel
from hopper.emulator import Emulator
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import CheckError, HopperError
from hopper.experiments import Arrays, protocol
from hopper.experiments import protocol_messages as messages
from hopper.experiments.protocol_breaks import BREAKS, every_break
from hopper.experiments.protocol_variants import (
    KERNEL,
    SCHEDULES,
    STEPS,
    Variant,
    inputs,
    kernel_text,
    may_hang,
    product,
    run,
    single_changes,
    step,
    steps_of,
    swapped,
    verdict,
    without,
)
from hopper.figures.protocol_explorer import shown_run, state
from hopper.figures.protocol_steps import BRING, END, MULTIPLY
from hopper.schema import Array, Probe, Sweep, parse

protocol_explorer_module = sys.modules["hopper.figures.protocol_explorer"]
NAMED = {one.name: one.variant for one in every_break()}
WRITTEN = Variant("as written")

# ---- the kernel ---------------------------------------------------------------------------------


@given(st.sampled_from((8, 24, 112)), st.integers(1, 6), st.sampled_from(SCHEDULES))
@settings(max_examples=12)
def test_the_kernel_is_right_and_breaks_no_rule(n, steps, emulator):
    done, c = run(emulator, WRITTEN.compile(n), 64 * steps)
    assert done.completed and done.hazards == ()
    assert (c == product(*inputs(1, n, 64 * steps))).all()


def test_what_is_right_is_a_product_of_whole_numbers():
    a, b = inputs(20, 8, 128, seed=3)
    expected = a.astype(int) @ b.astype(int).T * 5
    assert a.shape == (20 * 64, 128) and (product(a, b, 5) == expected).all()
    assert (a[:64] == a[16 * 64 : 17 * 64]).all() and (a[:64] != a[64:128]).any()
    assert set(numpy.unique(a)) == set(numpy.unique(b)) == set(range(-3, 4))


def test_a_group_that_multiplies_more_often_gives_as_many_products():
    done, c = run(SCHEDULES[0], WRITTEN.compile(8, 3), 128)
    assert done.hazards == () and (c == product(*inputs(1, 8, 128), 3)).all()


# ---- its steps, and what is changed --------------------------------------------------------------


def test_each_step_is_the_kernels_own_text_and_the_figures_know_the_same_steps():
    drawn = {"bring": BRING, "multiply": MULTIPLY, "end": END}
    for part, boxes in drawn.items():
        assert [one.name for one in steps_of(part)] == [name for name, _ in boxes]
    where = [kernel_text().index(one.text) for one in STEPS]
    assert where == sorted(where)
    for one, after in zip(STEPS, STEPS[1:], strict=False):
        if one.part == after.part:  # nothing but comments lies between two steps of a part
            between = kernel_text().partition(one.text)[2].partition(after.text)[0]
            assert re.fullmatch(r"(\s|//.*\n)*", between)


@pytest.mark.parametrize("one", [step for step in STEPS if step.key != "read"], ids=lambda s: s.key)
def test_without_a_step_the_lines_below_keep_their_numbers(one):
    before, after = kernel_text().splitlines(), without(one.key).source.splitlines()
    assert len(before) == len(after)
    gone = [old for old, new in zip(before, after, strict=True) if old != new]
    assert "\n".join(gone) + "\n" == one.text


def test_two_swapped_steps_change_places_and_nothing_else():
    for part in ("bring", "multiply", "end"):
        steps = steps_of(part)
        for i, first in enumerate(steps):
            for second in steps[i + 1 :]:
                source = swapped(first.key, second.key).source
                order = sorted(steps, key=lambda one, text=source: text.index(one.text))
                expected = list(steps)
                a, b = steps.index(first), steps.index(second)
                expected[a], expected[b] = expected[b], expected[a]
                assert order == expected and len(source) == len(kernel_text())


def test_a_change_whose_text_is_gone_is_no_change_without_effect():
    with pytest.raises(HopperError, match="stands 0 times.*update the change"):
        Variant("none", (("no such line", ""),)).source  # noqa: B018
    with pytest.raises(HopperError, match=r"'stage' stands \d\d times"):
        Variant("many", (("stage", ""),)).source  # noqa: B018


def test_every_change_is_another_one():
    names = [one.name for one in every_break()]
    assert len(set(names)) == len(names) == len({one.variant.digest for one in every_break()})
    assert len({variant.digest for _, variant in single_changes()}) == 39
    shared = {variant.digest for _, variant in single_changes()} & {
        one.variant.digest for one in every_break()
    }
    assert len(protocol.every_variant()) == 39 + len(names) - len(shared)
    assert protocol.every_variant()[0].changes == ()


def test_a_comment_is_no_change_of_a_change():
    old = step("commit")
    plain, told = (Variant("", ((old, text),)) for text in ("  f();\n", "  f();  // why\n"))
    assert plain.digest == told.digest != Variant("", ((old, "  g();\n"),)).digest


# Of each change: what the compiler says, and the first rule that the emulator reports.
EXPECTED = {
    "no wgmma.fence": ("C7520", "no-wgmma-fence"),
    "wgmma.fence behind the wgmmas": ("C7520", "no-wgmma-fence"),
    "fence.proxy.async in place of wgmma.fence": ("C7520", "no-wgmma-fence"),
    "wgmma.fence once, before the loop": ("C7519", "right"),
    "wgmma.fence before the wait for full": ("C7520", "right"),
    "no commit_group": ("", "operand-overwritten"),
    "commit_group before the wgmmas": ("", "operand-overwritten"),
    "no wait_group<1>": ("", "operand-overwritten"),
    "wait_group<1> before commit_group": ("", "operand-overwritten"),
    "no wait_group<0> at the end": ("C7518", "accumulator-pending"),
    "wait_group<1> in place of wait_group<0>": ("C7518", "accumulator-pending"),
    "sums stored before wait_group<0>": ("C7514", "accumulator-pending"),
    "no arrival at empty": ("", "deadlock"),
    "arrival at empty before wait_group<1>": ("", "operand-overwritten"),
    "this stage freed, not the one before": ("", "operand-overwritten"),
    "one thread frees it for four warps": ("", "one-warp-release"),
    "no wait for full": ("", "copy-not-arrived"),
    "wait for full behind the wgmmas": ("C7519", "no-wgmma-fence"),
    "no wait for empty": ("", "expect-tx"),
    "stores of B not reported": ("", "deadlock"),
    "no __syncthreads() behind the init": ("", "barrier-not-visible"),
    "no fence.proxy.async": ("", "no-proxy-fence"),
    "fence.proxy.async behind the arrival": ("", "no-proxy-fence"),
    "fence.proxy.async by those who multiply, behind their wait": ("", "right"),
    "fence.proxy.async by those who multiply, before their wait": ("", "no-proxy-fence"),
    "wgmma.fence in place of fence.proxy.async": ("", "no-proxy-fence"),
    "__threadfence_block() in place of fence.proxy.async": ("", "no-proxy-fence"),
    "scale_d always true": ("", "a wrong result"),
    "zeroed before the loop": ("", "right"),
    "zeroed behind wgmma.fence": ("C7520", "no-wgmma-fence"),
    "zeroed in the loop, before wgmma.fence": ("C7518", "accumulator-pending"),
    "a sum stored behind commit_group": ("C7518", "accumulator-pending"),
    "sums doubled behind wait_group<1>, halved at once": ("C7514", "accumulator-pending"),
}


def test_every_change_of_the_tables_has_an_expectation():
    assert set(EXPECTED) == set(NAMED)


@pytest.mark.parametrize("name", EXPECTED)
def test_compiler_and_emulator_say_what_the_page_says_of_a_change(name):
    said, found = ", ".join(NAMED[name].messages), verdict(NAMED[name])
    assert (said, str(found).split(", ")[0]) == EXPECTED[name]


def test_the_page_may_say_that_a_forgotten_commit_is_repaired_without_a_word():
    written = WRITTEN.compile().sass().instructions
    assert NAMED["no commit_group"].compile().sass().instructions == written
    assert NAMED["no wait_group<1>"].compile().sass().instructions != written
    early = messages.pipeline(NAMED["commit_group before the wgmmas"].compile())
    assert early == "arrive, HGMMA ·, HGMMA ×3, HGMMA ·, wait ≤ 1, wait ≤ 0"


def test_only_those_that_come_to_a_deadlock_are_tried_last():
    assert may_hang(without("release")) and not may_hang(WRITTEN)
    assert not may_hang(without("proxy"))


# ---- messages -----------------------------------------------------------------------------------

CODES = {
    # registers touched: plain, behind a branch, behind a branch of whole warps
    0: ("C7519", False), 1: ("C7520", True), 2: ("C7519", False), 3: ("C7517", False),
    4: ("C7518", True), 5: ("C7514", True), 6: ("C7515", True), 7: ("C7513", True),
    # too many of them; a call; setmaxnreg
    8: ("C7511", True), 9: ("C7512", True), 10: ("C7510", True), 11: ("C7508", False),
}  # fmt: skip


@pytest.mark.parametrize("number", CODES)
def test_a_message_is_provoked_alone_and_serialises_or_not(number):
    one = messages.PROVOKED[number]
    code, serialised = CODES[number]
    assert list(one.messages) == [code]
    assert messages.is_serialised(one.compile()) == serialised


def test_the_loop_that_they_change_is_clean():
    program = compile_cuda(messages.CLEAN, "loop")
    program.require_clean()
    assert messages.pipeline(program) == "arrive, HGMMA, HGMMA ·, wait ≤ 1, wait ≤ 0"
    assert len(CODES) == len(messages.PROVOKED)


def test_two_of_the_compilers_reasons_are_not_provoked():
    said = {
        messages.reason(text)
        for one in messages.PROVOKED
        for found in one.messages.values()
        for text in found
        if "serialized" in text
    }
    known = messages.known_texts()
    assert said < set(known)
    assert set(known) - said == {"the presence of Extern calls", "ill formed pipeline stage"}


def test_a_message_is_shown_without_function_and_line():
    injected = "warpgroup.wait is injected in around line 70 by compiler to allow use of registers "
    assert (
        messages.reason(injected + "defined by GMMA in function 'k'")
        == "warpgroup.wait is injected"
    )
    few = "x are serialized due to insufficient register resources for the function 'loop'"
    assert messages.reason(few) == "insufficient register resources"


def test_changed_lines_are_shown_in_short():
    first, *_ = messages.PROVOKED
    assert first.difference == "− wgmma_fence();"
    assert messages.PROVOKED[1].difference.startswith("+ if (threadIdx.x >= 128) { + out[0] = 1;")
    assert messages.PROVOKED[8].difference.endswith("…")
    with pytest.raises(HopperError, match="stands 2 times"):
        messages.Provoked((("ss(d, a", ""),), "", "").source  # noqa: B018


# ---- what was recorded, read back ----------------------------------------------------------------


def recorded_ends(**changed) -> Arrays:
    """A recording in which every launch was right, except those of some changes, by name."""
    variants = protocol.every_variant()
    launches = len(protocol.SEEDS) * protocol.LAUNCHES
    ends = numpy.zeros((len(variants), 4, 4), "int32")
    ends[:, :, 0] = launches
    for name, (shape, counts) in changed.items():
        place = [one.name for one in variants].index(name)
        ends[place, shape] = counts
    digests = numpy.array([list(bytes.fromhex(one.digest)) for one in variants], "uint8")
    held = {"digests": Array.of(digests), "ends": Array.of(ends)}
    return Arrays("a GPU", Probe("trials", "?", held))


def test_a_table_has_a_row_for_each_change_and_says_what_a_gpu_returned():
    recorded = recorded_ends(
        **{
            "no arrival at empty": (2, (0, 0, 1, 0)),
            "one thread frees it for four warps": (3, (80, 10, 0, 0)),
        }
    )
    rows = protocol.rows("release", recorded)
    assert [len(row) for row in rows] == [len(protocol.COLUMNS)] * 4
    assert rows[0][:3] == ("no arrival at empty\nnobody ever frees a stage", "nothing", "deadlock")
    assert rows[0][3:] == ("right", "right", "hangs", "right")
    assert rows[3][3:] == ("right", "right", "right", "wrong 10 of 90")
    assert protocol.returned(NAMED["no arrival at empty"], recorded) == "270 right, 1 hung of 271"


def test_without_a_recording_every_cell_says_so():
    nothing = Arrays("no recording", None)
    assert protocol.outcomes(WRITTEN, nothing) == ()
    assert protocol.returned(WRITTEN, nothing) == "not recorded"
    assert {row[3:] for row in protocol.rows("fence", nothing)} == {("not recorded",) * 4}


def test_a_change_made_after_the_recording_is_not_recorded():
    later = Variant("later", ((step("commit"), "    wgmma_commit_group(); ;\n"),))
    assert protocol.returned(later, recorded_ends()) == "not recorded"


def test_the_summary_counts_who_noticed(monkeypatch):
    recorded = recorded_ends(**{"no fence.proxy.async": (3, (0, 90, 0, 0))})
    names = ("no fence.proxy.async", "no wgmma.fence", "no wait_group<1>", "zeroed before the loop")
    monkeypatch.setattr(protocol, "every_variant", lambda: [WRITTEN, *map(NAMED.get, names)])
    assert protocol.summary(recorded).splitlines() == [
        "4 changed kernels; 3 of them break a rule",
        "the compiler has a message for 1 of these 3",
        "the H200 returned the right result every time for 3 of them with a small tile alone, and "
        "for 2 in all shapes: 1,080 launches",
        "a GPU",
    ]
    assert "H200" not in protocol.summary(Arrays("no recording", None))


# ---- the experiments, on a GPU that is played ----------------------------------------------------


@pytest.fixture
def played(monkeypatch):
    """CuPy as far as the experiments use it, small shapes, and the emulator as GPU."""
    for name, value in {
        "SHAPES": ((protocol.SMALL, 1), ((16, 2), 2)),
        "SEEDS": (1, 2),
        "LAUNCHES": 2,
        "DEPTH": 128,
        "LARGE": (8, 1),
        "BLOCKS_A_SM": (1, 2),
        "COST_DEPTH": 64,
        "_COUNTED": 1,
        "_TIMED": 1,
        "_FLUSH_BYTES": 16,
    }.items():
        monkeypatch.setattr(protocol, name, value)
    for one in (WRITTEN, *(NAMED[name] for name in protocol.COSTS.values() if name)):
        one.compile()  # before CuPy is another
    for shape in protocol.SHAPES:
        WRITTEN.compile(*shape[0])
    NAMED["scale_d always true"].compile(*protocol.SMALL)

    class Event:
        def record(self):
            self.at = time.perf_counter()

        def synchronize(self):
            pass

    cuda = SimpleNamespace(
        Event=Event,
        get_elapsed_time=lambda start, end: 1000 * (end.at - start.at),
        nvrtc=sys.modules["cupy.cuda"].nvrtc,
    )
    names = ("zeros", "empty_like", "full_like", "nan")
    cupy = SimpleNamespace(cuda=cuda, **{name: getattr(numpy, name) for name in names})
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)

    class Played(EmulatedGpu):
        sm_count = 1

    return Played(Emulator(on_hazard="ignore"))


def test_launches_are_compared_in_every_shape(played):
    for shape in range(2):
        assert list(protocol.launches(played, WRITTEN, shape)) == ["right"] * 4
    wrong = list(protocol.launches(played, NAMED["scale_d always true"], 0))
    assert wrong == ["wrong"] * 4
    assert signal.alarm(0) == 0, "an alarm is left"


def test_costs_are_those_of_right_results(played, monkeypatch):
    swept = protocol.cost_curves(played, None)
    assert isinstance(swept, Sweep) and list(swept.series) == list(protocol.COSTS)
    assert all(len(times) == 2 and min(times) > 0 for times in swept.series.values())
    assert parse(Sweep, json.loads(json.dumps(asdict(swept))), "record", "data") == swept
    monkeypatch.setitem(protocol.COSTS, "no fence, C7520", "scale_d always true")
    assert "no fence, C7520" not in protocol.cost_curves(played, None).series
    monkeypatch.setattr(protocol, "product", lambda a, b, repeat: product(a, b) + 1)
    with pytest.raises(CheckError, match="as written is wrong; nothing was recorded"):
        protocol.cost_curves(played, None)


def test_a_variant_goes_on_behind_a_shape_that_hangs_or_fails(monkeypatch):
    launches = len(protocol.SEEDS) * protocol.LAUNCHES
    asked = []

    def process(variant, left):
        asked.append(list(left))
        if left == [0, 1, 2, 3]:  # the first is whole, the second hangs
            return -signal.SIGALRM, [(0, "right")] * launches + [(1, "wrong")] * 5
        if left == [2, 3]:  # the third fails at once
            return 1, []
        return 0, [(3, "right")] * launches

    monkeypatch.setattr(protocol, "_process", process)
    assert protocol.tried(WRITTEN).tolist() == [
        [launches, 0, 0, 0],
        [0, 5, 1, 0],
        [0, 0, 0, 1],
        [launches, 0, 0, 0],
    ]
    assert asked == [[0, 1, 2, 3], [2, 3], [3]]


def test_the_child_writes_one_line_for_each_launch(monkeypatch, tmp_path):
    monkeypatch.setattr(protocol, "find_hopper", lambda: None)
    ends = {2: ["right", "wrong"], 0: ["wrong"]}
    monkeypatch.setattr(protocol, "launches", lambda gpu, variant, shape: iter(ends[shape]))
    path = tmp_path / "ends"
    protocol.main([WRITTEN.digest, str(path), "2", "0"])
    assert path.read_text() == "2 right\n2 wrong\n0 wrong\n"


def test_a_real_child_without_a_gpu_fails_and_is_counted_so(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    status, lines = protocol._process(WRITTEN, [0])
    assert status > 0 and lines == []


def test_trials_are_recorded_by_digest_and_only_if_the_kernel_itself_is_right(monkeypatch):
    launches = len(protocol.SEEDS) * protocol.LAUNCHES
    few = [WRITTEN, without("release"), without("proxy")]
    order = []

    def tried(variant):
        order.append(variant.name)
        end = 2 if variant is few[1] else 0
        return numpy.array([[launches * (at == end) for at in range(4)]] * 4, "int32")

    monkeypatch.setattr(protocol, "every_variant", lambda: few)
    monkeypatch.setattr(protocol, "tried", tried)
    probe = protocol.probe_trials(None, None)
    assert order[-1] == few[1].name, "what may hang comes last"
    assert parse(Probe, json.loads(json.dumps(asdict(probe))), "record", "data") == probe
    found = protocol.outcomes(few[1], Arrays("", probe))
    assert [one.verdict for one in found] == [f"hangs after {launches - 1}"] * 4
    assert protocol.outcomes(few[2], Arrays("", probe))[0].verdict == "right"
    monkeypatch.setattr(protocol, "tried", lambda variant: numpy.ones((4, 4), "int32"))
    with pytest.raises(CheckError, match="as written is wrong.*nothing was recorded"):
        protocol.probe_trials(None, None)


@pytest.mark.hopper
def test_a_gpu_finds_the_kernel_right_and_a_deadlock_hanging():
    find_hopper()
    launches = len(protocol.SEEDS) * protocol.LAUNCHES
    assert protocol.tried(WRITTEN).tolist() == [[launches, 0, 0, 0]] * 4
    assert (protocol.tried(without("release"))[:, 2] == 1).all()


# ---- the figures --------------------------------------------------------------------------------


def test_the_steps_are_drawn_as_all_of_the_books_figures():
    for holds in (
        test_figures.test_svg_is_well_formed_and_speaks,
        test_figures.test_text_is_legible_on_a_phone,
        test_figures.test_everything_lies_on_the_sheet,
        test_figures.test_every_colour_is_a_variable_of_the_palette_with_its_light_fallback,
    ):
        holds(figures.protocol_steps())


def unpacked(text: str) -> dict:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_a_state_is_what_compiler_and_emulator_say():
    found = state(swapped("proxy", "arrive full"), recorded_ends())
    assert found["compiler"] == [] and not found["elsewhere"]
    ((kind, warning, told, code),) = found["broken"]
    assert (kind, warning) == ("no-proxy-fence", False)
    assert "by an ordinary store" in told and code.startswith("wgmma_f32_f16_f16<TILE_N>::ss(")
    assert found["returned"] == "360 right of 360" and found["right"]
    assert state(without("fence"), recorded_ends())["compiler"][0][0] == "C7520"


def test_rules_that_only_other_schedules_break_are_told_apart():
    found = state(without("wait empty"), recorded_ends())
    assert [kind for kind, *_ in found["broken"]] == ["fault"]
    assert set(found["elsewhere"]) == set(verdict(without("wait empty")).kinds) - {"fault"}


def test_a_packed_timeline_is_the_timeline_of_the_run():
    found = state(without("wait 1"), recorded_ends())
    done, drawn = shown_run(without("wait 1"))
    parts = unpacked(found["timeline"])
    assert "kernel.cu" not in json.dumps(parts)
    assert len(found["timeline"]) < 12_000, "39 of them are on the page"
    assert parts["svg"] == drawn.svg.replace("kernel.cu:", "line ")
    assert parts["data"] == drawn._data().replace("kernel.cu:", "line ")
    assert {kind for kind, *_ in found["broken"]} == {one.kind for one in done.hazards}
    lanes = [lane.label for lane in drawn.model.lanes]
    assert lanes[:2] == ["warps 0–3 multiply", "warps 4–7 bring"]


def test_the_explorer_says_the_same_in_its_table(monkeypatch):
    few = [
        ((), WRITTEN),
        (("proxy",), without("proxy")),
        (("ask", "store"), swapped("ask", "store")),
    ]
    monkeypatch.setattr(protocol_explorer_module, "single_changes", lambda: iter(few))
    monkeypatch.setattr(protocol_explorer_module, "arrays", lambda *which: Arrays("none", None))
    shown = figures.protocol_explorer()
    assert list(shown.data["variants"]) == ["", "proxy", "ask + store"]
    assert [row[:3] for row in shown.figure.rows] == [
        ("as written", "nothing", "right"),
        ("without fence.proxy.async", "nothing", "no-proxy-fence"),
        ("with ask TMA for A and store B swapped", "nothing", "right"),
    ]
    assert "not recorded yet" in shown.figure.caption
    assert "without fence.proxy.async" in repr(shown)
    assert re.findall(r"/(?:home|root|tmp|work)/", shown._repr_html_()) == []


# ---- the exercises ------------------------------------------------------------------------------


def cells_with(function: str) -> list[str]:
    """The chapter's code cells that call this check, in order."""
    return [cell for cell in notebooks.code_cells("protocol") if f"exercises.{function}(" in cell]


@pytest.mark.parametrize(
    ("function", "solved"),
    [
        ("freed", "right: for every step"),
        ("two_in_flight", "right: two groups run"),
        ("halved", "right: no rule is broken"),
        ("keep_the_rules", "right: these 4, and no other"),
    ],
)
def test_the_chapters_question_is_open_and_its_solution_right(function, solved, capsys):
    question, solution = cells_with(function)
    capsys.readouterr()
    exec(question, {"exercises": exercises})
    assert "not answered yet" in capsys.readouterr().out
    exec(solution, {"exercises": exercises})
    assert capsys.readouterr().out.startswith(solved)


COMMIT, WAIT = "    wgmma_commit_group();\n", "    wgmma_wait_group<0>();\n"
HALVE = "    for (float& sum : d) sum *= 0.5f;\n"
RELEASE = "    if (lane == 0) mbarrier_arrive(&empty[stage]);\n"


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda: exercises.freed(lambda step, n: step), "behind wait_group 1 in step 0"),
        (lambda: exercises.freed(lambda step, n: step - n), "your answer is -1"),
        (lambda: exercises.keep_the_rules(["no commit_group"]), "says operand-overwritten"),
        (lambda: exercises.keep_the_rules(["scale_d always true"]), "says a wrong result"),
        (lambda: exercises.keep_the_rules(["zeroed before the loop"]), "so far right; 3 more"),
        (lambda: exercises.keep_the_rules(["zeroed"]), "is no change of the tables"),
        (lambda: exercises.two_in_flight(2, None), "give wait and back"),
        (lambda: exercises.two_in_flight(1, 1), "leaves 1 running; two should"),
        (lambda: exercises.two_in_flight(2, 1), "operand-overwritten"),
        (lambda: exercises.two_in_flight(2, 3), "deadlock: every living warp waits"),
        (lambda: exercises.two_in_flight(-1, 2), "does not compile"),
        (lambda: exercises.halved(COMMIT + HALVE + WAIT + RELEASE), "accumulator-pending"),
        (lambda: exercises.halved(COMMIT + WAIT + RELEASE), "sums are wrong"),
        (lambda: exercises.halved(COMMIT + WAIT + HALVE), "deadlock"),
        (lambda: exercises.halved(COMMIT + WAIT + HALVE + RELEASE[:-2]), "does not compile"),
        (
            lambda: exercises.halved("    wgmma_fence();\n" + COMMIT + WAIT + HALVE + RELEASE),
            "right: no rule is broken",
        ),
    ],
)
def test_an_answer_is_judged_by_what_it_does(use, told, capsys):
    use()
    out = capsys.readouterr().out
    assert told in out
    assert told.startswith("right") or "right:" not in out


def test_a_message_alone_is_no_right_answer(capsys):
    again = "    mbarrier_wait_parity(&full[stage], step / STAGES % 2);\n"  # it is complete already
    exercises.halved(again + COMMIT + WAIT + HALVE + RELEASE)
    assert "it keeps the rules, and the compiler says C7520" in capsys.readouterr().out


def test_what_the_emulator_cannot_run_is_told_and_no_traceback(capsys):
    exercises.halved(COMMIT + WAIT + HALVE + RELEASE + '    if (lane == k) printf("x");\n')
    assert "the emulator cannot run it: PTX line" in capsys.readouterr().out


def test_the_groups_of_the_tables_are_all_on_the_page():
    source = "\n".join(notebooks.code_cells("protocol"))
    assert re.findall(r'^tried\("(\w+)"\)', source, re.MULTILINE) == list(BREAKS)
    assert compile_kernel(KERNEL).kernel == KERNEL
