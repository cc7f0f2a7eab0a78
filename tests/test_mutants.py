"""Mutations: each still applies, changes what is compiled, and draws the message it should."""

import pytest

from hopper import mutants
from hopper.compile import advisories, compile_kernel
from hopper.errors import HopperError

# What ptxas says of some breaks; of the others only a run can tell.
MESSAGES = {
    "no wgmma.fence": {"C7519"},
    "no wait_group": {"C7517"},
    "the last group is not waited for": {"C7517"},
}
# What the emulator says of them: a kind of hazard among those found, or the result.
EMULATED = {
    "v0_mma_sync": {
        "A read unswizzled": "wrong result",
        "B addressed like A": "wrong result",
        "no trailing barrier": "shared-race",
        "no proxy fence, 128×128": "no-proxy-fence",
        "no proxy fence, 64×128": "no-proxy-fence",
    },
    "v1_wgmma": {
        "no wgmma.fence": "no-wgmma-fence",
        "no wait_group": "accumulator-pending",
        "no mbarrier wait": "copy-not-arrived",
        "phase never flips": "copy-not-arrived",
        "bytes of A only": "expect-tx",
        "no trailing barrier": "one-warp-release",
    },
    "v2_ring": {
        "start not rounded up": "misaligned",
        "asked a step early": "fault",  # a second arrival in a phase that has all it counts
        "no mbarrier wait": "copy-not-arrived",
        "phase never flips": "copy-not-arrived",
        "bytes of A only": "expect-tx",
        "no trailing barrier": "one-warp-release",
    },
    "v3_specialized": {
        "producer starts at parity 0": "deadlock",
        "no wait for empty": "fault",  # the same
        "no wait for full": "copy-not-arrived",
        "phase never flips": "copy-not-arrived",
        "bytes of A only": "expect-tx",
        "released before wait_group": "operand-overwritten",
        "empty counts one warp": "deadlock",  # four phases a step, and the parity is the old one
        "empty counts threads": "deadlock",
        "__syncthreads() among consumers": "barrier-divergence",
    },
    "v4_two_consumers": {
        "empty counts one consumer": "deadlock",
        "both take the upper half": "wrong result",
        "consumers start at parity 1": "copy-not-arrived",
        "one warp gives up registers": "partial-warpgroup",
        "nobody gives up registers": "register-budget",
        "more registers than there are": "register-budget",
    },
    "v5_in_flight": {
        "released while in flight": "operand-overwritten",
        "released before wait_group": "operand-overwritten",
        "two groups may run": "operand-overwritten",
        "released in the first step too": "operand-overwritten",
        "the last group is not waited for": "accumulator-pending",
    },
    "v6_fp16_acc": {
        "no proxy fence": "no-proxy-fence",
        "stored before all have written": "shared-race",
        "no turns": "shared-race",
        "passed on before it was read": "store-overwritten",
        "all four warps pass it on": "store-overwritten",
        "__syncthreads() in a turn": "deadlock",
        "not swizzled": "wrong result",
    },
    "v7_persistent": {
        "the last stage of a tile is kept": "deadlock",
        "the order behind the arrival": "shared-race",
        "all stages held back": "deadlock",
        "no proxy fence before the store": "no-proxy-fence",
        "drained before it is read": "store-overwritten",
        "one drained barrier a slot": "shared-race",
    },
    "v8_multicast": {
        "sent before the other is ready": "barrier-not-visible",
        "left before the other is done": "peer-gone",
        "empty counts one block": "deadlock",
        "released twice at home": "operand-overwritten",
        "bytes of its own loads only": "copy-not-arrived",
        "the mask names one block": "expect-tx",
        "both ask for the same half": "wrong result",
    },
    "v9_stream_k": {
        "no proxy fence before a gift is read": "right",  # global memory, which is not tracked
        "the flag before the sums": "wrong result",
        "flags stay raised": "wrong result",
        "no proxy fence behind a gift": "no-proxy-fence",
    },
}
every_mutation = pytest.mark.parametrize(
    "mutation", mutants.MUTATIONS, ids=lambda m: f"{m.kernel}: {m.name}"
)


@every_mutation
def test_a_mutation_changes_the_code_and_the_compiler_says_what_is_expected(mutation):
    program = mutants.compile_mutation(mutation)
    assert program.identity != compile_kernel(mutation.kernel, **mutation.defines).identity
    assert set(advisories(program.log)) == MESSAGES.get(mutation.name, set())


@every_mutation
def test_the_emulator_says_what_is_broken(mutation):
    assert EMULATED[mutation.kernel][mutation.name] in mutants.emulated(mutation)


def test_a_mutation_whose_line_is_gone_is_refused():
    gone = mutants.Mutation("v1_wgmma", "gone", "rule", "no such line in the kernel", "")
    with pytest.raises(HopperError, match="stands 0 times"):
        mutants.mutated_source(gone)


def test_an_unknown_mutation_lists_those_that_exist():
    with pytest.raises(HopperError, match="no trailing barrier"):
        mutants.find_mutation("v1_wgmma", "nonsense")


def test_a_shape_that_hangs_at_once_is_not_tried_with_other_seeds(monkeypatch):
    """The second shape hangs at its first launch, the third at its second launch of one seed."""
    shapes, seeds = len(mutants.SHAPES), len(mutants.SEEDS)
    hangs = {seeds: 0, 2 * seeds: 1}  # problem -> launches before
    started = []

    def run_from(mutation, first):
        started.append(first)
        lines = []
        for problem in range(first, shapes * seeds):
            for _ in range(hangs.get(problem, mutants.LAUNCHES)):
                lines.append({"problem": problem, "verdict": "right", "error": None})
            if problem in hangs:
                return lines, "hung"
        return lines, None

    monkeypatch.setattr(mutants, "_run_from", run_from)
    trials = mutants.try_on_hopper(mutants.MUTATIONS[0])
    by_shape = [
        [t for t in trials if (t.problem.m, t.problem.n, t.problem.k) == s] for s in mutants.SHAPES
    ]
    assert [len(found) for found in by_shape] == [seeds, 1, seeds, seeds, seeds]
    assert by_shape[1][0].hung == by_shape[1][0].runs == 1
    assert (by_shape[2][0].right, by_shape[2][0].hung, by_shape[2][1].right) == (1, 1, 20)
    assert started == [0, 2 * seeds, 2 * seeds + 1]
