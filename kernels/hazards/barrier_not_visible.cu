// barrier_not_visible · threads wait at an mbarrier that another one initialises meanwhile
//
// Rule (PTX ISA, mbarrier.init): other threads may use the barrier when its initialisation is visible
// to them, behind a __syncthreads() for one.
//
// in (WORDS): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_not_visible(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) {
    mbarrier_init(&loaded, 1);
    mbarrier_arrive_expect_tx(&loaded, BYTES);
    bulk_load(tile, own(in, WORDS), BYTES, &loaded);
  }
#ifdef FIXED
  __syncthreads();
#endif
  mbarrier_wait_parity(&loaded, 0);  // HERE
  for (int i = threadIdx.x; i < WORDS; i += 128) own(out, WORDS)[i] = tile[i];
}
