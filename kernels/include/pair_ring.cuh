// The barriers of a ring that two blocks of a cluster fill for each other.
#pragma once

#include "cluster.cuh"
#include "mbarrier.cuh"

constexpr int CLUSTER = 2;  // blocks

template <int kStages>
struct PairBarriers {
  unsigned long long full[kStages];   // what a stage waits for has landed
  unsigned long long empty[kStages];  // every warp that multiplies, of both blocks, has used it

  // One thread. `warps`: that multiply, of each block.
  __device__ void init(int warps) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&full[stage], 1);  // an arrival a phase: this block's producer
      mbarrier_init(&empty[stage], CLUSTER * warps);
    }
  }

  // A warp that has used a stage. Lane 0 tells block 0 of the cluster, lane 1 block 1. At block scope:
  // the reads have ended, behind a wait_group or a proxy fence, so that nothing is left to be ordered.
  __device__ void release(int stage) {
    const int lane = threadIdx.x % 32;
    if (lane < CLUSTER) mbarrier_arrive_at_rank<false>(&empty[stage], lane);
  }
};
