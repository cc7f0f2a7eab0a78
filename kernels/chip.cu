// chip · where blocks run, and how far the lines of L2 are from there
//
//   sms (blocks): the SM of each block; cycles (blocks, lines): of an atomic on a line, fewest of TRIES
//
// What it teaches: SMs have neighbours. Blocks of a cluster lie in one GPC, so launches with clusters
// of several sizes show which SMs belong together, and in which order clusters are dealt to the GPCs.
// L2 has two sides: an atomic takes longer where the line is near one side and the SM near the other.
//
// memory: `lines` words, APART words from each other; adding 0 leaves them as they are.
// Launch: clusters of CLUSTER blocks of one thread, at most as many blocks as there are SMs. A block
// takes more than half of an SM's shared memory, and is busy for long enough that all blocks run at
// the same time: each has an SM of its own.
#include "launch_facts.cuh"

#ifndef CLUSTER
#define CLUSTER 2
#endif
constexpr int THREADS = 1;
constexpr int APART = 17 * 32;  // words: 17 lines of 128 bytes
constexpr int TRIES = 12;       // the first one may find the line in memory only
constexpr unsigned NEVER = 0xffffffff;  // what `memory` does not hold

static_assert(CLUSTER >= 1 && CLUSTER <= 8, "larger clusters must be asked for before the launch");

LAUNCH_FACT(tile_m, 0);  // it has no tiles
LAUNCH_FACT(tile_n, 0);
LAUNCH_FACT(tile_k, 0);
LAUNCH_FACT(stages, 0);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 128 * 1024);  // dynamic; an SM has 228 KB
LAUNCH_FACT(cluster, CLUSTER);
LAUNCH_FACT(apart, APART);

__device__ inline long long clock_now() {
  long long cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) :: "memory");
  return cycles;
}

// [atomic]
// Cycles from before an atomic to behind it. An instruction is issued before the last one's result is
// there, so the second look at the clock is under a condition that needs what the atomic returns.
__device__ inline unsigned atomic_cycles(unsigned* word) {
  unsigned old;
  const long long start = clock_now();
  asm volatile("atom.global.add.u32 %0, [%1], 0;" : "=r"(old) : "l"(word) : "memory");
  long long end = start;
  if (old != NEVER) end = clock_now();
  return end - start;
}
// [/atomic]

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
chip(unsigned* memory, unsigned* sms, unsigned* cycles, int lines) {
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sms[blockIdx.x]));
#pragma unroll 1
  for (int i = 0; i < lines; ++i) {
    const int line = (i + blockIdx.x) % lines;  // so that few SMs are at one line at the same time
    unsigned fewest = NEVER;
#pragma unroll 1
    for (int t = 0; t < TRIES; ++t) fewest = min(fewest, atomic_cycles(memory + line * APART));
    cycles[blockIdx.x * lines + line] = fewest;
  }
}
