// The outbox: how a tile of C leaves while the next one is computed. A consumer packs its half of the
// tile into shared memory and goes on; a warp of its own hands that to TMA. Two slots, each for half
// of what a consumer has. Consumer 0 fills both, then consumer 1 fills both, tile after tile.
#pragma once

#include "element.cuh"
#include "mbarrier.cuh"
#include "stmatrix.cuh"
#include "tma_store.cuh"

constexpr int BOX_M = 64, BOX_N = 64;  // of C, in one TMA store: rows of 128 bytes, swizzled
constexpr int BOX = BOX_M * BOX_N;     // elements

// [outbox]
struct Slip {
  int row, column, boxes;  // corner in C of the first box; the others follow to its right
};

struct Outbox {
  Slip slips[2];
  unsigned long long staged[2];      // mbarriers, by slot: a consumer's four warps have filled it
  unsigned long long drained[2][2];  // by consumer and slot: TMA has read what that consumer put there
};
// [/outbox]

// One thread, before anyone uses the outbox.
__device__ inline void outbox_init(Outbox& out) {
  for (int slot = 0; slot < 2; ++slot) {
    mbarrier_init(&out.staged[slot], 4);
    for (int consumer = 0; consumer < 2; ++consumer) mbarrier_init(&out.drained[consumer][slot], 1);
  }
}

// [hand_over]
// A consumer's four warps, each when it has written its part.
__device__ inline void outbox_hand_over(Outbox& out, int slot, const Slip& slip) {
  fence_proxy_async();  // what this thread wrote comes before what TMA reads
  if (threadIdx.x % 128 == 0) out.slips[slot] = slip;
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(&out.staged[slot]);
}
// [/hand_over]

// [put]
// A consumer: its fragments of kBlocks × N elements, 64 rows a block, to the corner (row, column) of C.
// `boxes`: both slots, kBoxes boxes each. `tiles`: how many this consumer has put there before.
template <int kBoxes, int kBlocks, int kHalfN>
__device__ inline void outbox_put(Outbox& out, Element* boxes, const float (&d)[kBlocks][kHalfN],
                                  int consumer, int tiles, int row, int column) {
  constexpr int ACROSS = 2 * kHalfN / BOX_N, ALL = kBlocks * ACROSS;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int line = warp * 16 + lane % 16;  // of a box: where this lane's rows of matrices go
#pragma unroll
  for (int slot = 0; slot < 2; ++slot) {
    const int first = slot * kBoxes;
    // The other consumer came before: with this tile, or, for consumer 0, with the last one.
    mbarrier_wait_parity(&out.drained[consumer ^ 1][slot], (tiles + consumer + 1) % 2);
#pragma unroll
    for (int box = first; box < first + kBoxes && box < ALL; ++box) {
      Element* to = boxes + box * BOX + line * BOX_N;
#pragma unroll
      for (int piece = 0; piece < 8; piece += 2) {  // of 16 bytes, eight elements; two an instruction
        const float* sums = &d[box / ACROSS][box % ACROSS * BOX_N / 2 + piece * 4];
        stmatrix_x4(to + ((piece + lane / 16) ^ line % 8) * 8, pack_elements(sums[0], sums[1]),
                    pack_elements(sums[2], sums[3]), pack_elements(sums[4], sums[5]),
                    pack_elements(sums[6], sums[7]));
      }
    }
    outbox_hand_over(out, slot, {row + first / ACROSS * 64, column + first % ACROSS * BOX_N,
                                 min(kBoxes, ALL - first)});
  }
}
// [/put]

// Consumer 0, when it has put `tiles` tiles and there are no more.
__device__ inline void outbox_close(Outbox& out, int tiles) {
  mbarrier_wait_parity(&out.drained[1][0], (tiles + 1) % 2);
  outbox_hand_over(out, 0, {0, 0, 0});
}

// [ship]
// One thread of a warp that does nothing else: what consumers put, to C, until the outbox is closed.
template <int kBoxes>
__device__ inline void outbox_ship(Outbox& out, const Element* boxes, const TensorMap* map_c) {
  for (int use = 0;; ++use) {  // slots 0 and 1 of consumer 0, then of consumer 1, and again
    const int slot = use % 2;
    mbarrier_wait_parity(&out.staged[slot], use / 2 % 2);
    const Slip slip = out.slips[slot];
    if (slip.boxes == 0) return;
    for (int box = 0; box < slip.boxes; ++box)
      tma_store_2d(map_c, boxes + (slot * kBoxes + box) * BOX, slip.row, slip.column + box * BOX_N);
    tma_commit_group();
    tma_wait_group_read<0>();
    mbarrier_arrive(&out.drained[use / 2 % 2][slot]);
  }
}
// [/ship]
