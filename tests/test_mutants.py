"""Mutations: each still applies, changes what is compiled, and draws the message it should."""

import pytest

from hopper import mutants
from hopper.compile import advisories, compile_kernel
from hopper.errors import HopperError

# What ptxas says of each break; nothing means that only a run can tell.
MESSAGES = {
    "A read unswizzled": set(),
    "B addressed like A": set(),
    "no wgmma.fence": {"C7519"},
    "no wait_group": {"C7517"},
    "no mbarrier wait": set(),
    "phase never flips": set(),
    "bytes of A only": set(),
    "no trailing barrier": set(),
    "no proxy fence, 128×128": set(),
    "no proxy fence, 64×128": set(),
}


@pytest.mark.parametrize("mutation", mutants.MUTATIONS, ids=lambda m: f"{m.kernel}: {m.name}")
def test_a_mutation_changes_the_code_and_the_compiler_says_what_is_expected(mutation):
    program = mutants.compile_mutation(mutation)
    assert program.identity != compile_kernel(mutation.kernel, **mutation.defines).identity
    assert set(advisories(program.log)) == MESSAGES[mutation.name]


def test_a_mutation_whose_line_is_gone_is_refused():
    gone = mutants.Mutation("v1_wgmma", "gone", "rule", "no such line in the kernel", "")
    with pytest.raises(HopperError, match="stands 0 times"):
        mutants.mutated_source(gone)


def test_an_unknown_mutation_lists_those_that_exist():
    with pytest.raises(HopperError, match="no trailing barrier"):
        mutants.find_mutation("v1_wgmma", "nonsense")
