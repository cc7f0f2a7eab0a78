// setmaxnreg: warpgroups of a block trade registers. The block keeps what it was launched with; a
// warpgroup that gives some up leaves them for another to take.
// Each function issues the one PTX instruction it is named after. All 128 threads of a warpgroup
// execute it, in a kernel whose __launch_bounds__ state threads and blocks an SM: without the second
// the compiler may not know how many registers there are, and then it ignores setmaxnreg.
#pragma once

// Keeps kCount registers a thread, and gives up the others.
template <int kCount>
__device__ inline void setmaxnreg_dec() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256, "a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(kCount));
}

// Waits until enough have been given up, and then has kCount registers a thread.
template <int kCount>
__device__ inline void setmaxnreg_inc() {
  static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256, "a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(kCount));
}
