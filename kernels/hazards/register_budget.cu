// register_budget · two warpgroups ask for registers that nobody gives up
//
// Rule (PTX ISA, setmaxnreg): inc waits until the block's pool holds what it asks for. A block of 384
// threads has 168 registers a thread; two warpgroups of 240 need what the third leaves at 24.
//
// in (384): numbers. out (384): the same. Launch: 1 block of 384 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(384, 1)
register_budget(const unsigned* in, unsigned* out) {
  if (threadIdx.x / 128 == 0) {
#ifdef FIXED
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");  // HERE
  }
  own(out, 384)[threadIdx.x] = own(in, 384)[threadIdx.x];
}
