// barrier_overwritten_copy · a copy is 16 bytes longer than its tile, and an mbarrier lies behind it
//
// Rule (PTX ISA, mbarrier): the object is opaque, and only mbarrier instructions access it until
// mbarrier.inval.
//
// in (WORDS + 4): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_overwritten_copy(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned memory[WORDS + 4];  // a tile, and an mbarrier behind it
  unsigned long long* loaded = reinterpret_cast<unsigned long long*>(memory + WORDS);
#ifdef FIXED
  constexpr int COPIED = BYTES;
#else
  constexpr int COPIED = BYTES + 16;
#endif
  if (threadIdx.x == 0) mbarrier_init(loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(loaded, COPIED);
    bulk_load(memory, own(in, WORDS + 4), COPIED, loaded);  // HERE
  }
  mbarrier_wait_parity(loaded, 0);
  for (int i = threadIdx.x; i < WORDS; i += 128) own(out, WORDS)[i] = memory[i];
}
