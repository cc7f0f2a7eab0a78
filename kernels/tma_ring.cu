// tma_ring · one thread loads ahead, four warps read what has arrived
//
//   sums (blocks, 128) = for each thread the sum of all words that it read
//
// What it teaches: a ring of stages. A stage has two mbarriers. `full` counts the bytes of a box: the
// producer announces them, TMA reports them. `empty` counts the warps that have read it. While the
// consumers read one stage, the boxes of the others are on their way: STAGES boxes are in flight.
//
// in (M, N): 32-bit words, row-major, rows a multiple of 16 bytes. A box is BOX_M rows of 128 bytes.
// The boxes of `in` are numbered row by row, `across` in a row and `tiles` in all; box number b of
// `boxes` is tile b % tiles, so that a small `in` can be read many times.
// Launch: any number of blocks of 160 threads. Block i reads the boxes i, i + blocks, …
// Outputs: sums; received (blocks): bytes whose phases have completed, zero fill included.
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef BOX_M
#define BOX_M 64  // 8 KB
#endif
constexpr int BOX_N = 32;  // words: 128 bytes
constexpr unsigned BOX_BYTES = BOX_M * BOX_N * 4;
constexpr int WARPS = 4;  // that consume
constexpr int CONSUMERS = 32 * WARPS;
constexpr int THREADS = CONSUMERS + 32;            // and one warp that produces
constexpr int PIECES = BOX_BYTES / 16 / CONSUMERS;  // of 16 bytes, for each consumer

static_assert(BOX_M % 16 == 0 && BOX_M <= 256, "a whole number of pieces for each consumer");
static_assert(STAGES * BOX_BYTES <= 226 * 1024, "the ring lies in shared memory");

LAUNCH_FACT(tile_m, BOX_M);
LAUNCH_FACT(tile_n, BOX_N);
LAUNCH_FACT(tile_k, 1);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, STAGES * BOX_BYTES + 128);  // dynamic, 128 to round its start up
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
tma_ring(const __grid_constant__ TensorMap map, unsigned* sums, unsigned long long* received,
         int across, int tiles, int boxes) {
  extern __shared__ unsigned char dynamic[];
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  unsigned char* ring = dynamic + (-shared_address(dynamic) & 127);

  // [init]
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);       // the producer's arrival, and the bytes it announces
      mbarrier_init(&empty[stage], WARPS);  // an arrival of each warp that has read
    }
    fence_proxy_async();
    prefetch_tensormap(&map);  // the 128 bytes themselves, before the first copy needs them
  }
  __syncthreads();
  // [/init]

  int stage = 0;
  if (threadIdx.x / 32 == WARPS) {
    // [producer]
    unsigned parity = 1;  // nobody has read yet, and nobody needs to
    if (elect_one()) {
      for (int box = blockIdx.x; box < boxes; box += gridDim.x) {
        const int tile = box % tiles;
        mbarrier_wait_parity(&empty[stage], parity);
        mbarrier_arrive_expect_tx(&full[stage], BOX_BYTES);
        tma_load_2d(ring + stage * BOX_BYTES, &map, &full[stage], tile / across * BOX_M,
                    tile % across * BOX_N);
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    // [/producer]
  } else {
    // [consumer]
    unsigned parity = 0, sum = 0;
    unsigned long long bytes = 0;
    for (int box = blockIdx.x; box < boxes; box += gridDim.x) {
      mbarrier_wait_parity(&full[stage], parity);
      const uint4* piece = reinterpret_cast<const uint4*>(ring + stage * BOX_BYTES) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < PIECES; ++i, piece += CONSUMERS)
        sum += piece->x + piece->y + piece->z + piece->w;
      bytes += BOX_BYTES;
      fence_proxy_async();  // these reads, before TMA's next write to the stage
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[stage]);
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    // [/consumer]
    sums[blockIdx.x * CONSUMERS + threadIdx.x] = sum;
    if (threadIdx.x == 0) received[blockIdx.x] = bytes;
  }
}
