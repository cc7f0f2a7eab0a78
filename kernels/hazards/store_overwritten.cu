// store_overwritten · a tile is overwritten while a bulk store still reads it
//
// Rule (PTX ISA, cp.async.bulk.wait_group): the source may be changed when wait_group.read has
// returned, in the thread that committed the group.
//
// in (2, WORDS): numbers. out (2, WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
store_overwritten(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  for (int step = 0; step < 2; ++step) {
    for (int i = threadIdx.x; i < WORDS; i += 128)
      tile[i] = own(in, 2 * WORDS)[step * WORDS + i];  // HERE
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(own(out, 2 * WORDS) + step * WORDS, tile, BYTES);
      bulk_commit_group();
#ifdef FIXED
      bulk_wait_group_read();
#endif
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) bulk_wait_group_read();
}
