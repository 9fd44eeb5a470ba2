#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <etna/tensor/quant/block_format.h>

/// CPU kernels over rows of blocks, by instruction set. Internal.
namespace etna::quantized {

/// 256 elements of a row of x, quantized to 8 bits: scale · quant + center. Each run of 32 elements has a scale and a
/// center.
struct QuantizedGroup {
  alignas(64) std::int8_t quants[256];
  float scales[16];  ///< one for each 16 elements, like sums
  float sums[16];    ///< scale · sum of the quants
  // The same for each run, and the unscaled sums of the quants of each 16 elements.
  float run_scales[8];
  float run_sums[8];
  std::int16_t quant_sums[16];
  float centers[8];  ///< one for each run; 0 if written by quantize_row
  /// Without padding, groups 512 bytes apart share sets of the L1 cache, which costs 3 % of the time of a matmul.
  std::byte padding[64];
};

/// Quantized activations: [groups, rows], so that kernels for several rows read one stream. The last group of a row is
/// padded with zeros.
struct QuantizedActivations {
  std::int64_t rows = 0;
  const QuantizedGroup* groups = nullptr;

  const QuantizedGroup* at(std::int64_t row, std::int64_t group) const { return groups + group * rows + row; }
};

/// Rows of x that are multiplied in one pass over a weight.
inline constexpr std::int64_t kRowsAtOnce = 8;

/// Whether many rows of x are quantized to 8 bits, too (CpuKernels::gemm): the environment variable ETNA_QUANT_PROMPTS,
/// "int8" (the default) or "floats". @throws Error for any other value
bool quantizes_prompts();
/// Overrides the variable; nullopt follows it again. For tests. @throws Error if it has any other value
void set_quantizes_prompts(std::optional<bool> on);

/// The rows of a weight (a panel) that one call of a GEMM kernel takes, and the bytes of scratch memory it needs for
/// each 256 elements of 8 rows.
inline constexpr std::int64_t kPanelRows = 32;
inline constexpr std::size_t kPackedBytes = 3328;
/// out[m, r] = Σ x[m, k] · rows[r, k] for up to kPanelRows rows of a weight and all rows of x, which may have centers.
/// @param room scratch memory, aligned to 64 bytes @param step row stride of out
using GemmKernel = void (*)(const std::byte* rows, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                            const QuantizedActivations& x, std::byte* room, float* out, std::int64_t step);

/// Matmul of ternary weights by lookup tables (LUT): the sums of a few quants of x for every combination of weights are
/// computed once for all rows.
struct LookupTables {
  std::int64_t rows = 0;   ///< rows of a weight per call; 0: no kernel
  std::size_t bytes = 0;   ///< bytes of the tables for a group of x
  std::int64_t least = 0;  ///< from so many rows of x on, tables are measured to be faster than `dot`; 0: never
  /// Computes the tables of groups of x, in their order.
  void (*fill)(const QuantizedGroup* groups, std::int64_t count, std::byte* tables) = nullptr;
  /// out[m, r] = Σ x[m, k] · weight[r, k] for up to `rows` rows of a weight and all rows of x.
  void (*multiply)(const std::byte* weight, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                   const QuantizedActivations& x, const std::byte* tables, float* out, std::int64_t step) = nullptr;
};

/// GEMV: one row of x, packed in the order that a format's blocks need.
struct GemvKernels {
  std::int64_t groups = 0;  ///< groups of x that are packed together; 0: no kernel
  std::size_t bytes = 0;    ///< bytes of so many packed groups
  /// @param to aligned to 64 bytes, must hold a multiple of `groups`
  void (*pack)(const QuantizedGroup* groups, std::int64_t count, std::byte* to) = nullptr;
  /// out[r] = Σ x[k] · weight[r, k] for `count` rows of a weight. A row's result does not depend on other rows.
  void (*multiply)(const std::byte* weight, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                   const std::byte* x, float* out) = nullptr;
};

struct CpuKernels {
  /// out[m] = Σ x[m, k] · row[k] for `rows` rows of x from `first` on, at most kRowsAtOnce.
  void (*dot)(const std::byte* row, std::int64_t columns, const QuantizedActivations& x, std::int64_t first,
              std::int64_t rows, float* out) = nullptr;
  /// The row's values in f32 or bf16. dequantize_bf16 is null if the processor has no bf16.
  void (*dequantize)(const std::byte* row, std::int64_t columns, float* out) = nullptr;
  void (*dequantize_bf16)(const std::byte* row, std::int64_t columns, std::uint16_t* out) = nullptr;
  /// out[m] = Σ x[m, k] · row[k] for a row of an unquantized format. @param x_step row stride of x
  void (*dot_unquantized)(const std::byte* row, std::int64_t columns, const float* x, std::int64_t x_step,
                          std::int64_t rows, float* out) = nullptr;
  /// Quantizes a row of x to groups with a stride of `step`: the first without centers, for `dot`, `gemv` and `lookup`;
  /// the second with them, for `gemm`.
  void (*quantize_row)(const float* x, std::int64_t columns, QuantizedGroup* out, std::int64_t step) = nullptr;
  void (*quantize_row_centered)(const float* x, std::int64_t columns, QuantizedGroup* out, std::int64_t step) = nullptr;
  /// Null if a float gemm is faster for many rows of x.
  GemmKernel gemm = nullptr;
  /// For ternary formats with AVX2.
  LookupTables lookup = {};
  /// For formats for which it is faster than `dot`.
  GemvKernels gemv = {};
};

/// The kernels of a format; those that it does not need are null. Read-only formats have none.
const CpuKernels& cpu_kernels(const quant::BlockFormat& format);

/// "AVX-512 VNNI", "AVX2" or "portable".
const char* cpu_kernels_target();
/// Selects the target, for tests; null: the best. @return false if the processor lacks it
bool use_cpu_kernels(const char* target);

// A build for one processor contains only kernels that it can run.
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

// ETNA_BEGIN_TARGET("avx2,fma") ... ETNA_END_TARGET: all functions between them, templates and lambdas included, are
// compiled for this instruction set. Include headers of the standard library before.
#define ETNA_PRAGMA(TEXT) _Pragma(#TEXT)
#if defined(__clang__)
#define ETNA_BEGIN_TARGET(SET) ETNA_PRAGMA(clang attribute push(__attribute__((target(SET))), apply_to = function))
#define ETNA_END_TARGET ETNA_PRAGMA(clang attribute pop)
#else
#define ETNA_BEGIN_TARGET(SET) ETNA_PRAGMA(GCC push_options) ETNA_PRAGMA(GCC target(SET))
#define ETNA_END_TARGET ETNA_PRAGMA(GCC pop_options)
#endif
