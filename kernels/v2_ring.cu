// v2 · a ring of stages: one thread asks for tiles ahead of their use
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, accumulated in fp32.
//   With -DBF16=1 they are bf16.
//
// What it teaches: STAGES pairs of tiles lie in shared memory, each with its own mbarrier. Thread 0
// keeps STAGES loads in flight: it asks for all of them first, then refills the stage just used.
// But a stage is free only when all four warps have met at a barrier, with no product running.
//
// Any M and N (TMA fills with zeros, the store is guarded) whose tiles fit the grid. K is a
// multiple of 8, because TMA needs rows of a multiple of 16 bytes.
// Launch: ceil(M / TILE_M) × ceil(N / TILE_N) blocks of 128 threads.
#include "descriptor.cuh"
#include "element.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "store_pair.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

// [tile]
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef STAGES
#define STAGES 4
#endif
constexpr int TILE_K = 64;   // elements: a row of 128 bytes, the widest swizzle
constexpr int WGMMA_M = 64;  // rows of one instruction
constexpr int WGMMA_K = 16;  // its depth: 32 bytes of fp16
constexpr int THREADS = 128; // one warpgroup

struct Stage {
  alignas(1024) Element a[TILE_M * TILE_K];  // (TILE_M, 64), 128-byte swizzle
  alignas(1024) Element b[TILE_N * TILE_K];  // (TILE_N, 64), 128-byte swizzle
};
constexpr unsigned SHARED_BYTES = STAGES * sizeof(Stage) + 1024;  // 1024 to round its start up
// [/tile]

static_assert(TILE_M % WGMMA_M == 0, "a block tile is a whole number of 64-row instructions");
static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");
static_assert(TILE_M <= 256, "a TMA box has at most 256 rows");
static_assert(STAGES >= 1, "the ring has a stage");
static_assert(SHARED_BYTES + STAGES * 8 <= 227 * 1024, "tiles and barriers fit 227 KB");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, SHARED_BYTES);  // dynamic: more than 48 KB must be
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
v2_ring(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
        Element* c, int m, int n, int k) {
  // [setup]
  extern __shared__ unsigned char dynamic[];
  Stage* ring = reinterpret_cast<Stage*>(dynamic + (-shared_address(dynamic) & 1023));
  __shared__ unsigned long long full[STAGES];  // mbarriers: both tiles of a stage have landed

  const int row = blockIdx.x * TILE_M;     // this block's corner of C
  const int column = blockIdx.y * TILE_N;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage)
      mbarrier_init(&full[stage], 1);  // one arrival a phase: the thread that asks TMA
    fence_proxy_async();  // as older CUDA guides ask; recent PTX needs only what follows
  }
  __syncthreads();
  // [/setup]

  float d[TILE_M / WGMMA_M][TILE_N / 2];  // this thread's share of the tile's fp32 accumulators
  const int steps = (k + TILE_K - 1) / TILE_K;
  int asked = 0;  // steps whose tiles thread 0 has asked for

#pragma unroll 1  // the PTX stays short enough to read
  for (int step = 0; step < steps; ++step) {
    // [load]
    if (threadIdx.x == 0) {
#pragma unroll 1
      for (; asked < steps && asked < step + STAGES; ++asked) {  // first all stages, then one
        const int stage = asked % STAGES;
        mbarrier_arrive_expect_tx(&full[stage], sizeof(Stage));
        tma_load_2d(ring[stage].a, &map_a, &full[stage], row, asked * TILE_K);
        tma_load_2d(ring[stage].b, &map_b, &full[stage], column, asked * TILE_K);
      }
    }
    const int stage = step % STAGES;
    mbarrier_wait_parity(&full[stage], step / STAGES % 2);
    // [/load]

    // [multiply]
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {
#pragma unroll
      for (int i = 0; i < TILE_M / WGMMA_M; ++i) {
        wgmma_f32<TILE_N>::ss(
            d[i], descriptor_k_major_128b(ring[stage].a + i * WGMMA_M * TILE_K + kk),
            descriptor_k_major_128b(ring[stage].b + kk), /*scale_d=*/step + kk > 0);
      }
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    // [/multiply]

    __syncthreads();  // every warp's share has retired: the stage may be overwritten
  }

  // [epilogue]
  // Warp w holds rows 16w … 16w+15 of each 64; lane l holds rows l/4 and l/4 + 8 of those,
  // columns 2(l%4) and 2(l%4) + 1 of every eight.
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < TILE_M / WGMMA_M; ++i) {
    const int top = row + i * WGMMA_M + warp * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
      const int left = column + j * 8 + lane % 4 * 2;
      store_pair<pack_elements>(c, m, n, top, left, d[i][4 * j], d[i][4 * j + 1]);
      store_pair<pack_elements>(c, m, n, top + 8, left, d[i][4 * j + 2], d[i][4 * j + 3]);
    }
  }
  // [/epilogue]
}
