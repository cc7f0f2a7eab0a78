// deadlock · a phase waits for an arrival that nobody makes
//
// Rule (PTX ISA, mbarrier): a phase completes after as many arrivals as the barrier was initialised
// with.
//
// in (128): numbers. out (128): the same, in reverse order. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
deadlock(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[128];
  __shared__ unsigned long long written;
  if (threadIdx.x == 0) mbarrier_init(&written, 128);
  __syncthreads();
  tile[threadIdx.x] = own(in, 128)[threadIdx.x];
#ifdef FIXED
  mbarrier_arrive(&written);
#else
  if (threadIdx.x % 32 != 0) mbarrier_arrive(&written);
#endif
  mbarrier_wait_parity(&written, 0);  // HERE
  own(out, 128)[threadIdx.x] = tile[127 - threadIdx.x];
}
