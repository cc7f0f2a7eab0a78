"""The units that execute instructions: importing one enters its instructions."""

from hopper.emulator import (
    addresses,  # noqa: F401
    alu,  # noqa: F401
    atomics,  # noqa: F401
    barriers,  # noqa: F401
    bits,  # noqa: F401
    bulk,  # noqa: F401
    carry,  # noqa: F401
    cluster_barriers,  # noqa: F401
    compare,  # noqa: F401
    control,  # noqa: F401
    convert,  # noqa: F401
    convert_packed,  # noqa: F401
    copies,  # noqa: F401
    doubles,  # noqa: F401
    extremes,  # noqa: F401
    fences,  # noqa: F401
    fields,  # noqa: F401
    floats,  # noqa: F401
    halves,  # noqa: F401
    matrix,  # noqa: F401
    mbarrier_instructions,  # noqa: F401
    memory,  # noqa: F401
    mma,  # noqa: F401
    moves,  # noqa: F401
    packed,  # noqa: F401
    remote,  # noqa: F401
    setmaxnreg,  # noqa: F401
    tma,  # noqa: F401
    warps,  # noqa: F401
    wgmma,  # noqa: F401
)
