// store_overwritten · a tile is overwritten while a bulk store still reads it
//
// Rule (PTX ISA, cp.async.bulk.wait_group): the source may be changed when wait_group.read has
// returned, in the thread that committed the group.
//
// in (2, 256): numbers. out (2, 256): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
store_overwritten(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[256];
  for (int step = 0; step < 2; ++step) {
    for (int i = threadIdx.x; i < 256; i += 128) tile[i] = in[step * 256 + i];  // HERE
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(out + step * 256, tile, 1024);
      bulk_commit_group();
#ifdef FIXED
      bulk_wait_group_read();
#endif
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) bulk_wait_group_read();
}
