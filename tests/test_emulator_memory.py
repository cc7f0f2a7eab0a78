"""Loads, stores, addresses, atomics and asynchronous copies, against plain Python and NumPy."""

import re

import numpy
import pytest
from emulation import unwatched
from hypothesis import given
from hypothesis import strategies as st

from hopper.compile import compile_cuda
from hopper.conformance import blank, digest, emulate
from hopper.conformance.memory import CASES, words
from hopper.emulator import Emulator, Fault, Unsupported
from hopper.emulator.atomics import in_turns
from hopper.errors import CompileError

LAZY, EAGER = unwatched(), unwatched(tma="eager")
SCHEDULES = (EAGER, unwatched(schedule="random", tma="random", seed=1))
BY_NAME = {case.name: case for case in CASES}
HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
DECLARED = """
    .reg .b64 a, b, c, d, p; .reg .b32 r, s, t, u, v; .reg .b16 h, i; .reg .f32 f, g;
    .reg .f64 x, y; .reg .pred q;
    .shared .align 16 .b8 tile[512];
    .local .align 16 .b8 own[32];
"""


def run(body: str, *args, threads: int = 32, emulator: Emulator = LAZY, grid=1, head=""):
    """Run PTX statements. Their arguments are arrays: ``a``, ``b`` and ``c`` hold the addresses;
    ``t`` is the thread and ``d`` four times as much.
    """
    names = "abc"[: len(args)]
    parameters = ", ".join(f".param .u64 p{name}" for name in names)
    loads = "".join(f"ld.param.u64 {name}, [p{name}];\n" for name in names)
    ptx = (
        f"{HEADER}{head}\n.visible .entry k({parameters})\n{{{DECLARED}{loads}"
        f"mov.u32 t, %tid.x; mul.wide.u32 d, t, 4;\n{body}\nret;\n}}"
    )
    return Emulator.launch(emulator, ptx, "k", grid, threads, args=args)


# ---- whole probes


# The cases of atomics share two kernels, whose threads never meet: one of each is enough here.
SCHEDULED = [
    name
    for name in BY_NAME
    if not name.startswith("memory.atomic.") or name.endswith(("cas.b16", "max.v8.bf16"))
]


@pytest.mark.parametrize("name", SCHEDULED)
def test_cases_give_the_same_bits_on_every_schedule(name):
    case = BY_NAME[name]
    expected = digest(emulate(case)[0])
    for emulator in SCHEDULES:
        assert digest(emulate(case, emulator)[0]) == expected


# Type, bits of the register, byte in the thread's 16, elements: the order of memory_loads.cu.
LOADED = [
    ("u8", 16, 1, 1), ("s8", 16, 3, 1), ("u8", 32, 5, 1), ("s8", 32, 7, 1), ("u8", 64, 9, 1),
    ("s8", 64, 11, 1), ("u16", 16, 2, 1), ("u16", 32, 6, 1), ("s16", 32, 10, 1), ("u16", 64, 12, 1),
    ("s16", 64, 14, 1), ("u32", 32, 4, 1), ("u32", 32, 8, 1), ("u32", 64, 12, 1), ("s32", 64, 0, 1),
    ("u64", 64, 8, 1), ("u64", 64, 0, 1), ("u8", 16, 2, 2), ("s16", 32, 12, 2), ("u32", 32, 8, 2),
    ("s32", 64, 0, 2), ("u64", 64, 0, 2), ("s8", 32, 4, 4), ("u16", 16, 8, 4), ("u32", 32, 0, 4),
]  # fmt: skip


def test_loads_extend_values_and_read_every_space():
    case = BY_NAME["memory.loads"]
    data = case.arguments()[0].reshape(128, 16)
    rows = iter(emulate(case)[0][0])
    # Local memory: 32 bytes a thread, rotated, the second half with some bits flipped.
    local = numpy.empty((128, 32), "u1")
    for i in range(16):
        at = numpy.arange(128)
        local[at, (i + at) % 32] = data[:, i]
        local[at, (i + at + 16) % 32] = data[:, i] ^ 0x5A
    n = numpy.arange(32, dtype="u4")
    table = numpy.stack(
        [n * 2654435761, n * 2654435761 + 40503, ~(n * 97), 0x80FF7F00 + n], axis=1, dtype="u4"
    ).view("u1")
    per_lane = table[numpy.arange(128) % 32]
    mixed = numpy.where((numpy.arange(128) % 3 == 2)[:, None], local[:, :16], data)
    fixed = numpy.tile(table[1], (128, 1))
    for held in (data, data, local[:, :16], per_lane, data, data, local[:, 16:], fixed, mixed):
        for kind, bits, byte, count in LOADED:
            size = int(kind[1:]) // 8
            for element in range(count):
                start = byte + element * size
                for thread, got in enumerate(next(rows).tolist()):
                    value = int.from_bytes(
                        held[thread, start : start + size].tobytes(),
                        "little",
                        signed=kind[0] == "s",
                    )
                    assert got == value % (1 << bits)
    # What is left: 28 plain loads, a vector of four and one of two, and so on; their count is last.
    rest = numpy.stack(list(rows))
    last = numpy.flatnonzero((rest == 0xE0D).all(axis=1))[0]
    assert last == 28 + 4 + 2 + 6 + 4
    for thread in range(128):
        words_here = set(data[thread].view("u4").tolist()) | set(data[thread].view("u8").tolist())
        assert set(rest[: last - 3, thread].tolist()) <= words_here
    assert (rest[last - 3] == data.reshape(-1)[64:68].view("u4")[0]).all()
    assert (rest[last - 2] == 0x89ABCDEF).all()
    assert (rest[last + 1 :] == 2**64 - 1).all()


# Bytes, byte in the part, and what is stored: "x", "y", "X" (the upper half) or a constant.
STORED = [
    (1, 1, "x"), (1, 2, "y"), (1, 4, "x"), (2, 6, "y"), (2, 10, "x"), (2, 12, "y"), (4, 16, "y"),
    (4, 20, "x"), (4, 28, "X"), (8, 32, "y"), (8, 40, "x"), (1, 50, "x"), (1, 51, "y"),
    (2, 52, "y"), (2, 54, "x"), (8, 64, "x"), (8, 72, "y"), (1, 56, "x"), (1, 57, "y"),
    (1, 58, "x"), (1, 59, 7), (2, 80, "x"), (2, 82, "y"), (2, 84, 3), (2, 86, "y"),
    (4, 96, "x"), (4, 100, "y"), (4, 104, 5), (4, 108, "x"), (4, 112, 305419896),
    (4, 116, 0xC0490FDB), (1, 121, 254),
]  # fmt: skip


def test_stores_change_their_bytes_and_no_others():
    case = BY_NAME["memory.stores"]
    values = case.arguments()[0].reshape(64, 2).tolist()
    records = emulate(case)[0][0]
    for thread, (x, y) in enumerate(values):
        part = bytearray(b"\xff" * 128)
        for size, at, value in STORED:
            value = {"x": x, "y": y, "X": x >> 32}.get(value, value)
            part[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        assert records[thread, :128].tobytes() == part
        assert records[thread, 128:256].tobytes() == part
        shared = bytearray(part)
        shared[120] = y & 0xFF
        shared[122:124] = (y & 0xFFFF).to_bytes(2, "little")
        shared[124:128] = (x & 0xFFFFFFFF).to_bytes(4, "little")
        both = [(a + 3 * b) & 0xFF for a, b in zip(shared, part, strict=True)]
        assert records[thread, 256:384].tolist() == both
        rest = records[thread, 384:].view("u4").tolist()
        assert rest[:22] == [x >> k + 1 & 0xFFFFFFFF for k in range(22)]
        assert rest[22] == x & 0xFFFFFFFF
        assert set(rest[23:]) == {0xFFFFFFFF}


def test_addresses_of_a_cluster():
    answers = emulate(BY_NAME["memory.addresses"])[0][0]
    t = numpy.arange(32)
    for rank in range(4):
        rows = answers[rank]
        peer = (rank + 1 + t) % 4
        # global, shared, shared::cta, shared::cluster, local, const, param, param::entry
        assert rows[0].tolist() == rows[1].tolist() == [0b10000000] * 32
        assert (rows[2] == 0b01110000).all()
        assert (rows[3] == numpy.where(peer == rank, 0b01110000, 0b00010000)).all()
        assert (rows[4] == 0b00001000).all()
        assert (rows[5] == 0b00000100).all()
        assert (rows[6] == 0b10000011).all()  # a parameter lies in global memory, too
        own, mapped = (rank << 24) + 0x400 + 4 * t, (peer << 24) + 0x400 + 4 * t
        assert (rows[7] == own).all() and (rows[8] == mapped).all() and (rows[9] == own).all()
        assert (rows[10] == mapped).all() and (rows[11] == (rank << 24) + 0x500).all()
        assert (rows[12] == 1).all() and (rows[13] == mapped).all()
        assert (rows[15] == rank).all() and (rows[16] == peer).all() and (rows[17] == peer).all()
        assert (rows[18] == peer * 1000 + t).all() and (rows[19] == rows[18]).all()
        assert (rows[20] == peer * 1000 + t // 2 * 2).all() and (rows[21] == rows[20] + 1).all()
        assert (rows[22] == 7).all() and (rows[23] == 7 + t + 1).all()
        source = (rank - 1 - t) % 4
        assert (rows[24] == source * 100 + t).all()


def test_contended_cells_lose_no_update():
    case = BY_NAME["memory.contended"]
    values = case.arguments()[0].astype("u8")
    cells, messages, sums = emulate(case)[0]
    everyone = int(values.sum())
    assert cells[0] == everyone % 2**32 == cells[22]
    assert cells[2] == numpy.bitwise_xor.reduce(values)
    assert cells[4].view("i4") == min(0, values.astype("u4").view("i4").min())
    assert cells[5] == values.max()
    assert cells[6] == 256 % 10
    assert cells[8].view("f4") == (values & 1023).sum()
    assert cells[9] == numpy.array([512, 256], "f2").view("u4")[0]
    assert cells[21] == sum(n * n for n in range(256))
    carried = int(values[0])
    for block in range(4):
        mine = values[64 * block : 64 * block + 64]
        assert sums[block, 0] == int(mine.sum()) % 2**32 == sums[block, 23]
        assert sums[block, 24] == sum(n * n for n in range(64))
        even, odd = sum(range(0, 64, 2)), sum(range(1, 64, 2))
        assert sums[block, 25] == even * 65536 + odd
        carried = (int(values[64 * block]) if block == 0 else carried) * 3 + block
        assert messages[block] == carried % 2**32


def test_copies_fill_what_they_do_not_read_with_zeros():
    case = BY_NAME["memory.copies"]
    source = case.arguments()[0].reshape(2, 64, 32, 16)
    out, phases = emulate(case)[0]
    t = numpy.arange(64)
    whole = {0: 4, 1: 8, 2: 16, 3: 16, 4: 16, 16: 16, 17: 8}
    some = {6: t % 17, 7: 16 + 0 * t, 8: t % 9, 9: t % 5, 10: 0 * t, 13: 12 + 0 * t, 14: 0 * t}
    some |= {15: 6 + 0 * t, 11: numpy.where(t % 3 == 0, 0, 16), 12: numpy.where(t % 3, 0, 8)}
    written = {8: 8, 9: 4, 12: 8}
    before = numpy.array([0xAAAAAAAA, 0xBBBBBBBB, 0xCCCCCCCC, 0xFFFFFFFF], "u4").view("u1")
    for block in range(2):
        for k in range(18):
            expected = numpy.tile(before, (64, 1))
            if k in whole:
                expected[:, : whole[k]] = source[block, :, k, : whole[k]]
            elif k in some:
                size = written.get(k, 16)
                read = numpy.arange(size) < some[k][:, None]
                expected[:, :size] = numpy.where(read, source[block, :, k, :size], 0)
            elif k == 5:
                expected[1::2, :4] = source[block, 1::2, k, :4]
            assert (out[block, k] == expected).all(), k
        for b in range(2):
            assert (out[block, 18 + b] == out[block, 16 + b][(t + 7) % 64]).all()
        assert (out[block, 20:] == 0xFF).all()
    assert (phases == 0).all()


def test_remote_values_arrive_before_their_phase_completes():
    case = BY_NAME["memory.remote"]
    values = case.arguments()[0].reshape(4, 32, 4)
    out = emulate(case)[0][0]
    for block in range(4):
        a, b, c, d = values[block ^ 1].T
        wide = numpy.stack([a, b], axis=1)
        expected = [a, wide, numpy.stack([c, d], 1), numpy.stack([d, c, b, a], 1)]
        expected += [numpy.concatenate([~wide, wide], 1), ~wide, b]
        flat = numpy.concatenate([part.reshape(-1) for part in expected])
        assert (out[block, :512] == flat).all()
        start = numpy.arange(512, 1024, dtype="u4") * 1000
        for cell in range(4):
            mine = slice(cell, 32, 4)
            word = {k: start[4 * k + cell] for k in range(8)}
            got = {k: out[block, 512 + 4 * k + cell] for k in range(8)}
            assert got[0] == (word[0] + a[mine].sum(dtype="u8")) % 2**32
            assert got[1] == (word[1] + b[mine].sum(dtype="u8")) % 2**32
            assert got[2].view("i4") == min(word[2].view("i4"), c[mine].view("i4").min())
            assert got[3] == max(word[3], d[mine].max())
            assert got[4] == word[4] & numpy.bitwise_and.reduce(a[mine] | 0xF0F0F0F0)
            assert got[5] == word[5] | numpy.bitwise_or.reduce(b[mine] & 0x0F0F0F0F)
            assert got[6] == word[6] ^ numpy.bitwise_xor.reduce(c[mine])
            assert int(got[7]) == int(word[7]) + (8 if cell % 2 else -8)
            sums = out[block, 544:].view("u8")
            first = start[32:].view("u8")
            total = sum(wide.view("u8")[mine, 0].tolist())
            assert int(sums[cell]) == (int(first[cell]) + total) % 2**64
            total = sum((~wide).view("u8")[mine, 0].tolist())
            assert int(sums[4 + cell]) == (int(first[4 + cell]) + total) % 2**64


# ---- atomics


def sequential(op: str, memory: int, value: int, bits: int, signed: bool) -> int:
    """The PTX ISA's formulas, on Python integers."""

    def read(word: int) -> int:
        return word - (1 << bits) if signed and word >> bits - 1 else word

    if op == "inc":
        return 0 if memory >= value else memory + 1
    if op == "dec":
        return value if memory == 0 or memory > value else memory - 1
    if op in ("min", "max"):
        return {"min": min, "max": max}[op](memory, value, key=read)
    simple = {
        "add": (memory + value) % (1 << bits),
        "and": memory & value,
        "or": memory | value,
        "xor": memory ^ value,
        "exch": value,
    }
    return simple[op]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in BY_NAME
        if re.fullmatch(r"memory\.atomic\.\w+\.[bus](32|64)", name) and ".cas." not in name
    ],
)
def test_integer_atomics_follow_the_formulas(name):
    _, _, op, kind = name.split(".")
    case = BY_NAME[name]
    values, _, cells = case.arguments()[:3]
    bits = int(kind[1:])
    after, shared, old = emulate(case)[0]
    expected = [
        sequential(op, m, v, bits, kind[0] == "s")
        for m, v in zip(cells[:1024].tolist(), values.tolist(), strict=True)
    ]
    assert (after.reshape(4, -1) == numpy.array(expected, after.dtype)).all()
    assert (shared == after).all()
    assert (old == cells).all()


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_compare_and_swap(kind):
    case = BY_NAME[f"memory.atomic.cas.{kind}"]
    values, compares, cells = case.arguments()[:3]
    after, shared, old = emulate(case)[0]
    expected = numpy.where(cells[:1024] == compares, values, cells[:1024])
    assert (expected == values).any() and (expected != values).any()
    assert (after.reshape(4, -1) == expected).all() and (shared == after).all()
    assert (old == cells).all()


def test_sums_of_f32_flush_subnormal_numbers_in_global_memory_only():
    case = BY_NAME["memory.atomic.add.f32"]
    values, _, cells = case.arguments()[:3]
    after, shared, old = (part.reshape(-1)[:1024] for part in emulate(case)[0])
    assert (old == cells[:1024]).all()

    def flushed(numbers):
        return numpy.where(numpy.abs(numbers) < 2.0**-126, numpy.copysign(0, numbers), numbers)

    a, b = values.view("f4"), cells[:1024].view("f4")
    with numpy.errstate(all="ignore"):
        kept, lost = a + b, flushed(flushed(a) + flushed(b)).astype("f4")
    number = ~numpy.isnan(kept)
    assert (kept != lost)[number].sum() > 20
    assert (shared[number] == kept.view("u4")[number]).all()
    assert (after[number] == lost.view("u4")[number]).all()
    assert (shared[~number] == 0x7FFFFFFF).all() and (after[~number] == 0x7FFFFFFF).all()


def test_sums_of_f64_pass_a_nan_on_as_it_is_in_global_memory_and_quiet_in_shared():
    case = BY_NAME["memory.atomic.add.f64"]
    values, _, cells = case.arguments()[:3]
    after, shared, old = emulate(case)[0]
    assert (old == cells).all()
    quiet, default = 1 << 51, 0xFFF8 << 48
    seen = set()
    for a, b, in_global, in_shared in zip(
        cells[:1024].tolist(), values.tolist(), after.tolist(), shared.tolist(), strict=False
    ):
        a_nan, b_nan = (x & (1 << 63) - 1 > 0x7FF << 52 for x in (a, b))
        if a_nan or b_nan:
            assert in_global == (b if b_nan else a)
            assert in_shared == (a if a_nan else b) | quiet
            seen.add((a_nan, b_nan, in_global == in_shared))
        elif a ^ b == 1 << 63 and a & (1 << 63) - 1 == 0x7FF << 52:
            assert in_global == in_shared == default
        else:
            assert in_global == in_shared
    assert {(True, False, False), (False, True, False), (True, True, False)} <= seen


@pytest.mark.parametrize("vector", ["v2.f32", "v8.f16", "v4.bf16", "v2.f16x2"])
def test_a_vector_comes_back_bit_for_bit(vector):
    _, cells, _ = BY_NAME[f"memory.atomic.add.{vector}"].arguments()
    _, old = emulate(BY_NAME[f"memory.atomic.add.{vector}"])[0]
    part = cells.size // 3
    assert (old == numpy.concatenate([cells[:part], cells[2 * part :]])).all()


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 255)), min_size=1, max_size=40),
    st.sampled_from(["add", "exch", "xor"]),
)
def test_lanes_that_meet_take_their_turns_in_order(pairs, op):
    operation = {"add": numpy.add, "exch": lambda m, v: v, "xor": numpy.bitwise_xor}[op]
    items = numpy.arange(12, dtype="u1") * 20
    expected, olds = items.tolist(), []
    for cell, value in pairs:
        olds.append([expected[2 * cell], expected[2 * cell + 1]])
        for e in (2 * cell, 2 * cell + 1):
            expected[e] = sequential(op, expected[e], value, 8, False)
    cells = numpy.array([[2 * cell, 2 * cell + 1] for cell, _ in pairs])
    values = numpy.array([[value, value] for _, value in pairs], "u1")
    assert in_turns(items, cells, [values], operation).tolist() == olds
    assert items.tolist() == expected


def test_the_highest_lane_wins_a_cell_that_several_store_to():
    out = numpy.zeros(1, "u4")
    run("st.global.u32 [a], t;", out)
    assert out[0] == 31


# ---- asynchronous copies


def test_a_copy_that_nobody_waits_for_comes_late_or_early():
    source, out = numpy.arange(32, dtype="u4"), {}
    for name, emulator in (("lazy", LAZY), ("eager", EAGER)):
        out[name] = blank(32, "u4")
        run(
            "add.u64 a, a, d; add.u64 b, b, d; mov.u32 r, tile; cvt.u32.u64 s, d; add.u32 r, r, s;"
            "cp.async.ca.shared.global [r], [a], 4; cp.async.commit_group;"
            "cp.async.wait_group 1; ld.shared.u32 s, [r]; st.global.u32 [b], s;",
            source,
            out[name],
            emulator=emulator,
        )
    assert (out["eager"] == source).all()
    assert (out["lazy"] == 0xFFFFFFFF).all()


@given(st.data())
def test_a_wait_covers_the_groups_that_it_says(data):
    """Copies, commits and waits in any order: in lazy mode exactly the covered ones have landed."""
    source, body, groups, open_group, landed = numpy.arange(1, 17, dtype="u4"), [], [], [], set()
    for _ in range(data.draw(st.integers(1, 14))):
        step = data.draw(st.sampled_from(["copy", "copy", "commit", "wait", "all"]))
        if step == "copy":
            slot = len(landed) + sum(map(len, groups)) + len(open_group)
            open_group.append(slot)
            body.append(f"cp.async.ca.shared.global [tile+{4 * slot}], [a+{4 * slot}], 4;")
        elif step == "commit":
            groups.append(open_group)
            open_group = []
            body.append("cp.async.commit_group;")
        elif step == "wait":
            keep = data.draw(st.integers(0, 3))
            while len(groups) > keep:
                landed |= set(groups.pop(0))
            body.append(f"cp.async.wait_group {keep};")
        else:
            landed |= {slot for group in groups for slot in group} | set(open_group)
            groups, open_group = [], []
            body.append("cp.async.wait_all;")
    body += [f"ld.shared.u32 r, [tile+{4 * n}]; st.global.u32 [b+{4 * n}], r;" for n in range(14)]
    for emulator in (LAZY, EAGER):
        out = blank(14, "u4")
        run("\n".join(body), source, out, threads=1, emulator=emulator)
        for slot in range(14):
            if slot in landed:
                assert out[slot] == slot + 1
            elif emulator is LAZY:
                assert out[slot] == 0xFFFFFFFF


def test_an_arrival_of_copies_comes_behind_them_in_any_order_of_completion():
    source = numpy.arange(1, 65, dtype="u4")
    body = (
        "mov.u32 r, tile; cvt.u32.u64 s, d; add.u32 r, r, s; add.u64 a, a, d;"
        "setp.ne.u32 q, t, 0; @!q mbarrier.init.shared.b64 [tile+256], 32; bar.sync 0;"
        "cp.async.ca.shared.global [r], [a], 4; cp.async.ca.shared.global [r+128], [a+128], 4;"
        "cp.async.mbarrier.arrive.noinc.shared.b64 [tile+256];"
        "wait: mbarrier.try_wait.parity.shared.b64 q, [tile+256], 0; @!q bra wait;"
        "ld.shared.u32 u, [r]; ld.shared.u32 v, [r+128]; add.u64 b, b, d;"
        "st.global.u32 [b], u; st.global.u32 [b+128], v;"
    )
    for seed in range(8):
        out = blank(64, "u4")
        run(body, source, out, emulator=unwatched(tma="random", seed=seed))
        assert (out == source).all()


# ---- what is wrong


FAULTS = {
    "out of bounds": (
        "add.u64 a, a, d; ld.global.u32 r, [a];",
        "4 bytes at byte 64 of argument 0 (item 16 of that size), which has 64: out of bounds",
        16,
    ),
    "in front": ("sub.u64 a, a, d; st.global.u8 [a], r;", "at byte -4 of argument 0", 1),
    "wild": ("mov.u64 a, 48; ld.global.u32 r, [a];", "address 0x30 lies in no array", 0),
    "misaligned": (
        "ld.global.u32 r, [a+2];",
        "argument 0 + 2 bytes) is not a multiple of the 4",
        0,
    ),
    "misaligned vector": (
        "ld.global.v4.u32 {r,s,u,v}, [a+8];",
        "not a multiple of the 16 bytes",
        0,
    ),
    "vector over the end": ("ld.global.v4.u32 {r,s,u,v}, [a+64];", "16 bytes at byte 64", 0),
    "generic": ("ld.u32 r, [a+64];", "4 bytes at byte 64 of argument 0", 0),
    "shared bounds": (
        "mov.u32 r, tile; st.shared.u32 [r+512], r;",
        "outside: 4 bytes at 0x600, and the block owns 0x400 up to 0x600",
        0,
    ),
    "byte behind the end": ("ld.shared.u8 r, [tile+512];", "1 bytes at 0x600", 0),
    "shared below": ("ld.shared.u32 r, [tile+-4];", "4 bytes at 0x3fc", 0),
    "shared misaligned": ("ld.shared.u64 b, [tile+4];", "not a multiple of the 8 bytes", 0),
    "shared by a generic pointer": (
        "mov.u64 b, tile; cvta.shared.u64 b, b; ld.shared.u32 r, [b];",
        "no address of shared memory; a generic pointer becomes one by cvta.to.shared",
        0,
    ),
    "shared by a global pointer": ("ld.shared.u32 r, [a];", "no address of shared memory", 0),
    "global by a shared pointer": (
        "mov.u64 b, tile; cvta.shared.u64 b, b; ld.global.u32 r, [b];",
        "lies in no array of this launch: shared address 0x400",
        0,
    ),
    "block that is not there": (
        "mov.u32 r, tile; add.u32 r, r, 16777216; ld.shared::cluster.u32 s, [r];",
        "in the block of rank 1, and the cluster has 1",
        0,
    ),
    "rank that is not there": ("mapa.u64 b, a, t;", "rank 31 of a cluster of 1", 31),
    "local bounds": ("ld.local.u32 r, [own+32];", "4 bytes at byte 32 of local memory", 0),
    "not local": ("ld.local.u32 r, [a];", "is not one of .local memory", 0),
    "constants are constant": (
        "mov.u64 b, word; cvta.const.u64 b, b; st.u32 [b], r;",
        "is one of constants or parameters, which a kernel cannot write",
        0,
    ),
    "atomics on local memory": (
        "mov.u64 b, own; cvta.local.u64 b, b; red.add.u32 [b], 1;",
        "red on local memory, which only its thread sees",
        None,
    ),
    "source size": (
        "add.u32 r, t, 0; cp.async.ca.shared.global [tile], [a], 16, r;",
        "cp.async of 16 bytes with a source size of 31",
        None,
    ),
    "copied from nowhere": (
        "add.u64 a, a, d; cp.async.ca.shared.global [tile], [a], 4;",
        "byte 64 of argument 0",
        16,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_hardware_would_trap_on_names_place_and_thread(name):
    body, words_of_it, thread = FAULTS[name]
    with pytest.raises(Fault) as caught:
        run(body, numpy.zeros(16, "u4"), head=".const .align 4 .b32 word = 5;")
    message = str(caught.value)
    assert words_of_it in message
    assert "PTX line" in message
    if thread is not None:
        assert re.search(rf"thread {thread}\)", message)


def test_a_short_source_only_needs_the_bytes_that_it_reads():
    source, out = numpy.arange(12, dtype="u1"), blank(16, "u1")
    body = (
        "mov.u32 r, {size}; cp.async.ca.shared.global [tile], [a], 16, r; cp.async.wait_all;"
        "ld.shared.v4.u32 {{r,s,u,v}}, [tile]; st.global.v4.u32 [b], {{r,s,u,v}};"
    )
    run(body.format(size=12), source, out, threads=1)
    assert out.tolist() == [*range(12), 0, 0, 0, 0]
    with pytest.raises(Fault, match="byte 12 of argument 0"):
        run(body.format(size=13), source, out, threads=1)


def test_another_blocks_memory_needs_the_cluster_space():
    kernel = """
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(unsigned* out) {
      __shared__ unsigned word;
      unsigned there, value;
      asm volatile("mapa.shared::cluster.u32 %0, %1, 1;"
                   : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(&word)));
      asm volatile("ld.SPACE.u32 %0, [%1];" : "=r"(value) : "r"(there));
      out[0] = value;
    }"""
    for space, allowed in (("shared::cluster", True), ("shared::cta", False)):
        program = compile_cuda(kernel.replace("SPACE", space))
        launch = (program.ptx, "k", 2, 1)
        if allowed:
            LAZY.launch(*launch, args=[numpy.zeros(1, "u4")])
        else:
            with pytest.raises(Fault, match="its own; use .shared::cluster"):
                LAZY.launch(*launch, args=[numpy.zeros(1, "u4")])


def test_a_value_and_its_barrier_lie_in_one_block():
    kernel = """
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k() {
      __shared__ unsigned word;
      __shared__ unsigned long long bar;
      unsigned there;
      asm volatile("mapa.shared::cluster.u32 %0, %1, 1;"
                   : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(&word)));
      if (blockIdx.x == 0)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], 1, [%1];"
                     :: "r"(there), "r"((unsigned)__cvta_generic_to_shared(&bar)));
    }"""
    with pytest.raises(Fault, match="map both addresses to the same rank"):
        LAZY.launch(compile_cuda(kernel).ptx, "k", 2, 1)


# ---- forms: what ptxas accepts for sm_90a, and what it refuses

ACCEPTED = """
ld.global.relaxed.gpu.u32 r, [a];
ld.volatile.global.L2::128B.u32 r, [a];
ld.global.L2::cache_hint.L1::evict_first.u32 r, [a], b;
ld.global.nc.ca.u32 r, [a];
ld.param::entry.u32 r, [pa];
ldu.global.v4.u32 {r,s,t,u}, [a];
st.mmio.relaxed.sys.global.u32 [a], r;
st.release.gpu.global.v4.u32 [a], {r,s,t,u};
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [r], {f,g}, [t];
red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32 [a], s, [b];
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.s32 [r], s, [t];
atom.global.v2.f32.add _, [a], {f,g};
atom.global.v8.bf16.max.noftz {h,i,h,i,h,i,h,i}, [a], {h,i,h,i,h,i,h,i};
atom.gpu.acq_rel.global.add.u32 r, [a], s;
atom.global.exch.b32 _, [a], r;
red.global.v4.f16x2.add.noftz.L2::cache_hint [a], {r,s,t,u}, b;
red.global.and.b32 [a], r;
cp.async.cg.shared.global.L2::cache_hint.L2::128B [r], [a], 16, s, b;
cp.async.ca.shared.global [r], [a], 16, !q;
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [r];
cp.async.wait_group 3;
cvta.to.param.u64 a, b;
cvta.shared::cluster.u64 a, b;
isspacep.param::entry q, a;
mapa.u32 r, s, t;
getctarank.shared::cluster.u64 r, a;
fence.acquire.sync_restrict::shared::cluster.cluster;
fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
fence.mbarrier_init.release.cluster;
fence.gpu;
membar.proxy.alias;
""".strip().splitlines()
REFUSED = """
ld.relaxed.gpu.global.ca.u32 r, [a];
ld.volatile.global.L1::evict_first.u32 r, [a];
ld.acquire.global.u32 r, [a];
ld.relaxed.gpu.local.u32 r, [own];
ld.volatile.const.u32 r, [a];
ld.mmio.relaxed.gpu.global.u32 r, [a];
ld.global.ca.L1::evict_first.u32 r, [a];
ld.global.u32 r, [a], b;
ld.global.L2::evict_last.u32 r, [a];
ld.global.lu.nc.u32 r, [a];
ld.nc.u32 r, [a];
ld.shared.L1::evict_first.u32 r, [tile];
ld.shared.L2::128B.u32 r, [tile];
ld.global.v4.b64 {a,b,c,d}, [a];
ld.global.f16 h, [a];
ldu.shared.u32 r, [tile];
st.global.ca.u32 [a], r;
st.acquire.gpu.global.u32 [a], r;
st.const.u32 [a], r;
st.global.v2.u32 [a], {_,r};
st.async.shared::cluster.mbarrier::complete_tx::bytes.u16 [r], h, [t];
st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.s64 [r], {a,b,a,b}, [t];
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.or.b64 [r], a, [t];
red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [r], s, [t];
atom.global.add.s64 a, [b], c;
atom.global.add.f16 h, [a], i;
atom.global.exch.f32 f, [a], g;
atom.shared.v2.f32.add {f,g}, [tile], {f,g};
atom.global.v2.f32.max {f,g}, [a], {f,g};
atom.sc.gpu.global.add.u32 r, [a], s;
atom.local.add.u32 r, [own], s;
atom.shared.add.L2::cache_hint.u32 r, [tile], s, b;
red.acq_rel.gpu.global.add.u32 [a], s;
red.global.cas.b32 [a], r, s;
cp.async.cg.shared.global [r], [a], 8;
cp.async.ca.shared::cluster.global [r], [a], 4;
cp.async.wait_group r;
cp.async.mbarrier.arrive.noinc.shared::cluster.b64 [r];
cvta.u64 a, b;
isspacep.param::func q, a;
mapa.shared.u32 r, s, t;
fence.sc;
fence.proxy.async.shared;
fence.mbarrier_init.release.cta;
membar.gpu;
""".strip().splitlines()


def assembled(statements: list[str]) -> str:
    """The compiler's log for statements of inline assembly."""
    lines = [DECLARED.replace("\n", " "), ".reg .b32 pa;", *statements]
    body = "\n".join(f'asm volatile("{line}\\n");' for line in lines)
    try:
        return compile_cuda(f'extern "C" __global__ void k() {{\n{body}\n}}').log
    except CompileError as error:
        return str(error)


def test_ptxas_agrees_about_the_forms():
    accepted = [line for line in ACCEPTED if "[pa]" not in line]
    assert "error" not in assembled(accepted)
    lines = re.findall(r"line (\d+); error", assembled(REFUSED))
    assert len(set(lines)) == len(REFUSED)


@pytest.mark.parametrize("statement", ACCEPTED)
def test_accepted_forms_are_executed(statement):
    run("ret;\n" + statement, numpy.zeros(4, "u4"))


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_forms_are_refused(statement):
    with pytest.raises(Unsupported, match=re.escape(statement[:-1])):
        run("ret;\n" + statement, numpy.zeros(4, "u4"))


def test_operands_of_the_cases_reach_the_edges():
    for kind in ("f16", "bf16", "f32", "f64"):
        bits = words(kind, 4096, 1)
        exponent = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}[kind]
        magnitude = bits & (1 << 8 * bits.itemsize - 1) - 1
        assert ((magnitude < exponent // 0x1F) & (magnitude != 0)).sum() > 100 or kind == "f64"
        assert (magnitude > exponent).sum() > 50
        assert (magnitude == exponent).sum() > 20
