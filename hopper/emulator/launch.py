"""A launch, checked: grid, block, cluster, shared memory and arguments against the kernel's needs.

Everything that can be refused is refused here, before the first instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy

from hopper.compile import SHARED_BYTES_A_BLOCK
from hopper.emulator.errors import LaunchError
from hopper.emulator.ptx import Kernel, Parameter
from hopper.emulator.spaces import SYSTEM_SHARED_BYTES, Global
from hopper.tensormap import TensorMap

Dim = tuple[int, int, int]

MAX_THREADS, MAX_BLOCK = 1024, (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_CLUSTER = 8  # portable limit; 16 needs an attribute that the book never sets
SCHEDULES = ("fixed", "random", "starved")
TMA_MODES = ("lazy", "eager", "random")
#: A map takes the place of the parameter's 128 bytes: this mark, then its number.
MAP_MARK = b"TensorMap"
MAP_BYTES = 128


@dataclass(frozen=True, eq=False)
class Launch:
    """What a kernel is launched with. Made by ``prepare``.

    ``parameters``: the parameter block as uint8; ``maps``: tensor maps by the number that the
    block holds in their place. ``shared_end``: first shared address that a block does not own.
    Offsets are in bytes, by the variable's name.
    """

    kernel: Kernel
    grid: Dim
    block: Dim
    cluster: Dim
    shared_bytes: int
    parameters: numpy.ndarray
    maps: tuple[TensorMap, ...]
    memory: Global
    shared_offsets: dict[str, int]
    shared_end: int
    schedule: str = "fixed"
    seed: int = 0
    tma: str = "lazy"
    step_limit: int = 5_000_000
    parameter_offsets: dict[str, int] = field(default_factory=dict)
    const_offsets: dict[str, int] = field(default_factory=dict)
    const_bytes: numpy.ndarray = field(default_factory=lambda: numpy.zeros(0, numpy.uint8))
    local_offsets: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    global_addresses: dict[str, int] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def block_count(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    def block_index(self, place: int) -> Dim:
        """%ctaid of the block at ``place`` in launch order: cluster after cluster."""
        cluster, rank = divmod(place, self.cluster_size)
        clusters = [count // size for count, size in zip(self.grid, self.cluster, strict=True)]
        first, inside = _unravel(cluster, clusters), _unravel(rank, self.cluster)
        return tuple(f * size + i for f, size, i in zip(first, self.cluster, inside, strict=True))


def _unravel(index: int, lengths: Sequence[int]) -> Dim:
    x, y = lengths[0], lengths[1]
    return (index % x, index // x % y, index // (x * y))


def prepare(
    kernel: Kernel,
    grid: Dim,
    block: Dim,
    *,
    cluster: Dim | None,
    shared_bytes: int,
    args: Sequence[object],
    shared_skew: int = 0,
    **options,
) -> Launch:
    """Check a launch and lay out its memory.

    Raises LaunchError naming the value, the rule and the way out.
    """
    grid, block = _dim("grid", grid, MAX_GRID), _dim("block", block, MAX_BLOCK)
    threads = block[0] * block[1] * block[2]
    _check_threads(kernel, block, threads)
    cluster = _cluster(kernel, grid, cluster)
    _check_options(options, shared_skew)
    offsets, end = _shared_layout(kernel, shared_bytes, shared_skew)
    memory = Global()
    parameters, maps = _parameters(kernel, args, memory)
    const, const_bytes = _packed(kernel, "const")
    local, local_image = _packed(kernel, "local")
    module = {}
    for variable in kernel.variables:
        if variable.space == "global":
            image = numpy.zeros(variable.bytes or 0, numpy.uint8)
            image[: len(variable.initial)] = numpy.frombuffer(variable.initial, numpy.uint8)
            module[variable.name] = memory.add(variable.name, image).address
    return Launch(
        kernel,
        grid,
        block,
        cluster,
        shared_bytes,
        parameters,
        maps,
        memory,
        offsets,
        end,
        parameter_offsets={p.name: p.offset for p in kernel.parameters},
        const_offsets=const,
        const_bytes=const_bytes,
        local_offsets=local,
        local_bytes=local_image.size,
        global_addresses=module,
        **options,
    )


def _dim(name: str, value, limits: Dim) -> Dim:
    if isinstance(value, int):
        value = (value,)
    value = tuple(int(length) for length in value)
    if not 1 <= len(value) <= 3:
        raise LaunchError(f"{name}={value}: it has one to three lengths; pass (x, y, z)")
    value = (*value, 1, 1)[:3]
    for length, limit in zip(value, limits, strict=True):
        if not 1 <= length <= limit:
            raise LaunchError(f"{name}={value}: a {name} has at least 1 and at most {limits}")
    return value


def _check_threads(kernel: Kernel, block: Dim, threads: int) -> None:
    if threads > MAX_THREADS:
        raise LaunchError(
            f"block={block}: {threads} threads, and a block has at most {MAX_THREADS}; use more "
            f"blocks"
        )
    stated = kernel.max_threads
    if stated and (threads > stated or (kernel.exact_threads and threads != stated)):
        raise LaunchError(
            f"block={block}: {threads} threads, and {kernel.name} was compiled for {stated} "
            f"(__launch_bounds__); launch with {stated}"
        )


def _cluster(kernel: Kernel, grid: Dim, cluster: Dim | None) -> Dim:
    if cluster is None:
        cluster = kernel.cluster or (1, 1, 1)
    cluster = _dim("cluster", cluster, (16, 16, 16))
    if kernel.cluster and cluster != kernel.cluster:
        raise LaunchError(
            f"cluster={cluster}: {kernel.name} was compiled for {kernel.cluster} "
            f"(__cluster_dims__); leave cluster out, or pass the same"
        )
    size = cluster[0] * cluster[1] * cluster[2]
    if size > MAX_CLUSTER:
        raise LaunchError(
            f"cluster={cluster}: {size} blocks; a cluster has at most {MAX_CLUSTER} on every Hopper"
        )
    for axis, (blocks, length) in enumerate(zip(grid, cluster, strict=True)):
        if blocks % length:
            raise LaunchError(
                f"grid={grid}: axis {axis} is not a multiple of the cluster {cluster}; round the "
                f"grid up, and let blocks outside the problem do nothing"
            )
    return cluster


def _check_options(options: dict, shared_skew: int) -> None:
    for name, allowed in (("schedule", SCHEDULES), ("tma", TMA_MODES)):
        value = options.get(name, allowed[0])
        if value not in allowed:
            raise LaunchError(f"{name}={value!r}: choose one of {', '.join(map(repr, allowed))}")
    if shared_skew < 0 or shared_skew % 16:
        raise LaunchError(
            f"shared_skew={shared_skew}: it moves dynamic shared memory by a multiple of 16 bytes; "
            f"pass 0 or 16"
        )


def _shared_layout(kernel: Kernel, dynamic: int, skew: int) -> tuple[dict[str, int], int]:
    """Static variables behind the system's bytes, then dynamic memory at its alignment."""
    if dynamic < 0:
        raise LaunchError(f"shared_bytes={dynamic}: pass 0 or more")
    at = SYSTEM_SHARED_BYTES
    offsets = {}
    shared = [v for v in kernel.variables if v.space == "shared"]
    for variable in shared:
        if variable.bytes is not None:
            at = -(-at // variable.align) * variable.align
            offsets[variable.name] = at
            at += variable.bytes
    external = [v for v in shared if v.bytes is None]
    if external:
        align = max(v.align for v in external)
        at = -(-at // align) * align + skew
        offsets |= {v.name: at for v in external}
    elif dynamic:
        at = -(-at // 16) * 16 + skew
    at += dynamic
    used = at - SYSTEM_SHARED_BYTES
    if used > SHARED_BYTES_A_BLOCK:
        raise LaunchError(
            f"shared_bytes={dynamic}: with {used - dynamic} static bytes the block uses {used}, "
            f"and it has {SHARED_BYTES_A_BLOCK} (227 KB); use fewer stages or a smaller tile"
        )
    return offsets, at


def _packed(kernel: Kernel, space: str) -> tuple[dict[str, int], numpy.ndarray]:
    """Variables of a space one after the other: their offsets, and the bytes they start with."""
    offsets, at = {}, 0
    mine = [v for v in kernel.variables if v.space == space]
    for variable in mine:
        at = -(-at // variable.align) * variable.align
        offsets[variable.name] = at
        at += variable.bytes or 0
    image = numpy.zeros(at, numpy.uint8)
    for variable in mine:
        start = offsets[variable.name]
        image[start : start + len(variable.initial)] = numpy.frombuffer(
            variable.initial, numpy.uint8
        )
    return offsets, image


def _parameters(
    kernel: Kernel, args: Sequence[object], memory: Global
) -> tuple[numpy.ndarray, tuple[TensorMap, ...]]:
    wanted = kernel.parameters
    if len(args) != len(wanted):
        raise LaunchError(
            f"{len(args)} arguments: {kernel.name} takes {len(wanted)} "
            f"({', '.join(f'{p.bytes} bytes' for p in wanted)}); pass one for each parameter"
        )
    block = numpy.zeros(kernel.parameter_bytes, numpy.uint8)
    maps: list[TensorMap] = []
    for number, (parameter, value) in enumerate(zip(wanted, args, strict=True)):
        data = _argument(number, parameter, value, memory, maps)
        block[parameter.offset : parameter.offset + len(data)] = numpy.frombuffer(data, numpy.uint8)
    return block, tuple(maps)


def _argument(
    number: int, parameter: Parameter, value: object, memory: Global, maps: list[TensorMap]
) -> bytes:
    """The bytes that go into the parameter block."""
    size = parameter.bytes
    if isinstance(value, TensorMap):
        if size != MAP_BYTES:
            raise LaunchError(
                f"argument {number} is a TensorMap, and the kernel takes {size} bytes there; a map "
                f"goes by value to const __grid_constant__ (128 bytes)"
            )
        if not isinstance(value.array, numpy.ndarray):
            raise LaunchError(
                f"argument {number}: the map's array is a {type(value.array).__name__}; the "
                f"emulator works on NumPy arrays"
            )
        maps.append(value)
        memory.add(f"argument {number}", _flat(number, value.array))
        return MAP_MARK + (len(maps) - 1).to_bytes(4, "little")
    if isinstance(value, numpy.ndarray) and value.ndim:
        if size != 8 or parameter.type not in ("u64", "b64", "s64"):
            raise LaunchError(
                f"argument {number} is an array, and the kernel takes {size} bytes by value "
                f"(.{parameter.type}) there; is the order of arguments right?"
            )
        buffer = memory.add(f"argument {number}", _flat(number, value))
        return buffer.address.to_bytes(8, "little")
    if isinstance(value, bool | int | float):
        raise LaunchError(
            f"argument {number} is the Python number {value!r}, whose size is not stated: wrap it, "
            f"as in numpy.int32({value!r})"
        )
    if isinstance(value, numpy.generic) or (isinstance(value, numpy.ndarray) and value.ndim == 0):
        data = value.tobytes()
        if len(data) != size:
            raise LaunchError(
                f"argument {number}: {value.dtype} has {len(data)} bytes, and the kernel takes "
                f"{size} (.{parameter.type}); convert it"
            )
        floating = value.dtype.kind == "f"
        if parameter.type[0] in "fsu" and floating != (parameter.type[0] == "f"):
            raise LaunchError(
                f"argument {number}: {value.dtype}, and the kernel takes .{parameter.type}; "
                f"convert it"
            )
        return data
    raise LaunchError(
        f"argument {number} is a {type(value).__name__}: pass NumPy arrays, TensorMaps and NumPy "
        f"scalars"
    )


def _flat(number: int, array: numpy.ndarray) -> numpy.ndarray:
    if not array.flags.c_contiguous:
        raise LaunchError(
            f"argument {number}: an array of shape {array.shape} and strides {array.strides} is "
            f"not C-contiguous; pass numpy.ascontiguousarray(…)"
        )
    return array.reshape(-1).view(numpy.uint8)
