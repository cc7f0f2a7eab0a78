"""What compute-sanitizer runs: one small launch of a kernel, or of a control that must be caught.

python sanitizer_target.py v1_wgmma
python sanitizer_target.py memcheck
"""

import sys
from dataclasses import replace

import cupy
import numpy

from hopper import compile_cuda, compile_kernel, find_hopper, plan
from hopper.conformance import run_on_gpu
from hopper.conformance.kernels import CASES
from hopper.experiments import warpgroup
from hopper.plans import PLANS

# One kernel for each tool, with just the fault that the tool is for.
CONTROLS = {
    "memcheck": "out[threadIdx.x + 1000000] = 1;",
    "initcheck": "out[threadIdx.x] = unwritten[threadIdx.x];",
    "racecheck": """
        __shared__ int shared[128];
        shared[threadIdx.x] = threadIdx.x;
        out[threadIdx.x] = shared[(threadIdx.x + 32) % 128];""",
    "synccheck": "if (threadIdx.x < 40) __syncthreads(); out[threadIdx.x] = 1;",
}


def run_control(name: str) -> None:
    """Launch the control of one tool."""
    source = f"""
extern "C" __global__ void control(int* out, const int* unwritten) {{
  {CONTROLS[name]}
}}"""
    out, unwritten = cupy.zeros(128, "int32"), cupy.empty(128, "int32")
    find_hopper().launch(compile_cuda(source), (1, 1, 1), (128, 1, 1), (out, unwritten), 0)


def run_gemm(name: str) -> None:
    """Launch a kernel of the ladder on ragged sizes: partial tiles on every side, odd N.

    A ring of stages goes round twice, and begins a third time with a tail of K.
    """
    program = compile_kernel(name)
    m, n, k = 193, 259, (2 * program.facts.stages + 1) * program.facts.tile_k + 8
    if program.facts.c_box:
        n = 264  # TMA stores C
    random = numpy.random.default_rng(0)
    a, b = (
        cupy.asarray(random.standard_normal(shape).astype("float16")) for shape in ((m, k), (n, k))
    )
    c = cupy.asarray(numpy.full((m, n), numpy.nan, "float16"))
    blocks = 4 if program.facts.persistent else None  # tiles are taken in turns, and shared
    plan(program, a, b, c, blocks=blocks).run()
    assert not numpy.isnan(c.get()).any(), "an element of C was never written"


def run_one_wgmma(name: str) -> None:
    """Launch the kernel of a single instruction; raises if a bit of its result is wrong."""
    warpgroup.probe_one("integers", find_hopper(), compile_kernel(name))


def run_ceiling(name: str) -> None:
    """Launch one block of the kernel of nothing but wgmma, A from both sources."""
    one_sm = replace(find_hopper(), sm_count=1)
    for source in warpgroup.SOURCES:
        warpgroup.check_ceiling(one_sm, 64, source)


def run_cases(name: str) -> None:
    """Launch a kernel in every way that the emulator is compared in."""
    cases = [case for case in CASES if case.kernel == name]
    assert cases, f"{name} has no case in hopper/conformance/kernels.py"
    for case in cases:
        run_on_gpu(case, find_hopper())


# Kernels whose launch checks more than a case does.
OTHERS = {"one_wgmma": run_one_wgmma, "ceiling": run_ceiling}


if __name__ == "__main__":
    # CuPy's pool hands out parts of larger blocks, in which an access out of bounds is no error.
    cupy.cuda.set_allocator(None)
    target = sys.argv[1]
    if target in CONTROLS:
        run_control(target)
    else:
        gemm = bool(PLANS[target].problems)
        OTHERS.get(target, run_gemm if gemm else run_cases)(target)
    cupy.cuda.Device().synchronize()
