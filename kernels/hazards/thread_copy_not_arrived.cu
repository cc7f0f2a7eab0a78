// thread_copy_not_arrived · cp.async is committed, and read behind a __syncthreads() without a wait
//
// Rule (PTX ISA, cp.async): what it writes is visible to its thread behind a cp.async.wait_group that
// covers it, and to others behind a barrier after that.
//
// in (512 SIZE): numbers. out (512 SIZE): the same, fours in reverse order. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
thread_copy_not_arrived(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[512 * SIZE];
  for (int i = threadIdx.x * 4; i < 512 * SIZE; i += 512)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(shared_address(tile + i)), "l"(own(in, 512 * SIZE) + i) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
#ifdef FIXED
  asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
  __syncthreads();
  for (int i = threadIdx.x; i < 512 * SIZE; i += 128)
    own(out, 512 * SIZE)[i] = tile[(512 * SIZE - 4 - i / 4 * 4) + i % 4];  // HERE
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}
