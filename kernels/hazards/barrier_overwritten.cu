// barrier_overwritten · zeros go eight bytes too far, into an mbarrier that is in use
//
// Rule (PTX ISA, mbarrier): the object is opaque, and only mbarrier instructions access it until
// mbarrier.inval.
//
// in (256): numbers. out (256): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_overwritten(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned memory[258];  // a tile, and an mbarrier behind it
  unsigned long long* loaded = reinterpret_cast<unsigned long long*>(memory + 256);
#ifdef FIXED
  constexpr int CLEARED = 256;
#else
  constexpr int CLEARED = 258;
#endif
  if (threadIdx.x == 0) mbarrier_init(loaded, 1);
  __syncthreads();
  for (int i = threadIdx.x; i < CLEARED; i += 128) memory[i] = 0;  // HERE
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(loaded, 1024);
    bulk_load(memory, in, 1024, loaded);
  }
  mbarrier_wait_parity(loaded, 0);
  for (int i = threadIdx.x; i < 256; i += 128) out[i] = memory[i];
}
