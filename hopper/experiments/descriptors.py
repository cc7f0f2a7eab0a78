"""The chapter ``descriptors``: where wgmma reads, and where TMA writes.

``descriptor_probe``: for each mode, major, operand and type, which place of shared memory each
element was read from; and the same for tiles that start between two swizzle atoms.
``tma_swizzle``: shared memory as TMA left it, for each swizzle and each start. Everything is
compared with ``hopper.descriptor`` and ``hopper.swizzle`` before it is recorded. The functions take
a Hopper GPU or the emulator, so that the page runs some of this live.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy

from hopper.backends import Backend
from hopper.compile import Program, compile_kernel
from hopper.conformance.wgmma_numbers import codes, item_bytes
from hopper.descriptor import STEP_BYTES, Descriptor, Major
from hopper.errors import CheckError
from hopper.experiments import Experiment
from hopper.placement import Placement
from hopper.schema import Array, Probe
from hopper.swizzle import SPANS, swizzled
from hopper.tensormap import TensorMap

# ---- where wgmma reads --------------------------------------------------------------------------

#: Type of the operands -> the wrapper of wgmma.cuh, the bits of an element, the sum's type in C++.
KINDS = {
    "f16": ("wgmma_f32_f16_f16", "half", "float"),
    "bf16": ("wgmma_f32_bf16_bf16", "half", "float"),
    "tf32": ("wgmma_f32_tf32_tf32", "unsigned", "float"),
    "e4m3": ("wgmma_f32_e4m3_e4m3", "unsigned char", "float"),
    "s8": ("wgmma_s32_s8_s8", "unsigned char", "int"),
}
ROWS = {"A": 64, "B": 128}


@dataclass(frozen=True)
class Reader:
    """A variant of ``descriptor_probe``. ``kind``: a key of KINDS; ``operand``: "A" or "B"."""

    kind: str
    major: Major
    operand: str

    @property
    def name(self) -> str:
        """Such as "f16 K A"."""
        return f"{self.kind} {self.major} {self.operand}"

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return item_bytes(self.kind)

    @property
    def depth(self) -> int:
        """Elements of K that an instruction reads."""
        return STEP_BYTES // self.item_bytes

    @property
    def rows(self) -> int:
        """Rows of M or N that an instruction reads."""
        return ROWS[self.operand]

    def compile(self) -> Program:
        """The kernel for this variant. Raises CompileError unless it is clean."""
        instruction, item, total = KINDS[self.kind]
        program = compile_kernel(
            "descriptor_probe",
            INSTRUCTION=instruction,
            ITEM=item,
            SUM=total,
            TILE_N=ROWS["B"],
            TEST_A=int(self.operand == "A"),
            MN_MAJOR=int(self.major == "MN"),
        )
        program.require_clean()
        return program

    def usual(self, swizzle: int) -> Placement:
        """A tile as kernels lay it out, deep enough for a whole span."""
        return Placement(
            self.rows, max(STEP_BYTES, swizzle) // self.item_bytes, self.major, swizzle,
            self.item_bytes,
        )  # fmt: skip

    def places(self, descriptor: Descriptor) -> numpy.ndarray:
        """By ``hopper.descriptor``: offset in bytes of each element, (rows, depth)."""
        r, k = numpy.indices((self.rows, self.depth))
        return descriptor.address(r, k, major=self.major, item_bytes=self.item_bytes)

    def read(self, gpu: Backend, descriptors: Sequence[Descriptor]) -> numpy.ndarray:
        """By the instruction: offset in bytes of each element, (descriptors, rows, depth).

        Descriptors count from the start of a region of 32 KB on a multiple of 1024.
        """
        n = ROWS["B"]
        out = gpu.array(numpy.full((len(descriptors), 64, n), -1, "int32"))
        encoded = gpu.array(numpy.array([one.encode() for one in descriptors], "uint64"))
        sixteen = gpu.array(codes(self.kind)[:16])
        arguments = (sixteen, encoded, out)
        gpu.launch(self.compile(), (len(descriptors), 1, 1), (128, 1, 1), arguments, 0)
        numbers = gpu.numpy(out)
        if self.operand == "B":
            numbers = numbers.swapaxes(1, 2)
        if numbers[..., self.depth :].any():
            raise CheckError(f"{self.name}: a row of the identity that is zero gave something")
        return numbers[..., : self.depth] * self.item_bytes


#: Every combination that wgmma has: MN-major operands have 16 bits.
READERS = tuple(
    Reader(kind, major, operand)
    for major in ("K", "MN")
    for kind in KINDS
    for operand in ROWS
    if major == "K" or item_bytes(kind) == 2
)
STARTS = tuple(range(0, 1024, 128))
STEPS = 4  # along K, in a row of 128 bytes


def usual_descriptors(reader: Reader) -> list[Descriptor]:
    """One for each swizzle, in the order of SPANS, of the tile as kernels lay it out."""
    return [reader.usual(swizzle).descriptor() for swizzle in SPANS]


def start_descriptors(based: bool) -> list[Descriptor]:
    """Of K-major fp16 tiles with the 128-byte swizzle, at each of STARTS, at each step along K.

    ``based``: their base offset says that the pattern starts where the tile does.
    """
    return [
        Descriptor(start + STEP_BYTES * step, 16, 1024, start // 128 if based else 0, 128)
        for start in STARTS
        for step in range(STEPS)
    ]


#: A K-major fp16 tile of B as v1 has it, 128-byte swizzle, 128 rows, and how its descriptor went
#: wrong. The last two change nothing: nobody reads that field.
MEANT = Descriptor(0, leading=16, stride=1024, swizzle=128)
MISTAKES = {
    "stride of the 64-byte swizzle": replace(MEANT, stride=512),
    "stride shifted right twice": replace(MEANT, stride=64),
    "mode of the 64-byte swizzle": replace(MEANT, swizzle=64),
    "mode of no swizzle": replace(MEANT, swizzle=0),
    "a step of 16 bytes along K": replace(MEANT, start=16),
    "start 128 bytes too far": replace(MEANT, start=128),
    "base offset 1": replace(MEANT, base_offset=1),
    "leading offset 0": replace(MEANT, leading=0),
    "leading offset 4096": replace(MEANT, leading=4096),
}


def require_places(reader: Reader, descriptors: Sequence[Descriptor], got: numpy.ndarray) -> None:
    """Raise CheckError unless every element was read where ``hopper.descriptor`` says."""
    for descriptor, found in zip(descriptors, got, strict=True):
        wrong = found != reader.places(descriptor)
        if wrong.any():
            r, k = (int(i) for i in numpy.argwhere(wrong)[0])
            raise CheckError(
                f"{reader.name}, {descriptor}: {wrong.sum()} of {wrong.size} elements were read "
                f"elsewhere; ({r}, {k}) at {found[r, k]}, not {reader.places(descriptor)[r, k]}"
            )


def probe_modes(gpu: Backend, program: Program) -> Probe:
    """Element offsets in bytes by variant: an array (4, rows, depth), a swizzle of SPANS each."""
    arrays = {}
    for reader in READERS:
        descriptors = usual_descriptors(reader)
        got = reader.read(gpu, descriptors)
        require_places(reader, descriptors, got)
        arrays[reader.name] = Array.of(got.astype("uint16"))
    return Probe(
        "modes",
        "From which place of shared memory does wgmma read each element of an operand?",
        arrays,
    )


def probe_starts(gpu: Backend, program: Program) -> Probe:
    """Where the first eight rows are read, (8 starts, 4 steps along K, 8 rows, 16 of K), bytes.

    "base 0": base offset 0 at every start. "base moved": the tile's own place as base offset.
    """
    reader = Reader("f16", "K", "B")
    arrays = {}
    for name, based in (("base 0", False), ("base moved", True)):
        descriptors = start_descriptors(based)
        got = reader.read(gpu, descriptors)
        require_places(reader, descriptors, got)
        shape = (len(STARTS), STEPS, reader.rows, reader.depth)
        arrays[name] = Array.of(got.reshape(shape)[:, :, :8].astype("uint16"))
    return Probe("starts", "Does the swizzle's pattern start where the tile does?", arrays)


def probe_mistakes(gpu: Backend, program: Program) -> Probe:
    """Where wgmma reads with each of MISTAKES, (mistakes, 128 rows, 16 of K), bytes."""
    reader, descriptors = Reader("f16", "K", "B"), list(MISTAKES.values())
    got = reader.read(gpu, descriptors)
    require_places(reader, descriptors, got)
    return Probe(
        "mistakes",
        "Where does wgmma read when its descriptor is not the tile's?",
        {"places": Array.of(got.astype("uint16"))},
    )


# ---- where TMA writes ---------------------------------------------------------------------------

TILE_BYTES = 1024
MEMORY_BYTES = 2048
UNTOUCHED = 0xFFFF
#: Elements of a row that is narrower than its span of 64.
NARROW = 40


def tile_shape(swizzle: int, columns: int = 0) -> tuple[int, int]:
    """Rows and columns of a box of 2-byte elements that takes TILE_BYTES.

    A row takes one span; without a swizzle, 128 bytes. ``columns``: of a row that is shorter.
    """
    span = swizzle or 128
    return TILE_BYTES // span, columns or span // 2


def dump(gpu: Backend, swizzle: int, columns: int = 0, starts: int = 1) -> numpy.ndarray:
    """Shared memory as TMA leaves it, (starts, 1024) 2-byte elements; tile b begins at 128·b.

    Element i of the box holds i, what TMA left alone 0xFFFF.
    """
    shape = tile_shape(swizzle, columns)
    tensor = gpu.array(numpy.arange(shape[0] * shape[1], dtype="uint16").reshape(shape))
    encoded = gpu.tensor_map(TensorMap(tensor, shape, swizzle))
    out = gpu.array(numpy.zeros((starts, MEMORY_BYTES // 2), "uint16"))
    box_bytes = numpy.int32(shape[0] * shape[1] * 2)
    program = compile_kernel("tma_swizzle")
    gpu.launch(program, (starts, 1, 1), (128, 1, 1), (encoded, out, box_bytes), 0)
    return gpu.numpy(out)


def expected_dump(swizzle: int, columns: int = 0, starts: int = 1) -> numpy.ndarray:
    """The same by ``hopper.swizzle``: the XOR acts on the address, wherever the tile starts."""
    rows, columns = tile_shape(swizzle, columns)
    r, c = numpy.indices((rows, columns))
    memory = numpy.full((starts, MEMORY_BYTES // 2), UNTOUCHED, "uint16")
    for number, one in enumerate(memory):
        address = 128 * number + r * (swizzle or 2 * columns) + 2 * c
        one[swizzled(address, swizzle) // 2] = r * columns + c
    return memory


def probe_dump(gpu: Backend, program: Program) -> Probe:
    """Dumps by name: "128", "64", "32", "0" (8, 1024) and "narrow 128" (1, 1024)."""
    asked = {str(swizzle): (swizzle, 0, len(STARTS)) for swizzle in SPANS}
    asked["narrow 128"] = (128, NARROW, 1)
    arrays = {}
    for name, what in asked.items():
        got = dump(gpu, *what)
        wrong = int((got != expected_dump(*what)).sum())
        if wrong:
            raise CheckError(f"tma_swizzle, {name}: {wrong} elements lie elsewhere")
        arrays[name] = Array.of(got)
    return Probe("dump", "Where does TMA write each element of a box?", arrays)


def tma_places(dumped: numpy.ndarray) -> numpy.ndarray:
    """Offset in bytes of element i of a box, from one start's ``dump`` (1024,): (elements,)."""
    at = numpy.flatnonzero(dumped != UNTOUCHED)
    places = numpy.empty(at.size, int)
    places[dumped[at]] = 2 * at
    return places


EXPERIMENTS = (
    Experiment("descriptor_probe", "modes", probe_modes),
    Experiment("descriptor_probe", "starts", probe_starts),
    Experiment("descriptor_probe", "mistakes", probe_mistakes),
    Experiment("tma_swizzle", "dump", probe_dump),
)
