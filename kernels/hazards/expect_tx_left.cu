// expect_tx_left · a producer announces one more phase than it copies
//
// Rule (PTX ISA, mbarrier: tx-count): announced bytes are bytes that a copy brings. Nobody waits for
// the last phase here, so nothing shows: the barrier is left in the middle of it.
//
// in (2, 256): numbers. out (2, 256): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
expect_tx_left(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[256];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) {
    mbarrier_init(&loaded, 1);
    mbarrier_arrive_expect_tx(&loaded, 1024);
    bulk_load(tile, in, 1024, &loaded);
  }
  __syncthreads();
#pragma unroll 1
  for (int step = 0; step < 2; ++step) {
    mbarrier_wait_parity(&loaded, step);
    for (int i = threadIdx.x; i < 256; i += 128) out[step * 256 + i] = tile[i];
    fence_proxy_async();
    __syncthreads();
#ifdef FIXED
    if (threadIdx.x == 0 && step + 1 < 2) {
#else
    if (threadIdx.x == 0) {
#endif
      mbarrier_arrive_expect_tx(&loaded, 1024);  // HERE
      if (step + 1 < 2) bulk_load(tile, in + (step + 1) * 256, 1024, &loaded);
    }
  }
}
