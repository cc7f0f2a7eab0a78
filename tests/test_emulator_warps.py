"""Threads of a warp: each lane's answer, worked out lane by lane from the ISA's own words."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper.compile import compile_cuda
from hopper.emulator import Deadlock, Emulator, Fault, Unsupported
from hopper.paths import KERNELS

WARP, FULL = 32, 0xFFFFFFFF
BOTH = (Emulator(), Emulator(schedule="random", seed=5))
WORD = st.integers(0, 2**32 - 1)
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def launch(kernel: str, *args, threads: int = 32, emulator: Emulator = BOTH[0]):
    program = compile_cuda(KERNELS / "probes/warps.cu", kernel)
    return emulator.launch(program.ptx, kernel, 1, threads, args=args)


def run_ptx(body: str, threads: int = 32, emulator: Emulator = BOTH[0]) -> numpy.ndarray:
    """Run instructions between the thread's number in %r0 and a store of %r1 to a word a thread."""
    text = (
        f"{HEAD}.visible .entry k(.param .u64 out)\n{{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n"
        f".reg .b64 %rd<4>;\nld.param.u64 %rd0, [out];\nmov.u32 %r0, %tid.x;\n"
        f"mul.wide.u32 %rd1, %r0, 4;\nadd.s64 %rd0, %rd0, %rd1;\nmov.u32 %r1, 0;\n{body}\n"
        f"st.global.u32 [%rd0], %r1;\nret;\n}}\n"
    )
    out = numpy.full(threads, 7, numpy.uint32)
    emulator.launch(text, "k", 1, threads, args=[out])
    return out


# ---- shuffles


def shuffled(mode: str, a: list[int], b: list[int], c: list[int], lane: int) -> tuple[int, bool]:
    """What one lane gets (PTX ISA, the pseudocode of shfl.sync)."""
    by, clamp, segment = b[lane] & 31, c[lane] & 31, c[lane] >> 8 & 31
    limit = (lane & segment) | (clamp & ~segment)
    other = {
        "idx": (lane & segment) | (by & ~segment),
        "up": lane - by,
        "down": lane + by,
        "bfly": lane ^ by,
    }[mode]
    found = other >= limit if mode == "up" else other <= limit
    return a[other if found else lane], found


@settings(max_examples=40)
@given(st.data())
def test_shuffles_follow_the_isa_for_any_operands(data):
    lanes = st.lists(WORD, min_size=WARP, max_size=WARP)
    a, b, c = (data.draw(lanes) for _ in range(3))
    value, valid = (numpy.zeros((4, WARP), numpy.uint32) for _ in range(2))
    launch("warps_shuffle", *(numpy.array(x, numpy.uint32) for x in (a, b, c)), value, valid)
    for row, mode in enumerate(("idx", "up", "down", "bfly")):
        expected = [shuffled(mode, a, b, c, lane) for lane in range(WARP)]
        assert list(zip(value[row].tolist(), valid[row].tolist(), strict=True)) == expected


def test_a_shuffle_takes_no_value_from_a_lane_that_is_not_there():
    body = "setp.ge.u32 %p0, %r0, 20;\n@%p0 bra END;\n{}\nEND:"
    with pytest.raises(Fault, match=r"lane 4 reads lane 20, which does not take part"):
        run_ptx(body.format("shfl.sync.down.b32 %r1, %r0, 16, 31, 0x000fffff;"))
    # Those that lie outside the segment are not read.
    out = run_ptx(body.format("shfl.sync.down.b32 %r1, %r0, 16, 19, 0x000fffff;"))
    assert out[:4].tolist() == [16, 17, 18, 19]
    assert out[4:20].tolist() == list(range(4, 20))


# ---- votes, matches, reductions, elections


@st.composite
def groups(draw) -> tuple[list[int], list[int]]:
    """Which part each lane belongs to, and which lanes have gone (to part 0)."""
    part = draw(st.lists(st.integers(0, 2), min_size=WARP, max_size=WARP))
    gone = draw(st.sets(st.integers(0, WARP - 1), max_size=12))
    return [0 if lane in gone else one for lane, one in enumerate(part)], sorted(gone)


@settings(max_examples=40)
@given(groups(), st.lists(st.integers(0, 3), min_size=WARP, max_size=WARP))
def test_lanes_of_a_mask_ask_each_other(parts, values):
    part, gone = parts
    masks = [
        0 if lane in gone else sum(1 << k for k in range(WARP) if part[k] == part[lane])
        for lane in range(WARP)
    ]
    answers = numpy.zeros((18, WARP), numpy.uint32)
    for emulator in BOTH:
        answers[:] = 99
        a, mask = numpy.array(values, numpy.uint32), numpy.array(masks, numpy.uint32)
        launch("warps_ask", a, mask, answers, emulator=emulator)
        for lane in set(range(WARP)) - set(gone):
            group = [k for k in range(WARP) if part[k] == part[lane] and k not in gone]
            assert answers[:, lane].tolist() == expected(values, group, lane)
        assert (answers[:, gone] == 99).all()


def expected(values: list[int], group: list[int], lane: int) -> list[int]:
    """The answers of ``ask`` in warps.cu, by hand."""
    votes = [values[k] & 1 for k in group]
    same = sum(1 << k for k in group if values[k] == values[lane])
    one_mind = len({values[k] >> 1 for k in group}) == 1
    members = sum(1 << k for k in group) if one_mind else 0
    mixed = [values[k] * 0x9E3779B9 % 2**32 for k in group]
    signed = [m - 2**32 if m >= 2**31 else m for m in mixed]
    both_and, both_or, both_xor = FULL, 0, 0
    for m in mixed:
        both_and, both_or, both_xor = both_and & m, both_or | m, both_xor ^ m
    # match.all.b64 keeps every bit of a, where .b32 is asked about a without its lowest.
    whole = sum(1 << k for k in group) if len({values[k] for k in group}) == 1 else 0
    return [
        int(all(votes)),
        int(any(votes)),
        int(len(set(votes)) == 1),
        sum(1 << k for k in group if not values[k] & 1),
        same,
        same,
        members,
        int(one_mind),
        whole,
        sum(values[k] for k in group),
        sum(mixed) % 2**32,
        min(mixed),
        max(mixed),
        min(signed) % 2**32,
        max(signed) % 2**32,
        both_and,
        both_or,
        both_xor,
    ]


@given(st.integers(1, FULL))
@settings(max_examples=20)
def test_the_lowest_lane_of_a_mask_is_elected(mask):
    masks = numpy.array([mask if mask >> lane & 1 else 0 for lane in range(WARP)], numpy.uint32)
    out = numpy.full((2, WARP), 99, numpy.uint32)
    launch("warps_elect", masks, out)
    inside, lowest = numpy.flatnonzero(masks), (mask & -mask).bit_length() - 1
    assert (out[0, inside] == lowest).all()
    assert numpy.flatnonzero(out[1] == 1).tolist() == [lowest]


@pytest.mark.parametrize("instruction", ["vote.sync.ballot.b32 %r1, %p0, {}",
                                         "redux.sync.add.u32 %r1, %r0, {}",
                                         "match.any.sync.b32 %r1, %r0, {}",
                                         "shfl.sync.idx.b32 %r1, %r0, 3, 31, {}",
                                         "bar.warp.sync {}"])  # fmt: skip
def test_a_thread_must_be_in_its_own_mask(instruction):
    for emulator in BOTH:
        with pytest.raises(Fault, match=r"does not name a thread.*thread 7\)"):
            run_ptx(f"setp.ge.u32 %p0, %r0, 0;\n{instruction.format('0xffffff7f')};", 32, emulator)


def test_threads_of_a_mask_pass_the_same_mask():
    body = "setp.eq.u32 %p0, %r0, 9;\nselp.b32 %r2, 0x200, -1, %p0;\n"
    with pytest.raises(Fault, match=r"0xffffffff names a thread that passes another.*thread 9\)"):
        run_ptx(f"{body}vote.sync.ballot.b32 %r1, %p0, %r2;")


def test_lanes_that_took_other_ways_meet_at_a_shuffle():
    """Lane l loops l times before all of them exchange."""
    body = """
    mov.u32 %r2, 0;
    LOOP:
    add.u32 %r2, %r2, 3;
    setp.le.u32 %p0, %r2, %r0;
    @%p0 bra LOOP;
    shfl.sync.bfly.b32 %r1, %r2, 31, 31, -1;"""
    counts = [3 * (lane // 3 + 1) for lane in range(WARP)]
    for emulator in BOTH:
        assert run_ptx(body, 32, emulator).tolist() == counts[::-1]


def test_whoever_executes_a_shuffle_on_one_path_only_is_reported():
    body = "setp.lt.u32 %p0, %r0, 8;\n@!%p0 bra END;\nshfl.sync.idx.b32 %r1, %r0, 0, 31, -1;\nEND:"
    waits = body + "\nbar.sync 0;"
    for emulator in BOTH:
        # The others exit: only they are missed no longer.
        assert run_ptx(body, 32, emulator).tolist() == [0] * WARP
        with pytest.raises(Deadlock, match=r"8 threads.*waits for the other threads of its warp"):
            run_ptx(waits, 32, emulator)


def test_lanes_wait_for_each_other_at_instructions_of_their_own():
    a = numpy.arange(128, dtype=numpy.uint32) * 11 + 5
    rows = a.reshape(4, 2, 16)
    expected = numpy.stack([rows[:, 1], rows[:, 1] * 3], axis=1).reshape(-1)
    for emulator in (*BOTH, Emulator(schedule="random", seed=9)):
        out = numpy.zeros(128, numpy.uint32)
        launch("warps_meet", a, out, threads=128, emulator=emulator)
        numpy.testing.assert_array_equal(out, expected)


def test_a_warp_barrier_waits_for_no_lane_that_has_gone():
    body = """
    setp.eq.u32 %p0, %r0, 4;
    @%p0 bra END;
    bar.warp.sync -1;
    mov.u32 %r1, 1;
    END:"""
    assert run_ptx(body).tolist() == [int(lane != 4) for lane in range(WARP)]
    with pytest.raises(Deadlock, match="waits for the other threads of its mask"):
        run_ptx(body + "\nbar.sync 0;")


def test_activemask_names_the_lanes_that_run_together():
    body = "and.b32 %r2, %r0, 1;\nsetp.eq.u32 %p0, %r2, 1;\n@%p0 activemask.b32 %r1;"
    assert run_ptx(body).tolist() == [0, 0xAAAAAAAA] * 16
    assert (run_ptx("activemask.b32 %r1;", threads=40)[32:] == 0xFF).all()


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("shfl.sync.idx.b64 %rd1, %rd1, 0, 31, -1", "type .b32"),
        ("shfl.sync.idx.b32 %r1, %r0, 0, 31", "a mask"),
        ("shfl.idx.b32 %r1, %r0, 0, 31", "does not execute"),
        ("vote.sync.ballot.pred %p0, %p1, -1", "ballot.b32"),
        ("vote.ballot.b32 %r1, %p1", "does not execute"),
        ("match.any.sync.b32 %r1|%p1, %r0, -1", "no predicate"),
        ("match.any.sync.b16 %r1, %r0, -1", "b32 or .b64"),
        ("redux.sync.add.b32 %r1, %r0, -1", "redux.sync is"),
        ("redux.sync.min.f32 %r1, %r0, -1", "redux.sync is"),
        ("elect.sync %r1, -1", "a predicate"),
        ("bar.warp.sync -1, 32", "takes a membermask"),
    ],
)
def test_forms_that_ptxas_refuses_are_refused(instruction, why):
    with pytest.raises(Unsupported, match=why):
        run_ptx(instruction + ";")
