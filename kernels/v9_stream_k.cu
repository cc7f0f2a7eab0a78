// v9 · stream-K: the last, partial wave is shared out along K, so that all blocks end together
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, accumulated in fp32.
//   With -DBF16=1 they are bf16.
//
// What it teaches: waves need not be whole. What is left behind the last whole wave is a stream of
// steps of K, cut into equal shares (stream_k.cuh). Blocks that do not finish a tile give their sums to
// the block that does, through global memory and then through its ring; they are added in a fixed
// order, so that the result is the same every time. And what 192 columns do not divide gets tiles of
// its own, 128 × 256, in the same ring.
//
// Any M; N is a multiple of 8, because TMA stores rows of C of a multiple of 16 bytes; so is K.
// Launch: clusters of two blocks of 384 threads, as many as there are pairs of SMs, for shares are for
// all of them. Warpgroups 0 and 1 multiply; of warpgroup 2, warp 0 loads, warp 1 stores, and warp
// 2 takes the cluster's number (places.cuh).
// partials: TILE_M × TILE_N floats for each block. flags: 2 for each block. claims: see places.cuh. Flags
// and claims are 0, and 0 again at the end.
#include "descriptor.cuh"
#include "element.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "multiply.cuh"
#include "named_barrier.cuh"
#include "outbox.cuh"
#include "overlap.cuh"
#include "pair_ring.cuh"
#include "pairs.cuh"
#include "partials.cuh"
#include "places.cuh"
#include "ring.cuh"
#include "setmaxnreg.cuh"
#include "stream_k.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

// [tile]
#ifndef TILE_M
#define TILE_M 256
#endif
#ifndef TILE_N
#define TILE_N 192
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef SHARE_A
#define SHARE_A 1  // the pair's tiles lie in a row and share A; 0: in a column, and share B
#endif
#ifndef RASTER
#define RASTER (SHARE_A ? 16 : 8)  // rows of pairs in a group, or columns (pairs.cuh); 0: no groups
#endif
#ifndef TURN
#define TURN (STAGES - 1)  // last steps of a tile that consumer 1 holds back; 0: none
#endif
#ifndef STREAM
#define STREAM 1  // 0: whole units only, as in v8
#endif
#ifndef HAND_OVER
#define HAND_OVER 12  // steps that handing over costs, about: what the last wave must idle to be shared out
#endif
#ifndef ALTERNATE
#define ALTERNATE 1  // every second wave goes through K backwards, and finds its end in L2
#endif
constexpr int THREADS = 128 * (CONSUMERS + 1);
constexpr bool REST = SHARE_A && TILE_M == 256 && TILE_N == 192;  // has tiles for the rest of N:
constexpr int REST_M = REST ? TILE_M / 2 : TILE_M;                // two in a column, that share B
constexpr int REST_N = REST ? 256 : TILE_N;
constexpr int A_ROWS = SHARE_A ? TILE_M / CLUSTER : TILE_M;       // in one load
constexpr int B_ROWS = REST ? 64 : SHARE_A ? TILE_N : TILE_N / CLUSTER;
constexpr int FLOATS = TILE_M * TILE_N / (128 * CONSUMERS);  // sums of a thread
constexpr int SLOT_BOXES = (FLOATS * 2 / BOX_N + 1) / 2;     // half of what a consumer has

struct Shared {
  struct Stage {
    alignas(1024) Element tiles[(TILE_M + TILE_N) * TILE_K];  // A's rows, then B's: 128-byte swizzle
  } ring[STAGES];
  Element boxes[2 * SLOT_BOXES * BOX];  // the outbox: (64, 64) each, 128-byte swizzle
};
constexpr unsigned SHARED_BYTES = sizeof(Shared) + 1024;      // 1024 to round its start up
// [/tile]

static_assert(TILE_M % (CONSUMERS * WGMMA_M) == 0, "a consumer's rows are whole 64-row instructions");
static_assert(TILE_N % BOX_N == 0 && TILE_N <= 256, "N of a wgmma, in whole boxes of C");
static_assert(FLOATS * 2 / BOX_N >= 2, "a consumer has a box for each slot of the outbox");
static_assert(A_ROWS <= 256 && A_ROWS % 8 == 0 && B_ROWS % 8 == 0,
              "a TMA box has at most 256 rows, and parts of a tile are whole swizzle atoms");
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
LAUNCH_FACT(partial_floats, TILE_M * TILE_N);
LAUNCH_FACT(flags, CONSUMERS);

using Division = Pairs<SHARE_A, TILE_M, TILE_N, REST ? REST_N : 0, RASTER>;
using Work = StreamK<REST ? 3 : 1, REST ? 2 : 1, HAND_OVER>;  // a step costs what it multiplies
using Barriers = PairBarriers<STAGES>;

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
v9_stream_k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
            const __grid_constant__ TensorMap map_c, float* partials, unsigned* flags,
            unsigned* claims, const __grid_constant__ Places places, int m, int n, int k) {
  // [setup]
  extern __shared__ unsigned char dynamic[];
  Shared& shared = *reinterpret_cast<Shared*>(dynamic + (-shared_address(dynamic) & 1023));
  __shared__ Barriers barriers;
  __shared__ Order orders[STAGES];  // where a stage is the first of a piece: which
  __shared__ Outbox out;
  __shared__ Division pairs;        // the producer's, as is the next
  __shared__ Work work;
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

  // The shuffle tells the compiler that a warp's lanes agree.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  const int warpgroup = warp / 4;
  const int rank = cluster_rank();
  constexpr long long BLOCK_QUADS = TILE_M * TILE_N / 4;  // of the workspace

  if (warpgroup == CONSUMERS) {
    setmaxnreg_dec<40>();  // of 168 at launch
    if (warp == CONSUMERS * 4 && elect_one()) {
      // [plan]
      work.steps = (k + TILE_K - 1) / TILE_K;
      work.cluster = work.place = blockIdx.x / CLUSTER, work.clusters = gridDim.x / CLUSTER;
      auto plan = [&](bool narrow) {
        pairs.divide(m, n, narrow);
        work.wide = pairs.rows * pairs.columns, work.units = work.wide + pairs.rows * pairs.rest;
        return work.plan(STREAM && !narrow);
      };
      const float narrow = REST ? plan(true) : 0;
      if (plan(false) > narrow && REST) plan(true);
      // [/plan]
      Place<STAGES> at{1};  // parity 1: at first every stage is free
      wait_for_launch_before();
      for (int index = 0; index < work.pieces; ++index) {
        if (index == 1) work.place = wait_for_place(placing);
        if (index == work.waves) work.cut();
        if (index == work.pieces) break;
        // [corner]
        const Piece piece = work.piece(index);
        if (piece.unit >= work.units) break;
        const Order order = pairs.order(piece, rank);
        const bool backwards = ALTERNATE && index < work.waves && index % 2 == 1;
        // [/corner]
#pragma unroll 1
        for (int step = piece.first; step < piece.last; ++step, at.advance()) {
          // [produce]
          Element* a = shared.ring[at.stage].tiles;
          unsigned long long* landed = &barriers.full[at.stage];
          const int deep = (backwards ? piece.last - 1 - step : step) * TILE_K;
          mbarrier_wait_parity(&barriers.empty[at.stage], at.parity);  // in both blocks
          if (step == piece.first) orders[at.stage] = order;
          const bool halve_a = SHARE_A && !order.rest;  // B otherwise
          const int tile_m = order.rest ? REST_M : TILE_M, tile_n = order.rest ? REST_N : TILE_N;
          Element* b = a + tile_m * TILE_K;
          mbarrier_arrive_expect_tx(landed, (tile_m + tile_n) * TILE_K * sizeof(Element));
          const int b_first = halve_a ? 0 : rank * tile_n / 2, b_last = halve_a ? tile_n : b_first + tile_n / 2;
          if (halve_a) {
            const int half = cluster_rank() * A_ROWS;  // asked for again: registers are short
            tma_load_2d_multicast(a + half * TILE_K, &map_a, landed, order.row + half, deep, 3);
          } else {
            tma_load_2d(a, &map_a, landed, order.row, deep);
          }
          for (int i = b_first; i < b_last; i += B_ROWS) {
            if (halve_a) tma_load_2d(b + i * TILE_K, &map_b, landed, order.column + i, deep);
            else tma_load_2d_multicast(b + i * TILE_K, &map_b, landed, order.column + i, deep, 3);
          }
          // [/produce]
        }
        // [gifts]
        const int quads = order.rest ? REST_M * REST_N / 4 / QUAD_ROW : FLOATS / 4;
#pragma unroll 1
        for (int giver = 1; giver <= piece.givers; ++giver) {
          const int block = blockIdx.x - giver * CLUSTER;
          wait_for_gift(flags + block * CONSUMERS);
          request_gift(reinterpret_cast<const float4*>(partials) + block * BLOCK_QUADS, quads,
                       shared.ring, barriers, at);
        }
        // [/gifts]
      }
      mbarrier_wait_parity(&barriers.empty[at.stage], at.parity);
      orders[at.stage] = {};
      mbarrier_arrive(&barriers.full[at.stage]);
    }
    if (warp == CONSUMERS * 4 + 1 && elect_one())
      outbox_ship<SLOT_BOXES>(out, shared.boxes, &map_c);
    if (warp == CONSUMERS * 4 + 2 && rank == 0 && elect_one())
      tell_place(placing, claim_place(places, claims));
    __syncwarp();
  } else {
    setmaxnreg_inc<232>();  // 2 · 232 + 40 = 3 · 168
    Place<STAGES> at{0};
    int tiles = 0;  // that this block has finished
    // [consume]
    auto compute = [&](auto shape, const Order& order) {
      constexpr int BLOCKS = decltype(shape)::m / CONSUMERS / WGMMA_M, HALF_N = decltype(shape)::n / 2;
      float d[BLOCKS][HALF_N] = {};  // zeros: so that no registers live on from a tile of other shape
      multiply<TURN>(d, shared.ring, barriers, at, warpgroup, order.steps);
      if (order.givers < 0) {
        give<BLOCKS * HALF_N>(reinterpret_cast<float4*>(partials) + blockIdx.x * BLOCK_QUADS,
                              flags + blockIdx.x * CONSUMERS + warpgroup, d[0], warpgroup);
        return;
      }
#pragma unroll 1
      for (int giver = 0; giver < order.givers; ++giver)
        add_gift<BLOCKS * HALF_N>(d[0], shared.ring, barriers, at);
      outbox_put<SLOT_BOXES>(out, shared.boxes, d, warpgroup, tiles++,
                             order.row + warpgroup * BLOCKS * WGMMA_M, order.column);
    };
    // [/consume]
#pragma unroll 1
    for (;;) {
      mbarrier_wait_parity(&barriers.full[at.stage], at.parity);
      const Order order = orders[at.stage];
      if (order.steps == 0) break;
      __syncwarp();  // all lanes have read it before one of them releases the stage
      if (REST && order.rest) compute(Shape<REST_M, REST_N>{}, order);
      else compute(Shape<TILE_M, TILE_N>{}, order);
    }
    if (warpgroup == 0) outbox_close(out, tiles);
  }
  cluster_sync();  // a block that leaves takes its barriers along, and the other still arrives there
}
