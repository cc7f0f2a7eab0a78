// v8 · multicast: two blocks share an operand, and L2 is asked once for both
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, accumulated in fp32.
//   With -DBF16=1 they are bf16.
//
// What it teaches: clusters of two blocks whose tiles lie side by side. The operand that both need
// comes in halves: each block loads one half, for both. So a stage is free only when both blocks have
// used it, which every warp that multiplies tells both producers. And what the pair does not share, other
// pairs of the same GPC do: clusters are numbered by their places on the chip (places.cuh).
//
// SHARE_A = 1: the tiles lie in one row of tiles and share A. SHARE_A = 0: in one column, and share B.
// Any M; N is a multiple of 8, because TMA stores rows of C of a multiple of 16 bytes; so is K.
// Launch: as many clusters of two blocks as there are pairs of SMs, or of tiles if those are fewer, of
// 384 threads: warpgroups 0 and 1 multiply; of warpgroup 2, warp 0 loads, warp 1 stores, and warp 2 takes
// the cluster's number. claims: see places.cuh; 0, and 0 again at the end.
#include "descriptor.cuh"
#include "element.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "named_barrier.cuh"
#include "outbox.cuh"
#include "overlap.cuh"
#include "pair_ring.cuh"
#include "places.cuh"
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
#ifndef SHARE_A
#define SHARE_A 0
#endif
#ifndef RASTER
#define RASTER (SHARE_A ? 16 : 8)  // rows of pairs in a group, or columns (see [corner]); 0: no groups
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
constexpr int A_ROWS = SHARE_A ? TILE_M / CLUSTER : TILE_M;  // in one load
constexpr int B_ROWS = SHARE_A ? TILE_N : TILE_N / CLUSTER;
constexpr int PAIR_M = SHARE_A ? TILE_M : CLUSTER * TILE_M;  // of both blocks' tiles
constexpr int PAIR_N = SHARE_A ? CLUSTER * TILE_N : TILE_N;
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
static_assert(A_ROWS <= 256 && A_ROWS % 8 == 0 && B_ROWS % 8 == 0,
              "a TMA box has at most 256 rows, and halves are whole swizzle atoms");
static_assert(STAGES >= 2, "a stage is released when the next is in use");
static_assert(TURN < STAGES, "held back, a consumer holds its stages, and the other needs TURN more");
static_assert(SHARED_BYTES + 1024 <= 227 * 1024, "tiles and barriers fit 227 KB");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, SHARED_BYTES);  // dynamic: more than 48 KB must be
LAUNCH_FACT(cluster, CLUSTER);
LAUNCH_FACT(a_rows, A_ROWS);
LAUNCH_FACT(b_rows, B_ROWS);
LAUNCH_FACT(c_rows, BOX_M);
LAUNCH_FACT(c_columns, BOX_N);
LAUNCH_FACT(persistent, 1);
LAUNCH_FACT(places, 1);

// [order]
struct Order {
  int row, column;  // this block's corner of C
  bool more;        // false behind the last tile
};
// [/order]

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
v8_multicast(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
             const __grid_constant__ TensorMap map_c, unsigned* claims,
             const __grid_constant__ Places places, int m, int n, int k) {
  // [setup]
  extern __shared__ unsigned char dynamic[];
  Shared& shared = *reinterpret_cast<Shared*>(dynamic + (-shared_address(dynamic) & 1023));
  __shared__ PairBarriers<STAGES> barriers;
  __shared__ Order orders[STAGES];              // where a stage is the first of a tile: which
  __shared__ Outbox out;
  __shared__ Placing placing;

  if (threadIdx.x == 0) {
    barriers.init(CONSUMERS * 4);
    outbox_init(out);
    mbarrier_init(&placing.told, 1);
    fence_mbarrier_init();
    let_next_launch_begin();
  }
  cluster_sync();  // nobody sends before the other block's barriers exist
  // [/setup]

  const int steps = (k + TILE_K - 1) / TILE_K;
  // The shuffle tells the compiler that a warp's lanes agree.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int warpgroup = warp / 4;
  const int rank = cluster_rank();

  if (warpgroup == CONSUMERS) {
    setmaxnreg_dec<40>();  // of 168 at launch
    if (warp == CONSUMERS * 4 && elect_one()) {
      // [produce]
      const int rows = (m + PAIR_M - 1) / PAIR_M, columns = (n + PAIR_N - 1) / PAIR_N;
      const int pairs = rows * columns, clusters = gridDim.x / CLUSTER;
      Place<STAGES> at{1};  // parity 1: at first every stage is free
      wait_for_launch_before();
      for (int first = 0; first < pairs; first += clusters) {  // wave after wave
        const int pair = first + (first == 0 ? blockIdx.x / CLUSTER : wait_for_place(placing));
        if (pair >= pairs) break;
        // [corner]
        // Neighbours in number share what the two blocks do not.
        const Tile corner = SHARE_A ? rasterized<RASTER>(pair, rows, columns)
                                    : rasterized_along_rows<RASTER>(pair, rows, columns);
        // [/corner]
        const int row = corner.row * PAIR_M + (SHARE_A ? 0 : rank * TILE_M);
        const int column = corner.column * PAIR_N + (SHARE_A ? rank * TILE_N : 0);
#pragma unroll 1
        for (int step = 0; step < steps; ++step, at.advance()) {
          Shared::Stage& stage = shared.ring[at.stage];
          unsigned long long* landed = &barriers.full[at.stage];
          const int deep = step * TILE_K, a_half = rank * A_ROWS, b_half = rank * B_ROWS;
          mbarrier_wait_parity(&barriers.empty[at.stage], at.parity);  // in both blocks
          if (step == 0) orders[at.stage] = {row, column, true};
          mbarrier_arrive_expect_tx(landed, sizeof(stage));  // all bytes, whoever asks for them
          if (SHARE_A) {
            tma_load_2d_multicast(stage.a + a_half * TILE_K, &map_a, landed, row + a_half, deep, 3);
            tma_load_2d(stage.b, &map_b, landed, column, deep);
          } else {
            tma_load_2d(stage.a, &map_a, landed, row, deep);
            tma_load_2d_multicast(stage.b + b_half * TILE_K, &map_b, landed, column + b_half, deep, 3);
          }
        }
      }
      mbarrier_wait_parity(&barriers.empty[at.stage], at.parity);
      orders[at.stage] = {0, 0, false};
      mbarrier_arrive(&barriers.full[at.stage]);
      // [/produce]
    }
    if (warp == CONSUMERS * 4 + 1 && elect_one()) outbox_ship<SLOT_BOXES>(out, shared.boxes, &map_c);
    if (warp == CONSUMERS * 4 + 2 && rank == 0 && elect_one()) tell_place(placing, claim_place(places, claims));
    __syncwarp();
    cluster_sync();  // a block that leaves takes its barriers along, and the other still arrives there
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
    mbarrier_wait_parity(&barriers.full[at.stage], at.parity);
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
      mbarrier_wait_parity(&barriers.full[stage], at.parity);
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
      if (step > 0) barriers.release(previous);  // in both blocks
      previous = stage;
      // [/multiply]
    }
    // [finish]
    wgmma_wait_group<0>();
    barriers.release(previous);
    outbox_put<SLOT_BOXES>(out, shared.boxes, d, warpgroup, tiles, order.row + warpgroup * ROWS,
                           order.column);
    // [/finish]
  }
  if (warpgroup == 0) outbox_close(out, tiles);
  cluster_sync();  // as above
}
