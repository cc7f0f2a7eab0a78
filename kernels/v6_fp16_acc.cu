// v6 · fp16 sums: a tile twice as large in the same registers, and TMA stores it
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, ACCUMULATED IN FP16.
//
// Not the arithmetic of v1 to v5: every wgmma rounds its sums to fp16. The error grows with K, and a
// partial sum beyond 65504 is infinite for good.
//
// What it teaches: what limits a tile are the registers of its sums. In fp16 a tile of 256 × 256 fits,
// each of four consumers holding 64 × 256 of it, two sums a register. Such pairs need no conversion:
// stmatrix puts them into shared memory, and TMA stores them. Consumers take turns on one buffer.
//
// Any M, and an N and K that are multiples of 8: TMA needs rows of a multiple of 16 bytes, of C too.
// Launch: ceil(M / TILE_M) × ceil(N / TILE_N) blocks of 640 threads: warpgroups 0 to 3 multiply,
// warpgroup 4 loads.
#include "descriptor.cuh"
#include "half.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "named_barrier.cuh"
#include "raster.cuh"
#include "ring.cuh"
#include "setmaxnreg.cuh"
#include "stmatrix.cuh"
#include "tma.cuh"
#include "tma_store.cuh"
#include "wgmma.cuh"

// [tile]
#ifndef TILE_M
#define TILE_M 256
#endif
#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef RASTER
#define RASTER 16  // rows of tiles in a group; 0: the grid's own order
#endif
constexpr int TILE_K = 64;   // elements: a row of 128 bytes, the widest swizzle
constexpr int ROWS = 64;     // of the tile for each consumer: those of one instruction
constexpr int WGMMA_K = 16;  // its depth: 32 bytes of fp16
constexpr int BOX = 64;      // columns of C that one TMA store writes: 128 bytes
constexpr int CONSUMERS = TILE_M / ROWS;        // warpgroups that multiply
constexpr int THREADS = 128 * (CONSUMERS + 1);  // and a warpgroup that loads

struct Stage {
  alignas(1024) half a[TILE_M * TILE_K];  // (TILE_M, 64), 128-byte swizzle
  alignas(1024) half b[TILE_N * TILE_K];  // (TILE_N, 64), 128-byte swizzle
};
struct Shared {
  Stage ring[STAGES];
  alignas(1024) half out[TILE_N / BOX][ROWS * BOX];  // a consumer's rows of C: boxes of (64, 64)
};
constexpr unsigned SHARED_BYTES = sizeof(Shared) + 1024;  // 1024 to round its start up
// [/tile]

// [registers]
constexpr int LAUNCHED = 65536 / THREADS / 8 * 8;  // registers a thread at launch: 96
constexpr int KEPT = 32;                           // by the producer's threads
constexpr int TAKEN = ((CONSUMERS + 1) * LAUNCHED - KEPT) / CONSUMERS / 8 * 8;  // by others: 112
// [/registers]

static_assert(TILE_M % ROWS == 0 && TILE_M >= 128 && TILE_M <= 256, "two to four consumers");
static_assert(TILE_N % BOX == 0 && TILE_N <= 256, "whole boxes of 64 columns, up to 256");
static_assert(STAGES >= 2, "a stage is released when the next is in use");
static_assert(SHARED_BYTES + STAGES * 16 <= 227 * 1024, "tiles and barriers fit 227 KB");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, SHARED_BYTES);
LAUNCH_FACT(cluster, 1);
LAUNCH_FACT(c_rows, ROWS);  // so that the host passes a map of C
LAUNCH_FACT(c_columns, BOX);
LAUNCH_FACT(fp16_sums, 1);  // so that a check knows what to expect

extern "C" __global__ void __launch_bounds__(THREADS, 1)
v6_fp16_acc(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
            const __grid_constant__ TensorMap map_c, int, int, int k) {  // maps know M and N
  // [setup]
  extern __shared__ unsigned char dynamic[];
  Shared& shared = *reinterpret_cast<Shared*>(dynamic + (-shared_address(dynamic) & 1023));
  Stage* const ring = shared.ring;
  __shared__ unsigned long long full[STAGES];   // mbarriers: both tiles of a stage have landed
  __shared__ unsigned long long empty[STAGES];  // and: every warp has used them

  const Tile tile = rasterized<RASTER>();
  const int row = tile.row * TILE_M;        // this block's corner of C
  const int column = tile.column * TILE_N;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);               // an arrival a phase: the thread that asks TMA
      mbarrier_init(&empty[stage], CONSUMERS * 4);  // of each warp that multiplies
    }
    fence_proxy_async();  // as older CUDA guides ask; recent PTX needs only what follows
  }
  __syncthreads();
  // [/setup]

  const int steps = (k + TILE_K - 1) / TILE_K;
  // The shuffle tells the compiler that a warp's lanes agree.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int warpgroup = warp / 4;

  if (warpgroup == CONSUMERS) {
    // [produce]
    setmaxnreg_dec<KEPT>();
    if (warp == CONSUMERS * 4 && elect_one()) {
      // Parity 1 at first: the phase before the first counts as complete, and the stage is free.
      Place<STAGES> at{1};
#pragma unroll 1
      for (int step = 0; step < steps; ++step, at.advance()) {
        const int stage = at.stage;
        mbarrier_wait_parity(&empty[stage], at.parity);
        mbarrier_arrive_expect_tx(&full[stage], sizeof(Stage));
        tma_load_2d(ring[stage].a, &map_a, &full[stage], row, step * TILE_K);
        tma_load_2d(ring[stage].b, &map_b, &full[stage], column, step * TILE_K);
      }
    }
    // [/produce]
    return;
  }

  setmaxnreg_inc<TAKEN>();  // 4 · 112 + 32 = 5 · 96
  unsigned d[TILE_N / 4];   // this thread's sums, two fp16 in a register

  Place<STAGES> at{0};
  int previous = 0;  // stage of the step before

#pragma unroll 1  // the PTX stays short enough to read
  for (int step = 0; step < steps; ++step, at.advance()) {
    // [multiply]
    const int stage = at.stage;
    mbarrier_wait_parity(&full[stage], at.parity);
    const half* a = ring[stage].a + warpgroup * ROWS * TILE_K;
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {
      wgmma_f16_f16_f16<TILE_N>::ss(d, descriptor_k_major_128b(a + kk),
                                    descriptor_k_major_128b(ring[stage].b + kk),
                                    /*scale_d=*/step + kk > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>();  // all groups but this one have retired
    if (lane == 0 && step > 0) mbarrier_arrive(&empty[previous]);
    previous = stage;
    // [/multiply]
  }
  wgmma_wait_group<0>();  // now this one, too

  // [turn]
  // A consumer's turn comes when the warp that stored for the one before it arrives: 128 + 32 threads.
  const int own = 1 + warpgroup, turn = 5 + warpgroup;  // named barriers; 0 is __syncthreads()
  if (warpgroup > 0) named_barrier_sync(turn, 128 + 32);
  // [/turn]

  // [stage]
  // Warp w holds rows 16w … 16w+15; four registers are 8 × 8 matrices: rows 0–7 and 8–15 of eight
  // columns, then of the next eight. Lane l brings the address of row l % 16 in column 8 · (l / 16).
  const int r = warp % 4 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < TILE_N / 16; ++j) {
    const int chunk = 2 * j + lane / 16;  // of 16 bytes in this row; swizzled as TMA unswizzles it
    stmatrix_x4(&shared.out[chunk / 8][r * BOX + (chunk % 8 ^ r % 8) * 8],
                d[4 * j], d[4 * j + 1], d[4 * j + 2], d[4 * j + 3]);
  }
  fence_proxy_async();           // this thread's writes, before TMA reads them
  named_barrier_sync(own, 128);  // and those of the whole consumer
  // [/stage]

  // [store]
  if (warp % 4 == 0) {
    if (elect_one()) {
#pragma unroll
      for (int box = 0; box < TILE_N / BOX; ++box)
        tma_store_2d(&map_c, shared.out[box], row + warpgroup * ROWS, column + box * BOX);
      tma_commit_group();
      tma_wait_group_read<0>();  // the buffer may be overwritten, or the block end
    }
    __syncwarp();
    if (warpgroup + 1 < CONSUMERS) named_barrier_arrive(turn + 1, 128 + 32);
  }
  // [/store]
}
