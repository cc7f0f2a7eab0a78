// barrier_without_exited · some threads return before a __syncthreads() of the others
//
// Rule (PTX ISA, bar): without a count it waits for all threads of the block. The documents do not say
// that those who have exited are not waited for; an H200 counts the living.
//
// in (128): numbers. out (96): the first 96, in reverse order. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
barrier_without_exited(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[128];
#ifndef FIXED
  if (threadIdx.x >= 96) return;
#endif
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();  // HERE
  if (threadIdx.x < 96) out[threadIdx.x] = tile[95 - threadIdx.x];
}
