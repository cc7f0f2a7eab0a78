// fault · a thread arrives at an mbarrier for more threads than its phase waits for
//
// Rule (PTX ISA, mbarrier.arrive): count is at most the pending count of the phase.
//
// in (128): numbers. out (128): the same, in reverse order. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
fault(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[128];
  __shared__ unsigned long long written;
  if (threadIdx.x == 0) mbarrier_init(&written, 1);
  tile[threadIdx.x] = own(in, 128)[threadIdx.x];
  __syncthreads();
#ifdef FIXED
  constexpr unsigned COUNT = 1;
#else
  constexpr unsigned COUNT = 2;
#endif
  if (threadIdx.x == 0) mbarrier_arrive(&written, COUNT);  // HERE
  mbarrier_wait_parity(&written, 0);
  own(out, 128)[threadIdx.x] = tile[127 - threadIdx.x];
}
