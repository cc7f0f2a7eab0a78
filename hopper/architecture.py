"""Constants of the Hopper architecture that the book quotes, each with its source.

Prose never types these numbers: the role `{constant}` writes them, and chapters import them for
their arithmetic. `source` is a key of references.bib.
"""

from dataclasses import dataclass

from hopper.errors import HopperError


@dataclass(frozen=True)
class Constant:
    """One documented number: its value, unit, meaning, and where the source states it."""

    name: str
    value: int | float
    unit: str
    meaning: str
    source: str
    where: str


CONSTANTS = (
    Constant(
        "sm_count",
        132,
        "SMs",
        "streaming multiprocessors of an H100 SXM or an H200",
        "hopper-whitepaper",
        "table of GPU features",
    ),
    Constant(
        "tensor_cores_per_sm",
        4,
        "",
        "tensor cores of an SM, one for each warp scheduler",
        "hopper-whitepaper",
        "H100 SM architecture",
    ),
    Constant(
        "flop_per_sm_cycle",
        4096,
        "FLOP",
        "dense fp16 or bf16 operations an SM's tensor cores do in a cycle, "
        "a multiply-add counted as two",
        "hopper-whitepaper",
        "H100 tensor core throughput",
    ),
    Constant(
        "fp8_flop_per_sm_cycle",
        8192,
        "FLOP",
        "dense fp8 operations an SM's tensor cores do in a cycle",
        "hopper-whitepaper",
        "H100 tensor core throughput",
    ),
    Constant(
        "fp16_peak_tflops",
        989.4,
        "TFLOPS",
        "dense fp16 rate that NVIDIA states for an H100 SXM; the H200 has the same SMs",
        "hopper-whitepaper",
        "table of peak rates",
    ),
    Constant("warp_threads", 32, "threads", "threads of a warp", "ptx-isa", "PTX machine model"),
    Constant(
        "warpgroup_warps",
        4,
        "warps",
        "warps of a warpgroup, the first of which has a warp rank divisible by four",
        "ptx-isa",
        "warpgroup",
    ),
    Constant("warpgroup_threads", 128, "threads", "threads of a warpgroup", "ptx-isa", "warpgroup"),
    Constant(
        "wgmma_m",
        64,
        "rows",
        "rows of the tile that one wgmma computes",
        "ptx-isa",
        "asynchronous warpgroup level matrix shape",
    ),
    Constant(
        "wgmma_k_fp16",
        16,
        "",
        "depth K of one wgmma on 16-bit operands",
        "ptx-isa",
        "asynchronous warpgroup level matrix shape",
    ),
    Constant(
        "wgmma_n_max",
        256,
        "columns",
        "largest N of one wgmma",
        "ptx-isa",
        "asynchronous warpgroup level matrix shape",
    ),
    Constant(
        "wgmma_n_step",
        8,
        "columns",
        "smallest N of one wgmma and, for floating-point types, the step between legal N",
        "ptx-isa",
        "asynchronous warpgroup level matrix shape",
    ),
    Constant(
        "registers_per_sm",
        65536,
        "registers",
        "32-bit registers of an SM",
        "hopper-tuning",
        "occupancy",
    ),
    Constant(
        "registers_per_thread",
        255,
        "registers",
        "most 32-bit registers of one thread",
        "hopper-tuning",
        "occupancy",
    ),
    Constant(
        "shared_bytes_per_sm",
        228 * 1024,
        "bytes",
        "most shared memory of an SM (228 KB)",
        "hopper-tuning",
        "unified shared memory/L1/texture cache",
    ),
    Constant(
        "shared_bytes_per_cta",
        227 * 1024,
        "bytes",
        "most shared memory one CTA can address (227 KB)",
        "hopper-tuning",
        "unified shared memory/L1/texture cache",
    ),
    Constant(
        "shared_bytes_per_sm_cycle",
        128,
        "bytes",
        "most bytes that an SM's shared memory delivers in a cycle: 32 banks of 32 bits",
        "cuda-guide",
        "shared memory of each compute capability",
    ),
    Constant(
        "threads_per_sm",
        2048,
        "threads",
        "most resident threads of an SM",
        "cuda-guide",
        "technical specifications per compute capability",
    ),
    Constant(
        "tensor_map_bytes",
        128,
        "bytes",
        "size of a tensor map, the descriptor TMA reads",
        "cuda-driver-api",
        "cuTensorMapEncodeTiled",
    ),
    Constant(
        "tma_box_max",
        256,
        "elements",
        "longest side of the box one TMA instruction copies",
        "cuda-driver-api",
        "cuTensorMapEncodeTiled",
    ),
    Constant(
        "tma_stride_multiple",
        16,
        "bytes",
        "every stride of a tensor map, and its base address, is a multiple of this",
        "cuda-driver-api",
        "cuTensorMapEncodeTiled",
    ),
    Constant(
        "mbarrier_bytes",
        8,
        "bytes",
        "size and alignment of an mbarrier in shared memory",
        "ptx-isa",
        "size and alignment of mbarrier object",
    ),
)

_BY_NAME = {entry.name: entry for entry in CONSTANTS}


def constant(name: str) -> Constant:
    """The constant called `name`; HopperError, listing the names, when there is none."""
    if name not in _BY_NAME:
        raise HopperError(
            f"{name!r}: no constant of that name in hopper/architecture.py; "
            f"known names: {', '.join(sorted(_BY_NAME))}"
        )
    return _BY_NAME[name]
