"""v1 on one tile in the emulator, launched by hand."""

import numpy as np

from hopper import TensorMap, compile_cuda
from hopper.emulator import Emulator
from hopper.paths import KERNELS

m, n, k = 128, 128, 192
random = np.random.default_rng(0)
a = random.standard_normal((m, k)).astype(np.float16)
b = random.standard_normal((n, k)).astype(np.float16)
c = np.full((m, n), np.nan, np.float16)

program = compile_cuda(KERNELS / "v1_wgmma.cu", lineinfo=True)  # or the text of a kernel
run = Emulator(schedule="random", seed=3).launch(
    program.ptx,
    "v1_wgmma",
    grid=(1, 1, 1),
    block=(128, 1, 1),
    args=(
        TensorMap(a, box=(128, 64)),
        TensorMap(b, box=(128, 64)),
        c,
        np.int32(m),
        np.int32(n),
        np.int32(k),
    ),
)
print(run.counts.most_common(3))
