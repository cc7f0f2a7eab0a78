import pytest

from hopper.errors import CompileError
from hopper.facts import LaunchFacts, entries, read_launch_facts, stated_facts, threads_directive

STATED = {
    "tile_m": 128,
    "tile_n": 64,
    "tile_k": 32,
    "stages": 3,
    "threads": 256,
    "shared_bytes": 98304,
    "cluster": 2,
}


def ptx(facts: dict[str, int], bounds: str = ".maxntid 256, 1, 1") -> str:
    constants = "\n".join(
        f".visible .const .align 4 .u32 fact_{name}" + (f" = {value};" if value else ";")
        for name, value in facts.items()
    )
    return f"{constants}\n.visible .entry demo(\n\t.param .u64 demo_param_0\n)\n{bounds}\n{{\n}}"


def test_every_stated_fact_is_read_back():
    facts = read_launch_facts(ptx(STATED), "demo")
    assert facts == LaunchFacts(**STATED)
    assert facts.as_dict() == STATED
    assert facts.a_box == (128, 32)
    assert facts.b_box == (64, 32)


def test_a_kernel_for_bf16_says_so():
    stated = STATED | {"bf16": 1}
    facts = read_launch_facts(ptx(stated), "demo")
    assert (facts.dtype, facts.as_dict()) == ("bfloat16", stated)
    assert read_launch_facts(ptx(STATED), "demo").dtype == "float16"


def test_a_zero_is_printed_without_an_initialiser_and_still_stated():
    assert stated_facts(ptx({"shared_bytes": 0})) == {"shared_bytes": 0}


def test_other_constants_and_comments_are_no_facts():
    text = ".const .align 4 .u32 tile_m = 1;\n// .const .align 4 .u32 fact_tile_m = 2;"
    assert stated_facts(text) == {}


@pytest.mark.parametrize("name", STATED)
def test_a_missing_fact_is_named(name):
    rest = {key: value for key, value in STATED.items() if key != name}
    with pytest.raises(CompileError, match=rf"does not state {name}: .*LAUNCH_FACT\({name},"):
        read_launch_facts(ptx(rest), "demo")


@pytest.mark.parametrize("bounds", [".maxntid 128, 1, 1", ".reqntid 64, 2, 1", ".maxntid 128"])
def test_launch_bounds_that_contradict_the_threads_are_refused(bounds):
    with pytest.raises(CompileError, match="threads = 256, its launch bounds say 128"):
        read_launch_facts(ptx(STATED, bounds), "demo")


def test_threads_are_those_of_the_named_kernel():
    two = ptx(STATED) + "\n" + ptx({}, ".reqntid 32, 4, 1").replace("demo", "other")
    assert entries(two) == ["demo", "other"]
    assert threads_directive(two, "demo") == 256
    assert threads_directive(two, "other") == 128
    assert threads_directive(ptx(STATED, ""), "demo") is None
