// barrier_divergence · __syncthreads() stands in a branch that half of the block takes
//
// Rule (PTX ISA, bar; CUDA C++ Programming Guide, synchronization functions): it waits for all threads
// of the block, so the condition must be the same for all of them.
//
// in (128): numbers. out (128): the same, in reverse order. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_divergence(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[128];
  __shared__ unsigned long long written;
  if (threadIdx.x == 0) mbarrier_init(&written, 64);
  tile[threadIdx.x] = own(in, 128)[threadIdx.x];
  __syncthreads();
#ifdef FIXED
  __syncthreads();
  if (threadIdx.x < 64) {
    mbarrier_arrive(&written);
  }
#else
  if (threadIdx.x < 64) {
    __syncthreads();  // HERE
    mbarrier_arrive(&written);
  }
#endif
  else {
    mbarrier_wait_parity(&written, 0);
  }
  own(out, 128)[threadIdx.x] = tile[127 - threadIdx.x];
}
