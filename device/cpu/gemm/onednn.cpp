#include <etna/device/cpu/gemm/onednn.h>

#ifdef ETNA_HAS_ONEDNN

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <etna/device/cpu/gemm/one_openmp_thread.h>

// f32 by oneDNN, one thread at a time.
//
// - dnnl_sgemm, whose code does not depend on the sizes: nothing is compiled when a new shape appears.
// - Its packing of a transposed a walks down columns. Where those are a multiple of 2 KiB apart, they share a few sets of the cache, and
//   it falls to half: [1024, 4096]ᵀ · [1024, 128] 32 instead of 68 GFLOP/s on a core that has 89. Such an a is copied first, 512 × 512 at
//   a time, to rows a little longer. Wide results pack it once and use it often: they are left alone.
namespace etna::cpu {
namespace {

void call(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  OneOpenMpThread one;
  auto leading = [](std::int64_t ld, std::int64_t columns) { return std::max(ld, columns); };
  dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, alpha, a,
             leading(g.lda, g.transpose_a ? g.m : g.k), b, leading(g.ldb, g.transpose_b ? g.k : g.n), beta, c,
             leading(g.ldc, g.n));
}

constexpr std::int64_t kBlock = 512, kPad = 16;

bool columns_collide(const Gemm& g) { return g.transpose_a && g.lda % kBlock == 0 && g.n <= kBlock && g.m >= 64; }

void multiply(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  if (!columns_collide(g)) return call(g, alpha, a, b, beta, c);
  thread_local const std::unique_ptr<float[]> copy(new float[kBlock * (kBlock + kPad)]);
  Gemm part = g;
  part.lda = kBlock + kPad;
  for (std::int64_t i = 0; i < g.m; i += kBlock) {
    part.m = std::min(kBlock, g.m - i);
    for (std::int64_t k = 0; k < g.k; k += kBlock) {
      part.k = std::min(kBlock, g.k - k);
      for (std::int64_t row = 0; row < part.k; ++row) {
        std::memcpy(copy.get() + row * part.lda, a + (k + row) * g.lda + i,
                    static_cast<std::size_t>(part.m) * sizeof(float));
      }
      call(part, alpha, copy.get(), g.transpose_b ? b + k : b + k * g.ldb, k == 0 ? beta : 1.0f, c + i * g.ldc);
    }
  }
}

const char* instructions() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "SSE 4.1";
    case dnnl_cpu_isa_avx:
      return "AVX";
    case dnnl_cpu_isa_avx2:
      return "AVX2";
    case dnnl_cpu_isa_avx2_vnni:
      return "AVX2, VNNI";
    case dnnl_cpu_isa_avx512_core:
      return "AVX-512";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "AVX-512, VNNI";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "AVX-512, BF16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "AVX-512, AMX";
    default:
      return "code of its own choice";
  }
}

std::string name() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} ({})", v->major, v->minor, v->patch, instructions());
}

}  // namespace

const Library& onednn() {
  static const Library library{
      .f32 = multiply, .bf16 = onednn_multiplies_bf16() ? onednn_bf16 : nullptr, .name = name()};
  return library;
}

}  // namespace etna::cpu

#else

namespace etna::cpu {

const Library& onednn() {
  static const Library none;
  return none;
}

}  // namespace etna::cpu

#endif
