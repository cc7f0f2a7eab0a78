"""Attempts on what the compiler is given: loops, descriptors, registers."""

from hopper.attempts.model import SUSTAINED, Attempt, Edit, Lesson, Prediction
from hopper.attempts.shapes import TALL, V9, WIDE

COMPILED = "Loops, descriptors and registers"


def _registers(producer: int, consumer: int) -> tuple[Edit, ...]:
    return (
        Edit("setmaxnreg_dec<40>();", f"setmaxnreg_dec<{producer}>();"),
        Edit("setmaxnreg_inc<232>();", f"setmaxnreg_inc<{consumer}>();"),
    )


AS_COMPILED = (
    Attempt(
        "wide-order",
        "256 × 192, one block of rows after the other",
        V9,
        WIDE,
        (
            Edit(
                "for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {\n"
                "#pragma unroll\n"
                "      for (int i = 0; i < kBlocks; ++i) {",
                "for (int i = 0; i < kBlocks; ++i) {\n"
                "#pragma unroll\n"
                "      for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {",
            ),
        ),
        against="wide",
        burst=Prediction(-0.2, 0.2),
        why="The same eight instructions in another order: four on one accumulator, then four on "
        "the other.",
        lessons=(
            Lesson("The tensor core queues them either way.", -0.3, 0.3),
        ),
        group=COMPILED,
    ),
    Attempt(
        "wide-descriptors",
        "256 × 192, descriptors built anew for each instruction",
        V9,
        WIDE,
        (
            Edit(
                "descriptor_advance(a, i * WGMMA_M * TILE_K + kk)",
                "descriptor_k_major_128b(\n"
                "                                           tiles + (warpgroup * kBlocks + i) * "
                "WGMMA_M * TILE_K + kk)",
            ),
            Edit(
                "descriptor_advance(b, kk)",
                "descriptor_k_major_128b(tiles + CONSUMERS * kBlocks * WGMMA_M * TILE_K + kk)",
            ),
        ),
        against="wide",
        burst=Prediction(-0.4, 0.1),
        why="A few integer instructions more for each wgmma, in warps that have little else to do.",
        group=COMPILED,
    ),
    Attempt(
        "wide-unroll-2",
        "256 × 192, the loop over K unrolled twice",
        V9,
        WIDE,
        (
            Edit(
                "#pragma unroll 1     // the PTX stays short enough to read",
                "#pragma unroll 2",
            ),
        ),
        against="wide",
        burst=Prediction(-0.1, 0.3),
        why="Half the branches, and fewer questions about the turn.",
        lessons=(
            Lesson("A step lasts for more than a thousand cycles. A branch does not show.",
                   -0.3, 0.3),
        ),
        group=COMPILED,
    ),
    Attempt(
        "wide-24-240",
        "256 × 192, 24 registers for the producer and 240 for consumers",
        V9,
        WIDE,
        _registers(24, 240),
        against="wide",
        burst=Prediction(-0.1, 0.2),
        why="Consumers are close to their limit, and one thread that loads needs few.",
        lessons=(
            Lesson("The thread that plans the stream needs more than that.", refused=True),
        ),
        group=COMPILED,
    ),
    Attempt(
        "wide-56-224",
        "256 × 192, 56 registers for the producer and 224 for consumers",
        V9,
        WIDE,
        _registers(56, 224),
        against="wide",
        burst=Prediction(-0.2, 0.2),
        why="Its sums take 192, and 32 are left for all else.",
        lessons=(
            Lesson("What is not used is not missed.", -0.3, 0.3),
            Lesson("32 registers beside the sums are too few.", refused=True),
        ),
        group=COMPILED,
    ),
    Attempt(
        "tall-no-setmaxnreg",
        "128 × 256, no registers change hands",
        V9,
        TALL,
        (
            Edit("    setmaxnreg_dec<40>();  // of 168 at launch\n", ""),
            Edit("    setmaxnreg_inc<232>();  // 2 · 232 + 40 = 3 · 168\n", ""),
        ),
        against="tall",
        burst=Prediction(-0.2, 0.1),
        why="Its sums take 128 of 168 registers, so that 40 are left for all else.",
        lessons=(
            Lesson("This tile does not need setmaxnreg; the wide one does.", -0.3, 0.3),
        ),
        group=COMPILED,
    ),
    Attempt(
        "wide-no-fence",
        "256 × 192, no wgmma.fence",
        V9,
        WIDE,
        (Edit("    wgmma_fence();\n", ""),),
        against="wide",
        burst=Prediction(0, 0.2),
        why="From the second step on nobody but wgmma touches the sums, so one instruction less in "
        "each step should do no harm.",
        lessons=(
            Lesson("The compiler puts it back and says so. A kernel that it had to repair is not "
                   "the kernel of its source, and is not timed here.", refused=True),
        ),
        group=COMPILED,
    ),
)  # fmt: skip
_ = SUSTAINED
