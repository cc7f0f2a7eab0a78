// The barriers of a ring that two blocks of a cluster fill for each other.
#pragma once

#include "cluster.cuh"
#include "mbarrier.cuh"

#ifndef CLUSTER_SCOPE
#define CLUSTER_SCOPE 0  // 1: of the arrivals that free a stage; see cluster.cuh for what each means
#endif

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

  // A warp that has used a stage. Lane 0 tells block 0 of the cluster, lane 1 block 1. Block scope
  // serves: the reads have ended, behind a wait_group or a proxy fence, so nothing is left to order.
  __device__ void release(int stage) {
    const int lane = threadIdx.x % 32;
    if (lane < CLUSTER) mbarrier_arrive_at_rank<CLUSTER_SCOPE != 0>(&empty[stage], lane);
  }
};
