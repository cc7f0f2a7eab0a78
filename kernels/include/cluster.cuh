// Clusters: blocks that run at the same time and reach each other's shared memory.
#pragma once

#include "tma.cuh"

// This block's number in its cluster.
__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// To the variable at this place in the block of another rank, which must have started.
__device__ inline void store_at_rank(int* variable, unsigned rank, int value) {
  asm volatile("{\n"
               ".reg .u32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               "st.shared::cluster.s32 [there], %2;\n"
               "}\n" :: "r"(shared_address(variable)), "r"(rank), "r"(value) : "memory");
}

// Every thread of every block of the cluster.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// The thread that initialised mbarriers, before a barrier of the cluster: other blocks, and copies
// that other blocks ask for, will find them initialised.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// An arrival at the barrier at this place in the block of another rank, say to free a stage there.
// WIDE: at cluster scope. The caller's earlier accesses then come before what a thread of that block
// does behind its wait, and the compiler puts a memory barrier of the whole GPU in front. Without,
// .release is of the caller's own block only: no order with the other block by the memory model, and
// no such barrier. It serves where the reads have ended, as behind the wait_group of a wgmma.
template <bool WIDE = true>
__device__ inline void mbarrier_arrive_at_rank(unsigned long long* barrier, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there) : "r"(shared_address(barrier)), "r"(rank));
  if constexpr (WIDE)
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 :: "r"(there) : "memory");
  else
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
}

// As mbarrier_wait_parity, where threads of other blocks arrive: what they did before is visible.
__device__ inline void mbarrier_wait_parity_cluster(unsigned long long* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n"
      "}\n" :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// One thread. As tma_load_2d, to every block whose bit is set in `mask`: the box lands at the same
// place in each, and is reported to the barrier at the same place in each.
__device__ inline void tma_load_2d_multicast(void* destination, const TensorMap* map,
                                             unsigned long long* barrier, int row, int column,
                                             unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
      :: "r"(shared_address(destination)), "l"(map), "r"(shared_address(barrier)),
         "r"(column), "r"(row), "h"(mask) : "memory");
}
