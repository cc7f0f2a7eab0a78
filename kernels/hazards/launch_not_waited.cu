// launch_not_waited · a launch that may overlap with the one before it reads before it has waited
//
// Rule (PTX ISA, griddepcontrol; CUDA C++ Programming Guide, programmatic dependent launch): what
// earlier launches write is there behind griddepcontrol.wait. So what they read stays till then, too.
//
// in (128): numbers. out (128): the same. Launch: 1 block of 128 threads, allowed to overlap.
#include "hazard.cuh"
#define OVERLAP 1
#include "overlap.cuh"

extern "C" __global__ void __launch_bounds__(128)
launch_not_waited(const unsigned* in, unsigned* out) {
  const int i = threadIdx.x;
  let_next_launch_begin();
#ifdef FIXED
  wait_for_launch_before();
#endif
  const unsigned number = own(in, 128)[i];  // HERE
#ifndef FIXED
  wait_for_launch_before();
#endif
  own(out, 128)[i] = number;
}
