"""Clocks and shadow against a brute force: a race is reported exactly where there is one.

The brute force keeps every access, and who comes behind whom as a set of all that happened before.
"""

from dataclasses import dataclass, field

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper.compile import compile_cuda
from hopper.emulator import Emulator, HazardError
from hopper.emulator.clocks import Clocks
from hopper.emulator.flow import reaches
from hopper.emulator.hazards import KINDS, Hazards
from hopper.emulator.ptx import parse
from hopper.emulator.register_watch import RegisterWatch
from hopper.emulator.shadow import Shadow
from hopper.emulator.watch import grain_of

LANES, BYTES, GRAIN = 128, 32, 4
THREADS = (0, 1, 2, 33, 127)


# ---- the brute force ----------------------------------------------------------------------------


@dataclass
class Access:
    """One access of one lane, or of an asynchronous unit that it started."""

    lane: int
    start: int
    stop: int
    writes: bool
    unit: str = ""  # "" for the thread itself, "copy", "bulk" or "wgmma"
    source: object = None
    count: int = 0
    strong: bool = False


@dataclass
class BruteForce:
    """``past[lane]``: numbers of all that happens before what the lane does next.

    ``excused[place]``: what was done there before its last strong store is compared with no later
    strong operation: one of a chain of them is looked at, and the others as if they knew its past.
    """

    past: list[set[int]] = field(default_factory=lambda: [set() for _ in range(LANES)])
    accesses: dict[int, Access] = field(default_factory=dict)
    fences: dict[int, set[int]] = field(default_factory=dict)
    waits: dict[int, tuple[object, int]] = field(default_factory=dict)
    held: dict[object, set[int]] = field(default_factory=dict)
    excused: dict[int, int] = field(default_factory=dict)
    number: int = 0

    def _next(self) -> int:
        self.number += 1
        return self.number

    def access(self, group: list[Access], pasts: list[set[int]] | None = None) -> set[str]:
        """Accesses of one instruction. Returns the kinds of their conflicts.

        ``pasts``: of all threads that issue it, where it is not one access a thread.
        """
        found = set()
        for i, one in enumerate(group):
            for past in pasts or [self.past[one.lane]]:
                for number, other in self.accesses.items():
                    found |= self._conflict(number, other, one, past)
            if any(self._clash(one, other) for other in group[:i]):
                found.add("shared-race")
        for one in group:
            number = self._next()
            self.accesses[number] = one
            if not one.unit:
                self.past[one.lane].add(number)
            if one.strong and one.writes:
                self.excused[one.start] = number
        return found

    def _clash(self, one: Access, other: Access) -> bool:
        overlap = one.start < other.stop and other.start < one.stop
        return overlap and (one.writes or other.writes) and not one.unit and not one.strong

    def _conflict(self, number: int, other: Access, one: Access, past: set[int]) -> set[str]:
        if not (one.start < other.stop and other.start < one.stop):
            return set()
        if not (one.writes or other.writes):
            return set()
        if one.strong and other.strong:
            return set()
        excused = one.strong and number <= self.excused.get(one.start, 0)
        if excused and other.unit in ("", "copy"):
            return set()
        if other.unit == "copy":
            return set() if self._waited(past, other.source, other.count) else {"copy-not-arrived"}
        if other.unit == "bulk":
            done = self._waited(past, other.source, other.count)
            return set() if done else {"store-overwritten"}
        if other.unit == "wgmma":
            done = [self._waited(past, ("warp", warp), other.count) for warp in range(4)]
            if all(done):
                return set()
            return {"one-warp-release"} if any(done) else {"operand-overwritten"}
        if number not in past:
            return {"shared-race"}
        if one.unit and not any(f in past and number in self.fences[f] for f in self.fences):
            return {"no-proxy-fence"}
        return set()

    def _waited(self, past: set[int], source: object, count: int) -> bool:
        return any(
            n in past and where == source and done >= count
            for n, (where, done) in self.waits.items()
        )

    def fence(self, lane: int) -> None:
        number = self._next()
        self.fences[number] = set(self.past[lane])
        self.past[lane].add(number)

    def wait(self, lanes, source: object, count: int) -> None:
        number = self._next()
        self.waits[number] = (source, count)
        for lane in lanes:
            self.past[lane].add(number)

    def release(self, lane: int, to: object) -> None:
        self.held.setdefault(to, set()).update(self.past[lane])

    def acquire(self, lane: int, to: object) -> None:
        self.past[lane] |= self.held.get(to, set())

    def meet(self) -> None:
        everything = set().union(*self.past)
        self.past = [set(everything) for _ in range(LANES)]


# ---- both at once -------------------------------------------------------------------------------

threads = st.sampled_from(THREADS)
places = st.integers(0, BYTES // GRAIN - 1).map(lambda i: i * GRAIN)
spans = st.sampled_from([(0, 16), (16, 32), (0, 32)])
sources = st.integers(0, 1)
groups = st.lists(threads, min_size=1, max_size=3, unique=True).flatmap(
    lambda lanes: st.tuples(
        st.just(sorted(lanes)), st.lists(places, min_size=len(lanes), max_size=len(lanes))
    )
)
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["read", "write"]), groups, st.sampled_from([4, 8])),
    st.tuples(st.sampled_from(["read strongly", "write strongly"]), groups),
    st.tuples(st.sampled_from(["release", "acquire"]), threads, sources),
    st.tuples(st.just("fence"), threads),
    st.tuples(st.just("meet")),
    st.tuples(st.just("copy"), threads, spans, sources),
    st.tuples(st.just("land"), sources),
    st.tuples(st.just("wait copy"), threads, sources),
    st.tuples(st.just("bulk"), threads, spans),
    st.tuples(st.just("wait bulk"), threads),
    st.tuples(st.just("wgmma"), spans),
    st.tuples(st.just("wait wgmma"), st.integers(0, 3)),
)


class Both:
    """Feeds the same events to the shadow and to the brute force."""

    def __init__(self) -> None:
        self.clocks = Clocks(1, LANES)
        self.reported: set[str] = set()
        self.shadow = Shadow(self.clocks, BYTES, GRAIN, lambda kind, *_: self.reported.add(kind))
        self.brute = BruteForce()
        self.now = 0
        self.held = {}
        self.phases, self.started = [0, 0], [0, 0]
        self.bulks = dict.fromkeys(range(LANES), 0)
        self.wgmmas = 0

    def step(self, name: str, *what) -> set[str]:
        """One event; the kinds that the brute force finds. The shadow's are ``reported``."""
        self.now += 1
        return getattr(self, "_" + name.replace(" ", "_"))(*what) or set()

    def _ordinary(self, group, size: int, writes: bool, strong: bool = False) -> set[str]:
        lanes, at = group
        at = [min(place // size * size, BYTES - size) for place in at]
        act = getattr(self.shadow, ("write" if writes else "read") + "_strongly" * strong)
        act(numpy.array(lanes), numpy.array(at), size, self.now)
        return self.brute.access(
            [
                Access(n, place, place + size, writes, strong=strong)
                for n, place in zip(lanes, at, strict=True)
            ]
        )

    def _read_strongly(self, group) -> set[str]:
        found = self._ordinary(group, GRAIN, False, True)
        for lane, place in zip(*group, strict=True):
            self._acquire(lane, ("strong", place))
        return found

    def _write_strongly(self, group) -> set[str]:
        found = self._ordinary(group, GRAIN, True, True)
        for lane, place in zip(*group, strict=True):
            self._acquire(lane, ("strong", place))
            self._release(lane, ("strong", place))
        return found

    def _read(self, group, size: int) -> set[str]:
        return self._ordinary(group, size, False)

    def _write(self, group, size: int) -> set[str]:
        return self._ordinary(group, size, True)

    def _release(self, lane: int, to: object) -> None:
        known = self.held.setdefault(to, self.clocks.nothing())
        self.clocks.release(numpy.array([lane]), self.now, known)
        self.brute.release(lane, to)

    def _acquire(self, lane: int, to: object) -> None:
        if to in self.held:
            self.clocks.acquire(numpy.array([lane]), self.held[to])
            self.brute.acquire(lane, to)

    def _fence(self, lane: int) -> None:
        self.clocks.fence_proxy(numpy.array([lane]), self.now)
        self.brute.fence(lane)

    def _meet(self) -> None:
        known = self.clocks.nothing()
        self.clocks.release(numpy.arange(LANES), self.now, known)
        self.clocks.acquire(numpy.arange(LANES), known)
        self.brute.meet()

    def _copy(self, lane: int, span, source: int) -> set[str]:
        self.started[source] = self.phases[source] + 1
        count, name = self.started[source], ("mbarrier", source)
        self.shadow.async_write(lane, *span, name, count, self.now)
        return self.brute.access([Access(lane, *span, True, "copy", name, count)])

    def _land(self, source: int) -> None:
        self.phases[source] = self.started[source]

    def _wait_copy(self, lane: int, source: int) -> None:
        name, count = ("mbarrier", source), self.phases[source]
        self.clocks.learn(numpy.array([lane]), name, count)
        self.brute.wait([lane], name, count)

    def _bulk(self, lane: int, span) -> set[str]:
        self.bulks[lane] += 1
        count, name = self.bulks[lane], ("bulk", lane)
        self.shadow.bulk_read(lane, *span, count, name, 1)
        return self.brute.access([Access(lane, *span, False, "bulk", name, count)])

    def _wait_bulk(self, lane: int) -> None:
        self.clocks.learn(numpy.array([lane]), ("bulk", lane), self.bulks[lane])
        self.brute.wait([lane], ("bulk", lane), self.bulks[lane])

    def _wgmma(self, span) -> set[str]:
        self.wgmmas += 1
        chunks = numpy.arange(span[0] // 16, span[1] // 16)
        self.shadow.operand(numpy.arange(LANES), chunks, self.wgmmas)
        one = Access(0, *span, False, "wgmma", None, self.wgmmas)
        pasts = {frozenset(past) for past in self.brute.past}
        return self.brute.access([one], list(pasts))

    def _wait_wgmma(self, warp: int) -> None:
        lanes = numpy.arange(32 * warp, 32 * warp + 32)
        column = int(self.clocks.warps(0, 0)[warp])
        self.clocks.learn_columns(lanes, column, self.wgmmas)
        self.brute.wait(lanes.tolist(), ("warp", warp), self.wgmmas)


@settings(max_examples=600, deadline=None)
@given(st.lists(EVENTS, min_size=2, max_size=24))
def test_the_shadow_reports_a_race_exactly_when_the_brute_force_says_so(events):
    both = Both()
    both.step("meet")
    for event in events:
        truth = both.step(*event)
        found = both.reported - {"shared-unwritten"}
        assert bool(found) == bool(truth), (event, found, truth)
        assert found <= truth, (event, found, truth)
        if found:
            return


def orders(*events) -> set[str]:
    """What the shadow reports of a sequence, of which the brute force says the same."""
    both = Both()
    truth = set().union(*(both.step(*event) for event in events))
    assert both.reported - {"shared-unwritten"} <= truth
    return both.reported


def one(lane: int, place: int = 0) -> tuple[list[int], list[int]]:
    return [lane], [place]


def test_each_order_of_two_accesses_by_its_name():
    written = ("write", one(0), 4)
    handed = (("release", 0, 0), ("acquire", 33, 0))
    assert orders(written, ("read", one(33), 4)) == {"shared-race"}
    assert orders(written, *handed, ("read", one(33), 4)) == set()
    assert orders(written, *handed, ("bulk", 33, (0, 16))) >= {"no-proxy-fence"}
    fenced = (written, ("fence", 0), *handed)
    assert "no-proxy-fence" not in orders(*fenced, ("bulk", 33, (0, 16)))
    behind = (written, *handed, ("fence", 33))
    assert "no-proxy-fence" not in orders(*behind, ("bulk", 33, (0, 16)))
    # A fence before the store says nothing of the store.
    early = (("fence", 0), written, *handed)
    assert "no-proxy-fence" in orders(*early, ("copy", 33, (0, 16), 0))


def test_strong_operations_race_with_weak_ones_and_units_only():
    strong, write = ("write strongly", one(33)), ("write", one(0), 4)
    load = ("read strongly", one(33))
    assert orders(("write strongly", one(0)), strong, load) == set()
    assert orders(write, strong) == {"shared-race"}
    assert orders(write, load) == {"shared-race"}
    assert orders(write, ("meet",), load, write) == {"shared-race"}
    assert orders(write, ("meet",), ("read", one(1), 4), strong) == {"shared-race"}
    assert orders(write, ("meet",), ("read", one(1), 4), load, ("meet",), strong, load) == set()
    assert orders(("copy", 0, (0, 16), 0), strong) == {"copy-not-arrived"}
    assert orders(("wgmma", (0, 16)), strong) == {"operand-overwritten", "shared-unwritten"}
    assert orders(("bulk", 0, (0, 16)), strong) == {"store-overwritten", "shared-unwritten"}
    full = ("write", ([0, 1, 2, 33], [0, 4, 8, 12]), 4)
    assert "no-proxy-fence" in orders(full, ("meet",), load, ("meet",), ("copy", 0, (0, 16), 0))


def test_a_read_that_a_later_reader_does_not_know_of_is_not_forgotten():
    events = [("write", one(0), 4), ("meet",), ("read", one(1), 4), ("release", 1, 0)]
    events += [("read", one(2), 4), ("release", 2, 1), ("acquire", 33, 1)]
    assert orders(*events, ("write", one(33), 4)) == {"shared-race"}
    assert orders(*events, ("acquire", 33, 0), ("write", one(33), 4)) == set()


def test_all_lanes_that_read_together_are_remembered():
    events = [("write", one(0), 4), ("meet",), ("read", ([1, 2, 33], [0, 0, 0]), 4)]
    events += [("release", 2, 0), ("release", 33, 0), ("acquire", 127, 0)]
    assert orders(*events, ("write", one(127), 4)) == {"shared-race"}
    assert orders(*events, ("release", 1, 0), ("acquire", 127, 0), ("write", one(127), 4)) == set()


def test_every_thread_of_a_warpgroup_must_know_of_what_its_wgmma_reads():
    events = [("write", one(0), 4), ("fence", 0), ("release", 0, 0)]
    assert "shared-race" in orders(*events, ("acquire", 33, 0), ("wgmma", (0, 16)))
    assert orders(*events, ("meet",), ("wgmma", (0, 16))) == {"shared-unwritten"}


def test_two_lanes_of_one_instruction_write_one_place():
    assert orders(("write", ([0, 1], [0, 0]), 4)) == {"shared-race"}
    assert orders(("write", ([0, 1], [0, 4]), 4)) == set()
    assert orders(("write", ([0, 127], [8, 12]), 8)) == {"shared-race"}


def test_the_four_warps_wait_each_for_itself():
    read = [("wgmma", (0, 16)), *(("wait wgmma", warp) for warp in range(3))]
    late = ("copy", 127, (0, 16), 0)
    assert orders(("wgmma", (0, 16)), late) == {"shared-unwritten", "operand-overwritten"}
    # The fourth warp has been told nothing.
    assert orders(*read, late) == {"shared-unwritten", "operand-overwritten"}
    handed = [("release", lane, 0) for lane in (0, 33)] + [("acquire", 127, 0)]
    assert orders(*read, *handed, late) == {"shared-unwritten", "one-warp-release"}
    assert orders(*read, ("wait wgmma", 3), ("meet",), late) == {"shared-unwritten"}


def test_an_mbarrier_must_be_there_when_it_is_used():
    both = Both()
    lane, place = numpy.array([0]), numpy.array([8])
    # A copy may start before the initialisation of a barrier in another block, and land behind it.
    both.shadow.visible(lane, place, 1)
    assert both.reported == {"barrier-not-visible"}
    both.reported.clear()
    both.shadow.write(lane, place, 8, 2)
    both.shadow.guard(8, True)
    both.shadow.visible(lane, place, 3)
    assert both.reported == set()
    both.shadow.visible(numpy.array([33]), place, 4)
    assert both.reported == {"barrier-not-visible"}
    both.shadow.write(lane, numpy.array([12]), 4, 5)
    assert "barrier-overwritten" in both.reported
    both.shadow.guard(8, False)
    both.reported.clear()
    both.shadow.write(lane, numpy.array([12]), 4, 6)
    assert both.reported == set()


# ---- wgmma's registers --------------------------------------------------------------------------

WGMMAS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %r<16>;
.reg .b64 %rd<3>;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r0, %r1, %r2, %r3}, AND_A, %rd1, 1, 1, 1, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 THEN, %rd1, 1, 1, 1, 0;
ret;
}"""
FIRST_A, OTHER = "{%r4, %r5, %r6, %r7}", "{%r8, %r9, %r10, %r11}"
ACCUMULATORS = "{%r0, %r1, %r2, %r3}"


@pytest.mark.parametrize(
    ("then", "retired", "found"),
    [
        (f"{ACCUMULATORS}, {FIRST_A}", 0, []),
        (f"{OTHER}, {FIRST_A}", 0, []),
        (f"{OTHER}, {ACCUMULATORS}", 0, ["accumulates in"]),
        (f"{OTHER}, {ACCUMULATORS}", 1, []),
        (f"{FIRST_A}, {OTHER}", 0, ["reads"]),
        (f"{FIRST_A}, {OTHER}", 1, []),
    ],
)
def test_a_wgmma_uses_no_register_that_a_pending_one_needs_otherwise(then, retired, found):
    code = parse(WGMMAS.replace("AND_A", FIRST_A).replace("THEN", then), "k")
    told = []
    watch = RegisterWatch(code, 128, lambda kind, words, lane: told.append((kind, words)), int)
    lanes = slice(0, 128)
    watch.fence(lanes)
    watch.issue(code.code[0], lanes, 1)
    watch.retire(lanes, retired)
    watch.issue(code.code[1], lanes, 2)
    assert [kind for kind, _ in told] == ["accumulator-pending"] * len(found)
    assert all(word in words for word, (_, words) in zip(found, told, strict=True))


@pytest.mark.parametrize(
    "access",
    [
        "atomicAdd(&sum, 1u);",
        "*(volatile unsigned*)&sum = 1;",
        "out[1] = *(volatile unsigned*)&sum;",
    ],
)
def test_a_strong_access_races_with_an_ordinary_store(access):
    body = f"if (threadIdx.x == 0) sum = in[1]; SYNC if (threadIdx.x == 64) {{ {access} }}"
    numbers, out = numpy.arange(128, dtype="u4"), numpy.zeros(2, "u4")
    for sync, found in (("", ["shared-race"]), ("__syncthreads();", [])):
        run = Emulator(on_hazard="collect").launch(
            kernel(body.replace("SYNC", sync)), "quiet", 1, 128, args=[numbers, out]
        )
        assert [h.kind for h in run.hazards] == found


# ---- what a kernel may do without being told off ------------------------------------------------

QUIET = {
    "a lock of atomics": """
        if (threadIdx.x % 32 == 0) {
          while (atomicCAS(&word, 0u, 1u) != 0u) {}
          __threadfence_block();
          sum = sum + in[threadIdx.x];
          __threadfence_block();
          atomicExch(&word, 0u);
        }""",
    "a volatile flag": """
        if (threadIdx.x == 0) {
          sum = in[1];
          __threadfence_block();
          *(volatile unsigned*)&word = 1;
        } else if (threadIdx.x == 64) {
          while (*(volatile unsigned*)&word == 0) {}
          __threadfence_block();
          sum = sum + 1;
        }""",
    "sums by atomicAdd": """
        atomicAdd(&sum, in[threadIdx.x]);""",
    "a warp that hands over by __syncwarp": """
        if (threadIdx.x < 32) {
          if (threadIdx.x == 7) sum = in[7];
          __syncwarp();
          if (threadIdx.x == 9) sum = sum + 1;
        }""",
    "threads that leave before a barrier of the others": """
        if (threadIdx.x >= 72) return;
        if (threadIdx.x == 71) sum = in[1];""",
    "one thread writes again what it wrote": """
        if (threadIdx.x == 5) { sum = in[1]; sum = sum + in[2]; }""",
}


def kernel(body: str, name: str = "quiet") -> str:
    return compile_cuda(
        f"""extern "C" __global__ void {name}(const unsigned* in, unsigned* out) {{
        __shared__ unsigned word, sum;
        if (threadIdx.x == 0) word = sum = 0;
        __syncthreads();
        {body}
        __syncthreads();
        if (threadIdx.x == 0) out[0] = sum;
        }}""",
        name,
    ).ptx


@pytest.mark.parametrize("name", QUIET)
def test_synchronisation_by_hand_is_no_hazard(name):
    for seed in range(3):
        how = {"schedule": "random", "seed": seed} if seed else {}
        numbers, out = numpy.arange(128, dtype="u4"), numpy.zeros(1, "u4")
        run = Emulator(**how).launch(
            kernel(QUIET[name]), "quiet", (2, 1, 1), (128, 1, 1), args=[numbers, out]
        )
        assert run.hazards == ()


def test_the_same_without_its_barrier_is_one():
    loud = kernel(QUIET["a warp that hands over by __syncwarp"].replace("__syncwarp();", ""))
    numbers, out = numpy.arange(128, dtype="u4"), numpy.zeros(1, "u4")
    with pytest.raises(HazardError, match="shared-race"):
        Emulator().launch(loud, "quiet", (1, 1, 1), (128, 1, 1), args=[numbers, out])


# Thread 64 hands a word to thread 32 by an mbarrier.
HANDED = """
  __shared__ unsigned long long bar;
  unsigned at = __cvta_generic_to_shared(&bar), done = 0;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
  __syncthreads();
  if (threadIdx.x == 64) {
    sum = in[7];
    asm volatile("BEFORE mbarrier.arrive.ARRIVE.shared.b64 _, [%0];" :: "r"(at) : "memory");
  }
  if (threadIdx.x == 32) {
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.WAIT.shared.b64 p, [%1], 0;"
                   " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    asm volatile("BEHIND" ::: "memory");
    sum = sum + 1;
  }"""
RELEASE, ACQUIRE = "release.cta", "acquire.cta"


@pytest.mark.parametrize(
    ("before", "arrive", "wait", "behind", "races"),
    [
        ("", RELEASE, ACQUIRE, "", False),
        ("", "relaxed.cta", ACQUIRE, "", True),
        ("fence.acq_rel.cta;", "relaxed.cta", ACQUIRE, "", False),
        ("fence.release.cta;", "relaxed.cta", ACQUIRE, "", False),
        ("fence.acquire.cta;", "relaxed.cta", ACQUIRE, "", True),
        ("fence.acq_rel.cta;", "relaxed.cluster", ACQUIRE, "", True),
        ("fence.acq_rel.cluster;", "relaxed.cluster", ACQUIRE, "", False),
        ("", RELEASE, "relaxed.cta", "", True),
        ("", RELEASE, "relaxed.cta", "fence.acq_rel.cta;", False),
        ("", RELEASE, "relaxed.cta", "fence.release.cta;", True),
    ],
)
def test_a_relaxed_operation_orders_nothing_without_a_fence(before, arrive, wait, behind, races):
    text = HANDED.replace("BEFORE", before).replace("BEHIND", behind)
    text = kernel(text.replace("ARRIVE", arrive).replace("WAIT", wait))
    numbers, out = numpy.arange(128, dtype="u4"), numpy.zeros(1, "u4")
    how = Emulator(on_hazard="collect")
    run = how.launch(text, "quiet", (1, 1, 1), (128, 1, 1), args=[numbers, out])
    assert {h.kind for h in run.hazards} == ({"shared-race"} if races else set())


# Each of two blocks arrives at the other's mbarrier, and may read a word there.
ACROSS = """extern "C" __global__ void __cluster_dims__(2) across(unsigned* out) {
  __shared__ unsigned long long bar;
  __shared__ unsigned word;
  unsigned at = __cvta_generic_to_shared(&bar), there = __cvta_generic_to_shared(&word), sum = 0;
  if (threadIdx.x == 0) {
    word = 5;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
    FENCE
  }
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x == 0)
    asm volatile("{ .reg .b32 to; mapa.shared::cluster.u32 to, %0, %1;"
                 " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [to]; }"
                 :: "r"(at), "r"(blockIdx.x ^ 1) : "memory");
  if (READS && threadIdx.x == 0)
    asm volatile("{ .reg .b32 to; mapa.shared::cluster.u32 to, %1, %2;"
                 " ld.shared::cluster.u32 %0, [to]; }"
                 : "=r"(sum) : "r"(there), "r"(blockIdx.x ^ 1) : "memory");
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}"""
INIT = 'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");'


@pytest.mark.parametrize(
    ("fence", "reads", "found"),
    [
        (INIT, 0, set()),
        ("", 0, {"barrier-not-visible"}),
        (INIT, 1, {"shared-race"}),
        ('asm volatile("fence.acq_rel.cluster;" ::: "memory");', 1, set()),
    ],
)
def test_the_fence_of_initialisations_makes_nothing_else_known(fence, reads, found):
    text = ACROSS.replace("FENCE", fence).replace("READS", str(reads))
    run = Emulator(on_hazard="collect").launch(
        compile_cuda(text, "across").ptx, "across", 2, 32, args=[numpy.zeros(2, "u4")]
    )
    assert {h.kind for h in run.hazards} == found


def test_the_grain_is_the_smallest_access_to_shared_memory():
    assert grain_of(parse(kernel("sum = 1;"), "quiet")) == 4
    assert grain_of(parse(kernel("((volatile char*)&sum)[threadIdx.x % 4] = 1;"), "quiet")) == 1


COPIES_OF_FOUR = """extern "C" __global__ void copies(const unsigned* in, unsigned* out) {
  __shared__ __align__(16) unsigned tile[128];
  unsigned to = __cvta_generic_to_shared(&tile[PLACE]), a, b, c, d;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :: "r"(to), "l"(in + threadIdx.x) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  unsigned row = __cvta_generic_to_shared(&tile[threadIdx.x % 32 * 4]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(row) : "memory");
  out[threadIdx.x] = a + b + c + d;
}"""


def test_neighbouring_copies_of_four_bytes_are_no_race():
    numbers, out = numpy.arange(128, dtype="u4"), numpy.zeros(128, "u4")

    def run(place: str):
        ptx = compile_cuda(COPIES_OF_FOUR.replace("PLACE", place), "copies").ptx
        how = Emulator(on_hazard="collect")
        return how.launch(ptx, "copies", 1, 128, args=[numbers, out]).hazards

    assert run("threadIdx.x") == ()
    assert "another thread's copy" in run("threadIdx.x / 2 * 2")[0].message


MANY_COPIES = """extern "C" __global__ void copies(const unsigned* in, unsigned* out) {
  __shared__ unsigned long long bars[40];
  __shared__ __align__(16) unsigned tiles[40][4];
  for (int i = 0; threadIdx.x == 0 && i < 40; ++i) {
    unsigned bar = __cvta_generic_to_shared(&bars[i]), to = __cvta_generic_to_shared(tiles[i]);
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 16;" :: "r"(bar) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], 16, [%2];" :: "r"(to), "l"(in), "r"(bar) : "memory");
  }
  __syncthreads();
  for (int i = 0; i < 40; ++i) {
    unsigned bar = __cvta_generic_to_shared(&bars[i]), done = 0;
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0;"
                   " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
    out[threadIdx.x] += tiles[i][threadIdx.x % 4];
  }
}"""


@pytest.mark.parametrize("tma", ["lazy", "eager"])
def test_there_may_be_any_number_of_mbarriers_under_way(tma):
    """The watch's clocks have as many columns as they need, and grow in the middle of a copy."""
    numbers, out = numpy.arange(4, dtype="u4"), numpy.zeros(32, "u4")
    run = Emulator(on_hazard="collect", tma=tma).launch(
        compile_cuda(MANY_COPIES, "copies").ptx, "copies", 1, 32, args=[numbers, out]
    )
    assert run.hazards == () and (out == numpy.arange(32) % 4 * 40).all()


def test_what_can_follow_what():
    code = parse(kernel("if (threadIdx.x < 5) { __syncthreads(); sum = 3; return; }"), "quiet")
    barriers = [x.index for x in code.code if x.parts[0] in ("bar", "barrier")]
    first, branch, last = barriers[0], *sorted(barriers[1:])
    assert reaches(code, 0, {first}) and reaches(code, first, {branch})
    assert reaches(code, first, {last}) and not reaches(code, branch + 1, {last})
    assert not reaches(code, last + 1, {first})


def test_a_kind_is_noted_once_an_instruction():
    x = parse(kernel("sum = 1;"), "quiet").code[0]
    found = Hazards(collect=True)
    for _ in range(2):
        found.report("shared-race", "told", x, lambda: "who")
    found.report("expect-tx", "told", x, lambda: "who")
    assert [h.kind for h in found.all] == ["shared-race", "expect-tx"]
    strict = Hazards(collect=False)
    strict.report("swizzle-unaligned", "told", x, lambda: "who")
    assert [h.warning for h in strict.all] == [True]
    with pytest.raises(HazardError):
        strict.report("shared-race", "told", x, lambda: "who")


def test_every_rule_says_where_it_is_written_and_what_to_do():
    for name, kind in KINDS.items():
        assert name == kind.name
        assert kind.rule and kind.source and kind.help
    assert "cp.async.wait_group" in KINDS["copy-not-arrived"].rule
    assert "mbarrier" in KINDS["group-never-waited"].help
    assert "living" in KINDS["barrier-divergence"].rule
