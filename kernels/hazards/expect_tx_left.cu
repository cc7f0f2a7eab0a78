// expect_tx_left · a producer announces one more phase than it copies
//
// Rule (PTX ISA, mbarrier: tx-count): announced bytes are bytes that a copy brings. Nobody waits for
// the last phase here, so nothing shows: the barrier is left in the middle of it.
//
// in (2, WORDS): numbers. out (2, WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
expect_tx_left(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) {
    mbarrier_init(&loaded, 1);
    mbarrier_arrive_expect_tx(&loaded, BYTES);
    bulk_load(tile, own(in, 2 * WORDS), BYTES, &loaded);
  }
  __syncthreads();
#pragma unroll 1
  for (int step = 0; step < 2; ++step) {
    mbarrier_wait_parity(&loaded, step);
    for (int i = threadIdx.x; i < WORDS; i += 128)
      own(out, 2 * WORDS)[step * WORDS + i] = tile[i];
    fence_proxy_async();
    __syncthreads();
#ifdef FIXED
    if (threadIdx.x == 0 && step + 1 < 2) {
#else
    if (threadIdx.x == 0) {
#endif
      mbarrier_arrive_expect_tx(&loaded, BYTES);  // HERE
      if (step + 1 < 2)
        bulk_load(tile, own(in, 2 * WORDS) + (step + 1) * WORDS, BYTES, &loaded);
    }
  }
}
