// Partial sums, from one block to another: through global memory, with a flag that says they are there.
#pragma once

#include "mbarrier.cuh"
#include "named_barrier.cuh"
#include "pair_ring.cuh"
#include "ring.cuh"

__device__ inline void store_release_gpu(unsigned* flag, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
__device__ inline unsigned load_acquire_gpu(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

// Between ordinary accesses to global memory and those of TMA, by the thread that is ordered with both.
__device__ inline void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// One thread. Copies `bytes`, a multiple of 16, and reports them to `barrier`. No tensor map: the bytes
// lie one behind another.
__device__ inline void bulk_load(void* to, const void* from, unsigned bytes,
                                 unsigned long long* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

constexpr int QUAD_ROW = 256;  // threads of both consumers: their q-th four sums lie side by side

// [give]
// A consumer: its sums into the block's part of the workspace, then its flag.
template <int kFloats>
__device__ inline void give(float4* mine, unsigned* flag, const float* sums, int warpgroup) {
#pragma unroll
  for (int q = 0; q < kFloats / 4; ++q)
    mine[q * QUAD_ROW + threadIdx.x] = {sums[4 * q], sums[4 * q + 1], sums[4 * q + 2], sums[4 * q + 3]};
  fence_proxy_async_global();  // TMA will read them
  named_barrier_sync(2 + warpgroup, 128);
  if (threadIdx.x % 128 == 0) store_release_gpu(flag, 1);
}
// [/give]

// [wait]
// The producer: until both consumers of the block that gives have given; then the flags are as before.
__device__ inline void wait_for_gift(unsigned* flags) {
  for (int warpgroup = 0; warpgroup < 2; ++warpgroup) {
    while (load_acquire_gpu(&flags[warpgroup]) == 0) {
    }
    flags[warpgroup] = 0;
  }
  fence_proxy_async_global();
}
// [/wait]

// [request]
// The producer: `quads` sums of four a thread, through as many stages of the ring as they need.
template <class Stage, int kStages>
__device__ inline void request_gift(const float4* gift, int quads, Stage* ring,
                                    PairBarriers<kStages>& barriers, Place<kStages>& at) {
  constexpr int FIT = sizeof(Stage) / sizeof(float4) / QUAD_ROW;
  for (int q = 0; q < quads; q += FIT, at.advance()) {
    const unsigned bytes = min(FIT, quads - q) * QUAD_ROW * sizeof(float4);
    mbarrier_wait_parity(&barriers.empty[at.stage], at.parity);
    mbarrier_arrive_expect_tx(&barriers.full[at.stage], bytes);
    bulk_load(&ring[at.stage], gift + q * QUAD_ROW, bytes, &barriers.full[at.stage]);
  }
}
// [/request]

// [add]
// A consumer: adds them to its own.
template <int kFloats, class Stage, int kStages>
__device__ inline void add_gift(float* sums, Stage* ring, PairBarriers<kStages>& barriers,
                                Place<kStages>& at) {
  constexpr int FIT = sizeof(Stage) / sizeof(float4) / QUAD_ROW;
#pragma unroll
  for (int first = 0; first < kFloats / 4; first += FIT, at.advance()) {
    mbarrier_wait_parity(&barriers.full[at.stage], at.parity);
    const float4* gift = reinterpret_cast<const float4*>(&ring[at.stage]) + threadIdx.x;
#pragma unroll
    for (int q = first; q < first + FIT && q < kFloats / 4; ++q, gift += QUAD_ROW) {
      const float4 four = *gift;
      sums[4 * q] += four.x, sums[4 * q + 1] += four.y;
      sums[4 * q + 2] += four.z, sums[4 * q + 3] += four.w;
    }
    fence_proxy_async();  // these reads come before what TMA writes there next
    __syncwarp();
    barriers.release(at.stage);
  }
}
// [/add]
