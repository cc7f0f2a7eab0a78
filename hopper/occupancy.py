"""How many blocks of a kernel an SM holds at the same time.

Registers are handed out eight at a time to each thread, by the warp, and lie in four register files
with a warp scheduler each: a warp has all of its registers in one of them. A block takes 1 KB of
shared memory more than it asks for, which is the system's; and an SM has room for so many threads
(CUDA C++ Programming Guide, compute capabilities; NVIDIA's occupancy calculator cuda_occupancy.h).
"""

from dataclasses import dataclass

from hopper.architecture import constant
from hopper.compile import Program
from hopper.errors import ProblemError

SYSTEM_SHARED_BYTES = 1024
_REGISTERS_AT_A_TIME = 8
_WARP = 32
_REGISTER_FILES = 4  # of an SM, of equal size: one for each warp scheduler
_SHARED_STEP = 128  # bytes in which shared memory is handed out


@dataclass(frozen=True)
class Fit:
    """Blocks an SM holds, by each of its limits; ``blocks`` is the smallest of them."""

    by_registers: int
    by_shared: int
    by_threads: int

    @property
    def blocks(self) -> int:
        """What all limits allow."""
        return min(self.by_registers, self.by_shared, self.by_threads)


def fit(program: Program, shared_bytes: int | None = None) -> Fit:
    """Blocks of ``program`` that fit an SM, with as much dynamic shared memory as it states.

    ``shared_bytes``: dynamic shared memory to be launched with instead.
    """
    used, threads = program.resources, program.facts.threads
    dynamic = program.facts.shared_bytes if shared_bytes is None else shared_bytes
    return Fit(
        by_registers(used.registers, threads),
        constant("shared_bytes_per_sm").value // _block_bytes(used.static_shared_bytes, dynamic),
        constant("threads_per_sm").value // threads,
    )


def by_registers(registers: int, threads: int) -> int:
    """Blocks of ``threads`` whose warps find room in an SM's four register files.

    ``registers``: of a thread, as compiled.
    """
    a_warp = _WARP * _rounded_up(registers, _REGISTERS_AT_A_TIME)
    in_a_file = constant("registers_per_sm").value // _REGISTER_FILES // a_warp
    return _REGISTER_FILES * in_a_file // -(-threads // _WARP)


def shared_bytes_for(program: Program, blocks: int) -> int:
    """Dynamic shared memory to launch with, so that exactly ``blocks`` fit an SM.

    As little as that takes, and what the kernel states where that is enough. Raises ProblemError
    where so many do not fit.
    """
    stated = program.facts.shared_bytes
    room = constant("shared_bytes_per_sm").value // (blocks + 1)  # a block more must not fit
    overhead = program.resources.static_shared_bytes + SYSTEM_SHARED_BYTES
    needed = max(stated, room - overhead + _SHARED_STEP) if fit(program).blocks > blocks else stated
    found = fit(program, needed).blocks
    if found != blocks:
        raise ProblemError(
            f"blocks={blocks}: an SM holds {found} blocks of {program.kernel} with {needed:,} "
            f"bytes of shared memory; ask for {fit(program).blocks} or fewer"
        )
    return needed


def _block_bytes(static: int, dynamic: int) -> int:
    return _rounded_up(static + dynamic, _SHARED_STEP) + SYSTEM_SHARED_BYTES


def _rounded_up(value: int, step: int) -> int:
    return -(-value // step) * step
