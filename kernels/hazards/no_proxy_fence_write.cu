// no_proxy_fence_write · ordinary stores, a barrier, and a bulk store reads what they wrote
//
// Rule (PTX ISA, Memory Consistency Model: proxies): ordinary accesses and those of the copy engine go
// different ways to memory; a fence.proxy.async orders the two, a barrier alone does not.
//
// in (WORDS): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
no_proxy_fence_write(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  copy_words(tile, own(in, WORDS), BYTES);
#ifdef FIXED
  fence_proxy_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(own(out, WORDS), tile, BYTES);  // HERE
    bulk_commit_group();
    bulk_wait_group_read();
  }
}
