// barrier_not_visible · threads wait at an mbarrier that another one initialises meanwhile
//
// Rule (PTX ISA, mbarrier.init): other threads may use the barrier when its initialisation is visible
// to them, behind a __syncthreads() for one.
//
// in (256): numbers. out (256): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_not_visible(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[256];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) {
    mbarrier_init(&loaded, 1);
    mbarrier_arrive_expect_tx(&loaded, 1024);
    bulk_load(tile, in, 1024, &loaded);
  }
#ifdef FIXED
  __syncthreads();
#endif
  mbarrier_wait_parity(&loaded, 0);  // HERE
  for (int i = threadIdx.x; i < 256; i += 128) out[i] = tile[i];
}
