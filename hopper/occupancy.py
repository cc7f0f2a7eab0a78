"""How many blocks of a kernel an SM holds at the same time.

Registers are handed out eight at a time to each thread; a block takes 1 KB of shared memory more
than it asks for, which is the system's; and an SM has room for so many threads (CUDA C++
Programming Guide, compute capabilities).
"""

from dataclasses import dataclass

from hopper.architecture import constant
from hopper.compile import Program
from hopper.errors import ProblemError

SYSTEM_SHARED_BYTES = 1024
_REGISTERS_AT_A_TIME = 8
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
    registers = _rounded_up(used.registers, _REGISTERS_AT_A_TIME)
    dynamic = program.facts.shared_bytes if shared_bytes is None else shared_bytes
    return Fit(
        constant("registers_per_sm").value // (registers * threads),
        constant("shared_bytes_per_sm").value // _block_bytes(used.static_shared_bytes, dynamic),
        constant("threads_per_sm").value // threads,
    )


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
