// A kernel to check, as you might write one: two stages in dynamic shared memory, so that TMA loads
// one while the tensor cores read the other.
//
//   C (M,N) fp32 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major; M, N and K are multiples of 64.
//
//   python -m hopper.emulator check examples/check/two_stages.cu \
//       --launch examples/check/two_stages.toml
//
// With --define GROUPS_IN_FLIGHT=1 it has a race, in which TMA overwrites what wgmma still reads.
#include "descriptor.cuh"
#include "half.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef GROUPS_IN_FLIGHT
#define GROUPS_IN_FLIGHT 0
#endif
constexpr int TILE = 64;   // elements of M, of N and of K
constexpr int STAGES = 2;
constexpr int TILE_BYTES = TILE * TILE * sizeof(half);

LAUNCH_FACT(threads, 128);
LAUNCH_FACT(shared_bytes, STAGES * 2 * TILE_BYTES + 1024);  // and room to round the start up

extern "C" __global__ void __launch_bounds__(128)
two_stages(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
           float* c, int n, int k) {
  extern __shared__ unsigned char dynamic[];
  __shared__ unsigned long long loaded[STAGES];  // mbarriers: both tiles of a stage have landed

  const unsigned skip = -shared_address(dynamic) % 1024;  // a swizzled tile starts on 1024 bytes
  auto tile_a = [&](int stage) { return dynamic + skip + stage * 2 * TILE_BYTES; };
  auto tile_b = [&](int stage) { return tile_a(stage) + TILE_BYTES; };
  const int row = blockIdx.x * TILE, column = blockIdx.y * TILE;

  auto load = [&](int step) {
    const int stage = step % STAGES;
    mbarrier_arrive_expect_tx(&loaded[stage], 2 * TILE_BYTES);
    tma_load_2d(tile_a(stage), &map_a, &loaded[stage], row, step * TILE);
    tma_load_2d(tile_b(stage), &map_b, &loaded[stage], column, step * TILE);
  };

  const int steps = k / TILE;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&loaded[stage], 1);
    fence_proxy_async();
    for (int step = 0; step < STAGES && step < steps; ++step) load(step);
  }
  __syncthreads();

  float d[TILE / 2];
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const int stage = step % STAGES;
    mbarrier_wait_parity(&loaded[stage], step / STAGES % 2);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE; kk += 16) {
      wgmma_f32_f16_f16<TILE>::ss(d, descriptor_k_major_128b(tile_a(stage) + kk * sizeof(half)),
                                  descriptor_k_major_128b(tile_b(stage) + kk * sizeof(half)),
                                  /*scale_d=*/step + kk > 0);
    }
    wgmma_commit_group();
    wgmma_wait_group<GROUPS_IN_FLIGHT>();
    __syncthreads();  // all four warps are done with this stage: fill it again
    if (threadIdx.x == 0 && step + STAGES < steps) load(step + STAGES);
  }
  wgmma_wait_group<0>();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < TILE / 2; ++i) {
    const int down = row + warp * 16 + lane / 4 + i / 2 % 2 * 8;
    const int along = column + i / 4 * 8 + lane % 4 * 2 + i % 2;
    c[down * n + along] = d[i];
  }
}
