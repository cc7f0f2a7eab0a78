// tensor_map · a tensor map is a parameter without __grid_constant__, so the kernel copies it
//
// Rule (PTX ISA, cp.async.bulk.tensor: tensorMap): the map lies in constant, parameter or global
// memory. The address of a parameter that is not __grid_constant__ is that of a copy on the stack.
//
// map: (8, 64) fp16, box (8, 64), no swizzle. out (8, 32 words): the same.
// Launch: 1 block of 128 threads.
#include "hazard.cuh"

#ifdef FIXED
#define MAP const __grid_constant__ TensorMap
#else
#define MAP const TensorMap
#endif

extern "C" __global__ void __launch_bounds__(128)
tensor_map(MAP map, unsigned* out) {
  __shared__ alignas(128) unsigned tile[256];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&loaded, 1024);
    tma_load_2d(tile, &map, &loaded, 8 * blockIdx.x, 0);  // HERE
  }
  mbarrier_wait_parity(&loaded, 0);
  for (int i = threadIdx.x; i < 256; i += 128) own(out, 256)[i] = tile[i];
}
