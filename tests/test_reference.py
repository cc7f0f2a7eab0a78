"""The reference pages: rules have checkers that exist, steps every system, names a source."""

import ast
import inspect
import re

import numpy
import pytest
from ptxas import refused_by_ptxas

import hopper.tensormap
from extension.error_index import messages
from extension.observed import cases, stops, stops_like, trials_of, trials_of_rule, verdict
from extension.tma_tables import MAP_RULES, rules
from hopper.compile import compile_cuda
from hopper.conformance import tma_stops
from hopper.emulator import Emulator, Run
from hopper.emulator.hazard_kernels import HAZARD_KERNELS
from hopper.emulator.hazard_trials import Outcome, Trial
from hopper.emulator.hazards import KINDS
from hopper.emulator.instructions import builders
from hopper.paths import ROOT

ALL = [rule for section in rules().values() for rule in section]
KERNELS = {kernel.name: kernel for kernel in HAZARD_KERNELS}


# ---- mbarrier and TMA ---------------------------------------------------------------------------


def test_every_rule_of_a_map_is_on_the_page_with_an_answer_of_its_own():
    checked = [hopper.tensormap._validate, hopper.tensormap._validate_element]
    raised = sum(
        isinstance(node, ast.Raise)
        for function in checked
        for node in ast.walk(ast.parse(inspect.getsource(function)))
    )
    answers = [rule.answer for rule in MAP_RULES]
    assert len(MAP_RULES) == raised
    # What stays of an answer without its numbers tells the rules apart.
    assert len({re.sub(r"[\d(), ]+", "", answer) for answer in answers}) == raised


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.rule[:40])
def test_what_a_rule_names_exists(rule):
    assert set(rule.kind) <= set(KINDS)
    assert {KERNELS[name].kind for name in rule.trials} <= set(rule.kind)
    if rule.stops:
        assert rule.error in {message.name for message in messages()}
        assert rule.error in tma_stops.__doc__
    assert rule.rule.endswith(".")
    assert "not recorded" not in rule.observed


def test_every_copy_that_stops_a_gpu_belongs_to_one_rule():
    named = [name for rule in ALL if rule.stops for name in stops_like(rule.stops)]
    assert sorted(named) == sorted(case.name for case in tma_stops.STOPS)


def test_the_page_shows_every_section_once():
    page = (ROOT / "docs/reference_tma.md").read_text()
    assert re.findall(r"```\{tma-rules\} (\w+)", page) == list(rules())
    assert page.count("```{tma-map-rules}") == 1


def outcome(right=160, wrong=0, hung=0, failed=0) -> Outcome:
    return Outcome(1, 1, right, wrong, hung, failed)


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ([outcome(), outcome()], "right in all 320 launches"),
        ([outcome(), outcome(100, 60)], "wrong in 60 of 320 launches"),
        ([outcome(0, hung=1), outcome(2, hung=1)], "hangs"),
        ([outcome(), outcome(0, failed=1)], "ends with an error in 1 of 2 shapes"),
        ([outcome(0, hung=1), outcome(0, failed=1)], "hangs or ends with an error"),
        (
            [outcome(100, 60), outcome(0, hung=1)],
            "hangs in 1 of 2 shapes; wrong in 60 launches",
        ),
    ],
)
def test_verdicts_in_words(outcomes, told):
    assert verdict(Trial("", (), tuple(outcomes), ())) == told


def test_what_was_observed_is_read_from_the_recordings():
    assert trials_of(["expect_tx_many"]) == "`expect_tx_many`: hangs"
    assert trials_of([]) == ""
    assert trials_of_rule("expect-tx").count("`expect_tx") == 3
    assert cases("tma.multicast") == "4 recorded cases, the same in the emulator"
    with pytest.raises(KeyError, match="no_such_kernel"):
        trials_of(["no_such_kernel"])
    with pytest.raises(KeyError, match="no recorded case"):
        cases("tma.multi")
    with pytest.raises(KeyError, match="fits no case"):
        stops(r"tma\.other", "CUDA_ERROR_ILLEGAL_INSTRUCTION")


PROBE = """#include "mbarrier.cuh"
extern "C" __global__ void kernel(unsigned none) {{
  __shared__ alignas(16) unsigned long long bar[4];
  const unsigned at = shared_address(bar);
  asm volatile("{{.reg .b64 s; .reg .pred p;\\n{} }}" :: "r"(at), "r"(none) : "memory");
}}
"""


def probe(instructions: str) -> Run:
    program = compile_cuda(PROBE.format(instructions), "kernel")
    emulator = Emulator(on_hazard="collect")
    return emulator.launch(program.ptx, "kernel", 1, 1, args=[numpy.uint32(0)])


@pytest.mark.parametrize(
    ("instructions", "kind", "said"),
    [
        ("mbarrier.init.shared::cta.b64 [%0 + 4], 1;", "misaligned", "not a multiple of"),
        ("mbarrier.init.shared::cta.b64 [%0], %1;", "fault", "1 to 1048575 arrivals"),
        (
            "mbarrier.init.shared::cta.b64 [%0], 1;"
            " mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 1048575;"
            " mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 1;",
            "fault",
            "at most 1048575 bytes",
        ),
        (
            "mbarrier.init.shared::cta.b64 [%0], 1;"
            " mbarrier.arrive.noComplete.shared::cta.b64 s, [%0], 1;",
            "fault",
            r"\.noComplete completed",
        ),
        (
            "mbarrier.init.shared::cta.b64 [%0], 1; W: "
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W;",
            "deadlock",
            "waits for phase 0",
        ),
    ],
)
def test_the_emulator_reports_what_the_page_says(instructions, kind, said):
    run = probe(instructions)
    assert [found.kind for found in run.hazards][-1:] == [kind]
    assert re.search(said, run.hazards[-1].message)


def test_a_wait_for_the_phase_before_returns_at_once():
    init = "mbarrier.init.shared::cta.b64 [%0], 1; W: "
    wait = "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 1; @!p bra W;"
    assert probe(init + wait).hazards == ()


def test_ptxas_checks_what_the_page_says_it_does():
    load = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    wrong = [
        "mbarrier.arrive.shared::cluster.b64 d0, [r0];",
        f"{load.format(2)} [r0], [d0, {{r1, r2, r3}}], [r4];",
    ]
    right = [
        "mbarrier.arrive.shared::cluster.b64 _, [r0];",
        f"{load.format(3)} [r0], [d0, {{r1, r2, r3}}], [r4];",
    ]
    assert set(refused_by_ptxas([*wrong, *right])) == set(wrong)


# ---- Rosetta ------------------------------------------------------------------------------------

SYSTEMS = (
    "PTX",
    "CuTe C++",
    "CuTe DSL",
    "Tilus",
    "Triton Gluon",
    "Pallas Mosaic GPU",
    "ThunderKittens",
)
ROSETTA = (ROOT / "docs/rosetta.md").read_text()
STEPS = {
    title: dict(re.findall(r"^(\S.*)\n: (.*)$", body, re.MULTILINE))
    for title, body in re.findall(
        r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", ROSETTA, re.MULTILINE | re.DOTALL
    )
}


def test_every_step_names_every_system_in_one_order():
    assert len(STEPS) >= 18
    for title, cells in STEPS.items():
        assert tuple(cells) == SYSTEMS, title


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_cell_has_a_name_or_says_why_not(system):
    for title, cells in STEPS.items():
        cell = cells[system]
        if cell.startswith("–"):
            assert re.fullmatch(r"– \(.{10,}\)", cell), (title, system)
        else:
            assert "`" in cell or "same" in cell.lower() or "load" in cell, (title, system)


def test_the_systems_have_versions_and_sources():
    table = re.findall(r"^\| ([^|]+?) \| (.*?) \|$", ROSETTA, re.MULTILINE)[1:]
    assert tuple(name for name, _ in table) == SYSTEMS
    entries = (ROOT / "references.bib").read_text()
    for name, where in table:
        cited = re.findall(r"\{cite:p\}`([\w-]+)`", where)
        assert cited, name
        for key in cited:
            entry = entries.partition(f"{{{key},")[2].partition("\n}")[0]
            assert re.search(r"commit|[Vv]ersion|Toolkit 13\.0", entry), key


def test_the_ptx_of_the_page_is_executed_by_the_emulator():
    known = [opcode for _, opcodes in builders() for opcode in opcodes]
    names = re.findall(
        r"`([a-z]+(?:\.[\w:]+)+)`", " ".join(cells["PTX"] for cells in STEPS.values())
    )
    assert len(names) > 20
    for name in names:
        assert any(name == opcode or name.startswith(f"{opcode}.") for opcode in known), name
