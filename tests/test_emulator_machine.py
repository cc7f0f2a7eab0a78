"""Who runs next: lanes that part and meet, warps that spin, and what is said when none goes on."""

import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper.emulator import Deadlock, Emulator, Fault, StepLimit
from hopper.emulator.launch import prepare
from hopper.emulator.machine import Machine, Wait
from hopper.emulator.polling import only_looks
from hopper.emulator.ptx import parse
from hopper.emulator.trace import Trace

FIXED = Emulator()
RANDOM = [Emulator(schedule="random", seed=seed) for seed in range(4)]
STARVED = [Emulator(schedule="starved", seed=seed) for seed in (0, 2, 3)]
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<8>;\n.reg .b32 %r<24>;\n.reg .b64 %rd<12>;\n"
# %r0: thread of the grid; %rd0: its word of `out`; %rd1: `flag`.
START = """
ld.param.u64 %rd0, [out];
ld.param.u64 %rd1, [flag];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mad.lo.u32 %r0, %r1, %r2, %r0;
mul.wide.u32 %rd2, %r0, 4;
add.s64 %rd0, %rd0, %rd2;
"""


def kernel(body: str) -> str:
    parameters = ".param .u64 out, .param .u64 flag"
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{REGISTERS}{START}{body}\nret;\n}}\n"


def run(body: str, emulator: Emulator = FIXED, blocks: int = 1, threads: int = 32):
    out = numpy.full(blocks * threads, 7, numpy.uint32)
    flag = numpy.zeros(8, numpy.uint32)
    found = emulator.launch(kernel(body), "k", blocks, threads, args=[out, flag])
    return out, found


# ---- lanes that part and meet again

COLLATZ = """
    add.u32 %r3, %r0, 1;
    mov.u32 %r4, 0;
    LOOP:
    setp.eq.u32 %p1, %r3, 1;
    @%p1 bra DONE;
    and.b32 %r5, %r3, 1;
    setp.eq.u32 %p2, %r5, 0;
    @%p2 bra EVEN;
    mad.lo.u32 %r3, %r3, 3, 1;
    bra NEXT;
    EVEN:
    shr.u32 %r3, %r3, 1;
    NEXT:
    add.u32 %r4, %r4, 1;
    bra LOOP;
    DONE:
    st.global.u32 [%rd0], %r4;"""


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


@pytest.mark.parametrize("emulator", [FIXED, *RANDOM, *STARVED])
def test_every_lane_goes_its_own_way(emulator):
    out, found = run(COLLATZ, emulator, blocks=3, threads=40)
    assert out.tolist() == [collatz(n + 1) for n in range(120)]
    assert found.counts["st.global.u32"] >= 6  # two warps in each of three blocks


def test_lanes_meet_again_behind_a_branch():
    body = """
    and.b32 %r3, %r0, 3;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra A;
    add.u32 %r4, %r0, 1;
    bra B;
    A:
    mov.u32 %r4, 5;
    B:
    add.u32 %r4, %r4, 100;
    st.global.u32 [%rd0], %r4;"""
    for emulator in (FIXED, *RANDOM):
        out, found = run(body, emulator, threads=64)
        assert out.tolist() == [105 if n % 4 == 0 else n + 101 for n in range(64)]
        # Both warps were whole again; the random schedule lets lanes go astray now and then.
        times = found.counts["st.global.u32"]
        assert times == 2 if emulator is FIXED else 2 <= times <= 4


def test_a_switch_of_many_ways_joins_in_one_place():
    cases = "\n".join(f"C{k}:\nadd.u32 %r4, %r4, {k * k};\nbra JOIN;" for k in range(8))
    tests = "\n".join(f"setp.eq.u32 %p1, %r3, {k};\n@%p1 bra C{k};" for k in range(8))
    body = f"and.b32 %r3, %r0, 7;\nmov.u32 %r4, 0;\n{tests}\ntrap;\n{cases}\nJOIN:\n"
    out, found = run(body + "st.global.u32 [%rd0], %r4;", threads=32)
    assert out.tolist() == [(n % 8) ** 2 for n in range(32)]
    assert found.counts["st.global.u32"] == 1


@settings(max_examples=15)
@given(st.sampled_from(("random", "starved")), st.integers(0, 2**40), st.integers(1, 100))
def test_a_seed_fixes_everything(schedule, seed, threads):
    emulator = Emulator(schedule=schedule, seed=seed)
    first, again = (run(COLLATZ, emulator, threads=threads) for _ in range(2))
    assert first[1].steps == again[1].steps
    numpy.testing.assert_array_equal(first[1].executed, again[1].executed)
    numpy.testing.assert_array_equal(first[0], again[0])


# ---- a warp that spins while another works

SPIN = """
    setp.eq.u32 %p1, %r0, {producer};
    @%p1 bra PRODUCE;
    WAIT:
    ld.relaxed.gpu.global.u32 %r3, [%rd1];
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra WAIT;
    st.global.u32 [%rd0], %r3;
    bra END;
    PRODUCE:
    mov.u32 %r4, 0;
    WORK:
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, 200;
    @%p3 bra WORK;
    st.relaxed.gpu.global.u32 [%rd1], %r4;
    END:"""


@pytest.mark.parametrize("emulator", [FIXED, *RANDOM, *STARVED])
@pytest.mark.parametrize("producer", [0, 40, 200])
def test_who_spins_on_a_flag_starves_no_one(emulator, producer):
    """The producer is in the first warp, in another, in another block."""
    out, found = run(SPIN.format(producer=producer), emulator, blocks=2, threads=128)
    others = numpy.delete(out, producer)
    assert (others == 200).all()
    assert out[producer] == 7
    assert found.counts["ld.relaxed.gpu.global.u32"] > 8


CHAIN = """
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd3, %rd1, %rd3;
    setp.eq.u32 %p1, %r1, 7;
    @%p1 bra LAST;
    WAIT:
    ld.relaxed.gpu.global.u32 %r3, [%rd3+4];
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra WAIT;
    LAST:
    bar.sync 0;
    st.relaxed.gpu.global.u32 [%rd3], 1;
    st.global.u32 [%rd0], %r3;"""


@pytest.mark.parametrize("emulator", [FIXED, *RANDOM[:2], *STARVED])
def test_blocks_that_wait_for_later_ones_are_resident_together(emulator):
    out, _ = run(CHAIN, emulator, blocks=8, threads=64)
    assert (out[: 7 * 64] == 1).all()


@pytest.mark.parametrize("schedule", ["fixed", "random", "starved"])
@pytest.mark.parametrize(("blocks", "threads"), [(1, 64), (4, 256)])
def test_a_flag_that_nobody_raises_is_known_at_once(schedule, blocks, threads):
    """However many warps spin, and wherever in the loop the schedule leaves them."""
    with pytest.raises(StepLimit, match="the kernel spins, and nobody is left to end it") as caught:
        run(SPIN.format(producer=9999), Emulator(schedule=schedule), blocks, threads)
    assert int(re.search(r"stopped after (\d+) steps", str(caught.value))[1]) < 5000


@pytest.mark.parametrize("schedule", ["fixed", "random", "starved"])
def test_a_loop_that_changes_something_runs_into_the_limit(schedule):
    counting = "mov.u32 %r4, 0;\nWAIT:\nadd.u32 %r4, %r4, 1;\nsetp.ne.u32 %p2, %r4, 0;\n"
    emulator = Emulator(schedule=schedule, step_limit=5000)
    with pytest.raises(StepLimit, match="stopped after 500[0-9] steps .*raise step_limit"):
        run(counting + "@%p2 bra WAIT;", emulator, threads=64)


# A thread that waits for a copy by looking at where it lands, against the rules.
LOOK = """
    .shared .align 16 .b8 data[16];
    .shared .align 8 .b64 bar;
    mbarrier.init.shared.b64 [bar], 1;
    st.shared.u32 [data], 0;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 16, [bar];
    mov.u32 %r5, 0;
    WAIT:
    {count}
    ld.volatile.shared.u32 %r3, [data];
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra WAIT;
    st.global.u32 [%rd0], %r3;"""


@pytest.mark.parametrize("schedule", ["fixed", "random"])
@pytest.mark.parametrize(("count", "least"), [("", 10), ("add.u32 %r5, %r5, 1;", 3000)])
def test_a_lazy_copy_lands_once_nobody_does_anything_but_look(schedule, count, least):
    """Where a loop does something, it stays away for as long as it has patience."""
    out, flag = numpy.zeros(1, numpy.uint32), numpy.full(8, 5, numpy.uint32)
    emulator = Emulator(schedule=schedule, on_hazard="ignore")
    found = emulator.launch(kernel(LOOK.format(count=count)), "k", 1, 1, args=[out, flag])
    assert out[0] == 5
    assert least < found.steps < (100 if least == 10 else 50_000)


@pytest.mark.parametrize(
    ("body", "looks"),
    [
        ("", True),
        ("ld.global.u32 %r3, [%rd1]; setp.eq.u32 %p2, %r3, 0;", True),
        ("ld.global.v2.u32 {%r3, %r4}, [%rd1]; setp.eq.u32 %p2, %r4, %r3;", True),
        ("ld.global.u64 %rd3, [%rd1]; ld.global.u32 %r3, [%rd3]; setp.eq.u32 %p2, %r3, 0;", True),
        # The next lap is another one: a pointer is followed, a bit is kept, time goes on.
        ("ld.global.u64 %rd3, [%rd3]; setp.ne.u64 %p2, %rd3, 0;", False),
        ("setp.eq.u32 %p2, %r3, 0; ld.global.u32 %r3, [%rd1];", False),
        ("ld.global.u32 %r3, [%rd1]; setp.eq.and.u32 %p2, %r3, 0, %p2;", False),
        ("ld.global.u32 %r3, [%rd1]; setp.eq.and.u32 %p2, %r3, 0, !%p2;", False),
        ("ld.global.u32 %r5, [%rd3]; ld.global.v2.u64 {%rd3, %rd4}, [%rd1];", False),
        ("setp.eq.and.u32 %p4, %r3, 0, %p3; setp.eq.u32 %p2|%p3, %r3, 1;", False),
        ("setp.lt.u32 %p2, %clock, %r3;", False),
        # Done by some, or something done.
        ("@%p1 ld.global.u32 %r3, [%rd1]; setp.eq.u32 %p2, %r3, 0;", False),
        ("ld.global.u32 %r3, [%rd1]; @%p1 bra OUT; setp.eq.u32 %p2, %r3, 0;", False),
        ("ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd0], %r3; setp.eq.u32 %p2, %r3, 0;", False),
        ("atom.global.exch.b32 %r3, [%rd1], 1; setp.eq.u32 %p2, %r3, 0;", False),
    ],
)
def test_a_loop_that_only_looks_is_the_same_lap_again(body, looks):
    code = parse(kernel(f"LOOP:\n{body}\n@%p2 bra LOOP;\nOUT:"), "k").code
    jump = next(x for x in code if x.operands and getattr(x.operands[0], "name", "") == "LOOP")
    assert only_looks(code[jump.operands[0].index : jump.index]) == looks


# One thread makes a list of 40 nodes, {number, address of the next}, and follows it to the 9.
CHASE = """
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra LAST;
    mov.u64 %rd3, %rd1;
    mov.u32 %r4, 0;
    LINK:
    add.s64 %rd4, %rd3, 16;
    st.global.u64 [%rd3+8], %rd4;
    mov.u64 %rd3, %rd4;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, 39;
    @%p3 bra LINK;
    mov.u32 %r3, 9;
    st.global.u32 [%rd3], %r3;
    mov.u64 %rd3, %rd1;
    WALK:
    ld.global.u32 %r5, [%rd3];
    ld.global.u64 %rd3, [%rd3+8];
    setp.eq.u32 %p2, %r5, 0;
    @%p2 bra WALK;
    st.global.u32 [%rd0], %r5;
    LAST:"""


@pytest.mark.parametrize("emulator", [FIXED, *RANDOM[:2], *STARVED[:1]])
def test_who_follows_pointers_comes_to_the_end(emulator):
    """Nobody else runs, and no lap changes memory: each is another one all the same."""
    out, nodes = numpy.zeros(32, numpy.uint32), numpy.zeros((40, 2), numpy.uint64)
    emulator.launch(kernel(CHASE), "k", 1, 32, args=[out, nodes])
    assert out[0] == 9


@pytest.mark.parametrize(
    ("lap", "told"), [("", "nobody is left"), ("add.u32 %r3, %r3, 1;", "raise step_limit")]
)
def test_a_step_limit_says_who_waits_meanwhile(lap, told):
    body = f"setp.lt.u32 %p1, %r0, 32;\n@%p1 bra SPIN;\nbar.sync 3, 64;\nSPIN:\n{lap}\nbra SPIN;"
    with pytest.raises(StepLimit, match=rf"(?s){told}.*warp 1 .*barrier 3: 32 of 64 threads"):
        run(body, Emulator(step_limit=2000), threads=64)


def test_who_spins_is_named_and_not_the_copy_that_landed_before():
    copied = LOOK[: LOOK.index("WAIT:")] + "SPIN:\nbra SPIN;"
    with pytest.raises(StepLimit) as caught:
        run(copied, Emulator(on_hazard="ignore"), threads=1)
    assert caught.value.hazard.threads == "block (0, 0, 0), warp 0, thread 0"


def test_blocks_that_have_not_started_might_end_it():
    """On a GPU they start as others end; here, wave by wave."""
    body = SPIN.format(producer=1999 * 128)
    with pytest.raises(StepLimit, match="and 944 blocks start only behind these"):
        run(body, blocks=2000, threads=128)


# Thread 0 looks for a copy, and thread 32 for what thread 0 then stores.
HANDED_ON = """
    .shared .align 16 .b8 data[16];
    .shared .align 8 .b64 bar;
    and.b32 %r4, %r0, 31;
    setp.ne.u32 %p1, %r4, 0;
    @%p1 bra END;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OTHER;
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1+16], 16, [bar];
    LAND:
    ld.volatile.shared.u32 %r3, [data];
    setp.ne.u32 %p2, %r3, 5;
    @%p2 bra LAND;
    st.volatile.global.u32 [%rd1], %r3;
    bra END;
    OTHER:
    ld.volatile.global.u32 %r3, [%rd1];
    setp.ne.u32 %p2, %r3, 5;
    @%p2 bra OTHER;
    st.global.u32 [%rd0], %r3;
    END:"""


@pytest.mark.parametrize("schedule", ["fixed", "random", "starved"])
@pytest.mark.parametrize("seed", range(4))
def test_all_look_again_behind_a_copy(schedule, seed):
    out, flag = numpy.zeros(64, numpy.uint32), numpy.repeat([0, 5], 4).astype(numpy.uint32)
    emulator = Emulator(schedule=schedule, seed=seed, on_hazard="ignore")
    emulator.launch(kernel(HANDED_ON), "k", 1, 64, args=[out, flag])
    assert out[32] == 5


def handed_over(number: int) -> tuple[str, str]:
    """Two warps in turns: who has found a word changed changes the other's, and looks again."""
    return (
        f"""
    mov.u32 %r4, {number};
    st.volatile.global.u32 [%rd1], %r4;
    A{number}:
    ld.volatile.global.u32 %r3, [%rd1+4];
    setp.ne.u32 %p2, %r3, {number};
    @%p2 bra A{number};""",
        f"""
    B{number}:
    ld.volatile.global.u32 %r3, [%rd1];
    setp.ne.u32 %p2, %r3, {number};
    @%p2 bra B{number};
    mov.u32 %r4, {number};
    st.volatile.global.u32 [%rd1+4], %r4;""",
    )


@pytest.mark.parametrize("emulator", [FIXED, *RANDOM, *STARVED])
def test_a_store_in_front_of_a_loop_counts_wherever_the_schedule_stops(emulator):
    mine, others = zip(*map(handed_over, range(1, 101)), strict=True)
    body = "setp.ge.u32 %p1, %r0, 32;\n@%p1 bra OTHER;" + "".join(mine)
    out, _ = run(
        f"{body}\nbra END;\nOTHER:{''.join(others)}\nEND:\nst.global.u32 [%rd0], %r3;",
        emulator,
        threads=64,
    )
    assert (out == 100).all()


def test_a_copy_that_landed_early_makes_the_next_no_earlier():
    body = (
        LOOK.format(count="").replace("[bar], 16;", "[bar], 32;", 1).replace("data[16]", "data[32]")
    )
    body = body.replace(
        "st.global.u32 [%rd0], %r3;",
        """
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data+16], [%rd1], 16, [bar];
    mov.u32 %r4, 0;
    WORK:
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, 50;
    @%p3 bra WORK;
    ld.shared.u32 %r3, [data+16];
    st.global.u32 [%rd0], %r3;""",
    )
    out, flag = numpy.full(1, 7, numpy.uint32), numpy.full(8, 5, numpy.uint32)
    Emulator(on_hazard="ignore").launch(kernel(body), "k", 1, 1, args=[out, flag])
    assert out[0] != 5


# ---- a schedule that starves some warps

# Lane 0 of every warp takes a number, when its warp has worked for a while.
NUMBERED = """
    mov.u32 %r4, 0;
    WORK:
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, {loops};
    @%p3 bra WORK;
    atom.global.add.u32 %r5, [%rd1], 1;
    st.global.u32 [%rd0], %r5;"""


def order(seed: int, blocks: int, warps: int, loops: int = 5) -> list[int]:
    """Warps of a block, from who ended first to who ended last, of each block in turn."""
    emulator = Emulator(schedule="starved", seed=seed)
    out, _ = run(NUMBERED.format(loops=loops), emulator, blocks, 32 * warps)
    ended = out.reshape(blocks, warps, 32).max(axis=2)
    return [warp for _, warp in sorted((int(n), w) for one in ended for w, n in enumerate(one))]


@pytest.mark.parametrize("seed", range(12))
def test_starved_warps_end_behind_all_others(seed):
    """Two warpgroups, then eight warps; and then the first warpgroup again."""
    choice = seed % 10
    starved = range(4 * choice, 4 * choice + 4) if choice < 2 else (choice - 2,)
    last = order(seed, blocks=3, warps=8)[-3 * len(starved) :]
    assert sorted(last) == sorted(3 * [*starved])


def test_a_block_of_one_warpgroup_has_a_starved_warp():
    assert [order(seed, blocks=1, warps=3)[-1] for seed in range(4)] == [0, 1, 2, 0]


def test_who_only_spins_does_not_keep_the_starved_from_going_on():
    """Else a launch would last a thousand times as long."""
    for producer, seed in ((0, 0), (40, 1), (100, 3)):  # in the warp that is starved
        body = SPIN.format(producer=producer)
        out, found = run(body, Emulator(schedule="starved", seed=seed), threads=128)
        assert out[producer] == 7 and numpy.count_nonzero(out == 200) == 127
        assert found.steps < 10_000


@pytest.mark.parametrize("tma", ["lazy", "random"])
def test_the_starved_wait_for_copies_too(tma):
    """Warp 1 asks for a copy, and warp 0, which is starved, reads what has landed."""
    body = """
    {
    .shared .align 16 .b8 box[32];
    setp.ne.u32 %p1, %r0, 32;
    @%p1 bra READ;
    mov.u32 %r3, 1;
    st.global.u32 [%rd1], %r3;
    cp.async.ca.shared.global [box], [%rd1], 4;
    bra END;
    READ:
    ld.shared.u32 %r4, [box];
    st.global.u32 [%rd0], %r4;
    END:
    }"""
    emulator = Emulator(schedule="starved", seed=0, tma=tma, on_hazard="ignore")
    out, _ = run(body, emulator, threads=64)
    assert (out[:32] == 1).all()


# ---- when nobody can go on

STUCK = """
    {{
    .shared .align 8 .b8 bars[16];
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bars], 3;
    @%p1 mbarrier.init.shared::cta.b64 [bars+8], 1;
    bar.sync 0;
    shr.u32 %r3, %r0, 5;
    setp.eq.u32 %p2, %r3, 0;
    setp.eq.u32 %p3, %r3, 1;
    setp.eq.u32 %p4, %r3, 2;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], 256;
    @%p2 bra FIRST;
    @%p3 bra SECOND;
    @%p4 bra THIRD;
    setp.eq.u32 %p5, %r0, 100;
    @%p5 bra END;
    shfl.sync.idx.b32 %r4, %r3, 0, 31, -1;
    bra END;
    FIRST:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [bars], 0;
    @!%p6 bra FIRST;
    SECOND:
    bar.sync 2, 96;
    bra END;
    THIRD:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [bars+8], 0;
    @!%p6 bra THIRD;
    END:
    bar.sync 1, 64;
    }}"""


@pytest.mark.parametrize("emulator", [FIXED, *RANDOM])
def test_a_deadlock_names_every_parked_warp_and_what_it_lacks(emulator):
    with pytest.raises(Deadlock) as error:
        run(STUCK.format(), emulator, threads=128)
    said = str(error.value).splitlines()
    assert said[0].startswith("deadlock: every living warp waits")
    found = {
        line.split("(", 2)[1] + line.split(")", 1)[1].split(" at ")[0]: line for line in said[1:]
    }
    assert len(said) == len(found) + 1 == 6
    words = "\n".join(said)
    for expected in (
        r"warp 0 (32 threads) at PTX line",
        "phase 0 (parity 0); 2 of 3 arrivals and 256 bytes are missing",
        "barrier 2: 32 of 96 threads have arrived; not yet: warps 0, 2, 3",
        "mbarrier at shared address 0x408 of block (0, 0, 0): waits for phase 0 (parity 0); "
        "1 of 1 arrivals and 0 bytes are missing",
        "warp 3 (31 threads) at PTX line",
        "waits for the other threads of its warp, which execute something else",
        "warp 3 (1 threads) at PTX line",
        "barrier 1: waits for the other 31 threads of its warp",
    ):
        assert expected in words


def test_a_fault_names_line_text_and_thread():
    body = "setp.eq.u32 %p1, %r0, 37;\n@%p1 trap;"
    with pytest.raises(Fault) as error:
        run(body, threads=64)
    said = str(error.value)
    assert "warp 1, thread 37" in said
    line = kernel(body).splitlines().index("@%p1 trap;") + 1
    assert f"PTX line {line}: @%p1 trap" in said


def test_threads_that_exit_leave_the_others_alone():
    body = "setp.lt.u32 %p1, %r0, 48;\n@%p1 exit;\nst.global.u32 [%rd0], %r0;"
    for emulator in (FIXED, *RANDOM):
        out, _ = run(body, emulator, threads=100)
        assert (out[:48] == 7).all()
        assert out[48:].tolist() == list(range(48, 100))


# ---- the machine itself, as units use it


@pytest.fixture
def machine() -> Machine:
    plan = prepare(parse(kernel(""), "k"), 2, 64, cluster=None, shared_bytes=0,
                   args=[numpy.zeros(128, numpy.uint32), numpy.zeros(8, numpy.uint32)])  # fmt: skip
    return Machine(plan, range(2), Trace(), numpy.zeros(20, numpy.int64))


def test_lanes_of_a_block_are_whole_warpgroups(machine):
    assert machine.lane_count == 256
    assert machine.alive.reshape(2, 128)[:, :64].all()
    assert not machine.alive.reshape(2, 128)[:, 64:].any()
    assert machine.block[[0, 127, 128]].tolist() == [0, 0, 1]
    assert machine.thread[[5, 130]].tolist() == [5, 2]
    assert machine.place(130) == "block (1, 0, 0), warp 0, thread 2"


def test_a_key_wakes_those_who_wait_for_it(machine):
    machine.at = 4
    machine.park(slice(0, 32), Wait("a", lambda: ""))
    machine.park(numpy.array([130, 140]), Wait("b", lambda: ""))
    assert machine.parked("a").tolist() == list(range(32))
    assert machine.running.sum() == 128 - 34
    machine.wake("a", advance=True)
    machine.wake("nobody")
    assert (machine.pc[:32] == 5).all()
    assert machine.pc[130] == 4
    assert machine.running.sum() == 128 - 2
    machine.exit(numpy.array([130]))
    machine.wake("b")
    assert machine.running[[130, 140]].tolist() == [False, True]
    assert machine.pc[140] == 4


def test_units_hear_who_exits(machine):
    heard = []
    machine.on_exit(lambda lanes: heard.append(lanes.tolist()))
    machine.exit(slice(60, 64))
    assert heard == [[60, 61, 62, 63]]


class Counting:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine


def test_a_unit_has_one_object_a_machine(machine):
    assert machine.unit(Counting) is machine.unit(Counting)
    assert machine.unit(Counting).machine is machine
