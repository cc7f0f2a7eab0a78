// expect_tx_many · more bytes are announced than the copies of a phase bring
//
// Rule (PTX ISA, mbarrier: tx-count): a phase completes when all have arrived and as many bytes have
// landed as were announced. With too many announced it never does.
//
// in (WORDS): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
expect_tx_many(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef FIXED
    mbarrier_arrive_expect_tx(&loaded, BYTES);
#else
    mbarrier_arrive_expect_tx(&loaded, 2 * BYTES);  // HERE
#endif
    bulk_load(tile, own(in, WORDS), BYTES, &loaded);
  }
  mbarrier_wait_parity(&loaded, 0);
  for (int i = threadIdx.x; i < WORDS; i += 128) own(out, WORDS)[i] = tile[i];
}
