// expect_tx_many · more bytes are announced than the copies of a phase bring
//
// Rule (PTX ISA, mbarrier: tx-count): a phase completes when all have arrived and as many bytes have
// landed as were announced. With too many announced it never does.
//
// in (256): numbers. out (256): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
expect_tx_many(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[256];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef FIXED
    mbarrier_arrive_expect_tx(&loaded, 1024);
#else
    mbarrier_arrive_expect_tx(&loaded, 2048);  // HERE
#endif
    bulk_load(tile, in, 1024, &loaded);
  }
  mbarrier_wait_parity(&loaded, 0);
  for (int i = threadIdx.x; i < 256; i += 128) out[i] = tile[i];
}
