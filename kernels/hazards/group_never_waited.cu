// group_never_waited · a block ends, and a bulk store may still read its shared memory
//
// Rule (PTX ISA, cp.async.bulk.wait_group): only a wait tells that the source has been read; a block's
// shared memory is another block's once it has ended.
//
// in (WORDS): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
group_never_waited(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  copy_words(tile, own(in, WORDS), BYTES);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(own(out, WORDS), tile, BYTES);  // HERE
    bulk_commit_group();
#ifdef FIXED
    bulk_wait_group_read();
#endif
  }
}
