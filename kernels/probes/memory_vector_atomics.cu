// memory_vector_atomics · atom and red on vectors of two, four or eight elements (sm_90)
//
//   rows of VECTOR elements: old = atom(cells[0]), cells[1] by red, cells[2] by a generic atom
//
// What it probes: that each element is its own sum, minimum or maximum, and the arithmetic of
// each: rounding, subnormals, NaN.
//
// Launch: blocks of 128 threads, one thread a row. OP is ".v2.f32" with "add", and so on; WORDS
// registers of BITS each. Outputs: cells, old.
#ifndef VECTOR
#define VECTOR "v2.f32"
#endif
#ifndef OP
#define OP "add"
#endif
#ifndef BITS
#define BITS 32
#endif
#ifndef WORDS
#define WORDS 2
#endif
constexpr int THREADS = 128;

#if BITS == 16
using Word = unsigned short;
#define AS "h"
#else
using Word = unsigned;
#define AS "r"
#endif

#if WORDS == 2
#define OUT "{%0, %1}"
#define IN "{%3, %4}"
#define STORED "{%1, %2}"
#define RESULTS "=" AS(was[0]), "=" AS(was[1])
#define VALUES AS(value[0]), AS(value[1])
#define PLACE "%2"
#elif WORDS == 4
#define OUT "{%0, %1, %2, %3}"
#define IN "{%5, %6, %7, %8}"
#define STORED "{%1, %2, %3, %4}"
#define RESULTS "=" AS(was[0]), "=" AS(was[1]), "=" AS(was[2]), "=" AS(was[3])
#define VALUES AS(value[0]), AS(value[1]), AS(value[2]), AS(value[3])
#define PLACE "%4"
#else
#define OUT "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define IN "{%9, %10, %11, %12, %13, %14, %15, %16}"
#define STORED "{%1, %2, %3, %4, %5, %6, %7, %8}"
#define RESULTS                                                                               \
  "=" AS(was[0]), "=" AS(was[1]), "=" AS(was[2]), "=" AS(was[3]), "=" AS(was[4]),             \
      "=" AS(was[5]), "=" AS(was[6]), "=" AS(was[7])
#define VALUES                                                                                \
  AS(value[0]), AS(value[1]), AS(value[2]), AS(value[3]), AS(value[4]), AS(value[5]),         \
      AS(value[6]), AS(value[7])
#define PLACE "%8"
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1)
memory_vector_atomics(const Word* values, Word* cells, Word* old) {
  const int n = gridDim.x * THREADS * WORDS;
  const int i = (blockIdx.x * THREADS + threadIdx.x) * WORDS;
  Word value[WORDS], was[WORDS];
  for (int e = 0; e < WORDS; ++e) value[e] = values[i + e];
  asm volatile("atom.global." OP "." VECTOR " " OUT ", [" PLACE "], " IN ";"
               : RESULTS : "l"(cells + i), VALUES : "memory");
  for (int e = 0; e < WORDS; ++e) old[i + e] = was[e];
  asm volatile("red.relaxed.gpu.global." OP "." VECTOR " [%0], " STORED ";"
               ::"l"(cells + n + i), VALUES : "memory");
  asm volatile("atom." OP "." VECTOR " " OUT ", [" PLACE "], " IN ";"
               : RESULTS : "l"(cells + 2 * n + i), VALUES : "memory");
  for (int e = 0; e < WORDS; ++e) old[n + i + e] = was[e];
}
