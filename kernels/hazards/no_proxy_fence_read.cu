// no_proxy_fence_read · ordinary loads, a barrier, and a copy overwrites what they read
//
// Rule (PTX ISA, Memory Consistency Model: proxies): a fence.proxy.async orders ordinary accesses,
// loads too, before those of the copy engine; a barrier alone does not.
//
// in (2, WORDS): numbers. out (WORDS): the sums of the two. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
no_proxy_fence_read(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  __syncthreads();
  unsigned sum[2 * SIZE] = {};
  for (int step = 0; step < 2; ++step) {
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(&loaded, BYTES);
      bulk_load(tile, own(in, 2 * WORDS) + step * WORDS, BYTES, &loaded);  // HERE
    }
    mbarrier_wait_parity(&loaded, step);
    for (int i = 0; i < 2 * SIZE; ++i) sum[i] += tile[i * 128 + threadIdx.x];
#ifdef FIXED
    fence_proxy_async();
#endif
    __syncthreads();
  }
  for (int i = 0; i < 2 * SIZE; ++i) own(out, WORDS)[i * 128 + threadIdx.x] = sum[i];
}
