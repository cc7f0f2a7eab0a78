// tma_multicast · one load, several blocks: which of them get the data and the report
//
// What it probes: that each block named by the mask gets the box at the same offset and its own
// mbarrier is told. Every block r of a cluster loads the box with corner {column 0, row r · rows} to
// offset r · bytes: to the blocks in masks[r], or, where REMOTE is set, to the lowest of them alone,
// without multicast. Each block waits for what comes to it, and dumps its shared memory.
//
// Launch: clusters of CLUSTER blocks of 128 threads, dynamic shared memory of CLUSTER · bytes.
// Outputs: dump.
#include "tma_probe.cuh"

#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef REMOTE
#define REMOTE 0
#endif

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
tma_multicast(const __grid_constant__ TensorMap map, const int* masks, unsigned char* dump,
              int rows, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ unsigned long long barrier;
  const unsigned rank = cluster_rank();
  const int dumped = CLUSTER * bytes;
  masks += blockIdx.x / CLUSTER * CLUSTER;
  blank(tile, dumped);
  fence_proxy_async();
  if (threadIdx.x == 0) {
    mbarrier_init(&barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    int expected = 0;
    for (int other = 0; other < CLUSTER; ++other)
      expected += (masks[other] >> rank & 1) * bytes;
    mbarrier_arrive_expect_tx(&barrier, expected);
  }
  cluster_sync();
  if (threadIdx.x == 0 && masks[rank]) {
    const unsigned to = shared_address(tile) + rank * bytes, told = shared_address(&barrier);
    const int row = (blockIdx.x / CLUSTER * CLUSTER + rank) * rows;
#if REMOTE
    unsigned peer = 0;
    while (!(masks[rank] >> peer & 1)) ++peer;
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];"
        :: "r"(address_in(to, peer)), "l"(&map), "r"(address_in(told, peer)), "r"(0), "r"(row)
        : "memory");
#else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
        :: "r"(to), "l"(&map), "r"(told), "r"(0), "r"(row),
           "h"(static_cast<unsigned short>(masks[rank])) : "memory");
#endif
  }
  mbarrier_wait_parity(&barrier, 0);
  copy_bytes(dump + blockIdx.x * dumped, tile, dumped);
  cluster_sync();  // a block that leaves early takes its shared memory along
}
