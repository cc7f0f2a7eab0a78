// partial_warpgroup_registers · one warp of a warpgroup gives up registers
//
// Rule (PTX ISA, setmaxnreg): .sync.aligned, all threads of the warpgroup execute the same
// instruction.
//
// in (128): numbers. out (128): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128, 1)
partial_warpgroup_registers(const unsigned* in, unsigned* out) {
#ifndef FIXED
  if (threadIdx.x < 32)
#endif
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");  // HERE
  own(out, 128)[threadIdx.x] = own(in, 128)[threadIdx.x];
}
