"""What the hardware leaves silent: broken rules of the asynchronous instructions, each with a name.

A hazard is not an error of the emulator's execution: the kernel may well have given the right
result, here or on a GPU. It says that nothing guarantees the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hopper.emulator.errors import EmulatorError
from hopper.emulator.ptx import Instruction

ON_HAZARD = ("raise", "collect", "ignore")


@dataclass(frozen=True)
class Kind:
    """A rule: what it demands, where it is written, and what to do where it is broken.

    ``warning``: the kernel is right on the hardware that was asked, and no document promises it; a
    warning is listed and never raised.
    """

    name: str
    rule: str
    source: str
    help: str
    warning: bool = False


_ASYNC = "PTX ISA, Memory Consistency Model: proxies"
_WGMMA = "PTX ISA, Asynchronous wgmma instructions"
_MBARRIER = "PTX ISA, mbarrier"
_BULK = "PTX ISA, cp.async.bulk"
_BAR = "PTX ISA, bar, barrier"
_LAYOUT = "PTX ISA, Asynchronous wgmma instructions: shared memory layout, matrix descriptor"
_SETMAXNREG = "PTX ISA, setmaxnreg"
_ADDRESSES = "PTX ISA, Addresses as operands, Vectors and alignment"
_LAUNCH = "CUDA C++ Programming Guide, programmatic dependent launch; PTX ISA, griddepcontrol"
_CLUSTER = "CUDA C++ Programming Guide, distributed shared memory"

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
            "of its mbarrier, or cp.async.wait_group",
            "PTX ISA, cp.async.bulk; cp.async",
            "wait for the mbarrier that the copy reports to, with the parity of its phase; for "
            "cp.async by cp.async.wait_group, in the thread that copied, then a barrier",
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
            "shared memory lives as long as its block: a block ends only when what it has started "
            "there asynchronously is over",
            "CUDA C++ Programming Guide, shared memory: lifetime of the block",
            "wait_group 0 before the thread exits, or wait for the mbarrier's phase",
        ),
        Kind(
            "peer-gone",
            "a block may leave only when no other block of its cluster accesses its shared memory",
            _CLUSTER,
            "a cluster barrier at the end of the kernel",
        ),
        Kind(
            "one-warp-release",
            "each warp waits for its own groups; the PTX ISA is silent about what one warp's "
            "wait_group says of the operands that its warpgroup's other warps read",
            _WGMMA,
            "free the operands behind the wait_group of all four warps: let each warp arrive",
            warning=True,
        ),
        Kind(
            "launch-not-waited",
            "a launch that may begin before the last one has ended touches global memory only "
            "behind a wait for it",
            _LAUNCH,
            "griddepcontrol.wait before the first access, in the thread that makes it or in one "
            "that it waits for",
        ),
        Kind(
            "swizzle-unaligned",
            "a swizzled tile starts on a multiple of its swizzle atom (1024, 512 or 256 bytes for "
            "a span of 128, 64 or 32), or the descriptor's base offset says how far behind one",
            _LAYOUT,
            "round the start of each stage up; without, writer and reader agree only because both "
            "permute by absolute addresses (observed on an H200)",
            warning=True,
        ),
        Kind(
            "descriptor",
            "a matrix descriptor's fields lie where the format has them, with values that its mode "
            "allows",
            _LAYOUT,
            "mask the start address to 18 bits, shift lengths right by 4, build it in one function",
        ),
        Kind(
            "shared-out-of-bounds",
            "a block accesses only the shared memory that it was launched with",
            "CUDA C++ Programming Guide, shared memory",
            "pass more shared_bytes to the launch, or correct the address",
        ),
        Kind(
            "global-out-of-bounds",
            "a kernel accesses only the arrays that were passed to it",
            "CUDA C++ Programming Guide, device memory accesses",
            "guard the access at the edges of the problem, or pass a larger array",
        ),
        Kind(
            "misaligned",
            "an address is a multiple of the bytes that are accessed there",
            _ADDRESSES,
            "align the array, and keep the pitch of its rows a multiple of the access",
        ),
        Kind(
            "tensor-map",
            "a tensor map is passed by value in const __grid_constant__ memory, and is used with "
            "the rank that it was made for and with corners that TMA accepts",
            "PTX ISA, Tensors; CUDA driver API, Tensor Map Object Management",
            "declare it const __grid_constant__, and pass &map",
        ),
        Kind(
            "partial-warpgroup",
            "wgmma and setmaxnreg are executed by all 128 threads of an aligned warpgroup, at one "
            "instruction",
            _WGMMA,
            "branch on threadIdx.x / 128 only, and let no thread leave before",
        ),
        Kind(
            "register-budget",
            "the registers that warpgroups hold together are those that the block was launched "
            "with",
            _SETMAXNREG,
            "let other warpgroups give up (dec) at least what this one takes (inc)",
        ),
        Kind(
            "barrier-divergence",
            "__syncthreads() is executed by all living threads of the block, and by the threads of "
            "a warp at one instruction",
            f"{_BAR}; CUDA C++ Programming Guide, synchronization functions",
            "move it out of the branch, or use a named barrier with a count of threads",
        ),
        Kind(
            "deadlock",
            "whoever waits is woken: each phase gets its arrivals and bytes, each barrier its "
            "threads",
            _MBARRIER,
            "compare parities, counts of arrivals and bytes with what the report says is missing",
        ),
        Kind(
            "never-ends",
            "a kernel ends",
            "CUDA C++ Programming Guide",
            "see which loop spins and who should end it; if it only takes longer than step_limit, "
            "raise that",
        ),
        Kind(
            "fault",
            "an instruction does what its description allows",
            "PTX ISA",
            "see the message",
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

    @property
    def warning(self) -> bool:
        """Whether the kernel is right all the same, on the hardware that was asked."""
        return KINDS[self.kind].warning

    def __str__(self) -> str:
        where = self.source_line or f"PTX line {self.ptx_line}"
        return f"{where}: {self.kind}: {self.message} ({self.threads})"


class HazardError(EmulatorError):
    """The first hazard of a run, where hazards raise."""

    def __init__(self, hazard: Hazard) -> None:
        super().__init__(str(hazard))
        self.hazard = hazard


def source_line(x: Instruction) -> str:
    """Where the reader wrote an instruction: "kernel.cu:93", of the call if it came inlined.

    Empty without line information.
    """
    if x.source is None:
        return ""
    return str(x.source.outermost)


def hazard(kind: str, message: str, x: Instruction, threads: str) -> Hazard:
    """The broken rule ``kind``, found out at ``x``."""
    return Hazard(kind, KINDS[kind].rule, x.line, source_line(x), threads, message)


@dataclass
class Hazards:
    """Those found so far, and the one that ended the run.

    ``collect``: go on behind one, instead of raising it.
    """

    collect: bool
    found: dict[tuple[str, int], Hazard] = field(default_factory=dict)
    last: Hazard | None = None

    def report(self, kind: str, told: str, x: Instruction, threads: Callable[[], str]) -> None:
        """Note a hazard, a kind once an instruction.

        Raises HazardError, unless collecting and for a warning.
        """
        if (kind, x.line) in self.found:
            return
        rule = KINDS[kind]
        found = hazard(kind, f"{told}; {rule.rule}; {rule.help}", x, threads())
        self.found[kind, x.line] = found
        if not self.collect and not rule.warning:
            raise HazardError(found)

    @property
    def all(self) -> tuple[Hazard, ...]:
        """In the order in which they were found."""
        return (*self.found.values(), *([self.last] if self.last else []))
