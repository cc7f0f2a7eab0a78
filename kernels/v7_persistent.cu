// v7 · persistent: a block takes tile after tile, and one tile leaves while the next is multiplied
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, accumulated in fp32.
//   With -DBF16=1 they are bf16.
//
// What it teaches: one block an SM for the whole launch, so that setup is paid once. The producer runs
// ahead into the next tile while consumers finish the last one; the first stage of a tile carries its
// order. Tiles leave by stmatrix and TMA stores, through an outbox with a warp of its own. The second
// consumer lets the first one finish: then one of them always has products to issue.
//
// Any M; N is a multiple of 8, because TMA stores rows of C of a multiple of 16 bytes; so is K.
// Launch: as many blocks as there are SMs, or tiles if those are fewer, of 384 threads: warpgroups
// 0 and 1 multiply; of warpgroup 2, warp 0 loads and warp 1 stores.
#include "descriptor.cuh"
#include "element.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "named_barrier.cuh"
#include "outbox.cuh"
#include "raster.cuh"
#include "ring.cuh"
#include "setmaxnreg.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

// [tile]
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef RASTER
#define RASTER 16  // rows of tiles in a group; 0: column by column
#endif
#ifndef TURN
#define TURN (STAGES - 1)  // last steps of a tile that consumer 1 holds back; 0: none
#endif
constexpr int TILE_K = 64;   // elements: a row of 128 bytes, the widest swizzle
constexpr int WGMMA_M = 64;  // rows of one instruction
constexpr int WGMMA_K = 16;  // its depth: 32 bytes of fp16
constexpr int CONSUMERS = 2;              // warpgroups that multiply
constexpr int ROWS = TILE_M / CONSUMERS;  // of the tile, for each of them
constexpr int BLOCKS = ROWS / WGMMA_M;    // of 64 rows
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr int SLOT_BOXES = (BLOCKS * TILE_N / BOX_N + 1) / 2;  // half of what a consumer has

struct Shared {
  struct Stage {
    alignas(1024) Element a[TILE_M * TILE_K];  // (TILE_M, 64), 128-byte swizzle
    alignas(1024) Element b[TILE_N * TILE_K];  // (TILE_N, 64), 128-byte swizzle
  } ring[STAGES];
  Element boxes[2 * SLOT_BOXES * BOX];  // the outbox: (64, 64) each, 128-byte swizzle
};
constexpr unsigned SHARED_BYTES = sizeof(Shared) + 1024;  // 1024 to round its start up
// [/tile]

static_assert(ROWS % WGMMA_M == 0, "a consumer's rows are a whole number of 64-row instructions");
static_assert(TILE_N % BOX_N == 0 && TILE_N <= 256, "N of a wgmma, in whole boxes of C");
static_assert(BLOCKS * TILE_N / BOX_N >= 2, "a consumer has a box for each slot of the outbox");
static_assert(TILE_M <= 256, "a TMA box has at most 256 rows");
static_assert(STAGES >= 2, "a stage is released when the next is in use");
static_assert(TURN < STAGES, "held back, a consumer holds its stages, and the other needs TURN more");
static_assert(SHARED_BYTES + 1024 <= 227 * 1024, "tiles and barriers fit 227 KB");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, SHARED_BYTES);  // dynamic: more than 48 KB must be
LAUNCH_FACT(cluster, 1);
LAUNCH_FACT(c_rows, BOX_M);
LAUNCH_FACT(c_columns, BOX_N);
LAUNCH_FACT(persistent, 1);

// [order]
struct Order {
  int row, column;  // this block's corner of C
  bool more;        // false behind the last tile
};
// [/order]

extern "C" __global__ void __launch_bounds__(THREADS, 1)
v7_persistent(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
              const __grid_constant__ TensorMap map_c, int m, int n, int k) {
  // [setup]
  extern __shared__ unsigned char dynamic[];
  Shared& shared = *reinterpret_cast<Shared*>(dynamic + (-shared_address(dynamic) & 1023));
  __shared__ unsigned long long full[STAGES];   // mbarriers: both tiles of a stage have landed
  __shared__ unsigned long long empty[STAGES];  // and: every warp has used them
  __shared__ Order orders[STAGES];              // where a stage is the first of a tile: which
  __shared__ Outbox out;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);               // an arrival a phase: the thread that asks TMA
      mbarrier_init(&empty[stage], CONSUMERS * 4);  // of each warp that multiplies
    }
    outbox_init(out);
    fence_proxy_async();  // as older CUDA guides ask; recent PTX needs only what follows
  }
  __syncthreads();
  // [/setup]

  const int steps = (k + TILE_K - 1) / TILE_K;
  // The shuffle tells the compiler that a warp's lanes agree.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int warpgroup = warp / 4;

  if (warpgroup == CONSUMERS) {
    setmaxnreg_dec<40>();  // of 168 at launch
    if (warp == CONSUMERS * 4 && elect_one()) {
      // [produce]
      const int rows = (m + TILE_M - 1) / TILE_M, columns = (n + TILE_N - 1) / TILE_N;
      Place<STAGES> at{1};  // parity 1: at first every stage is free
      for (int tile = blockIdx.x; tile < rows * columns; tile += gridDim.x) {
        const Tile corner = rasterized<RASTER>(tile, rows, columns);
        const int row = corner.row * TILE_M, column = corner.column * TILE_N;
#pragma unroll 1
        for (int step = 0; step < steps; ++step, at.advance()) {
          Shared::Stage& stage = shared.ring[at.stage];
          unsigned long long* landed = &full[at.stage];
          mbarrier_wait_parity(&empty[at.stage], at.parity);
          if (step == 0) orders[at.stage] = {row, column, true};
          mbarrier_arrive_expect_tx(landed, sizeof(stage));
          tma_load_2d(stage.a, &map_a, landed, row, step * TILE_K);
          tma_load_2d(stage.b, &map_b, landed, column, step * TILE_K);
        }
      }
      mbarrier_wait_parity(&empty[at.stage], at.parity);
      orders[at.stage] = {0, 0, false};
      mbarrier_arrive(&full[at.stage]);
      // [/produce]
    }
    if (warp == CONSUMERS * 4 + 1 && elect_one()) outbox_ship<SLOT_BOXES>(out, shared.boxes, &map_c);
    return;
  }

  setmaxnreg_inc<232>();  // 2 · 232 + 40 = 3 · 168
  // [turn]
  // At which step of a tile a consumer comes to the barrier of the turn; -1: no turn. Consumer 0 cannot
  // come again before consumer 1 has come once: its next turn is in a step that is STAGES or more behind
  // a tile's last one, and is loaded when that is released, which consumer 1 does behind its turn.
  const int turn = steps < STAGES ? -1 : warpgroup == 0 ? steps - 1 : steps - TURN;
  // [/turn]
  Place<STAGES> at{0};
  int tiles = 0;
#pragma unroll 1
  for (;; ++tiles) {
    // [take]
    mbarrier_wait_parity(&full[at.stage], at.parity);
    const Order order = orders[at.stage];
    if (!order.more) break;
    __syncwarp();  // all lanes have read it before one of them releases the stage
    float d[BLOCKS][TILE_N / 2];  // this thread's share of the tile's fp32 accumulators
    // [/take]

    int previous = 0;  // stage of the step before
#pragma unroll 1  // the PTX stays short enough to read
    for (int step = 0; step < steps; ++step, at.advance()) {
      // [multiply]
      const int stage = at.stage;
      mbarrier_wait_parity(&full[stage], at.parity);
      const auto a = descriptor_k_major_128b(shared.ring[stage].a + warpgroup * ROWS * TILE_K);
      const auto b = descriptor_k_major_128b(shared.ring[stage].b);
      if (TURN > 0 && warpgroup == 1 && step == turn) named_barrier_sync(1, 256);
      wgmma_fence();
#pragma unroll
      for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i) {
          wgmma_f32<TILE_N>::ss(d[i], descriptor_advance(a, i * WGMMA_M * TILE_K + kk),
                                descriptor_advance(b, kk), /*scale_d=*/step + kk > 0);
        }
      }
      wgmma_commit_group();
      if (TURN > 0 && warpgroup == 0 && step == turn) named_barrier_arrive(1, 256);
      wgmma_wait_group<1>();  // all groups but this one have retired
      if (lane == 0 && step > 0) mbarrier_arrive(&empty[previous]);
      previous = stage;
      // [/multiply]
    }
    // [finish]
    wgmma_wait_group<0>();
    if (lane == 0) mbarrier_arrive(&empty[previous]);  // the producer may go on
    outbox_put<SLOT_BOXES>(out, shared.boxes, d, warpgroup, tiles, order.row + warpgroup * ROWS,
                           order.column);
    // [/finish]
  }
  if (warpgroup == 0) outbox_close(out, tiles);
}
