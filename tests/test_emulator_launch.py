"""A launch is checked before the first instruction, and every refusal says the way out."""

import numpy
import pytest

from hopper.emulator import Emulator, LaunchError, PtxError
from hopper.emulator.launch import MAP_MARK, prepare
from hopper.emulator.ptx import parse
from hopper.errors import ProblemError
from hopper.tensormap import TensorMap

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
PARAMETERS = ".param .u64 out, .param .align 64 .b8 map[128], .param .u32 n, .param .f32 x"


def ptx(header: str = "", body: str = "ret;", parameters: str = PARAMETERS) -> str:
    return f"{HEAD}.visible .entry k({parameters}) {header}\n{{\n{body}\n}}\n"


def values() -> list:
    array = numpy.zeros((64, 64), numpy.float16)
    out = numpy.zeros(16, numpy.float32)
    return [out, TensorMap(array, (8, 64)), numpy.int32(5), numpy.float32(2)]


def launch(text: str | None = None, grid=(1, 1, 1), block=(32, 1, 1), **more):
    more = {"args": values(), "cluster": None, "shared_bytes": 0} | more
    return prepare(parse(text or ptx(), "k"), grid, block, **more)


def test_arguments_become_the_parameter_block():
    found = launch()
    kernel = found.kernel
    place = {p.name: found.parameters[p.offset : p.offset + p.bytes] for p in kernel.parameters}
    assert place["out"].view(numpy.uint64)[0] == found.memory.buffers[0].address
    assert bytes(place["map"][:9]) == MAP_MARK
    assert place["n"].view(numpy.int32)[0] == 5
    assert place["x"].view(numpy.float32)[0] == 2


def test_an_array_passed_twice_has_one_address():
    array = numpy.zeros(8, numpy.float32)
    text = ptx(parameters=".param .u64 a, .param .u64 b, .param .u64 c")
    found = launch(text, args=[array, array, array.copy()])
    a, b, c = found.parameters.view(numpy.uint64).tolist()
    assert a == b != c


def test_shared_memory_is_laid_out_as_on_the_chip():
    body = ".shared .align 8 .u64 bar;\n.shared .align 16 .b8 tile[48];\nret;"
    text = ptx(body=body).replace(
        ".visible", ".extern .shared .align 1024 .b8 dynamic[];\n.visible"
    )
    found = launch(text, shared_bytes=4096)
    assert found.shared_offsets == {"bar": 1024, "tile": 1040, "dynamic": 2048}
    assert found.shared_end == 2048 + 4096
    moved = launch(text, shared_bytes=4096, shared_skew=16)
    assert moved.shared_offsets == {"bar": 1024, "tile": 1040, "dynamic": 2064}


def test_blocks_go_cluster_by_cluster():
    found = launch(grid=(4, 2, 1), cluster=(2, 2, 1))
    assert [found.block_index(place)[:2] for place in range(8)] == [
        (0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0), (2, 1), (3, 1),
    ]  # fmt: skip


REFUSED = [
    ({"args": values()[:3]}, "3 arguments: k takes 4"),
    ({"args": [*values()[:2], 5, numpy.float32(1)]}, r"argument 2 is the Python number 5.*int32"),
    ({"args": [*values()[:2], numpy.int64(5), numpy.float32(1)]}, "int64 has 8 bytes.* takes 4"),
    ({"args": [*values()[:2], *[numpy.float32(5)] * 2]}, "float32, and the kernel takes .u32"),
    ({"args": [*values()[:2], numpy.int32(5), numpy.int32(1)]}, "int32, and the kernel takes .f32"),
    ({"args": [numpy.int32(1), *values()[1:]]}, "argument 0: int32 has 4 bytes"),
    ({"args": [values()[1], *values()[1:]]}, "argument 0 is a TensorMap, and the kernel takes 8"),
    ({"args": [values()[0], values()[0], *values()[2:]]}, "argument 1 is an array.*128 bytes"),
    ({"args": [[1.0], *values()[1:]]}, "argument 0 is a list"),
    ({"args": [numpy.zeros((4, 4))[:, ::2], *values()[1:]]}, "argument 0:.*not C-contiguous"),
    ({"grid": (0, 1, 1)}, r"grid=\(0, 1, 1\)"),
    ({"grid": (1, 70000, 1)}, "65535"),
    ({"grid": (1, 1, 1, 1)}, "one to three lengths"),
    ({"block": (1025, 1, 1)}, "1024"),
    ({"block": (64, 32, 1)}, "2048 threads, and a block has at most 1024"),
    ({"cluster": (3, 1, 1)}, r"grid=\(1, 1, 1\): axis 0 is not a multiple of the cluster"),
    ({"cluster": (16, 1, 1), "grid": (16, 1, 1)}, "16 blocks; a cluster has at most 8"),
    ({"shared_bytes": 227 * 1024 + 1}, r"the block uses 232449, and it has 232448 \(227 KB\)"),
    ({"shared_bytes": -1}, "shared_bytes=-1"),
    ({"schedule": "fast"}, "schedule='fast': choose one of 'fixed', 'random', 'starved'"),
    ({"tma": "late"}, "tma='late': choose one of 'lazy', 'eager', 'random'"),
    ({"shared_skew": 8}, "shared_skew=8"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_what_cannot_be_launched_is_refused(change, told):
    with pytest.raises(LaunchError, match=told):
        launch(**change)


def test_what_the_kernel_was_compiled_for_binds_the_launch():
    with pytest.raises(LaunchError, match="256 threads, and k was compiled for 128"):
        launch(ptx(".maxntid 128, 1, 1"), block=(256, 1, 1))
    assert launch(ptx(".maxntid 128, 1, 1"), block=(64, 1, 1)).threads == 64
    with pytest.raises(LaunchError, match="64 threads, and k was compiled for 128"):
        launch(ptx(".reqntid 128, 1, 1"), block=(64, 1, 1))
    clustered = ptx(".explicitcluster\n.reqnctapercluster 2, 1, 1")
    assert launch(clustered, grid=(2, 1, 1)).cluster == (2, 1, 1)
    with pytest.raises(LaunchError, match=r"cluster=\(1, 1, 1\): k was compiled for \(2, 1, 1\)"):
        launch(clustered, grid=(2, 1, 1), cluster=(1, 1, 1))


def test_static_and_dynamic_shared_memory_count_together():
    body = ".shared .align 4 .b8 tile[2048];\nret;"
    assert launch(ptx(body=body), shared_bytes=225 * 1024).shared_end == 1024 + 227 * 1024
    with pytest.raises(LaunchError, match="with 2048 static bytes the block uses 232449"):
        launch(ptx(body=body), shared_bytes=225 * 1024 + 1)


def test_a_map_that_tma_refuses_is_refused_when_it_is_made():
    array = numpy.zeros((64, 64), numpy.float16)
    with pytest.raises(ProblemError, match="wider than the swizzle span of 64"):
        TensorMap(array, (8, 64), swizzle=64)


def test_a_missing_kernel_and_another_target_are_named():
    with pytest.raises(PtxError, match="no kernel 'gemm'"):
        Emulator().launch(ptx(), "gemm", (1, 1, 1), (32, 1, 1))
    with pytest.raises(PtxError, match="PTX for sm_100a"):
        Emulator().launch(ptx().replace("sm_90a", "sm_100a"), "k", (1, 1, 1), (32, 1, 1))


def test_a_run_counts_what_each_warp_executed():
    run = Emulator().launch(ptx(), "k", (3, 1, 1), (80, 1, 1), args=values())
    assert run.counts == {"ret": 9}  # three blocks of three warps, the last half full
    assert run.executed.tolist() == [9]
    assert len(run.trace) == 0 and run.hazards == ()
