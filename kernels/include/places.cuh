// Places: which cluster computes what, by where it lies on the chip.
//
// Clusters are dealt to the GPCs in turn, so that neighbours in the launch lie far apart. What SMs of
// one GPC read at about the same time is, it seems, asked of L2 once. So the host finds out which SMs lie
// together and gives every pair of SMs a number, and a cluster there takes it: neighbours in number are
// neighbours on the chip, and compute neighbours in C. It takes a while to be sure of a number, so that
// clusters begin with a unit by their number in the launch, and go by place from the second one on.
#pragma once

#include "cluster.cuh"
#include "mbarrier.cuh"
#include "overlap.cuh"

constexpr int PAIR = 2;          // blocks of a cluster, and SMs of a place
constexpr int MOST_PLACES = 72;  // of a whole GH100

struct Places {
  int count;                      // of this chip
  unsigned char of[MOST_PLACES];  // by pair of SMs: the number of a cluster there
};

// [placing]
struct Placing {
  unsigned long long told;  // an mbarrier: `number` is there
  int number;               // of this cluster, by place; each of its blocks is told
};
// [/placing]

// [claim]
// One thread of a cluster. Where other work is on the chip, two clusters of a launch may come to the
// same place, one after the other; then the next number that is free. Where clusters are fewer than
// places, their numbers in the launch. claims: a word for all clusters and one for each, zeros, which the
// last one to claim leaves as they were.
__device__ inline int claim_place(const Places& places, unsigned* claims) {
  const int clusters = gridDim.x / PAIR;
  if (clusters < places.count) return blockIdx.x / PAIR;
  wait_for_launch_before();  // which claims the same words
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  int number = places.of[sm / PAIR] % clusters;
  while (atomicExch(&claims[1 + number], 1) != 0) number = (number + 1) % clusters;
  if (atomicInc(&claims[0], clusters - 1) == clusters - 1) {  // its result is 0 again
#pragma unroll 1
    for (int i = 1; i <= clusters; ++i) claims[i] = 0;
  }
  return number;
}
// [/claim]

// [tell]
// The same thread, when the other block has initialised its barriers.
__device__ inline void tell_place(Placing& here, int number) {
  for (int rank = 0; rank < PAIR; ++rank) {
    store_at_rank(&here.number, rank, number);
    mbarrier_arrive_at_rank(&here.told, rank);  // at cluster scope: the number comes first
  }
}
__device__ inline int wait_for_place(Placing& here) {
  mbarrier_wait_parity_cluster(&here.told, 0);
  return here.number;
}
// [/tell]
