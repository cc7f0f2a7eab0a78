"""What the hardware leaves silent: broken rules of the asynchronous instructions, each with a name.

A hazard is not an error of the emulator's execution: the kernel may well have given the right
result, here or on a GPU. It says that nothing guarantees the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hopper.emulator.errors import EmulatorError

ON_HAZARD = ("raise", "collect", "ignore")


@dataclass(frozen=True)
class Kind:
    """A rule: what it demands, where it is written, and what to do where it is broken."""

    name: str
    rule: str
    source: str
    help: str


_ASYNC = "PTX ISA, Memory Consistency Model: proxies"
_WGMMA = "PTX ISA, Asynchronous wgmma instructions"
_MBARRIER = "PTX ISA, mbarrier"
_BULK = "PTX ISA, cp.async.bulk"

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "shared-race",
            "two threads access the same shared memory, one of them writes, and nothing orders "
            "the two accesses",
            "PTX ISA, Memory Consistency Model: causality order",
            "put a barrier between them: __syncthreads(), __syncwarp() or an mbarrier",
        ),
        Kind(
            "shared-unwritten",
            "shared memory is read that nobody has written",
            "CUDA C++ Programming Guide, shared memory",
            "write it first, or correct the address",
        ),
        Kind(
            "copy-not-arrived",
            "what an asynchronous copy writes may be accessed only behind a wait for the phase "
            "of its mbarrier",
            _BULK,
            "wait for the mbarrier that the copy reports to, with the parity of its phase",
        ),
        Kind(
            "operand-overwritten",
            "shared memory may be overwritten only when the wgmmas that read it have retired",
            _WGMMA,
            "wait_group first, in every warp of the warpgroup, then the barrier that frees it",
        ),
        Kind(
            "store-overwritten",
            "the source of a bulk store may be overwritten only when it has been read",
            _BULK,
            "cp.async.bulk.wait_group.read by the thread that committed it, then a barrier",
        ),
        Kind(
            "no-proxy-fence",
            "ordinary and asynchronous accesses to the same shared memory are ordered only across "
            "a fence.proxy.async",
            _ASYNC,
            "fence.proxy.async by the thread that made the ordinary access, before the barrier",
        ),
        Kind(
            "barrier-not-visible",
            "an mbarrier may be used only by threads to which its initialisation is visible",
            _MBARRIER,
            "__syncthreads() behind mbarrier.init; in a cluster fence.mbarrier_init and a cluster "
            "barrier",
        ),
        Kind(
            "barrier-overwritten",
            "the memory of an mbarrier that is in use holds nothing else",
            _MBARRIER,
            "keep data out of its 8 bytes, or mbarrier.inval it first",
        ),
        Kind(
            "expect-tx",
            "the bytes announced in a phase are the bytes that its copies bring",
            _MBARRIER,
            "announce box bytes × element bytes of every copy of the phase, zero fill included",
        ),
        Kind(
            "accumulator-pending",
            "accumulators, and A where it is in registers, are off limits until wait_group has "
            "retired the group",
            _WGMMA,
            "commit_group and wait_group before the registers are touched",
        ),
        Kind(
            "no-wgmma-fence",
            "wgmma.fence orders accesses to a wgmma's registers before it",
            _WGMMA,
            "wgmma.fence before the first wgmma, and again when its registers were touched",
        ),
        Kind(
            "group-never-waited",
            "a kernel waits for what it has started asynchronously before it ends",
            _BULK,
            "wait_group 0 before the thread exits",
        ),
        Kind(
            "peer-gone",
            "a block may leave only when no other block of its cluster accesses its shared memory",
            "CUDA C++ Programming Guide, distributed shared memory",
            "a cluster barrier at the end of the kernel",
        ),
    )
}


@dataclass(frozen=True)
class Hazard:
    """A broken rule, once for each instruction that breaks it.

    ``kind``: a key of KINDS; ``rule``: what it demands. ``ptx_line``: of the instruction that was
    found out; ``source_line``: in CUDA C++, such as "v1_wgmma.cu:93", empty without line
    information. ``threads``: who. ``message``: what happened, and what to do.
    """

    kind: str
    rule: str
    ptx_line: int
    source_line: str
    threads: str
    message: str

    def __str__(self) -> str:
        where = self.source_line or f"PTX line {self.ptx_line}"
        return f"{where}: {self.kind}: {self.message} ({self.threads})"


class HazardError(EmulatorError):
    """The first hazard of a run, where hazards raise."""

    def __init__(self, hazard: Hazard) -> None:
        super().__init__(str(hazard))
        self.hazard = hazard


@dataclass
class Hazards:
    """Those found so far. ``collect``: go on behind one, instead of raising it."""

    collect: bool
    found: dict[tuple[str, int], Hazard]

    def report(
        self, kind: str, told: str, ptx_line: int, source_line: str, threads: Callable[[], str]
    ) -> None:
        """Note a hazard, a kind once an instruction. Raises HazardError unless collecting."""
        if (kind, ptx_line) in self.found:
            return
        rule = KINDS[kind]
        hazard = Hazard(
            kind, rule.rule, ptx_line, source_line, threads(), f"{told}; {rule.rule}; {rule.help}"
        )
        self.found[kind, ptx_line] = hazard
        if not self.collect:
            raise HazardError(hazard)
