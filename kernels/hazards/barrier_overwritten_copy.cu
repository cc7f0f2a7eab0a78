// barrier_overwritten_copy · a copy is 16 bytes longer than its tile, and an mbarrier lies behind it
//
// Rule (PTX ISA, mbarrier): the object is opaque, and only mbarrier instructions access it until
// mbarrier.inval.
//
// in (260): numbers. out (256): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_overwritten_copy(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned memory[260];  // a tile, and an mbarrier behind it
  unsigned long long* loaded = reinterpret_cast<unsigned long long*>(memory + 256);
#ifdef FIXED
  constexpr int BYTES = 1024;
#else
  constexpr int BYTES = 1040;
#endif
  if (threadIdx.x == 0) mbarrier_init(loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(loaded, BYTES);
    bulk_load(memory, in, BYTES, loaded);  // HERE
  }
  mbarrier_wait_parity(loaded, 0);
  for (int i = threadIdx.x; i < 256; i += 128) out[i] = memory[i];
}
