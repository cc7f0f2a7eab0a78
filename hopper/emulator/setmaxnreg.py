"""setmaxnreg: warpgroups of a block trade registers; and griddepcontrol, which changes nothing.

PTX ISA, "setmaxnreg". The block owns what it was launched with. What a warpgroup gives up goes into
the block's pool, and ``inc`` waits until the pool holds what it asks for. How many registers a
kernel is launched with is ptxas' choice; the rule here was found by compiling kernels and reading
ptxas' report (CUDA 13.0), and a test asks it again.
"""

from __future__ import annotations

from functools import partial

import numpy

from hopper.compile import REGISTERS_A_BLOCK
from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARP, WARPGROUP, Machine, Wait
from hopper.emulator.ptx import Immediate, Instruction, Kernel

LEAST, MOST, STEP = 24, 256, 8


def registers_at_launch(kernel: Kernel) -> int | None:
    """Registers a thread that a kernel with setmaxnreg starts with, a multiple of 8 (256 for 255).

    None where ptxas cannot tell: without ``__launch_bounds__(threads, blocks)`` and without
    ``__maxnreg__`` it ignores setmaxnreg (message C7508).
    """
    if kernel.max_registers:
        most = -(-kernel.max_registers // STEP) * STEP
    elif kernel.max_threads and kernel.min_blocks:
        lanes = -(-kernel.max_threads // WARPGROUP) * WARPGROUP * kernel.min_blocks
        most = min(MOST, REGISTERS_A_BLOCK // lanes // STEP * STEP)
    else:
        return None
    # The kernel gets no more than its largest inc asks for.
    asked = [x.operands[0].value for x in kernel.code if x.parts[:2] == ("setmaxnreg", "inc")]
    return min(most, max(asked, default=most))


class RegisterPools:
    """What each warpgroup owns a thread, and what is free in each block's pool, in registers."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.at_launch = registers_at_launch(machine.kernel)
        groups = machine.lane_count // WARPGROUP
        self.owned = numpy.full(groups, self.at_launch or 0)
        self.free = numpy.zeros(len(machine.blocks), numpy.int64)

    def decrease(self, group: int, count: int) -> None:
        """A warpgroup keeps ``count`` registers a thread, and the pool gets the others."""
        owned = int(self.owned[group])
        if count > owned:
            raise Fault(
                f"setmaxnreg.dec to {count}: {self._name(group)} has {owned} registers a thread; "
                f"dec lowers their number, inc raises it",
                "register-budget",
            )
        block = self.block_of(group)
        self.owned[group] = count
        self.free[block] += (owned - count) * WARPGROUP
        self.machine.wake(("registers", block))

    def increase(self, group: int, count: int) -> bool:
        """A warpgroup takes what it lacks to ``count`` from the pool; False where it must wait."""
        owned = int(self.owned[group])
        if count < owned:
            raise Fault(
                f"setmaxnreg.inc to {count}: {self._name(group)} has {owned} registers a thread; "
                f"inc raises their number, dec lowers it",
                "register-budget",
            )
        block, wanted = self.block_of(group), (count - owned) * WARPGROUP
        if wanted > self.free[block]:
            return False
        self.owned[group] = count
        self.free[block] -= wanted
        return True

    def words(self, group: int, count: int) -> str:
        """What a waiting warpgroup waits for."""
        owned, free = int(self.owned[group]), int(self.free[self.block_of(group)])
        wanted = (count - owned) * WARPGROUP
        return (
            f"setmaxnreg.inc: {self._name(group)} has {owned} registers a thread and asks for "
            f"{count}, {wanted} more in all; the block's pool holds {free}: {wanted - free} are "
            f"missing; let other warpgroups give up more (setmaxnreg.dec)"
        )

    def block_of(self, group: int) -> int:
        """Block (place in the wave) of a warpgroup."""
        return group * WARPGROUP // self.machine.block_lanes

    def _name(self, group: int) -> str:
        return f"warpgroup {group % (self.machine.block_lanes // WARPGROUP)}"


def _blame() -> tuple[str, None, None]:
    return ("register-budget", None, None)


@executes(
    "setmaxnreg.inc.sync.aligned.u32",
    "setmaxnreg.dec.sync.aligned.u32",
    control=True,
    together=WARPGROUP,
)
def setmaxnreg(machine: Machine, x: Instruction) -> Step:
    """``setmaxnreg.dec.sync.aligned.u32 n`` and ``inc``: a whole warpgroup, n a thread."""
    given = x.operands[0] if len(x.operands) == 1 else None
    if not isinstance(given, Immediate):
        raise unsupported(x, "it takes one constant")
    count, pools = given.value, machine.unit(RegisterPools)
    if not LEAST <= count <= MOST or count % STEP:
        raise unsupported(x, f"{count} registers: a multiple of {STEP} from {LEAST} to {MOST}")
    increases = x.parts[1] == "inc"
    if pools.at_launch is None:
        return lambda lanes: None  # as ptxas compiles it

    def step(lanes: Lanes) -> None:
        number = machine.lane[lanes]
        for group in (number[::WARPGROUP] // WARPGROUP).tolist():
            if not increases:
                pools.decrease(group, count)
            elif not pools.increase(group, count):
                mine = number[number // WARPGROUP == group]
                key = ("registers", pools.block_of(group))
                machine.park(mine, Wait(key, partial(pools.words, group, count), _blame))
                # It counts as executed when it gets what it asks for.
                machine.executed[machine.at] -= WARPGROUP // WARP

    return step


@executes("griddepcontrol.wait", "griddepcontrol.launch_dependents")
def griddepcontrol(machine: Machine, x: Instruction) -> Step:
    """A launch of the emulator starts when all earlier ones have ended: nothing to wait for.

    The watch looks at whether global memory is touched before the wait (``launch_watch``).
    """
    if machine.watch and x.has("wait"):
        return machine.watch.launches.waited
    return lambda lanes: None
