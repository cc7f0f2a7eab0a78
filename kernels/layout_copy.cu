// layout_copy · which thread touches which element
//
//   out (M, N) = in (M, N), 32-bit elements, row-major; M and N multiples of the tile
//
// What it teaches: a thread-value layout decides how a copy goes through memory, and nothing else
// does. A block copies a tile. Thread t moves, for v = 0, 1 …, the element whose place in the tile
// (row + TILE_M · column) is what this layout says:
//
//   ((T0,T1),(V0,V1)):((DT0,DT1),(DV0,DV1))
//
// VECTOR of a thread's values go in one instruction; they must lie side by side in a row. Another
// layout is other -D numbers, and the same kernel.
//
// Launch: grid (N / TILE_N, M / TILE_M), blocks of T0 · T1 threads.
#include "launch_facts.cuh"

#ifndef TILE_M
#define TILE_M 64
#define TILE_N 64
#endif
#ifndef T0
#define T0 16  // sixteen threads side by side, four elements each …
#define T1 16  // … and sixteen rows below one another
#define V0 4   // a thread's four neighbours in a row …
#define V1 4   // … and four times sixteen rows
#define DT0 256
#define DT1 1
#define DV0 64
#define DV1 16
#define VECTOR 4
#endif
constexpr int THREADS = T0 * T1;
constexpr int VALUES = V0 * V1;  // of a thread

// [layout]
__host__ __device__ constexpr unsigned place(unsigned thread, unsigned value) {
  return thread % T0 * DT0 + thread / T0 * DT1 + value % V0 * DV0 + value / V0 * DV1;
}
// [/layout]

// [rules]
__host__ __device__ constexpr bool every_element_once() {
  bool seen[TILE_M * TILE_N] = {};
  for (int thread = 0; thread < THREADS; ++thread)
    for (int value = 0; value < VALUES; ++value) {
      const unsigned i = place(thread, value);
      if (i >= TILE_M * TILE_N || seen[i]) return false;
      seen[i] = true;
    }
  return true;
}

static_assert(THREADS * VALUES == TILE_M * TILE_N, "as many threads times values as elements");
static_assert(every_element_once(), "each element of the tile belongs to one thread and value");
static_assert(VECTOR == 1 || (DV0 == TILE_M && V0 % VECTOR == 0),
              "what goes in one instruction are neighbours in a row");
// [/rules]

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, 1);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

struct alignas(4 * VECTOR) Words {
  unsigned word[VECTOR];
};

extern "C" __global__ void __launch_bounds__(THREADS)
layout_copy(const unsigned* __restrict__ in, unsigned* __restrict__ out, int n) {
  const long long pitch = n;  // elements from one row to the next
  const long long corner = blockIdx.y * TILE_M * pitch + blockIdx.x * TILE_N;
  in += corner, out += corner;

  // [copy]
  Words held[VALUES / VECTOR];  // all loads first, so that they are in flight together
#pragma unroll
  for (int v = 0; v < VALUES; v += VECTOR) {
    const unsigned i = place(threadIdx.x, v), row = i % TILE_M, column = i / TILE_M;
    held[v / VECTOR] = *reinterpret_cast<const Words*>(in + row * pitch + column);
  }
#pragma unroll
  for (int v = 0; v < VALUES; v += VECTOR) {
    const unsigned i = place(threadIdx.x, v), row = i % TILE_M, column = i / TILE_M;
    *reinterpret_cast<Words*>(out + row * pitch + column) = held[v / VECTOR];
  }
  // [/copy]
}
