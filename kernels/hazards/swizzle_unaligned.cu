// swizzle_unaligned · a swizzled tile starts 128 bytes behind a swizzle atom
//
// Rule (PTX ISA, Tensors: swizzling modes; matrix descriptor): the pattern of the 128-byte swizzle
// repeats every 1024 bytes, and tiles start on a multiple of that. What TMA writes elsewhere is
// permuted by absolute addresses, as observed on an H200; the reader here does the same.
//
// map: (8, 64) fp16, box (8, 64), 128-byte swizzle. out (8, 32 words): the same.
// Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
swizzle_unaligned(const __grid_constant__ TensorMap map, unsigned* out) {
  __shared__ alignas(1024) unsigned char memory[2048];
  __shared__ unsigned long long loaded;
#ifdef FIXED
  unsigned char* tile = memory;
#else
  unsigned char* tile = memory + 128;
#endif
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&loaded, 1024);
    tma_load_2d(tile, &map, &loaded, 8 * blockIdx.x, 0);  // HERE
  }
  mbarrier_wait_parity(&loaded, 0);
  for (int i = threadIdx.x; i < 256; i += 128) {
    const unsigned byte = shared_address(tile) + i * 4;
    const unsigned swizzled = byte ^ (byte >> 3 & 0x70);
    own(out, 256)[i] = *reinterpret_cast<unsigned*>(tile + (swizzled - shared_address(tile)));
  }
}
