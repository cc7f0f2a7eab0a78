// copy_not_arrived · shared memory is read behind a __syncthreads(), and the copy has not arrived
//
// Rule (PTX ISA, cp.async.bulk): what the copy writes is visible to threads that have waited for the
// phase of the mbarrier that it reports to. A barrier of threads says nothing of it.
//
// in (WORDS): numbers. out (WORDS): the same. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
copy_not_arrived(const unsigned* in, unsigned* out) {
  __shared__ alignas(128) unsigned tile[WORDS];
  __shared__ unsigned long long loaded;
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&loaded, BYTES);
    bulk_load(tile, own(in, WORDS), BYTES, &loaded);
  }
  __syncthreads();
#ifdef FIXED
  mbarrier_wait_parity(&loaded, 0);
#endif
  for (int i = threadIdx.x; i < WORDS; i += 128) own(out, WORDS)[i] = tile[i];  // HERE
  mbarrier_wait_parity(&loaded, 0);
}
