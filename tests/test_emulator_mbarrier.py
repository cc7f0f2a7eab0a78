"""mbarriers: what a phase waits for, what is answered meanwhile, and what must not happen."""

import numpy
import pytest
from emulation import unwatched
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper.compile import compile_cuda
from hopper.conformance.mbarrier import RANDOM, WRITTEN, scripts
from hopper.emulator import Deadlock, Fault, Unsupported
from hopper.emulator.launch import prepare
from hopper.emulator.machine import Machine
from hopper.emulator.mbarrier import MAX_COUNT, Barrier, Mbarriers, parity_in, pending_in
from hopper.emulator.ptx import parse
from hopper.emulator.trace import Trace
from hopper.paths import KERNELS

BOTH = (unwatched(), unwatched(schedule="random", seed=5), unwatched(schedule="random", seed=6))
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
DATA = "\n.shared .align 8 .b8 bar[8];\n.shared .align 8 .b8 other[16];\n"


def launch(source: str, kernel: str, *args, blocks=1, threads=128, emulator=BOTH[0], **defines):
    program = compile_cuda(KERNELS / f"probes/{source}.cu", kernel, defines=defines)
    return emulator.launch(program.ptx, kernel, blocks, threads, args=args)


def ptx(body: str) -> str:
    """Thread's number in %r0, whether it is thread 0 in %p0; barriers `bar` and `other`."""
    return (
        f"{HEAD}{DATA}.visible .entry k(.param .u64 out)\n{{\n.reg .pred %p<8>;\n"
        f".reg .b32 %r<16>;\n.reg .b64 %rd<8>;\nmov.u32 %r0, %tid.x;\nsetp.eq.u32 %p0, %r0, 0;\n"
        f"ld.param.u64 %rd7, [out];\nmul.wide.u32 %rd6, %r0, 4;\nadd.s64 %rd7, %rd7, %rd6;\n"
        f"{body}\nret;\n}}\n"
    )


def run_ptx(body: str, threads=64, emulator=BOTH[0], cluster=1) -> tuple[numpy.ndarray, object]:
    out = numpy.full(threads * cluster, 77, numpy.uint32)
    return out, emulator.launch(
        ptx(body), "k", cluster, threads, cluster=(cluster, 1, 1), args=[out]
    )


def started(count: int) -> str:
    return f"@%p0 mbarrier.init.shared::cta.b64 [bar], {count};\nbar.sync 0;\n"


# ---- one barrier, operation by operation


def answers(script: list[tuple[str, int]]) -> list[list[int]]:
    """What the kernel ``mbarrier_script`` answers, from the ISA's description of the counts."""
    expected = pending = script[0][1]
    bytes = phase = 0
    token: tuple[int, int] | None = None  # phase and pending count of the last arrival
    said = []
    for name, operand in script:
        if name not in ("look", "expect", "complete"):
            token = phase, pending
            arrivals = 1 if name == "one" or name.endswith("_tx") else operand
            pending -= arrivals
            expected -= arrivals if name.startswith("drop") else 0
        if name.endswith("_tx") or name == "expect":
            bytes += operand
        if name == "complete":
            bytes -= operand
        if (pending, bytes) == (0, 0):
            phase, pending = phase + 1, expected
        done = token is not None and token[0] != phase
        waits = [int(done), token[1] if token else 0, 3 * done]
        said.append([int(phase % 2 != 0), int(phase % 2 != 1), *waits])
    return said


@pytest.mark.parametrize("script", [*RANDOM[:32], *WRITTEN.values()], ids=lambda script: "")
def test_every_answer_of_a_script(script):
    table = scripts([list(script)])
    got = numpy.zeros((1, len(table[0]), 5), numpy.uint32)
    words = numpy.zeros((1, len(table[0]), 2), numpy.uint64)
    launch("mbarrier", "mbarrier_script", table, got, words, threads=1)
    expected = answers(list(script))
    assert got[0, : len(expected)].tolist() == expected
    assert (parity_in(words[0, :, 0]) == got[0, :, 0]).all()


# Upper halves of the states of a script's arrivals, as an H200 returned them.
STATES = {
    "expect_last": [0x7FFFF800],
    "arrive_tx_last": [0x7FFFF800, 0xFFFFF800],
    "bytes": [0x7FFFF3FF, 0x7FFFF800, 0xFFFFF000, 0xFFFFF800],
    "most_arrivals": [0x00000800, 0x00001000, 0x7FFFF800, 0x80000800, 0x00000800, 0x7FFFF800,
                      0xFFFFF800],
    "most_bytes": [0x7FFFF1FF, 0x7FFFF9FF, 0xFFFFF000],
    "drops": [0x7FFFE800, 0x7FFFF000, 0x7FFFF800, 0xFFFFF800, 0x7FFFF800],
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_states_are_those_of_the_hardware(name):
    table = scripts([list(WRITTEN[name])])
    words = numpy.zeros((1, len(table[0]), 2), numpy.uint64)
    answers = numpy.zeros((1, len(table[0]), 5), numpy.uint32)
    launch("mbarrier", "mbarrier_script", table, answers, words, threads=1)
    arrivals = [
        at
        for at, (kind, _) in enumerate(WRITTEN[name])
        if kind not in ("look", "expect", "complete")
    ]
    assert (words[0, arrivals, 1] >> numpy.uint64(32)).tolist() == STATES[name]


@given(
    st.integers(1, MAX_COUNT),
    st.integers(0, MAX_COUNT),
    st.integers(-MAX_COUNT, MAX_COUNT),
    st.integers(0, 9),
)
def test_the_word_holds_every_count_apart(count, pending, tx, phase):
    word = Barrier(count, pending, tx, phase).word
    assert 0 <= word < 2**64
    assert int(pending_in(numpy.uint64(word))) == pending
    assert int(parity_in(numpy.uint64(word))) == phase % 2
    for other in (Barrier(count, pending, tx - 1, phase), Barrier(count + 1, pending, tx, phase)):
        assert other.word != word


@pytest.fixture
def barriers() -> Mbarriers:
    """The unit of a machine that runs nothing."""
    kernel = parse(f"{HEAD}{DATA}.visible .entry k()\n{{\nret;\n}}\n", "k")
    plan = prepare(kernel, 2, 32, cluster=None, shared_bytes=0, args=())
    machine = Machine(plan, range(2), Trace(), numpy.zeros(1, numpy.int64))
    return machine.unit(Mbarriers)


def test_barriers_of_two_blocks_are_apart(barriers):
    here, there = 1024, 1024 + barriers.machine.shared.window
    barriers.init(here, 1)
    barriers.init(there, 2)
    barriers.arrive(here)
    barriers.arrive(there)
    places = numpy.array([here, there])
    assert barriers.completed(places, numpy.zeros(2, numpy.uint32)).tolist() == [True, False]
    assert "0x400 of block (1, 0, 0)" in barriers.name(there)


def test_bytes_may_land_before_they_are_announced(barriers):
    barriers.init(1024, 1)
    barriers.complete_tx(1024, 512)
    barriers.arrive(1024)
    assert barriers.get(1024).phase == 0
    assert "more bytes have landed than expect_tx announced" in barriers.words(1024, 0)
    barriers.expect_tx(1024, 512)
    assert barriers.get(1024).phase == 1


def test_an_arrival_that_a_copy_will_make_is_waited_for(barriers):
    barriers.init(1024, 1)
    barriers.add_pending(1024)
    barriers.arrive(1024)
    assert barriers.get(1024).phase == 0
    barriers.arrive(1024)
    assert barriers.get(1024).phase == 1
    assert barriers.get(1024).pending == 1


def test_the_trace_tells_each_phase(barriers):
    barriers.init(1024, 2)
    for _ in range(3):
        barriers.arrive(1024)
        barriers.arrive(1024, bytes=64)
        barriers.complete_tx(1024, 64)
    phases = barriers.machine.trace.of("mbarrier.phase")
    assert [event.detail for event in phases] == [
        {"phase": phase, "address": 1024, "owner": 0} for phase in range(3)
    ]
    assert len(barriers.machine.trace.of("mbarrier.arrive")) == 6


# ---- between threads


def test_threads_meet_by_every_form():
    a = numpy.arange(128, dtype=numpy.uint32) * 13
    for emulator in BOTH:
        out = numpy.zeros((12, 128), numpy.uint32)
        launch("mbarrier", "mbarrier_forms", a, out, emulator=emulator)
        expected = numpy.roll(a, -37) + numpy.arange(12, dtype=numpy.uint32)[:, None]
        numpy.testing.assert_array_equal(out, expected)


def test_a_ring_whose_consumers_drop_out():
    a = numpy.random.default_rng(0).integers(0, 2**32, (8, 32), numpy.uint32)
    for emulator in BOTH:
        out = numpy.zeros((8, 3, 32), numpy.uint32)
        launch("mbarrier", "mbarrier_ring", a, out, threads=96, emulator=emulator)
        numpy.testing.assert_array_equal(out[:, 1], a * 2)
        numpy.testing.assert_array_equal(out[:, 2], a * 3)


def test_its_memory_is_free_once_it_is_invalid():
    a = numpy.arange(128, dtype=numpy.uint32) + 1000
    for emulator in BOTH:
        out = numpy.zeros(128, numpy.uint32)
        launch("mbarrier", "mbarrier_reuse", a, out, emulator=emulator)
        assert (out == 1077).all()


@pytest.mark.parametrize("size", [1, 2, 8])
def test_other_blocks_arrive(size):
    a = numpy.arange(8 * 64, dtype=numpy.uint32)
    came = numpy.roll(a.reshape(-1, size, 64), 1, axis=1).reshape(-1)
    for emulator in BOTH:
        out = numpy.full((6, 8 * 64), 5, numpy.uint32)
        launch(
            "mbarrier_cluster", "mbarrier_cluster", a, out, blocks=8, threads=64,
            emulator=emulator, CLUSTER=size,
        )  # fmt: skip
        for round in range(6):
            spoke = (a % 2 == 1) | (round < 4)
            numpy.testing.assert_array_equal(out[round], numpy.where(spoke, came + round, 5))


# ---- waiting

ONCE = started(1) + (
    "setp.eq.u32 %p1, %r0, 32;\n@%p1 bra ARRIVE;\nsetp.lt.u32 %p1, %r0, 32;\n@%p1 bra WAIT;\n"
    "bra END;\nARRIVE:\nmov.u32 %r3, 0;\nDELAY:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, 50;\n"
    "@%p2 bra DELAY;\nmbarrier.arrive.shared::cta.b64 _, [bar];\nbra END;\nWAIT:\n{}\nEND:"
)
TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0{};"
STORE = "selp.u32 %r1, 1, 0, %p3;\nst.global.u32 [%rd7], %r1;"


def test_try_wait_returns_false_only_where_the_schedule_is_random():
    body = ONCE.format(TRY.format("") + STORE)
    out, run = run_ptx(body)
    assert (out[:32] == 1).all()
    assert run.counts["mbarrier.try_wait.parity.shared::cta.b64"] == 1
    seen = {
        int(run_ptx(body, emulator=unwatched(schedule="random", seed=seed))[0][0])
        for seed in range(20)
    }
    assert seen == {0, 1}


def test_a_thread_that_tests_spins_while_others_work():
    tests = "SPIN:\nmbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra SPIN;"
    for emulator in BOTH:
        out, run = run_ptx(ONCE.format(f"{tests}\n{STORE}"), emulator=emulator)
        assert (out[:32] == 1).all()
        assert run.counts["mbarrier.test_wait.parity.shared::cta.b64"] > 1


def test_a_test_answers_at_once():
    body = started(2) + "mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], {};\n" + STORE
    assert (run_ptx(body.format(0))[0] == 0).all()
    assert (run_ptx(body.format(1))[0] == 1).all()  # the phase before the first


def test_lanes_of_a_warp_wait_for_barriers_of_their_own():
    body = """
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p0 mbarrier.init.shared::cta.b64 [other], 1;
    bar.sync 0;
    mov.u32 %r1, bar;
    mov.u32 %r2, other;
    and.b32 %r3, %r0, 1;
    setp.eq.u32 %p1, %r3, 0;
    selp.b32 %r4, %r1, %r2, %p1;
    setp.lt.u32 %p2, %r0, 32;
    @%p2 bra WAIT;
    setp.eq.u32 %p3, %r0, 40;
    @%p3 mbarrier.arrive.shared::cta.b64 _, [other];
    setp.eq.u32 %p3, %r0, 41;
    @%p3 mbarrier.arrive.shared::cta.b64 _, [bar];
    bra END;
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 0;
    @!%p3 bra WAIT;
    END:
    st.global.u32 [%rd7], %r0;"""
    for emulator in BOTH:
        assert run_ptx(body, emulator=emulator)[0].tolist() == list(range(64))


@pytest.mark.parametrize("emulator", BOTH)
def test_a_deadlock_says_what_the_phase_lacks(emulator):
    body = started(3) + (
        "setp.lt.u32 %p1, %r0, 2;\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;\n"
        "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 1024;\n"
        f"WAIT:\n{TRY.format(', 100')}\n@!%p3 bra WAIT;"
    )
    with pytest.raises(Deadlock) as error:
        run_ptx(body, emulator=emulator)
    said = str(error.value)
    lacks = (
        "mbarrier at shared address 0x400 of block (0, 0, 0): waits for phase 0 (parity 0); "
        "2 of 3 arrivals and 3072 bytes are missing"
    )
    assert said.count(lacks) == 2
    assert "warp 0 (32 threads)" in said
    assert "warp 1 (32 threads)" in said


# ---- what must not happen

OWN = "mbarrier.{}.shared::cta.b64"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("@%p0 mbarrier.init.shared::cta.b64 [bar], 0;", "a count of 0: .* 1 to 1048575"),
        ("@%p0 mbarrier.init.shared::cta.b64 [bar], 1048576;", "count of 1048576"),
        ("mbarrier.init.shared::cta.b64 [bar], 1;", "is one already: .* mbarrier.inval first"),
        ("@%p0 mbarrier.init.shared::cta.b64 [bar+4], 1;", "not a multiple of the 8 bytes"),
        ("mbarrier.arrive.shared::cta.b64 _, [bar];", "no mbarrier .* never initialised"),
        ("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0;", "no mbarrier .* never"),
        (TRY.format(""), "no mbarrier .* never initialised"),
        (
            started(1) + "@%p0 mbarrier.inval.shared::cta.b64 [bar];\n"
            "@%p0 mbarrier.arrive.shared::cta.b64 _, [bar];",
            "was invalidated",
        ),
        (
            started(3) + "@%p0 mbarrier.arrive.shared::cta.b64 _, [bar], 4;",
            "4 arrivals .*: 3 of 3 arrivals and 0 bytes are missing",
        ),
        (started(3) + "@%p0 mbarrier.arrive.shared::cta.b64 _, [bar], 0;", "count of 0"),
        (
            started(1) + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 8;\n"
            "@%p0 mbarrier.arrive.shared::cta.b64 _, [bar];",
            "1 arrivals .*: 0 of 1 arrivals and 8 bytes are missing",
        ),
        (
            started(1) + "@%p0 mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [bar], 1;",
            "noComplete completed the phase",
        ),
        (
            started(1) + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 65536;",
            "tx-count of 1048576: it is at most 1048575",
        ),
        (
            started(1) + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 65536;",
            "tx-count of -1048576",
        ),
        (
            started(1) + "st.shared.u32 [bar+4], %r0;\n"
            "@%p0 mbarrier.arrive.shared::cta.b64 _, [bar];",
            "was overwritten: its 8 bytes hold 0x0000003f",
        ),
        (
            started(1) + "mov.u64 %rd1, 0;\nst.shared.u64 [bar], %rd1;\n" + TRY.format(""),
            "was overwritten",
        ),
        (
            started(1) + "mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 2;",
            "parity 2: a parity is 0 or 1",
        ),
        (
            "ld.param.u64 %rd1, [out];\nmbarrier.arrive.b64 _, [%rd1];",
            "is not one of shared memory",
        ),
    ],
)
def test_what_is_wrong_is_a_fault(body, why):
    with pytest.raises(Fault, match=f"(?s){why}.*PTX line"):
        run_ptx(body)


def test_a_barrier_that_threads_wait_for_stays():
    body = started(1) + (
        "setp.lt.u32 %p1, %r0, 32;\n@!%p1 bra OTHER;\n" + TRY.format("") + "\nbra END;\nOTHER:\n"
        "bar.sync 1, 32;\nsetp.eq.u32 %p2, %r0, 32;\n"
        "@%p2 mbarrier.inval.shared::cta.b64 [bar];\nEND:"
    )
    with pytest.raises(Fault, match="which threads wait for"):
        run_ptx(body)


REMOTE = started(64) + (
    "barrier.cluster.arrive;\nbarrier.cluster.wait;\nmov.u32 %r1, bar;\n"
    "mov.u32 %r2, %cluster_ctarank;\nxor.b32 %r2, %r2, 1;\n"
    "mapa.shared::cluster.u32 %r3, %r1, %r2;\ncvt.u64.u32 %rd1, %r1;\ncvta.shared.u64 %rd1, %rd1;\n"
    "mapa.u64 %rd2, %rd1, %r2;\n{}\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"
)


@pytest.mark.parametrize(
    "instruction",
    [
        "mbarrier.arrive.shared::cta.b64 _, [%r3]",
        "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r3], 0",
        "mbarrier.test_wait.parity.b64 %p1, [%rd2], 0",
        "mbarrier.try_wait.parity.b64 %p1, [%rd2], 0",
        "mbarrier.arrive.b64 %rd3, [%rd2]",
        "mbarrier.inval.b64 [%rd2]",
    ],
)
def test_what_does_not_reach_another_block(instruction):
    with pytest.raises(Fault, match=r"another block|reaches only"):
        run_ptx(REMOTE.format(f"{instruction};"), cluster=2)


def test_a_block_that_has_exited_hears_nothing():
    body = REMOTE.split("{}")[0] + (
        "setp.eq.u32 %p1, %r2, 0;\n@%p1 exit;\nmov.u32 %r5, 0;\nDELAY:\nadd.u32 %r5, %r5, 1;\n"
        "setp.lt.u32 %p2, %r5, 400;\n@%p2 bra DELAY;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];"
    )
    with pytest.raises(Fault, match=r"block \(1, 0, 0\) has exited: its shared memory is gone"):
        run_ptx(body, cluster=2)


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("mbarrier.init.b32 [bar], 1", "type .b64"),
        ("mbarrier.init.shared::cluster.b64 [bar], 1", "no form"),
        ("mbarrier.init.shared::cta.b64 bar, 1", "in brackets"),
        ("mbarrier.init.shared::cta.b64 [bar]", "an address and a count"),
        ("mbarrier.expect_tx.release.cta.shared::cta.b64 [bar], 8", "no form"),
        ("mbarrier.expect_tx.relaxed.shared::cta.b64 [bar], 8", "no form"),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar]", "a number of bytes"),
        ("mbarrier.arrive.shared::cluster.b64 %rd1, [bar]", "returns no state"),
        ("mbarrier.arrive.acquire.cta.shared::cta.b64 %rd1, [bar]", "no form"),
        ("mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [bar]", "3 to 3 operands"),
        ("mbarrier.arrive.noComplete.shared::cluster.b64 _, [bar], 1", "no form"),
        ("mbarrier.arrive.noComplete.expect_tx.shared::cta.b64 %rd1, [bar], 1", "not both"),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar]", "3 to 3 operands"),
        ("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0, 100", "3 to 3 operands"),
        ("mbarrier.test_wait.shared::cluster.b64 %p1, [bar], %rd1", "no form"),
        ("mbarrier.try_wait.release.cta.shared::cta.b64 %p1, [bar], %rd1", "no form"),
        ("mbarrier.pending_count.b32 %r1, %rd1", "pending_count.b64"),
    ],
)
def test_forms_that_ptxas_refuses_are_refused(instruction, why):
    with pytest.raises(Unsupported, match=why):
        run_ptx(f"{instruction};")


@settings(max_examples=20)
@given(st.integers(1, 4), st.integers(0, 2**32))
def test_any_order_of_warps_gives_every_phase_to_everyone(phases, seed):
    """Each thread counts how many phases it has seen; a fast one is never a phase ahead."""
    body = started(64) + (
        f"mov.u32 %r1, 0;\nPHASE:\nand.b32 %r2, %r1, 1;\n"
        f"mbarrier.arrive.shared::cta.b64 %rd1, [bar];\n"
        f"WAIT:\nmbarrier.try_wait.shared::cta.b64 %p3, [bar], %rd1;\n@!%p3 bra WAIT;\n"
        f"add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p4, %r1, {phases};\n@%p4 bra PHASE;\n"
        f"st.global.u32 [%rd7], %r1;"
    )
    out, run = run_ptx(body, emulator=unwatched(schedule="random", seed=seed))
    assert (out == phases).all()
    assert len(run.trace.of("mbarrier.phase")) == phases
