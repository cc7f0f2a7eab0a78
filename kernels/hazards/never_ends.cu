// never_ends · a warp spins on a flag that nobody raises
//
// Rule: a kernel ends when all of its threads do.
//
// flag (1): zero. in (64): numbers. out (64): the same. Launch: 1 block of 64 threads.

extern "C" __global__ void __launch_bounds__(64)
never_ends(volatile unsigned* flag, const unsigned* in, unsigned* out) {
#ifdef FIXED
  if (threadIdx.x == 0) flag[0] = 1;
#endif
  while (flag[0] == 0) {}  // HERE
  out[blockIdx.x * 64 + threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
}
