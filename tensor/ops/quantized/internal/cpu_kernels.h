#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <etna/tensor/quant/block_format.h>

/// Kernels over rows of blocks, for the instruction set of the processor. Internal.
namespace etna::quantized {

/// 256 elements of a row of x, quantized to 8 bits: scale · quant + center, with a scale and a center for each run of
/// 32 elements.
struct QuantizedGroup {
  alignas(64) std::int8_t quants[256];
  float scales[16];  ///< for each 16 elements, as the next ones
  float sums[16];    ///< scale · sum of the quants
  // The same for each run, and sums of the quants alone, for each 16 elements.
  float run_scales[8];
  float run_sums[8];
  std::int16_t quant_sums[16];
  float centers[8];  ///< of runs; 0 as quantize_row makes them
  /// Groups 512 bytes apart would share sets of the first cache, for 3 % of the time of a product.
  std::byte padding[64];
};

/// Quantized rows of x: [groups, rows], so that products with several rows read one stream. The last group of a row is
/// filled up with zeros.
struct QuantizedActivations {
  std::int64_t rows = 0;
  const QuantizedGroup* groups = nullptr;

  const QuantizedGroup* at(std::int64_t row, std::int64_t group) const { return groups + group * rows + row; }
};

/// Rows of x that one pass over a weight serves.
inline constexpr std::int64_t kRowsAtOnce = 8;

/// Whether many rows of x meet weights in blocks in 8 bits, too (CpuKernels::gemm). ETNA_QUANT_PROMPTS says so with
/// "int8", and otherwise with "floats"; int8 where it is not set.
bool quantizes_prompts();
/// Overrides that, or, with nothing, follows the variable again. For tests.
/// @throws Error where the variable is neither.
void set_quantizes_prompts(std::optional<bool> on);

/// Rows of a weight, a panel, that one call of a GEMM kernel takes, and the memory it needs for each 256 elements of 8
/// of them.
inline constexpr std::int64_t kPanelRows = 32;
inline constexpr std::size_t kPackedBytes = 3328;
/// out[m, r] = Σ x[m, k] · rows[r, k] for up to kPanelRows rows of a weight and all rows of x, which may have centers.
/// @param room aligned to 64 bytes @param step from row to row of out
using GemmKernel = void (*)(const std::byte* rows, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                            const QuantizedActivations& x, std::byte* room, float* out, std::int64_t step);

/// Products of ternary weights by look-up: sums of a few quants of x for each choice of weights, made once for all
/// rows.
struct LookupTables {
  std::int64_t rows = 0;   ///< of a weight that one call takes; 0 where there is no kernel
  std::size_t bytes = 0;   ///< of the tables for a group of x
  std::int64_t least = 0;  ///< rows of x from which tables are faster than `dot`, as measured; 0 for never
  /// Tables for groups of x, in their order.
  void (*fill)(const QuantizedGroup* groups, std::int64_t count, std::byte* tables) = nullptr;
  /// out[m, r] = Σ x[m, k] · weight[r, k] for up to `rows` rows of a weight and all rows of x.
  void (*multiply)(const std::byte* weight, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                   const QuantizedActivations& x, const std::byte* tables, float* out, std::int64_t step) = nullptr;
};

/// Products with one row of x, which lies as a format's blocks need it.
struct GemvKernels {
  std::int64_t groups = 0;  ///< of x that lie together; 0 where there is no kernel
  std::size_t bytes = 0;    ///< of that many
  /// @param to aligned to 64 bytes, with room for a multiple of `groups`
  void (*pack)(const QuantizedGroup* groups, std::int64_t count, std::byte* to) = nullptr;
  /// out[r] = Σ x[k] · weight[r, k] for `count` rows of a weight, whose results do not depend on each other.
  void (*multiply)(const std::byte* weight, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                   const std::byte* x, float* out) = nullptr;
};

struct CpuKernels {
  /// out[m] = Σ x[m, k] · row[k] for `rows` rows of x from `first` on, at most kRowsAtOnce
  void (*dot)(const std::byte* row, std::int64_t columns, const QuantizedActivations& x, std::int64_t first,
              std::int64_t rows, float* out) = nullptr;
  /// The row's values, rounded to bf16 or not. dequantize_bf16 is null where the processor has no bf16.
  void (*dequantize)(const std::byte* row, std::int64_t columns, float* out) = nullptr;
  void (*dequantize_bf16)(const std::byte* row, std::int64_t columns, std::uint16_t* out) = nullptr;
  /// out[m] = Σ x[m, k] · row[k] for rows of unquantized formats and of x. @param x_step from row to row of x
  void (*dot_unquantized)(const std::byte* row, std::int64_t columns, const float* x, std::int64_t x_step,
                          std::int64_t rows, float* out) = nullptr;
  /// Quantizes a row of x to groups that lie `step` apart, without centers for `dot`, `gemv` and `lookup`, with them
  /// for `gemm`.
  void (*quantize_row)(const float* x, std::int64_t columns, QuantizedGroup* out, std::int64_t step) = nullptr;
  void (*quantize_row_centered)(const float* x, std::int64_t columns, QuantizedGroup* out, std::int64_t step) = nullptr;
  /// Null where many rows of x are better served by a gemm of floats.
  GemmKernel gemm = nullptr;
  /// Of ternary formats, by AVX2.
  LookupTables lookup = {};
  /// Of formats for which it is faster than `dot`.
  GemvKernels gemv = {};
};

/// The kernels of a format; those that it has no use for are null. Formats that are only read have none.
const CpuKernels& cpu_kernels(const quant::BlockFormat& format);

/// "AVX-512 VNNI", "AVX2" or "portable".
const char* cpu_kernels_target();
/// Lets tests choose: null for the best. @return false where the processor lacks it
bool use_cpu_kernels(const char* target);

// A build for one processor has no kernels that this one cannot run.
#if defined(__x86_64__) && (!defined(ETNA_PROCESSOR) || defined(__AVX2__))
#define ETNA_KERNELS_AVX2 1
namespace avx2 {
CpuKernels kernels(std::string_view format);
LookupTables lookup_tables(std::string_view format);
}  // namespace avx2
#endif
#if defined(__x86_64__) && (!defined(ETNA_PROCESSOR) || defined(__AVX512VNNI__))
#define ETNA_KERNELS_AVX512 1
namespace avx512 {
CpuKernels kernels(std::string_view format);
}
#endif

}  // namespace etna::quantized

// ETNA_BEGIN_TARGET("avx2,fma") ... ETNA_END_TARGET: all functions between are compiled for an instruction set,
// templates and lambdas included. Headers of the standard library are included before.
#define ETNA_PRAGMA(TEXT) _Pragma(#TEXT)
#if defined(__clang__)
#define ETNA_BEGIN_TARGET(SET) ETNA_PRAGMA(clang attribute push(__attribute__((target(SET))), apply_to = function))
#define ETNA_END_TARGET ETNA_PRAGMA(clang attribute pop)
#else
#define ETNA_BEGIN_TARGET(SET) ETNA_PRAGMA(GCC push_options) ETNA_PRAGMA(GCC target(SET))
#define ETNA_END_TARGET ETNA_PRAGMA(GCC pop_options)
#endif
