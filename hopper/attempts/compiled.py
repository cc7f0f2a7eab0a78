"""Attempts on what the compiler is given: loops, descriptors, registers."""

from hopper.attempts.model import BURST, SUSTAINED, Attempt, Edit, Lesson, Prediction
from hopper.attempts.shapes import MORE_ROOM, ROOM_NOTE, TALL, V9, WIDE, registers

COMPILED = "Loops, descriptors and registers"


def _shuffled(
    name: str, shape: str, defines: dict[str, int], room: tuple[Edit, ...] = (), note: str = ""
) -> Attempt:
    return Attempt(
        f"{name}-shuffled",
        f"{shape}, the number of steps goes through a shuffle",
        V9,
        defines,
        (
            Edit(
                "const Order order = orders[at.stage];",
                "Order order = orders[at.stage];\n"
                "      order.steps = __shfl_sync(0xffffffff, order.steps, 0);",
            ),
            *room,
        ),
        against=name,
        burst=Prediction(-0.1, 0.2),
        sustained=Prediction(-0.2, 0.2) if name == "wide" else None,
        why="The shuffle tells the compiler that a warp's lanes agree, as it does for the number "
        "of the warp. It happens once a tile." + note,
        lessons=(
            Lesson(
                "It has the opposite effect: the compiler takes the loop over K out of the uniform "
                "datapath, and each step moves more registers.",
                -3,
                -0.3,
                SUSTAINED if name == "wide" else BURST,
            ),
        ),
        group=COMPILED,
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
                "multiply.cuh",
            ),
        ),
        against="wide",
        burst=Prediction(-0.2, 0.2),
        why="The same eight instructions in another order: four on one accumulator, then four on "
        "the other.",
        lessons=(Lesson("The tensor core queues them either way.", -0.3, 0.3),),
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
                "                                           ring[stage].tiles + "
                "(warpgroup * kBlocks + i) * WGMMA_M * TILE_K + kk)",
                "multiply.cuh",
            ),
            Edit(
                "descriptor_advance(b, kk)",
                "descriptor_k_major_128b(ring[stage].tiles + "
                "CONSUMERS * kBlocks * WGMMA_M * TILE_K + kk)",
                "multiply.cuh",
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
                "multiply.cuh",
            ),
        ),
        against="wide",
        burst=Prediction(-0.1, 0.3),
        why="Half the branches, and fewer questions about the turn.",
        lessons=(
            Lesson(
                "A step lasts for more than a thousand cycles. A branch does not show.", -0.3, 0.3
            ),
        ),
        group=COMPILED,
    ),
    Attempt(
        "wide-24-240",
        "256 × 192, 24 registers for the producer and 240 for consumers",
        V9,
        WIDE,
        registers(24, 240),
        against="wide",
        burst=Prediction(-0.1, 0.2),
        why="Consumers are close to their limit, and one thread that loads needs few.",
        lessons=(Lesson("The thread that plans the stream needs more than that.", refused=True),),
        group=COMPILED,
    ),
    Attempt(
        "wide-56-224",
        "256 × 192, 56 registers for the producer and 224 for consumers",
        V9,
        WIDE,
        MORE_ROOM,
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
        lessons=(Lesson("This tile does not need setmaxnreg; the wide one does.", -0.3, 0.3),),
        group=COMPILED,
    ),
    Attempt(
        "wide-no-fence",
        "256 × 192, no wgmma.fence",
        V9,
        WIDE,
        (Edit("    wgmma_fence();\n", "", "multiply.cuh"),),
        against="wide",
        burst=Prediction(0, 0.2),
        why="From the second step on nobody but wgmma touches the sums, so one instruction less in "
        "each step should do no harm.",
        lessons=(
            Lesson(
                "The compiler puts it back and says so. A kernel that it had to repair is not "
                "the kernel of its source, and is not timed here.",
                refused=True,
            ),
        ),
        group=COMPILED,
    ),
    Attempt(
        "wide-no-setmaxnreg",
        "256 × 192, no registers change hands",
        V9,
        WIDE,
        (
            Edit("    setmaxnreg_dec<40>();  // of 168 at launch\n", ""),
            Edit("    setmaxnreg_inc<232>();  // 2 · 232 + 40 = 3 · 168\n", ""),
        ),
        against="wide",
        burst=Prediction(-60, -20),
        why="192 sums do not fit 168 registers: most of them would go to memory and back in each "
        "step.",
        lessons=(Lesson("Here setmaxnreg is what makes the tile possible.", refused=True),),
        group=COMPILED,
    ),
    _shuffled("wide", "256 × 192", WIDE, MORE_ROOM, ROOM_NOTE),
    _shuffled("tall", "128 × 256", TALL),
)
