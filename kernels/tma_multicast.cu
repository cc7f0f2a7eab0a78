// tma_multicast · two blocks need the same box, and memory is asked once
//
//   sums (blocks, 128) = for each thread the sum of all words that it read, alike in both blocks
//
// What it teaches: multicast. The ring of tma_ring, in clusters of two blocks that read the same
// boxes. Each block loads one half of a box, for both. So each block's `full` waits for bytes that
// the other one asked for, and a stage is empty when both blocks have read it, which the warps tell
// both producers.
//
// MULTICAST = 0: each block loads both halves for itself, and frees its own stages only.
// CLUSTER_SCOPE = 0: the arrival that frees a stage of the other block is .release of its own block
// only: less than the memory model asks for, and what many kernels do.
// in, boxes, across, tiles: as for tma_ring; the map's box is half a box, BOX_M / 2 rows.
// Launch: any number of clusters of two blocks of 160 threads. Cluster i reads the boxes i,
// i + clusters, … Outputs: sums; received (blocks): bytes whose phases have completed.
#include "cluster.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef BOX_M
#define BOX_M 64  // 8 KB
#endif
#ifndef MULTICAST
#define MULTICAST 1
#endif
#ifndef CLUSTER_SCOPE
#define CLUSTER_SCOPE 1
#endif
constexpr int BOX_N = 32;  // words: 128 bytes
constexpr unsigned BOX_BYTES = BOX_M * BOX_N * 4, HALF = BOX_BYTES / 2;
constexpr int WARPS = 4;  // that consume, in each block
constexpr int CONSUMERS = 32 * WARPS;
constexpr int THREADS = CONSUMERS + 32;            // and one warp that produces
constexpr int PIECES = BOX_BYTES / 16 / CONSUMERS;  // of 16 bytes, for each consumer
constexpr int BLOCKS = 2;                          // of a cluster

static_assert(BOX_M % 16 == 0 && BOX_M <= 256, "a whole number of pieces for each consumer");
static_assert(STAGES * BOX_BYTES <= 226 * 1024, "the ring lies in shared memory");

LAUNCH_FACT(tile_m, BOX_M);
LAUNCH_FACT(tile_n, BOX_N);
LAUNCH_FACT(tile_k, 1);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, STAGES * BOX_BYTES + 128);  // dynamic, 128 to round its start up
LAUNCH_FACT(cluster, BLOCKS);

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS)
tma_multicast(const __grid_constant__ TensorMap map, unsigned* sums, unsigned long long* received,
              int across, int tiles, int boxes) {
  extern __shared__ unsigned char dynamic[];
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  unsigned char* ring = dynamic + (-shared_address(dynamic) & 127);
  const int rank = cluster_rank();

  // [init]
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], MULTICAST ? BLOCKS * WARPS : WARPS);
    }
    fence_mbarrier_init();
  }
  cluster_sync();  // nobody sends before the other block's barriers exist
  // [/init]

  int stage = 0;
  if (threadIdx.x / 32 == WARPS) {
    // [producer]
    unsigned parity = 1;
    if (elect_one()) {
      for (int box = blockIdx.x / BLOCKS; box < boxes; box += gridDim.x / BLOCKS) {
        const int tile = box % tiles, row = tile / across * BOX_M, column = tile % across * BOX_N;
        unsigned char* to = ring + stage * BOX_BYTES;
        mbarrier_wait_parity_cluster(&empty[stage], parity);  // both blocks have read
        mbarrier_arrive_expect_tx(&full[stage], BOX_BYTES);   // both halves, whoever asks for them
#if MULTICAST
        tma_load_2d_multicast(to + rank * HALF, &map, &full[stage], row + rank * BOX_M / 2, column,
                              (1 << BLOCKS) - 1);
#else
        tma_load_2d(to, &map, &full[stage], row, column);
        tma_load_2d(to + HALF, &map, &full[stage], row + BOX_M / 2, column);
#endif
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    __syncwarp();
    // [/producer]
  } else {
    unsigned parity = 0, sum = 0;
    unsigned long long bytes = 0;
    for (int box = blockIdx.x / BLOCKS; box < boxes; box += gridDim.x / BLOCKS) {
      mbarrier_wait_parity(&full[stage], parity);
      const uint4* piece = reinterpret_cast<const uint4*>(ring + stage * BOX_BYTES) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < PIECES; ++i, piece += CONSUMERS)
        sum += piece->x + piece->y + piece->z + piece->w;
      bytes += BOX_BYTES;
      // [release]
      fence_proxy_async();
      __syncwarp();
#if MULTICAST
      const int lane = threadIdx.x % 32;
      if (lane < BLOCKS) mbarrier_arrive_at_rank<CLUSTER_SCOPE != 0>(&empty[stage], lane);
#else
      if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[stage]);
#endif
      // [/release]
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    sums[blockIdx.x * CONSUMERS + threadIdx.x] = sum;
    if (threadIdx.x == 0) received[blockIdx.x] = bytes;
  }
  // [leave]
  cluster_sync();  // a block that leaves takes its barriers along, and the other still arrives there
  // [/leave]
}
