// misaligned · sixteen bytes are loaded at once from an address that is no multiple of sixteen
//
// Rule (PTX ISA, ld): the address is a multiple of the size of the access.
//
// in (516): numbers. out (128): sums of four, from the second on. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
misaligned(const unsigned* in, unsigned* out) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  const unsigned* from = in + 1 + i * 4;
#ifdef FIXED
  out[i] = from[0] + from[1] + from[2] + from[3];
#else
  const uint4 four = *reinterpret_cast<const uint4*>(from);  // HERE
  out[i] = four.x + four.y + four.z + four.w;
#endif
}
