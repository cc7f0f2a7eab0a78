// A consumer's loop over K, for tiles of any shape in a ring that two blocks fill.
#pragma once

#include "descriptor.cuh"
#include "element.cuh"
#include "mbarrier.cuh"
#include "named_barrier.cuh"
#include "pair_ring.cuh"
#include "ring.cuh"
#include "wgmma.cuh"

constexpr int TILE_K = 64;    // elements: a row of 128 bytes, the widest swizzle
constexpr int WGMMA_M = 64;   // rows of one instruction
constexpr int WGMMA_K = 16;   // its depth: 32 bytes of fp16
constexpr int CONSUMERS = 2;  // warpgroups that multiply

template <int M, int N>
struct Shape {  // of a tile
  static constexpr int m = M, n = N;
};

// Multiplies `steps` stages: of each this consumer's kBlocks × 64 rows of A, by all of B, 2 · kHalfN wide.
// Of the last kTurn steps consumer 1 is held back until consumer 0 has issued all of its own, where there
// are kStages steps or more. Then consumer 0 cannot come again before consumer 1 has come once: whatever
// lies between, its next turn is in a step that is kStages or more behind the last one here, and is
// loaded when that is released, which consumer 1 does behind its turn.
template <int kTurn, int kBlocks, int kHalfN, class Stage, int kStages>
__device__ inline void multiply(float (&d)[kBlocks][kHalfN], Stage (&ring)[kStages],
                                PairBarriers<kStages>& barriers, Place<kStages>& at, int warpgroup,
                                int steps) {
  // At which step this consumer comes to the barrier of the turn; -1: no turn.
  const int turn = steps < kStages ? -1 : warpgroup == 0 ? steps - 1 : steps - kTurn;
  int previous = 0;  // stage of the step before
#pragma unroll 1     // the PTX stays short enough to read
  for (int step = 0; step < steps; ++step, at.advance()) {
    // [multiply]
    const int stage = at.stage;
    mbarrier_wait_parity(&barriers.full[stage], at.parity);
    const auto a = descriptor_k_major_128b(ring[stage].tiles + warpgroup * kBlocks * WGMMA_M * TILE_K);
    const auto b = descriptor_k_major_128b(ring[stage].tiles + CONSUMERS * kBlocks * WGMMA_M * TILE_K);
    if (kTurn > 0 && warpgroup == 1 && step == turn) named_barrier_sync(1, 256);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        wgmma_f32<2 * kHalfN>::ss(d[i], descriptor_advance(a, i * WGMMA_M * TILE_K + kk),
                                  descriptor_advance(b, kk), /*scale_d=*/step + kk > 0);
      }
    }
    wgmma_commit_group();
    if (kTurn > 0 && warpgroup == 0 && step == turn) named_barrier_arrive(1, 256);
    wgmma_wait_group<1>();  // all groups but this one have retired
    if (step > 0) barriers.release(previous);
    previous = stage;
    // [/multiply]
  }
  wgmma_wait_group<0>();
  barriers.release(previous);
}
