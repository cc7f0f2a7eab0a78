// global_out_of_bounds · the last thread reads one element behind the array
//
// Rule (CUDA C++ Programming Guide, device memory accesses): a kernel accesses what was allocated.
//
// in (n): numbers. out (n): each plus the next one, the last alone. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
global_out_of_bounds(const unsigned* in, unsigned* out, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
#ifdef FIXED
  const unsigned next = i + 1 < n ? in[i + 1] : 0;
#else
  const unsigned next = in[i + 1];  // HERE
#endif
  if (i < n) out[i] = in[i] + (i + 1 < n ? next : 0);
}
