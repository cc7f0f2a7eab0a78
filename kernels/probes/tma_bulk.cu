// tma_bulk · copies and reductions of contiguous bytes, in every direction
//
// What it probes: sizes and offsets of cp.async.bulk, multicast and to a peer, the arithmetic of
// cp.reduce.async.bulk to shared and to global memory, and that wait_group and wait_group.read hold
// a thread back long enough. A plan is rows of {destination offset, source offset, bytes}.
//
// Launch: see each kernel; blocks of 128 threads, dynamic shared memory of `bytes`.
#include "tma_probe.cuh"

#ifndef CLUSTER
#define CLUSTER 2
#endif

#define STORE(number, before, after)                                                            \
  case number:                                                                                  \
    asm volatile(before ".async.bulk.global.shared::cta.bulk_group" after " [%0], [%1], %2;"    \
                 :: "l"(target), "r"(source), "r"(size) : "memory");                            \
    break;

// One thread. Operation 0 is a copy, the others are reductions.
__device__ inline void to_global(int operation, unsigned char* target, unsigned source, int size) {
  switch (operation) {
    STORE(0, "cp", "")
    STORE(1, "cp.reduce", ".add.u32")
    STORE(2, "cp.reduce", ".add.s32")
    STORE(3, "cp.reduce", ".add.u64")
    STORE(4, "cp.reduce", ".add.f32")
    STORE(5, "cp.reduce", ".add.f64")
    STORE(6, "cp.reduce", ".add.noftz.f16")
    STORE(7, "cp.reduce", ".add.noftz.bf16")
    STORE(8, "cp.reduce", ".min.u32")
    STORE(9, "cp.reduce", ".min.s32")
    STORE(10, "cp.reduce", ".min.u64")
    STORE(11, "cp.reduce", ".min.s64")
    STORE(12, "cp.reduce", ".min.f16")
    STORE(13, "cp.reduce", ".min.bf16")
    STORE(14, "cp.reduce", ".max.u32")
    STORE(15, "cp.reduce", ".max.s32")
    STORE(16, "cp.reduce", ".max.u64")
    STORE(17, "cp.reduce", ".max.s64")
    STORE(18, "cp.reduce", ".max.f16")
    STORE(19, "cp.reduce", ".max.bf16")
    STORE(20, "cp.reduce", ".inc.u32")
    STORE(21, "cp.reduce", ".dec.u32")
    STORE(22, "cp.reduce", ".and.b32")
    STORE(23, "cp.reduce", ".and.b64")
    STORE(24, "cp.reduce", ".or.b32")
    STORE(25, "cp.reduce", ".or.b64")
    STORE(26, "cp.reduce", ".xor.b32")
    STORE(27, "cp.reduce", ".xor.b64")
  }
}

#define SEND(number, before, after)                                                             \
  case number:                                                                                  \
    asm volatile(before ".async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"  \
                 after " [%0], [%1], %2, [%3];"                                                 \
                 :: "r"(target), "r"(source), "r"(size), "r"(barrier) : "memory");              \
    break;

// One thread. As to_global, with an mbarrier beside the target.
__device__ inline void to_peer(int operation, unsigned target, unsigned source, int size,
                               unsigned barrier) {
  switch (operation) {
    SEND(0, "cp", "")
    SEND(1, "cp.reduce", ".add.u32")
    SEND(2, "cp.reduce", ".add.s32")
    SEND(3, "cp.reduce", ".add.u64")
    SEND(4, "cp.reduce", ".min.u32")
    SEND(5, "cp.reduce", ".min.s32")
    SEND(6, "cp.reduce", ".max.u32")
    SEND(7, "cp.reduce", ".max.s32")
    SEND(8, "cp.reduce", ".inc.u32")
    SEND(9, "cp.reduce", ".dec.u32")
    SEND(10, "cp.reduce", ".and.b32")
    SEND(11, "cp.reduce", ".or.b32")
    SEND(12, "cp.reduce", ".xor.b32")
  }
}

// One block a row of the plan. Outputs: dump.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
bulk_load(const unsigned char* source, const int* plan, unsigned char* dump, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ unsigned long long barrier;
  plan += blockIdx.x * 3;
  blank(tile, bytes);
  fence_proxy_async();
  if (threadIdx.x == 0) mbarrier_init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&barrier, plan[2]);
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                 :: "l"(source + plan[1]), "r"(plan[2]) : "memory");
    if (blockIdx.x % 2)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                   "[%0], [%1], %2, [%3];"
                   :: "r"(shared_address(tile) + plan[0]), "l"(source + plan[1]), "r"(plan[2]),
                      "r"(shared_address(&barrier)) : "memory");
    else
      asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
                   "[%0], [%1], %2, [%3];"
                   :: "r"(shared_address(tile) + plan[0]), "l"(source + plan[1]), "r"(plan[2]),
                      "r"(shared_address(&barrier)) : "memory");
  }
  mbarrier_wait_parity(&barrier, 0);
  copy_bytes(dump + blockIdx.x * bytes, tile, bytes);
}

// Clusters of CLUSTER. Block r multicasts plan row r to all of the cluster. Outputs: dump.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
bulk_multicast(const unsigned char* source, const int* plan, unsigned char* dump, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ unsigned long long barrier;
  const unsigned rank = cluster_rank();
  blank(tile, bytes);
  fence_proxy_async();
  if (threadIdx.x == 0) {
    mbarrier_init(&barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    int expected = 0;
    for (int other = 0; other < CLUSTER; ++other) expected += plan[other * 3 + 2];
    mbarrier_arrive_expect_tx(&barrier, expected);
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    plan += rank * 3;
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :: "r"(shared_address(tile) + plan[0]), "l"(source + plan[1]), "r"(plan[2]),
                    "r"(shared_address(&barrier)), "h"(static_cast<unsigned short>((1 << CLUSTER) - 1))
                 : "memory");
  }
  mbarrier_wait_parity(&barrier, 0);
  copy_bytes(dump + blockIdx.x * bytes, tile, bytes);
  cluster_sync();
}

// One block. `operation` once for each row of the plan, one after the other. Outputs: target.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
bulk_store(unsigned char* target, int operation, const int* plan, int count,
           const unsigned char* input, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  copy_bytes(tile, input, bytes);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 0; i < count; ++i, plan += 3) {
    to_global(operation, target + plan[0], shared_address(tile) + plan[1], plan[2]);
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// Clusters of two. Each block fills its shared memory from its half of `input`, block 0 sends rows
// of the plan to block 1 by `operation`, one after the other. Outputs: dump, of both blocks.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
bulk_peer(const unsigned char* input, int operation, const int* plan, int count,
          unsigned char* dump, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ unsigned long long barrier;
  const unsigned rank = cluster_rank();
  copy_bytes(tile, input + rank * bytes, bytes);
  fence_proxy_async();
  if (threadIdx.x == 0) {
    mbarrier_init(&barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  for (int i = 0; i < count; ++i, plan += 3) {
    if (rank == 1 && threadIdx.x == 0) mbarrier_arrive_expect_tx(&barrier, plan[2]);
    cluster_sync();
    if (rank == 0 && threadIdx.x == 0)
      to_peer(operation, address_in(shared_address(tile) + plan[0], 1),
              shared_address(tile) + plan[1], plan[2],
              address_in(shared_address(&barrier), 1));
    if (rank == 1) mbarrier_wait_parity(&barrier, i & 1);
  }
  copy_bytes(dump + rank * bytes, tile, bytes);
  cluster_sync();
}

// One block. A ring of two pieces of 1024 bytes: piece i % 2 is refilled as soon as the store
// before the last has read it. Outputs: target, count · 1024 bytes.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
bulk_ring(unsigned char* target, const unsigned char* input, int count) {
  extern __shared__ __align__(1024) unsigned char tile[];
  for (int i = 0; i < count; ++i) {
    unsigned char* piece = tile + i % 2 * 1024;
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    __syncthreads();
    copy_bytes(piece, input + i * 1024, 1024);
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                   :: "l"(target + i * 1024), "r"(shared_address(piece)), "r"(1024) : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
