// shared_race · a thread reads what another one writes, and no barrier stands between
//
// Rule (PTX ISA, Memory Consistency Model): a write and another access to the same place by two threads
// are ordered by synchronisation, or they race.
//
// in (128): numbers. out (128): the same, in reverse order. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
shared_race(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[128];
  tile[threadIdx.x] = 0;
  __syncthreads();
  tile[threadIdx.x] = own(in, 128)[threadIdx.x];  // HERE
#ifdef FIXED
  __syncthreads();
#endif
  own(out, 128)[threadIdx.x] = tile[127 - threadIdx.x];  // HERE
}
