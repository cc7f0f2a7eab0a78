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
from hopper.experiments import Arrays, Curves, protocol
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
from hopper.figures.protocol_explorer import SHOWN_K, shown_run, state
from hopper.figures.protocol_messages import message_cards
from hopper.figures.protocol_steps import BRING, END, MULTIPLY
from hopper.paths import ROOT
from hopper.schema import Array, Probe, Sweep, parse

CHAPTER = (ROOT / "chapters/protocol.md").read_text(encoding="utf-8")
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


def test_the_page_may_say_whose_the_two_fences_of_the_machine_code_are():
    code = compile_kernel(KERNEL).sass().instructions
    first, second = (at for at, line in enumerate(code) if line.startswith("FENCE"))
    assert code[first + 1].startswith("SYNCS.EXCH"), "an mbarrier is initialised behind the first"
    assert first < min(at for at, line in enumerate(code) if line.startswith("STS")) < second
    assert kernel_text().count("fence_proxy_async();") == 1


def test_the_page_may_say_that_a_stage_fewer_is_a_deadlock():
    one = (("STAGES = 2,", "STAGES = 1,"),)
    assert verdict(Variant("one stage", one)).kinds[0] == "deadlock"
    free = ("wgmma_wait_group<1>();", "wgmma_wait_group<0>();")
    here = (("if (step > 0 && lane", "if (lane"), ("&empty[(step - 1) % STAGES]", "&empty[stage]"))
    assert str(verdict(Variant("one stage, wait_group<0>", (*one, free, *here)))) == "right"


def test_only_those_that_come_to_a_deadlock_are_tried_last():
    assert may_hang(without("release")) and not may_hang(WRITTEN)
    assert not may_hang(without("proxy"))


# ---- messages -----------------------------------------------------------------------------------

CODES = (
    # registers touched: plain, behind a branch, of whole warps, with a fence before the loop
    *(("C7519", False), ("C7520", True), ("C7519", False), ("C7519", False)),
    *(("C7517", False), ("C7518", True), ("C7514", True), ("C7515", True), ("C7513", True)),
    # too many of them
    *(("C7511", True), ("C7512", True)),
    # calls: printf, by a pointer, printf further down, recursion; setmaxnreg
    *(("C7510", True), ("C7510", True), ("C7510", True), ("C7509", True), ("C7508", False)),
)


@pytest.mark.parametrize("number", range(len(CODES)))
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


def test_one_of_the_compilers_reasons_is_not_provoked():
    said = {
        messages.reason(text)
        for one in messages.PROVOKED
        for found in one.messages.values()
        for text in found
        if "serialized" in text
    }
    known = messages.known_texts()
    assert said < set(known)
    assert set(known) - said == {"ill formed pipeline stage"}


#: Of each call: whether one is left in the machine code, and what the compiler says.
CALLS = {
    "a function that is not inlined, before the loop": "nothing",
    "the same in the loop, before wgmma.fence": "nothing",
    "behind wait_group<1>, with a group in flight": "nothing",
    "behind the loop": "nothing",
    "a division of floats behind the loop": "nothing",
    "the function between the wgmmas and commit_group": "C7519",
    "a function that is not inlined, with the first wgmma in it": "C7519, C7517, C7510, serialised",
}


def test_every_call_of_the_page_has_an_expectation():
    assert list(CALLS) == list(messages.CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_not_inlined_does_no_harm_outside_a_group(name):
    one = messages.CALLS[name]
    assert one.calls, "inlined: it would show nothing"
    assert messages.codes(one.compile()) == CALLS[name]


@pytest.mark.parametrize("call", ["assert(steps > 0);", "out[0] = malloc(steps) != nullptr;"])
def test_what_the_page_lists_beside_printf_is_like_it(call):
    changed = messages.Provoked(((messages._SUMS, f"  {call}\n{messages._SUMS}"),))
    assert messages.codes(changed.compile()) == "C7510, serialised"


_SCALE_0, _TOUCHED = ("step > 0);", "false);"), "    d[0] = out[step];\n"
_WAITED = "    wgmma_wait_group<0>();\n"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # C7520, C7518: the fence, or the wait, as written is enough behind the branch.
        ((messages._ROLE,), "nothing"),
        # C7515: with the write left, scale_d = false does not help; taken away, it does.
        (((messages._WAIT_1, messages._WAIT_1 + _TOUCHED), _SCALE_0), "C7515, serialised"),
        ((_SCALE_0,), "nothing"),
        # C7515, C7514: wait_group<0> first.
        (((messages._WAIT_1, _WAITED + _TOUCHED),), "nothing"),
        (((messages._WAIT_1, _WAITED + "    for (float& sum : d) sum *= 2;\n"),), "nothing"),
    ],
)
def test_what_to_do_about_a_message_is_enough(changes, said):
    assert messages.codes(messages.Provoked(changes).compile()) == said


def test_a_message_is_a_card_with_all_that_belongs_to_it():
    cards = message_cards(messages.PROVOKED[:2], "Two of them")
    (first, second), shown = cards.cards, cards._repr_html_()
    assert [first.heading, second.heading] == ["C7519", "C7520, serialised"]
    for card in cards.cards:
        for text in (card.heading, card.reason, card.difference, card.cause, card.help):
            assert text and text in str(cards)
    assert shown.count('class="wb-message"') == 2
    assert "&lt;16&gt;::ss(d, a, b, step &gt; 0);" in shown and "<16>" not in shown


def test_a_message_is_shown_without_function_and_line():
    injected = "warpgroup.wait is injected in around line 70 by compiler to allow use of registers "
    assert (
        messages.reason(injected + "defined by GMMA in function 'k'")
        == "warpgroup.wait is injected"
    )
    few = "x are serialized due to insufficient register resources for the function 'loop'"
    assert messages.reason(few) == "insufficient register resources"


def test_changed_lines_are_shown_with_their_place():
    assert messages.PROVOKED[0].difference.splitlines() == [
        "    for (int step = 0; step < steps; ++step) {",
        "−     wgmma_fence();",
        "      wgmma<16>::ss(d, a, b, step > 0);",
    ]
    both = messages.PROVOKED[3].difference.splitlines()
    assert both.index("+   wgmma_fence();") < both.index("−     wgmma_fence();")
    assert "…" in messages.PROVOKED[1].difference.splitlines()
    with pytest.raises(HopperError, match="stands 2 times"):
        messages.Provoked((("ss(d, a", ""),)).source  # noqa: B018


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


def test_a_table_says_what_serialises_and_where_the_tiles_make_a_difference():
    said = {name: protocol.compiler_says(NAMED[name]) for name in list(EXPECTED)[3:6]}
    assert list(said.values()) == ["C7519", "C7520, serialised", "nothing"]
    late = protocol.compiler_says(NAMED["wait for full behind the wgmmas"])
    assert late == "C7519; with N = 96: C7520, serialised"


def test_a_shape_that_ended_early_hides_none_of_its_launches():
    def ended(*counts):
        return protocol._ended(protocol.Outcome(8, 1, *counts))

    assert ended(90, 0, 0, 0) == "right" and ended(80, 10, 0, 0) == "wrong 10 of 90"
    assert ended(0, 0, 0, 1) == "error" and ended(0, 0, 1, 0) == "hangs"
    assert ended(12, 1, 0, 1) == "error after 12 right, 1 wrong"
    assert ended(30, 0, 1, 0) == "hangs after 30 right"
    assert ended(0, 10, 0, 1) == "error after 10 wrong"


def test_the_shapes_are_those_of_the_tables_columns():
    assert [row[0] for row in protocol.shapes()] == list(protocol.COLUMNS[3:])
    assert protocol.shapes()[3] == ("large tile, full GPU", "96", "64", "512", "1,056")
    steps = compile_kernel(KERNEL).facts.tile_k
    assert [int(row[2]) for row in protocol.shapes()] == [4, 4, 64, 64] and steps == 64


@pytest.mark.parametrize("group", BREAKS)
def test_the_page_says_what_each_code_and_each_rule_of_its_tables_means(group):
    told = set(re.findall(r"^\| \{message\}`([\w-]+)` \|", CHAPTER, re.MULTILINE))
    for one in BREAKS[group]:
        assert set(verdict(one.variant).kinds) <= told, one.name
        assert set(re.findall(r"C\d+", protocol.compiler_says(one.variant))) <= told, one.name


def test_the_page_says_so_of_the_figures_rules_too():
    told = set(re.findall(r"^\| \{message\}`([\w-]+)` \|", CHAPTER, re.MULTILINE))
    assert {kind for _, one in single_changes() for kind in verdict(one).kinds} <= told


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
    others = ("one thread frees it for four warps", "scale_d always true")
    listed = [WRITTEN, *map(NAMED.get, names + others)]
    monkeypatch.setattr(protocol, "every_variant", lambda: listed)
    assert protocol.summary(recorded).splitlines() == [
        "6 changed kernels, of the tables and the figure together:",
        "   3 break a rule",
        "   1 keep every rule, and the emulator warns of them",
        "   1 keep every rule, and their result is wrong",
        "   1 keep every rule, and their result is right",
        "Of the 3 that break a rule,",
        "   1 have a message of the compiler",
        "   3 were right in every launch on the H200, with a small tile alone",
        "   2 were right in every launch on the H200, in all shapes (1,080 launches)",
        "a GPU",
    ]
    assert "H200" not in protocol.summary(Arrays("no recording", None))


def test_a_table_of_costs_says_what_was_not_recorded():
    series = {"as written": (100.0, 200.0, 300.0), "no fence, C7520": (150.0, 220.0, 300.0)}
    swept = Sweep("cost", "blocks an SM", "blocks", (1, 2, 3), "µs", series)
    rows = protocol.cost_rows(Curves(numpy.array((1, 2, 3)), "a GPU", swept))
    assert {len(row) for row in rows} == {len(protocol.COST_COLUMNS)}
    assert [row[0] for row in rows] == list(protocol.COSTS)
    assert rows[0][4:] == ("100", "1.00", "200", "1.00", "300", "1.00")
    assert rows[1][4:] == ("150", "1.50", "220", "1.10", "300", "1.00")
    assert set(rows[2][4:]) == {"not recorded", "–"}
    nothing = protocol.cost_rows(Curves(numpy.array([numpy.nan]), "none", None))
    assert {row[4:] for row in nothing} == {("not recorded", "–") * 3}


def test_the_page_may_say_that_registers_do_not_explain_the_costs():
    rows = protocol.cost_rows(Curves(numpy.array([numpy.nan]), "none", None))
    assert len({row[1] for row in rows}) == 1 and {row[2] for row in rows} == {"3"}
    assert len({row[3] for row in rows}) > 2, "instructions differ"
    for curve, name in protocol.COSTS.items():
        program = (NAMED[name] if name else WRITTEN).compile(*protocol.LARGE)
        code, serialised = curve.rpartition(", ")[2], messages.is_serialised(program)
        assert not name or code in messages.codes(program)
        assert serialised == (code in ("C7520", "C7514"))


def test_blocks_that_fit_are_bound_by_what_runs_out_first():
    def fit(registers, shared):
        resources = SimpleNamespace(registers=registers, static_shared_bytes=shared)
        return protocol.blocks_that_fit(SimpleNamespace(resources=resources))

    assert fit(32, 0) == 8, "threads: 2048 on an SM"
    assert fit(73, 0) == fit(80, 0) == 3, "registers, eight at a time"
    assert fit(32, 75 * 1024) == 3 and fit(32, 76 * 1024) == 2, "shared memory, and 1 KB a block"


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
    tiles = [lane for lane in lanes if lane.startswith("tile_")]
    assert tiles == ["tile_a[0]", "tile_a[1]", "tile_b[0]", "tile_b[1]"]
    assert "<b>s</b> store to shared memory, <b>p</b> fence.proxy.async" in parts["letters"]


@pytest.mark.parametrize(
    ("keys", "variant"), list(single_changes()), ids=lambda one: getattr(one, "name", "")
)
def test_to_watch_the_stores_changes_nothing_of_a_run(keys, variant):
    seen = shown_run(variant)[0]
    plain = run(SCHEDULES[1], variant.compile(), SHOWN_K)[0]
    assert seen.hazards == plain.hazards and seen.completed == plain.completed
    assert seen.steps == plain.steps and seen.counts == plain.counts
    mine = ("shared.store", "proxy.fence")
    assert [one for one in seen.trace if one.kind not in mine] == list(plain.trace)


def letters(variant) -> str:
    """What warps 4–7 issue in their first step."""
    lane = next(one for one in shown_run(variant)[1].model.lanes if one.label == "warps 4–7 bring")
    return "".join(mark.letter for mark in lane.marks)[:5]


def states(variant, tile: str) -> list[str]:
    lane = next(one for one in shown_run(variant)[1].model.lanes if one.label == tile)
    return [span.texts[0] for span in lane.spans]


def test_stores_and_their_fence_are_drawn_in_the_order_of_the_steps():
    assert letters(WRITTEN) == "aTspa"
    assert letters(swapped("ask", "store")) == "saTpa"
    assert letters(swapped("store", "proxy")) == "aTpsa"
    assert letters(without("proxy")).startswith("aTsaa")
    assert letters(without("store")).startswith("aTpaa")


def test_a_tile_of_b_says_what_became_of_it():
    assert states(WRITTEN, "tile_b[1]") == ["stored", "holds data", "wgmma reads it", "holds data"]
    assert "read without a fence" in states(swapped("store", "proxy"), "tile_b[1]")
    assert "stored, no fence yet" in states(without("proxy"), "tile_b[0]")
    assert "stored while read" in states(without("wait 1"), "tile_b[0]")
    assert set(states(without("store"), "tile_b[0]")) == {"read, never stored"}
    moments = shown_run(WRITTEN)[1].model.moments
    told = [words for moment in moments for words in moment.words]
    assert told.count("Warps 4–7 store to tile_b[0].") == 2
    assert told.count("Warps 4–7 execute fence.proxy.async.") == 3


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
        (
            lambda: exercises.freed(lambda step, n: step - n),
            "your answer is -1; group 0 is committed, and the latest may still run; so none has "
            "retired, and the answer is None",
        ),
        (
            lambda: exercises.freed(lambda step, n: step if n else None),
            "none of them may still run",
        ),
        (lambda: exercises.freed(lambda step: step), "raises TypeError"),
        (lambda: exercises.freed(lambda step, n: step // n), "raises ZeroDivisionError"),
        (lambda: exercises.freed(lambda step, n: numpy.arange(3)), "returns array([0, 1, 2])"),
        (lambda: exercises.freed(lambda step, n: True), "returns True; return a step, which is an"),
        (lambda: exercises.freed(lambda step, n: "0"), "returns '0'; return a step"),
        (lambda: exercises.freed(None), "None is no function; pass one of (step, n)"),
        (lambda: exercises.freed("abc"), "'abc' is no function"),
        (lambda: exercises.freed(3), "3 is no function"),
        (
            lambda: exercises.freed(lambda step, n: numpy.int64(step - n) if step >= n else None),
            "right: for every step",
        ),
        (lambda: exercises.keep_the_rules(["no commit_group"]), "says operand-overwritten"),
        (
            lambda: exercises.keep_the_rules(["scale_d always true"]),
            "it keeps every rule, and the emulator gets a wrong result",
        ),
        (
            lambda: exercises.keep_the_rules(["one thread frees it for four warps"]),
            "one-warp-release is a warning; PTX is silent here, so it counts neither way\nso far",
        ),
        (lambda: exercises.keep_the_rules("zeroed before the loop"), "so far right; 3 more"),
        (lambda: exercises.keep_the_rules("z"), "'z' is no change of the tables"),
        (lambda: exercises.keep_the_rules(4), "4 is no list of names"),
        (lambda: exercises.keep_the_rules([["z"]]), "[['z']] is no list of names"),
        (lambda: exercises.keep_the_rules(one for one in ["z"]), "'z' is no change of the tables"),
        (lambda: exercises.keep_the_rules(["zeroed before the loop"]), "so far right; 3 more"),
        (lambda: exercises.keep_the_rules(["zeroed"]), "is no change of the tables"),
        (lambda: exercises.two_in_flight(2, None), "give wait and back"),
        (lambda: exercises.two_in_flight(1, 1), "leaves 1 running; two should"),
        (lambda: exercises.two_in_flight(2, 1), "operand-overwritten"),
        (lambda: exercises.two_in_flight(2, 3), "deadlock"),
        (
            lambda: exercises.two_in_flight(2, 3),
            "three stages: step s + 3 needs the stage of step s",
        ),
        (lambda: exercises.two_in_flight(-1, 2), "wait=-1: pass an int, 0 or more"),
        (lambda: exercises.two_in_flight("2", 2), "wait='2': pass an int"),
        (lambda: exercises.two_in_flight(2.0, 2), "wait=2.0: pass an int"),
        (lambda: exercises.two_in_flight(2, True), "back=True: pass an int"),
        (lambda: exercises.two_in_flight([2], 2), "wait=[2]: pass an int"),
        (lambda: exercises.two_in_flight(numpy.int32(2), 2), "right: two groups run"),
        (lambda: exercises.halved(3), "3 is no text; pass lines of CUDA C++ as a str"),
        (lambda: exercises.halved([COMMIT]), "is no text"),
        (lambda: exercises.halved(b"x"), "b'x' is no text"),
        (
            lambda: exercises.halved(COMMIT + HALVE + WAIT + RELEASE),
            "accumulator-pending at `for (float& sum : d) sum *= 0.5f;`: d is accessed while",
        ),
        (
            lambda: exercises.halved(COMMIT + HALVE + WAIT + RELEASE),
            "wait first, then touch the sums",
        ),
        (
            lambda: exercises.halved(COMMIT + WAIT.replace("0", "1") + HALVE + RELEASE),
            "wait_group<1> lets the latest group run, and that is this step's",
        ),
        (lambda: exercises.halved(WAIT + HALVE + RELEASE), "this step's wgmmas are in no group"),
        (
            lambda: exercises.halved(WAIT + COMMIT + HALVE + RELEASE),
            "wait_group stands before commit_group, so it waits for earlier groups only",
        ),
        (lambda: exercises.halved(COMMIT + HALVE + RELEASE), "nothing waits for this step's group"),
        (
            lambda: exercises.halved(
                COMMIT + WAIT + HALVE + "    if (step > 0 && lane == 0)"
                " mbarrier_arrive(&empty[(step - 1) % STAGES]);\n"
            ),
            "right: no rule is broken",
        ),
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


def test_an_answer_that_never_ends_is_told_soon(capsys):
    began = time.perf_counter()
    exercises.halved(COMMIT + WAIT + HALVE + "    while (true) d[0] += 1;\n" + RELEASE)
    assert time.perf_counter() - began < 60
    assert "never-ends at `while (true) d[0] += 1;`: after 40,000 steps" in capsys.readouterr().out


def test_a_right_answer_takes_a_tenth_of_the_steps_that_an_answer_may_take():
    limit = sys.modules["hopper.exercises.protocol"]._STEP_LIMIT
    taken = [run(emulator, WRITTEN.compile(), 384)[0].steps for emulator in SCHEDULES]
    assert max(taken) < limit / 10


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
