// memory_addresses · what addresses are: windows, the ranks of a cluster, and who sees what
//
//   out[block][k][t] = answer k of thread t
//
// What it probes: isspacep for pointers into every space, cvta there and back, the shared address
// that mapa makes for another block and what is read and written there, getctarank. The shared
// addresses themselves are among the answers.
//
// Launch: 4 blocks of 32 threads, in clusters of 4. Outputs: out.
constexpr int THREADS = 32, ANSWERS = 64, BLOCKS = 4;

__constant__ unsigned constant[2] = {11, 12};
__device__ unsigned global_word[4] = {1, 2, 3, 4};

#define IS(SPACE, POINTER)                                                                    \
  {                                                                                           \
    unsigned answer;                                                                          \
    asm volatile("{ .reg .pred p; isspacep." SPACE " p, %1; selp.u32 %0, 1, 0, p; }"          \
                 : "=r"(answer) : "l"(POINTER));                                              \
    bits = bits << 1 | answer;                                                                \
  }

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1)
memory_addresses(unsigned* out, const __grid_constant__ unsigned parameter) {
  extern __shared__ __align__(16) unsigned dynamic[];
  __shared__ unsigned tile[2 * THREADS];
  unsigned own[4];
  const int t = threadIdx.x;
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out += blockIdx.x * ANSWERS * THREADS;
  int k = 0;
  auto put = [&](unsigned value) { out[k++ * THREADS + t] = value; };
  for (int i = 0; i < 4; ++i) own[(i + t) % 4] = i;
  tile[t] = rank * 1000 + t;
  tile[THREADS + t] = 7;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");

  // A pointer into shared memory of another block, made by mapa from a generic pointer.
  const unsigned peer = (rank + 1 + t) % BLOCKS;
  unsigned* there;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(tile), "r"(peer));
  const void* pointers[] = {out, global_word, tile, there, own + t % 4, constant, &parameter};
#pragma unroll
  for (const void* pointer : pointers) {
    unsigned bits = 0;
    IS("global", pointer) IS("shared", pointer) IS("shared::cta", pointer)
    IS("shared::cluster", pointer) IS("local", pointer) IS("const", pointer)
    IS("param", pointer) IS("param::entry", pointer)
    put(bits);
  }

  // Where shared variables lie.
  const unsigned address = __cvta_generic_to_shared(tile + t);
  unsigned mapped, mapped_wide, again;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(peer));
  put(address);
  put(mapped);
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(again) : "r"(mapped), "r"(rank));
  put(again);
  asm volatile("{ .reg .b64 a, b; cvt.u64.u32 a, %1; mapa.shared::cluster.u64 b, a, %2;"
               " cvt.u32.u64 %0, b; }" : "=r"(mapped_wide) : "r"(address), "r"(peer));
  put(mapped_wide);
  put(__cvta_generic_to_shared(dynamic));
  unsigned long long generic, back;
  asm volatile("cvta.shared::cluster.u64 %0, %1;"
               : "=l"(generic) : "l"((unsigned long long)mapped));
  put(generic == (unsigned long long)(there + t));
  asm volatile("cvta.to.shared::cluster.u64 %0, %1;" : "=l"(back) : "l"(generic));
  put((unsigned)back);
  put((unsigned)(generic - (unsigned long long)(tile + t)));

  // Whose they are.
  unsigned of_shared, of_mapped, of_generic;
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of_shared) : "r"(address));
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of_mapped) : "r"(mapped));
  asm volatile("getctarank.u64 %0, %1;" : "=r"(of_generic) : "l"(there));
  put(of_shared), put(of_mapped), put(of_generic);

  // Reads and writes over there: shared::cluster, generic, and vectors.
  unsigned read, read_generic, a, b, old;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(read) : "r"(mapped) : "memory");
  put(read);
  asm volatile("ld.u32 %0, [%1];" : "=r"(read_generic) : "l"(there + t) : "memory");
  put(read_generic);
  asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];"
               : "=r"(a), "=r"(b) : "r"(mapped & ~7u) : "memory");
  put(a), put(b);
  asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;"
               : "=r"(old) : "r"(mapped + 4 * THREADS), "r"(t + 1) : "memory");
  put(old);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  put(tile[THREADS + t]);
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(mapped), "r"(rank * 100 + t) : "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  put(tile[t]);
  put(own[0] + parameter + constant[t % 2] + global_word[t % 4]);
  put(k);
}
