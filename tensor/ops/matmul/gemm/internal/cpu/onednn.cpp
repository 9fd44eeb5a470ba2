#include <etna/tensor/ops/matmul/gemm/internal/cpu/onednn.h>

#ifdef ETNA_HAS_ONEDNN

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/one_openmp_thread.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/signals_held.h>

// f32 by oneDNN, one thread at a time.
//
// - Uses dnnl_sgemm, whose code does not depend on the sizes: a new shape needs no compilation.
// - The AVX2 and AVX-512 code of dnnl_sgemm (2.6.3) uses the stack pointer as an ordinary register. A signal handler's
// frame, for example that of Ctrl-C, would land in the heap, so signals wait (docs/decisions/016).
// - dnnl_sgemm reads an operand stored with one row per step of k (a transposed a, a plain b) down its rows. If the row
// stride is a multiple of 512 bytes, as with most model widths, the rows share few cache sets, and the speed drops to
// half: of the 89 GFLOP/s of a core with AVX2, [512, 1024] · [1024, 512] got 36, [4096, 1024]ᵀ · [4096, 512] got 31.
// Such an operand is copied first, 512 x 512 at a time, to rows that are closer together: 75 to 79. With m and n of
// 1024 or more, dnnl_sgemm packs well by itself. Its AVX-512 code only suffers from a transposed a whose rows all fall
// in one set (rows of 2048, 16 cores: 1343 GFLOP/s with copies, 922 without); other copies would make a step of a small
// model 6 % slower.
namespace etna::cpu {
namespace {

void call(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  OneOpenMpThread one;
  SignalsHeld held;
  auto leading = [](std::int64_t ld, std::int64_t columns) { return std::max(ld, columns); };
  dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, alpha, a,
             leading(g.lda, g.transpose_a ? g.m : g.k), b, leading(g.ldb, g.transpose_b ? g.k : g.n), beta, c,
             leading(g.ldc, g.n));
}

constexpr std::int64_t kBlock = 512, kPad = 16;
// Row strides in floats at which rows collide, as they do at multiples.
constexpr std::int64_t kCollide = 128;        // 512 bytes: few sets of the L1 cache
constexpr std::int64_t kCollideFully = 1024;  // 4 KiB: one set

/// A copy of a block of an operand with its rows closer together.
class Copy {
 public:
  /// @param made whether there will be one
  explicit Copy(bool made) : copy_(made ? kBlock * (kBlock + kPad) : 0) {}
  /// An odd multiple of a cache line.
  static std::int64_t leading(std::int64_t columns) { return (columns + kPad - 1) / kPad * kPad | kPad; }
  const float* of(const float* x, std::int64_t leading_x, std::int64_t rows, std::int64_t columns) {
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(copy_.data() + row * leading(columns), x + row * leading_x,
                  static_cast<std::size_t>(columns) * sizeof(float));
    }
    return copy_.data();
  }

 private:
  Scratch<float> copy_;
};

bool has_avx512() {
  static const bool has = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
  return has;
}

void onednn_multiply(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c) {
  const bool small = std::min(g.m, g.n) < 2 * kBlock && std::min(g.m, g.n) > 16;
  const bool copies_a = small && g.transpose_a && g.lda % (has_avx512() ? kCollideFully : kCollide) == 0;
  const bool copies_b = small && !has_avx512() && !g.transpose_b && g.ldb % kCollide == 0;
  if (!copies_a && !copies_b) return call(g, alpha, a, b, beta, c);
  Copy copy_a(copies_a), copy_b(copies_b);
  const std::int64_t step_m = copies_a ? kBlock : g.m, step_n = copies_b ? kBlock : g.n;
  for (std::int64_t k = 0; k < g.k; k += kBlock) {
    for (std::int64_t j = 0; j < g.n; j += step_n) {
      Gemm part = g;
      part.k = std::min(kBlock, g.k - k);
      part.n = std::min(step_n, g.n - j);
      const float* from_b = g.transpose_b ? b + j * g.ldb + k : b + k * g.ldb + j;
      if (copies_b) {
        from_b = copy_b.of(from_b, g.ldb, part.k, part.n);
        part.ldb = copy_b.leading(part.n);
      }
      for (std::int64_t i = 0; i < g.m; i += step_m) {
        part.m = std::min(step_m, g.m - i);
        const float* from_a = g.transpose_a ? a + k * g.lda + i : a + i * g.lda + k;
        if (copies_a) {
          from_a = copy_a.of(from_a, g.lda, part.k, part.m);
          part.lda = copy_a.leading(part.m);
        }
        call(part, alpha, from_a, from_b, k == 0 ? beta : 1.0f, c + i * g.ldc + j);
      }
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

std::string onednn_name() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} ({})", v->major, v->minor, v->patch, instructions());
}

}  // namespace

const Library& onednn() {
  static const Library library{
      .f32 = onednn_multiply, .bf16 = onednn_multiplies_bf16() ? onednn_bf16 : nullptr, .name = onednn_name()};
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
