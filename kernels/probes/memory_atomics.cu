// memory_atomics · one atomic operation on thousands of cells, in every space that has it
//
//   old[w][i] = atom.OP(cell[w][i], value[i])   (w: global, generic in global, shared, generic
//   in shared); cells after: in place, and `shared_cells`; rows 2 and 3 of each: by red
//
// What it probes: the arithmetic (rounding, subnormals, NaN, wrap-around), and that every way to
// the cell computes the same. No two threads share a cell.
//
// Launch: blocks of 128 threads, one thread a cell. OP is "add.f32" with BITS 32, and so on;
// COMPARE for cas; RED where a red exists. Outputs: cells, shared_cells, old.
#ifndef OP
#define OP "add.u32"
#endif
#ifndef BITS
#define BITS 32
#endif
#ifndef COMPARE
#define COMPARE 0
#endif
#ifndef RED
#define RED 1
#endif
constexpr int THREADS = 128;

#if BITS == 16
using Word = unsigned short;
#define AS "h"
#elif BITS == 32
using Word = unsigned;
#define AS "r"
#else
using Word = unsigned long long;
#define AS "l"
#endif

#if COMPARE
#define ATOM(SPACE, CONSTRAINT, ADDRESS)                                                      \
  asm volatile("atom." SPACE OP " %0, [%1], %2, %3;"                                          \
               : "=" AS(was) : CONSTRAINT(ADDRESS), AS(compare), AS(value) : "memory");
#else
#define ATOM(SPACE, CONSTRAINT, ADDRESS)                                                      \
  asm volatile("atom." SPACE OP " %0, [%1], %2;"                                              \
               : "=" AS(was) : CONSTRAINT(ADDRESS), AS(value) : "memory");
#endif
#if RED
#define REDUCE(SPACE, CONSTRAINT, ADDRESS)                                                    \
  asm volatile("red." SPACE OP " [%0], %1;" ::CONSTRAINT(ADDRESS), AS(value) : "memory");
#else
#define REDUCE(SPACE, CONSTRAINT, ADDRESS) ATOM(SPACE, CONSTRAINT, ADDRESS)
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1)
memory_atomics(const Word* values, const Word* compares, Word* cells, Word* shared_cells,
               Word* old) {
  __shared__ Word tile[4][THREADS];
  const int n = gridDim.x * THREADS, i = blockIdx.x * THREADS + threadIdx.x;
  const Word value = values[i], compare = compares[i];
  for (int w = 0; w < 4; ++w) tile[w][threadIdx.x] = cells[w * n + i];
  Word was = 0;
  auto at = [&](int w) { return (unsigned)__cvta_generic_to_shared(&tile[w][threadIdx.x]); };

  ATOM("global.", "l", cells + i)
  old[i] = was;
  ATOM("relaxed.gpu.", "l", cells + n + i)
  old[n + i] = was;
  REDUCE("relaxed.sys.global.", "l", cells + 2 * n + i)
  REDUCE("", "l", cells + 3 * n + i)

  ATOM("shared.", "r", at(0))
  old[2 * n + i] = was;
  ATOM("cta.", "l", &tile[1][threadIdx.x])
  old[3 * n + i] = was;
  REDUCE("release.cta.shared::cta.", "r", at(2))
  REDUCE("shared::cluster.", "r", at(3))
  (void)compare;
  for (int w = 0; w < 4; ++w) shared_cells[w * n + i] = tile[w][threadIdx.x];
}
