// expect_tx_few · fewer bytes are announced than the copies of a phase bring
//
// Rule (PTX ISA, mbarrier: tx-count): a phase completes when all have arrived and as many bytes have
// landed as were announced. With too few announced it completes while a copy is under way.
//
// in (WORDS): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
expect_tx_few(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef FIXED
    mbarrier_arrive_expect_tx(&loaded, BYTES);
#else
    mbarrier_arrive_expect_tx(&loaded, BYTES / 2);  // HERE
#endif
    bulk_load(tile, own(in, WORDS), BYTES / 2, &loaded);
    bulk_load(tile + WORDS / 2, own(in, WORDS) + WORDS / 2, BYTES / 2, &loaded);
  }
  mbarrier_wait_parity(&loaded, 0);
  for (int i = threadIdx.x; i < WORDS; i += 128) own(out, WORDS)[i] = tile[i];
}
