// peer_gone · a block leaves while the other one of its cluster reads its shared memory
//
// Rule (CUDA C++ Programming Guide, distributed shared memory): a block must be there while others
// access its shared memory.
//
// in (2, 128): numbers. out (2, 128): the other block's. Launch: 1 cluster of 2 blocks of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
peer_gone(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[128];
  const unsigned rank = cluster_rank(), i = blockIdx.x * 128 + threadIdx.x;
  tile[threadIdx.x] = in[i];
  cluster_sync();
  out[i] = load_from_rank(tile + threadIdx.x, rank ^ 1);  // HERE
#ifdef FIXED
  cluster_sync();
#endif
}
