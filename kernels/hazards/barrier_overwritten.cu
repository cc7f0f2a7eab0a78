// barrier_overwritten · zeros go eight bytes too far, into an mbarrier that is in use
//
// Rule (PTX ISA, mbarrier): the object is opaque, and only mbarrier instructions access it until
// mbarrier.inval.
//
// in (WORDS): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_overwritten(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned memory[WORDS + 2];  // a tile, and an mbarrier behind it
  unsigned long long* loaded = reinterpret_cast<unsigned long long*>(memory + WORDS);
#ifdef FIXED
  constexpr int CLEARED = WORDS;
#else
  constexpr int CLEARED = WORDS + 2;
#endif
  if (threadIdx.x == 0) mbarrier_init(loaded, 1);
  __syncthreads();
  for (int i = threadIdx.x; i < CLEARED; i += 128) memory[i] = 0;  // HERE
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(loaded, BYTES);
    bulk_load(memory, own(in, WORDS), BYTES, loaded);
  }
  mbarrier_wait_parity(loaded, 0);
  for (int i = threadIdx.x; i < WORDS; i += 128) own(out, WORDS)[i] = memory[i];
}
