#pragma once

#include <cstdint>
#include <functional>
#include <string>

/// Matrix multiplication on the host, row-major.
///
/// A gemm is divided into tiles of c (gemm/tiling.h). Each tile is a oneTBB task that calls a library on its own
/// thread: oneDNN, else OpenBLAS, else Etna's own or Eigen (docs/decisions/008 and 020). There is one thread pool; no
/// library starts its own. The tiling depends only on the sizes and the number of threads, so a gemm gives the same
/// bits each time.
namespace etna::cpu {

/// c = alpha · op(a) · op(b) + beta · c, where op transposes on request.
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;        ///< op(a) is [m, k], op(b) is [k, n], c is [m, n]
  std::int64_t lda = 0, ldb = 0, ldc = 0;  ///< elements from one stored row to the next
};

/// A tile of c: rows [row, row + rows), columns [column, column + columns).
struct ResultTile {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

/// An epilogue: called for a tile of c when its sums are complete, by the thread that completed them, while the tile is
/// in cache.
using Finish = std::function<void(const ResultTile&)>;

/// The bits of a bf16.
using Bf16 = std::uint16_t;

/// Runs on all threads. With beta 0, c need not be initialized; k = 0 is allowed.
/// @param finish called once for each tile of c; the tiles together cover c; may be empty
void gemm(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c, const Finish& finish = {});
void gemm(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c,
          const Finish& finish = {});
/// The product of two bf16 is exact in f32; sums are f32.
void gemm(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c, const Finish& finish = {});

/// The same on the calling thread only, for use inside parallel_for().
void gemm_one_thread(const Gemm& g, float alpha, const float* a, const float* b, float beta, float* c);
void gemm_one_thread(const Gemm& g, double alpha, const double* a, const double* b, double beta, double* c);
void gemm_one_thread(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c);

/// True if the processor multiplies bf16 (AVX512_BF16, AMX) and a library supports it. Otherwise gemm() converts its
/// operands chunk by chunk; a caller that uses one operand in several gemms should convert it once itself.
bool multiplies_bf16();
/// The same for a given size: a skinny gemm is bound by bytes, and reads bf16 directly on any processor.
bool multiplies_bf16(std::int64_t m, std::int64_t n);

/// The library in use, and the processor it targets: "oneDNN 2.6.3 (AVX2)", "OpenBLAS 0.3.21 (Haswell)".
std::string f32_kernels();
std::string f64_kernels();
std::string bf16_kernels();

}  // namespace etna::cpu
