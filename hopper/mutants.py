"""Kernels broken on purpose: one rule each, and what the hardware returns for it.

A chapter shows the change and the compiler's message; a recording says how often the GPU gave
a right answer all the same. The module runs itself in a process of its own for that, so
that a launch which hangs costs one process and nothing else.
"""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy

from hopper.check import compare
from hopper.compile import Program, compile_cuda, compile_kernel
from hopper.edits import changed
from hopper.emulator import Emulator
from hopper.errors import HopperError
from hopper.gemm import Problem, gemm, plan
from hopper.paths import INCLUDE, KERNELS, ROOT
from hopper.schema import Trial

# (m, n, k): one step along K, a few, ragged edges, many blocks, and more blocks than fit at once.
SHAPES = (
    (128, 128, 64),
    (256, 256, 512),
    (1000, 777, 520),
    (2048, 2048, 2048),
    (4096, 4096, 1024),
)
SEEDS = (0, 1, 2)
LAUNCHES = 20
HANG_SECONDS = 2
PROCESS_SECONDS = 120


@dataclass(frozen=True)
class Mutation:
    """One change to a kernel's source: ``old`` stands in it exactly once and becomes ``new``.

    ``defines``: the configuration to break, where the kernel as written does not show it.
    ``header``: of ``kernels/include`` and included by the kernel, where the change is made there.
    ``also``: what else must change for it, (old, new) of the same text.
    """

    kernel: str
    name: str
    rule: str
    old: str
    new: str
    defines: Mapping[str, int] = field(default_factory=dict)
    header: str = ""
    also: tuple[tuple[str, str], ...] = ()


#: v9 with pairs of tiles with which the emulator is quick, and shared however short they are.
SMALL_PAIRS = {"TILE_M": 128, "TILE_N": 128, "HAND_OVER": 0}

MUTATIONS = (
    Mutation(
        "v0_mma_sync",
        "A read unswizzled",
        "who reads a tile undoes the swizzle with which TMA wrote it",
        "swizzled_128b(a_row, a_chunk)",
        "a_row * 128 + a_chunk * 16",
    ),
    Mutation(
        "v0_mma_sync",
        "B addressed like A",
        "ldmatrix fills registers in the order of the addresses, and A and B want different ones",
        "        const int b_row = warp_column + j * 16 + lane / 16 * 8 + lane % 8;\n"
        "        const int b_chunk = kk / 8 + lane / 8 % 2;\n",
        "        const int b_row = warp_column + j * 16 + lane % 16;\n"
        "        const int b_chunk = kk / 8 + lane / 16;\n",
    ),
    Mutation(
        "v0_mma_sync",
        "no trailing barrier",
        "a tile may be overwritten only when all four warps have used what they read of it",
        "    __syncthreads();      // and so do",
        "    // and so do",
    ),
    *(
        Mutation(
            "v0_mma_sync",
            f"no proxy fence, {m}×{n}",
            "ordinary reads and TMA's writes take two paths: fence.proxy.async puts them in order",
            "    fence_proxy_async();  // this thread's reads",
            "    // this thread's reads",
            {"TILE_M": m, "TILE_N": n},
        )
        for m, n in ((128, 128), (64, 128))
    ),
    Mutation(
        "v1_wgmma",
        "no wgmma.fence",
        "wgmma.fence orders the registers of D before the first wgmma of a sequence",
        "    wgmma_fence();\n",
        "",
    ),
    Mutation(
        "v1_wgmma",
        "no wait_group",
        "a warp may read its accumulators, and let go of the tiles, only after wait_group",
        "    wgmma_wait_group<0>();\n",
        "",
    ),
    Mutation(
        "v1_wgmma",
        "no mbarrier wait",
        "what TMA wrote is visible only to those who saw the barrier's phase complete",
        "    mbarrier_wait_parity(&loaded, phase);\n",
        "",
    ),
    Mutation(
        "v1_wgmma",
        "phase never flips",
        "each wait names the parity of the phase it waits for, and that alternates",
        "    phase ^= 1;\n",
        "",
    ),
    Mutation(
        "v1_wgmma",
        "bytes of A only",
        "expect_tx announces every byte that will land in the phase",
        "mbarrier_arrive_expect_tx(&loaded, BYTES_A + BYTES_B);",
        "mbarrier_arrive_expect_tx(&loaded, BYTES_A);",
    ),
    Mutation(
        "v1_wgmma",
        "no trailing barrier",
        "a tile may be overwritten only when all four warps' reads of it have retired",
        "    __syncthreads();  // every warp's",
        "    // every warp's",
    ),
    Mutation(
        "v2_ring",
        "start not rounded up",
        "a tile with the 128-byte swizzle starts on a multiple of 1024 bytes, and dynamic shared "
        "memory starts behind the mbarriers",
        "dynamic + (-shared_address(dynamic) & 1023)",
        "dynamic",
    ),
    Mutation(
        "v2_ring",
        "asked a step early",
        "a stage may be filled again only when every warp has used what it holds",
        "asked < step + STAGES",
        "asked <= step + STAGES",
    ),
    Mutation(
        "v2_ring",
        "no mbarrier wait",
        "what TMA wrote is visible only to those who saw the barrier's phase complete",
        "    mbarrier_wait_parity(&full[stage], step / STAGES % 2);\n",
        "",
    ),
    Mutation(
        "v2_ring",
        "phase never flips",
        "once round the ring, a stage's barrier is in its next phase",
        "mbarrier_wait_parity(&full[stage], step / STAGES % 2);",
        "mbarrier_wait_parity(&full[stage], 0);",
    ),
    Mutation(
        "v2_ring",
        "bytes of A only",
        "expect_tx announces every byte that will land in the phase",
        "mbarrier_arrive_expect_tx(&full[stage], sizeof(Stage));",
        "mbarrier_arrive_expect_tx(&full[stage], sizeof(ring->a));",
    ),
    Mutation(
        "v2_ring",
        "no trailing barrier",
        "a stage may be overwritten only when all four warps' reads of it have retired",
        "    __syncthreads();  // every warp's",
        "    // every warp's",
    ),
    Mutation(
        "v3_specialized",
        "producer starts at parity 0",
        "all stages are free at first: the producer waits for the phase before the first",
        "unsigned parity = 1;",
        "unsigned parity = 0;",
    ),
    Mutation(
        "v3_specialized",
        "no wait for empty",
        "the producer overwrites a stage only when its consumers have released it",
        "        mbarrier_wait_parity(&empty[stage], parity);\n",
        "",
    ),
    Mutation(
        "v3_specialized",
        "no wait for full",
        "what TMA wrote is visible only to those who saw the barrier's phase complete",
        "    mbarrier_wait_parity(&full[stage], parity);\n",
        "",
    ),
    Mutation(
        "v3_specialized",
        "phase never flips",
        "once round the ring, a stage's barrier is in its next phase",
        "    if (++stage == STAGES) stage = 0, parity ^= 1;\n    // [/multiply]",
        "    if (++stage == STAGES) stage = 0;\n    // [/multiply]",
    ),
    Mutation(
        "v3_specialized",
        "bytes of A only",
        "expect_tx announces every byte that will land in the phase",
        "mbarrier_arrive_expect_tx(&full[stage], sizeof(Stage));",
        "mbarrier_arrive_expect_tx(&full[stage], sizeof(ring->a));",
    ),
    Mutation(
        "v3_specialized",
        "released before wait_group",
        "a stage is released only when the wgmma that read it have retired",
        "    wgmma_wait_group<0>();\n    if (lane == 0) mbarrier_arrive(&empty[stage]);",
        "    if (lane == 0) mbarrier_arrive(&empty[stage]);\n    wgmma_wait_group<0>();",
    ),
    Mutation(
        "v3_specialized",
        "empty counts one warp",
        "a stage is free when all four warps have released it: the count says how many",
        "mbarrier_init(&empty[stage], CONSUMERS * 4);",
        "mbarrier_init(&empty[stage], 1);",
    ),
    Mutation(
        "v3_specialized",
        "empty counts threads",
        "the count of a barrier is of those who arrive, here one lane of each warp",
        "mbarrier_init(&empty[stage], CONSUMERS * 4);",
        "mbarrier_init(&empty[stage], CONSUMERS * 128);",
    ),
    Mutation(
        "v3_specialized",
        "__syncthreads() among consumers",
        "__syncthreads() waits for every thread of the block that has not left, and the producer "
        "is at work elsewhere",
        "    if (lane == 0) mbarrier_arrive(&empty[stage]);",
        "    __syncthreads();\n    if (lane == 0) mbarrier_arrive(&empty[stage]);",
    ),
    Mutation(
        "v4_two_consumers",
        "empty counts one consumer",
        "a stage is free when both consumers have released it",
        "mbarrier_init(&empty[stage], CONSUMERS * 4);",
        "mbarrier_init(&empty[stage], 4);",
    ),
    Mutation(
        "v4_two_consumers",
        "both take the upper half",
        "each consumer multiplies rows of its own",
        "ring[stage].a + warpgroup * ROWS * TILE_K;",
        "ring[stage].a;",
    ),
    Mutation(
        "v4_two_consumers",
        "consumers start at parity 1",
        "no tile is there at first: a consumer waits for the first phase",
        "Place<STAGES> at{0};",
        "Place<STAGES> at{1};",
    ),
    Mutation(
        "v4_two_consumers",
        "one warp gives up registers",
        "all four warps of a warpgroup execute setmaxnreg",
        "    setmaxnreg_dec<",
        "    if (warp == CONSUMERS * 4) setmaxnreg_dec<",
    ),
    Mutation(
        "v4_two_consumers",
        "nobody gives up registers",
        "a warpgroup that asks for more registers waits until others have given them up",
        "    setmaxnreg_dec<",
        "    // setmaxnreg_dec<",
    ),
    Mutation(
        "v4_two_consumers",
        "more registers than there are",
        "a block shares out the registers that it was launched with, and no more",
        "  setmaxnreg_inc<",
        "  setmaxnreg_inc<8 + ",
    ),
    Mutation(
        "v5_in_flight",
        "released while in flight",
        "a stage is released when the group that read it has retired, which is a step later",
        "if (lane == 0 && step > 0) mbarrier_arrive(&empty[previous]);",
        "if (lane == 0) mbarrier_arrive(&empty[stage]);",
    ),
    Mutation(
        "v5_in_flight",
        "released before wait_group",
        "only wait_group says that the group before has retired",
        "    wgmma_wait_group<1>();  // all groups but this one have retired\n"
        "    if (lane == 0 && step > 0) mbarrier_arrive(&empty[previous]);",
        "    if (lane == 0 && step > 0) mbarrier_arrive(&empty[previous]);\n"
        "    wgmma_wait_group<1>();",
    ),
    Mutation(
        "v5_in_flight",
        "two groups may run",
        "with two groups in flight the stage of the step before is still being read",
        "wgmma_wait_group<1>();",
        "wgmma_wait_group<2>();",
    ),
    Mutation(
        "v5_in_flight",
        "released in the first step too",
        "one release for each time that a stage was used",
        "if (lane == 0 && step > 0)",
        "if (lane == 0)",
    ),
    Mutation(
        "v5_in_flight",
        "the last group is not waited for",
        "a warp may read its accumulators only after wait_group",
        "  wgmma_wait_group<0>();  // now this one, too\n",
        "",
    ),
    Mutation(
        "v6_fp16_acc",
        "no proxy fence",
        "ordinary writes and TMA's reads take two paths: fence.proxy.async puts them in order",
        "  fence_proxy_async();           // this",
        "  // this",
    ),
    Mutation(
        "v6_fp16_acc",
        "stored before all have written",
        "one thread stores what 128 have written: they meet first",
        "  named_barrier_sync(own, 128);  // and",
        "  // and",
    ),
    Mutation(
        "v6_fp16_acc",
        "no turns",
        "one buffer has one owner at a time",
        "  if (warpgroup > 0) named_barrier_sync(turn, 128 + 32);\n",
        "",
    ),
    Mutation(
        "v6_fp16_acc",
        "passed on before it was read",
        "the source of a TMA store may be overwritten only after wait_group.read",
        "      tma_wait_group_read<0>();  // the buffer",
        "      // the buffer",
    ),
    Mutation(
        "v6_fp16_acc",
        "all four warps pass it on",
        "a barrier counts arrivals, whoever they are from: only the warp that stored knows enough",
        "    if (warpgroup + 1 < CONSUMERS) named_barrier_arrive(turn + 1, 128 + 32);\n  }\n",
        "  }\n  if (warpgroup + 1 < CONSUMERS) named_barrier_arrive(turn + 1, 128 + 32);\n",
    ),
    Mutation(
        "v6_fp16_acc",
        "__syncthreads() in a turn",
        "__syncthreads() waits for every thread of the block that has not left, and the other "
        "consumers wait for their turn",
        "  named_barrier_sync(own, 128);  // and",
        "  __syncthreads();  // and",
    ),
    Mutation(
        "v6_fp16_acc",
        "not swizzled",
        "who writes a box for TMA swizzles it as the map says",
        "(chunk % 8 ^ r % 8) * 8",
        "chunk % 8 * 8",
    ),
    Mutation(
        "v7_persistent",
        "the last stage of a tile is kept",
        "a block that goes on needs every stage back",
        "    if (lane == 0) mbarrier_arrive(&empty[previous]);  // the producer may go on\n",
        "",
    ),
    Mutation(
        "v7_persistent",
        "the order behind the arrival",
        "an mbarrier publishes what its arrivals came after, and nothing that follows them",
        "          if (step == 0) orders[at.stage] = {row, column, true};\n"
        "          mbarrier_arrive_expect_tx(landed, sizeof(stage));\n",
        "          mbarrier_arrive_expect_tx(landed, sizeof(stage));\n"
        "          if (step == 0) orders[at.stage] = {row, column, true};\n",
    ),
    Mutation(
        "v7_persistent",
        "all stages held back",
        "a consumer that holds back its steps keeps their stages, and the other one needs one more",
        "#define TURN (STAGES - 1)",
        "#define TURN STAGES",
        also=(("static_assert(TURN < STAGES,", "static_assert(TURN <= STAGES,"),),
    ),
    Mutation(
        "v7_persistent",
        "no proxy fence before the store",
        "ordinary writes come before TMA's reads only by fence.proxy.async and then a barrier",
        "  fence_proxy_async();  // what this thread wrote comes before what TMA reads\n",
        "",
        header="outbox.cuh",
    ),
    Mutation(
        "v7_persistent",
        "drained before it is read",
        "a slot may be filled again when TMA has read it, which wait_group.read says",
        "    tma_wait_group_read<0>();\n",
        "",
        header="outbox.cuh",
    ),
    Mutation(
        "v7_persistent",
        "one drained barrier a slot",
        "who waits by parity is never more than one phase behind",
        "unsigned long long drained[2][2];",
        "unsigned long long drained[2];",
        header="outbox.cuh",
        also=(
            (
                "    for (int consumer = 0; consumer < 2; ++consumer) "
                "mbarrier_init(&out.drained[consumer][slot], 1);\n",
                "    mbarrier_init(&out.drained[slot], 1);\n",
            ),
            (
                "&out.drained[consumer ^ 1][slot], (tiles + consumer + 1) % 2",
                "&out.drained[slot], (consumer + 1) % 2",
            ),
            ("&out.drained[1][0], (tiles + 1) % 2", "&out.drained[0], 1"),
            ("&out.drained[use / 2 % 2][slot]", "&out.drained[slot]"),
        ),
    ),
    Mutation(
        "v8_multicast",
        "sent before the other is ready",
        "nobody sends to another block before a cluster barrier says that its mbarriers exist",
        "  cluster_sync();  // nobody sends before",
        "  __syncthreads();  // nobody sends before",
    ),
    Mutation(
        "v8_multicast",
        "left before the other is done",
        "a block leaves when no other block of its cluster will access its shared memory",
        "    cluster_sync();  // a block that leaves",
        "    // a block that leaves",
        also=(("  cluster_sync();  // as above", "  // as above"),),
    ),
    Mutation(
        "v8_multicast",
        "empty counts one block",
        "a stage is free when both blocks have released it: the next load writes into both",
        "barriers.init(CONSUMERS * 4);",
        "barriers.init(CONSUMERS * 4 / CLUSTER);",
    ),
    Mutation(
        "v8_multicast",
        "released twice at home",
        "a producer must hear from the block that reads what it sent there",
        "mbarrier_arrive_at_rank<CLUSTER_SCOPE != 0>(&empty[stage], lane);",
        "mbarrier_arrive(&empty[stage]);",
        header="pair_ring.cuh",
    ),
    Mutation(
        "v8_multicast",
        "bytes of its own loads only",
        "expect_tx announces every byte that lands here, whoever asked for it",
        "mbarrier_arrive_expect_tx(landed, sizeof(stage));",
        "mbarrier_arrive_expect_tx(landed, (A_ROWS + B_ROWS) * TILE_K * sizeof(Element));",
    ),
    Mutation(
        "v8_multicast",
        "the mask names one block",
        "a half goes to every block that counts its bytes",
        "column + b_half, deep, 3);",
        "column + b_half, deep, 1 << rank);",
    ),
    Mutation(
        "v8_multicast",
        "both ask for the same half",
        "each block loads the half of its rank",
        "&map_b, landed, column + b_half, deep",
        "&map_b, landed, column, deep",
    ),
    Mutation(
        "v9_stream_k",
        "no proxy fence before a gift is read",
        "who reads by TMA what threads wrote to global memory fences between flag and copy",
        "    flags[warpgroup] = 0;\n  }\n  fence_proxy_async_global();\n",
        "    flags[warpgroup] = 0;\n  }\n",
        SMALL_PAIRS,
        header="partials.cuh",
    ),
    Mutation(
        "v9_stream_k",
        "the flag before the sums",
        "a release publishes what came before it, and a barrier what all others did",
        "#pragma unroll\n  for (int q = 0; q < kFloats / 4; ++q)\n    mine[",
        "  if (threadIdx.x % 128 == 0) store_release_gpu(flag, 1);\n"
        "#pragma unroll\n  for (int q = 0; q < kFloats / 4; ++q)\n    mine[",
        SMALL_PAIRS,
        header="partials.cuh",
        also=(
            (
                "  named_barrier_sync(2 + warpgroup, 128);\n"
                "  if (threadIdx.x % 128 == 0) store_release_gpu(flag, 1);\n",
                "",
            ),
        ),
    ),
    Mutation(
        "v9_stream_k",
        "flags stay raised",
        "a workspace is left as it was found, or the next launch takes old sums for its own",
        "    flags[warpgroup] = 0;\n",
        "",
        SMALL_PAIRS,
        header="partials.cuh",
    ),
    Mutation(
        "v9_stream_k",
        "no proxy fence behind a gift",
        "ordinary reads of a stage come before TMA's next write to it by fence.proxy.async",
        "    fence_proxy_async();  // these reads come before what TMA writes there next\n",
        "",
        SMALL_PAIRS,
        header="partials.cuh",
    ),
)


def mutations(kernel: str) -> list[Mutation]:
    """The mutations of one kernel."""
    return [mutation for mutation in MUTATIONS if mutation.kernel == kernel]


def find_mutation(kernel: str, name: str) -> Mutation:
    """The mutation of that name. Raises HopperError listing those that exist."""
    for mutation in mutations(kernel):
        if mutation.name == name:
            return mutation
    there = ", ".join(m.name for m in mutations(kernel)) or "(none)"
    raise HopperError(f"{name!r}: {kernel} has no such mutation; there are {there}")


def mutated_source(mutation: Mutation) -> str:
    """The kernel's text with the mutation applied; a changed header stands in its #include's place.

    Raises HopperError when a changed line no longer stands in the text exactly once: a mutation
    that changes nothing would be reported as harmless.
    """
    name = f"{mutation.kernel}.cu"
    source = (KERNELS / name).read_text(encoding="utf-8")
    changes = ((mutation.old, mutation.new), *mutation.also)
    if not mutation.header:
        return _changed(mutation, source, name, changes)
    header = (INCLUDE / mutation.header).read_text(encoding="utf-8").replace("#pragma once\n", "")
    header = _changed(mutation, header, mutation.header, changes)
    return _changed(mutation, source, name, ((f'#include "{mutation.header}"\n', header),))


def _changed(mutation: Mutation, text: str, where: str, changes: Iterable[tuple[str, str]]) -> str:
    whose = f"mutation {mutation.name!r}"
    return changed(text, changes, where=where, whose=whose, home="hopper/mutants.py")


def compile_mutation(mutation: Mutation) -> Program:
    """The broken kernel, compiled; its log holds what the compiler noticed."""
    return compile_cuda(mutated_source(mutation), mutation.kernel, defines=mutation.defines)


def emulated(mutation: Mutation) -> list[str]:
    """What the emulator reports of a broken kernel: kinds of hazards, in the order found.

    Two tiles of C, and so many steps along K that a ring of stages goes round twice. A persistent
    kernel has as few blocks as it can, which take three tiles each. One with a workspace has three
    clusters that share one unit, and is launched again, with other inputs and in other orders of
    events. Their pieces fit in the ring, so that gifts are asked for long before they are given.
    Where no rule is broken, whether the results are "right" or there is a "wrong result".
    """
    sound, broken = compile_kernel(mutation.kernel, **mutation.defines), compile_mutation(mutation)
    facts = sound.facts
    shares = bool(facts.partial_floats)
    rows = 1 if shares else 3 * facts.cluster if facts.persistent else 2
    columns = facts.cluster if shares else 1
    steps = 3 * facts.stages - 1 if shares else 2 * facts.stages + 1
    problem = Problem(rows * facts.tile_m, columns * facts.tile_n, steps * facts.tile_k)
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    # A plan refuses what is unclean, so it is the sound kernel's.
    blocks = facts.cluster * (3 if shares else 1) if facts.persistent else None
    launch = replace(plan(sound, a, b, c, blocks=blocks), program=broken)
    found: dict[str, None] = {}
    right = True
    orders = [{}, *({"schedule": "random", "seed": seed, "tma": "eager"} for seed in range(1, 4))]
    for order in orders if shares else orders[:1]:
        emulator = Emulator(on_hazard="collect", **order)
        run = replace(launch, backend=replace(launch.backend, emulator=emulator)).run()
        found |= dict.fromkeys(hazard.kind for hazard in run.hazards)
        right = right and compare(c, a, b, fp16_sums=bool(facts.fp16_sums)).ok
        a *= 2
        c.fill(numpy.nan)
    return list(found) or ["right" if right else "wrong result"]


def try_on_hopper(mutation: Mutation) -> tuple[Trial, ...]:
    """What this machine's Hopper GPU returns for a broken kernel: a Trial for each problem tried.

    A launch is right when every bit equals the unbroken kernel's, else wrong. One that does not
    end within HANG_SECONDS is hung, one that ends its process in another way failed; either
    takes the rest of that problem's launches with it. Where it was the problem's first launch, the
    shape's other seeds are not tried: numbers do not decide whether a kernel ends.
    """
    problems = _problems(mutation)
    launches: dict[int, list[dict]] = {index: [] for index in range(len(problems))}
    first = 0
    while first < len(problems):
        output, ended = _run_from(mutation, first)
        for line in output:
            launches[line["problem"]].append(line)
        if ended is None:
            break
        first = output[-1]["problem"] if output else first
        if len(launches[first]) == LAUNCHES:  # it was the next problem's first launch
            first += 1
        launches[first].append({"verdict": ended, "error": None})
        first = first + 1 if launches[first][:-1] else (first // len(SEEDS) + 1) * len(SEEDS)
    return tuple(
        _trial(problem, launches[index])
        for index, problem in enumerate(problems)
        if launches[index]
    )


def _problems(mutation: Mutation) -> list[Problem]:
    """What a broken kernel is tried on. One that stores C by TMA has an N that 8 divides."""
    unit = 8 if compile_kernel(mutation.kernel, **mutation.defines).facts.c_rows else 1
    return [Problem(m, -(-n // unit) * unit, k, seed=seed) for m, n, k in SHAPES for seed in SEEDS]


def _trial(problem: Problem, lines: list[dict]) -> Trial:
    verdicts = Counter(line["verdict"] for line in lines)
    errors = [line["error"] for line in lines if line["error"] is not None]
    return Trial(
        problem=problem,
        runs=len(lines),
        right=verdicts["right"],
        wrong=verdicts["wrong"],
        hung=verdicts["hung"],
        failed=verdicts["failed"],
        worst_error=max(errors, default=None),
    )


def _run_from(mutation: Mutation, first: int) -> tuple[list[dict], str | None]:
    """One process over the problems from ``first`` on: its lines, and how it ended early."""
    done = subprocess.run(
        [sys.executable, "-m", "hopper.mutants", mutation.kernel, mutation.name, str(first)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
    if done.returncode == -signal.SIGALRM:
        return lines, "hung"
    return lines, "failed" if done.returncode else None


def _launch_all(mutation: Mutation, first: int) -> None:
    """Launch the broken kernel over problems and repeats; print a verdict for each launch."""
    import cupy

    sound = compile_kernel(mutation.kernel, **mutation.defines)
    broken = compile_mutation(mutation)
    problems = _problems(mutation)
    for index in range(first, len(problems)):
        a, b = (cupy.asarray(x) for x in problems[index].inputs())
        expected = gemm(sound, a, b)
        c = cupy.empty_like(expected)
        launch = replace(plan(sound, a, b, c), program=broken)  # a plan refuses what is unclean
        for _ in range(LAUNCHES):
            c.fill(cupy.nan)
            signal.alarm(HANG_SECONDS)  # its default action ends the process, a hung GPU or not
            launch.run()
            cupy.cuda.Device().synchronize()
            signal.alarm(0)
            same = bool((c.view(cupy.uint16) == expected.view(cupy.uint16)).all())
            error = cupy.abs(c.astype(cupy.float32) - expected.astype(cupy.float32))
            line = {
                "problem": index,
                "verdict": "right" if same else "wrong",
                "error": None if same else float(cupy.nan_to_num(error).max()),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    _launch_all(find_mutation(sys.argv[1], sys.argv[2]), int(sys.argv[3]))
