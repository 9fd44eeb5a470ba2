#pragma once

#include <cstdint>
#include <functional>
#include <string>

/// Matrix products on the host, row-major.
///
/// A product is cut into parts of c (gemm/cut.h), each a task of oneTBB that calls a library on its own thread: oneDNN,
/// else OpenBLAS, else Eigen (docs/decisions/008). There is one pool of threads: no library makes one of its own. The
/// cut follows from the sizes and the number of threads alone, so a product has the same bits each time.
namespace etna::cpu {

/// c = alpha · op(a) · op(b) + beta · c, where op transposes if asked.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;        ///< op(a) is [m, k], op(b) is [k, n], c is [m, n]
  std::int64_t lda = 0, ldb = 0, ldc = 0;  ///< elements from one stored row to the next
};

/// A part of c: rows [row, row + rows), columns [column, column + columns).
struct Part {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

/// What is done to a part of c when its sums are complete, by the thread that completed them: an epilogue, while the
/// part is in cache.
using Finish = std::function<void(const Part&)>;

/// The bits of a bf16.
using Bf16 = std::uint16_t;

/// On all threads. With beta 0, c need not be initialized; k = 0 is allowed.
/// @param finish called once for each of parts that together are c; may be empty
void gemm(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c, const Finish& finish = {});
void gemm(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c,
          const Finish& finish = {});
/// Products of bf16 are exact in f32, in which they are summed.
void gemm(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c, const Finish& finish = {});

/// The same on the calling thread alone, for use inside parallel_for().
void gemm_one_thread(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c);
void gemm_one_thread(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c);
void gemm_one_thread(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c);

/// Whether the processor multiplies bf16 (AVX512_BF16, AMX), and a library knows how. Elsewhere gemm() widens its
/// operands first, part by part: who has several products of one operand had better do that himself, once.
bool multiplies_bf16();
/// The same for products of a size: thin ones are bound by bytes, and read bf16 as it is on any processor.
bool multiplies_bf16(std::int64_t m, std::int64_t n);

/// Which library multiplies, and for which processor it does: "oneDNN 2.6.3 (AVX2)", "OpenBLAS 0.3.21 (Haswell)".
std::string f32_kernels();
std::string f64_kernels();
std::string bf16_kernels();

}  // namespace etna::cpu
