// shared_unwritten · half of a tile is written, and all of it is read
//
// Rule (CUDA C++ Programming Guide, shared memory): a block's shared memory holds nothing defined until
// it is written.
//
// in (128): numbers. out (128): the same, in reverse order. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
shared_unwritten(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[128];
#ifdef FIXED
  tile[threadIdx.x] = own(in, 128)[threadIdx.x];
#else
  if (threadIdx.x < 64) tile[threadIdx.x] = own(in, 128)[threadIdx.x];
#endif
  __syncthreads();
  own(out, 128)[threadIdx.x] = tile[127 - threadIdx.x];  // HERE
}
