// matrix_moves · ldmatrix, stmatrix and movmatrix: every form, register by register
//
// What it probes: which lane's address leads to which row, which register of which lane gets which
// element, with and without .trans, through shared and through generic addresses.
//
// Launch: one block of 128 threads. `image`: IMAGE_BYTES of shared memory; `rows`: for each thread
// the byte in it where its row lies. Outputs: `loaded` (form, register, thread) of ldmatrix,
// `stored` (form, byte) the shared memory after each stmatrix, `moved` (thread) of movmatrix.
#include "mbarrier.cuh"

constexpr int THREADS = 128, IMAGE_BYTES = 4096, FORMS = 6;

// Forms 0–5: .x1, .x2, .x4, then the same with .trans. SPACE: ".shared" or "" (generic).
#define EACH_FORM(X, SPACE, C)                                                                    \
  X(0, "x1" SPACE, 1, C) X(1, "x2" SPACE, 2, C) X(2, "x4" SPACE, 4, C)                            \
  X(3, "x1.trans" SPACE, 1, C) X(4, "x2.trans" SPACE, 2, C) X(5, "x4.trans" SPACE, 4, C)
#define NAMES_1 "{%0}"
#define NAMES_2 "{%0, %1}"
#define NAMES_4 "{%0, %1, %2, %3}"
#define NAMED_1 "{%1}"
#define NAMED_2 "{%1, %2}"
#define NAMED_4 "{%1, %2, %3, %4}"
#define OUTPUTS_1 "=r"(r[0])
#define OUTPUTS_2 "=r"(r[0]), "=r"(r[1])
#define OUTPUTS_4 "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
#define INPUTS_1 "r"(r[0])
#define INPUTS_2 "r"(r[0]), "r"(r[1])
#define INPUTS_4 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])

extern "C" __global__ void __launch_bounds__(THREADS, 1)
matrix_moves(const uint4* image, const int* rows, const unsigned* registers, unsigned* loaded,
             uint4* stored, unsigned* moved) {
  __shared__ alignas(128) uint4 shared[IMAGE_BYTES / 16];
  const int thread = threadIdx.x;
  for (int i = thread; i < IMAGE_BYTES / 16; i += THREADS) shared[i] = image[i];
  __syncthreads();
  const unsigned char* row = reinterpret_cast<unsigned char*>(shared) + rows[thread];
  const unsigned address = shared_address(row);

#define LOAD(FORM, TEXT, COUNT, WHERE)                                                            \
  {                                                                                               \
    unsigned r[4] = {};                                                                           \
    asm volatile("ldmatrix.sync.aligned.m8n8." TEXT ".b16 " NAMES_##COUNT ", [%" #COUNT "];"      \
                 : OUTPUTS_##COUNT : WHERE : "memory");                                           \
    for (int i = 0; i < COUNT; ++i)                                                               \
      loaded[((kSpace * FORMS + FORM) * 4 + i) * THREADS + thread] = r[i];                        \
  }
  {
    constexpr int kSpace = 0;
    EACH_FORM(LOAD, ".shared", "r"(address))
  }
  {
    constexpr int kSpace = 1;
    EACH_FORM(LOAD, "", "l"(row))
  }

  unsigned r[4];
  for (int i = 0; i < 4; ++i) r[i] = registers[i * THREADS + thread];
#define STORE(FORM, TEXT, COUNT, WHERE)                                                           \
  {                                                                                               \
    __syncthreads();                                                                              \
    for (int i = thread; i < IMAGE_BYTES / 16; i += THREADS) shared[i] = image[i];                \
    __syncthreads();                                                                              \
    asm volatile("stmatrix.sync.aligned.m8n8." TEXT ".b16 [%0], " NAMED_##COUNT ";"               \
                 :: WHERE, INPUTS_##COUNT : "memory");                                            \
    __syncthreads();                                                                              \
    for (int i = thread; i < IMAGE_BYTES / 16; i += THREADS)                                      \
      stored[(kSpace * FORMS + FORM) * (IMAGE_BYTES / 16) + i] = shared[i];                       \
  }
  {
    constexpr int kSpace = 0;
    EACH_FORM(STORE, ".shared", "r"(address))
  }
  {
    constexpr int kSpace = 1;
    EACH_FORM(STORE, "", "l"(row))
  }

  unsigned turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(r[0]));
  moved[thread] = turned;
}
