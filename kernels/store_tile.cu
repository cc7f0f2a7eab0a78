// store_tile · three ways out of the registers
//
//   C (64, N) fp16 = the accumulators of one warpgroup, fp32, as a wgmma leaves them
//
// What it teaches: what an epilogue costs, and why stmatrix exists. The sums come from memory,
// register by register, so that nothing but storing is timed.
//
// WAY = 0: each thread stores its pairs of neighbours, 4 bytes at a time, straight to C.
//       1: stmatrix puts the tile into shared memory, swizzled; whole rows leave from there.
//       2: as 1, without the swizzle: the same bytes, in the same banks.
// Launch: any number of blocks of 128 threads, each with its own sums and its own C, which it
// stores `rounds` times. Each warp writes %clock64 before and after.
#include "half.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"

#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef WAY
#define WAY 1
#endif
constexpr int TILE_M = 64;
constexpr int THREADS = 128;
constexpr int PIECES = TILE_N / 8;  // of 16 bytes, eight fp16, in a row of C

static_assert(TILE_N % 64 == 0 && TILE_N <= 256, "rows of a multiple of 128 bytes");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, 0);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

__device__ inline long long clock_now() {
  long long cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) :: "memory");
  return cycles;
}

// `asm volatile`: stored again in every round, although nothing changed.
__device__ inline void store_word(half* c, unsigned word) {
  asm volatile("st.global.b32 [%0], %1;" :: "l"(c), "r"(word) : "memory");
}
__device__ inline void store_piece(half* c, uint4 piece) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :: "l"(c), "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w) : "memory");
}

// [stmatrix]
// The whole warp: four 8×8 matrices of 16-bit elements, registers to shared memory. Lanes
// 8i … 8i+7 bring the addresses of the rows of matrix i, which register i of all lanes holds.
__device__ inline void stmatrix_x4(const void* row, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
// [/stmatrix]

// [place]
// Where piece `piece` of row `row` of a warp's 16 × TILE_N lies, in pieces.
__device__ inline int place(int row, int piece) {
  return row * PIECES + (WAY == 1 ? piece ^ row % 8 : piece);
}
// [/place]

extern "C" __global__ void __launch_bounds__(THREADS)
store_tile(const float* held, half* c, long long* clocks, int rounds) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int me = blockIdx.x * THREADS + threadIdx.x;
  unsigned packed[TILE_N / 4];  // packed[2j], packed[2j + 1]: eight columns, two rows of them
#pragma unroll
  for (int r = 0; r < TILE_N / 4; ++r)
    packed[r] = pack_half2(held[me * (TILE_N / 2) + 2 * r], held[me * (TILE_N / 2) + 2 * r + 1]);

  half* rows = c + (blockIdx.x * TILE_M + warp * 16) * TILE_N;  // this warp's sixteen
  const long long start = clock_now();
#if WAY == 0
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    // [direct]
    half* mine = rows + lane / 4 * TILE_N + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
      store_word(mine + j * 8, packed[2 * j]);
      store_word(mine + 8 * TILE_N + j * 8, packed[2 * j + 1]);
    }
    // [/direct]
  }
#else
  __shared__ alignas(128) uint4 tile[4][16 * PIECES];  // each warp's rows of the tile
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    // [staged]
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 2) {
      const unsigned matrices[4] = {packed[2 * j], packed[2 * j + 1], packed[2 * j + 2],
                                    packed[2 * j + 3]};
      stmatrix_x4(&tile[warp][place(lane % 16, j + lane / 16)], matrices);
    }
    __syncwarp();  // every lane's part is there
    uint4 whole[PIECES / 2];
#pragma unroll
    for (int i = 0; i < PIECES / 2; ++i) {
      const int index = i * 32 + lane;
      whole[i] = tile[warp][place(index / PIECES, index % PIECES)];
    }
    __syncwarp();  // and every lane has read before the next round writes
    // [/staged]
    // [rows]
#pragma unroll
    for (int i = 0; i < PIECES / 2; ++i) store_piece(rows + (i * 32 + lane) * 8, whole[i]);
    // [/rows]
  }
#endif
  const long long end = clock_now();
  if (lane == 0) {
    long long* mine = clocks + (blockIdx.x * 4 + warp) * 2;
    mine[0] = start, mine[1] = end;
  }
}
