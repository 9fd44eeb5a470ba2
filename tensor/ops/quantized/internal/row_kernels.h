#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <etna/tensor/quant/block_format.h>

/// Kernels over rows of blocks, for the instruction set of the processor. Internal.
namespace etna::quantized {

/// 256 elements of a row of x in codes of 8 bits: scale · code + center, with a scale and a center for each 32
/// elements.
struct RoundedGroup {
  alignas(64) std::int8_t codes[256];
  float scales[16];  ///< for each 16 elements, as the next ones
  float sums[16];    ///< scale · sum of the codes
  // The same for each 32 elements, and sums of the codes alone, for each 16.
  float block_scales[8];
  float block_sums[8];
  std::int16_t code_sums[16];
  float centers[8];  ///< for each 32 elements; 0 as round_row makes them
  /// Groups 512 bytes apart would share sets of the first cache, for 3 % of the time of a product.
  std::byte apart[64];
};

/// Rows of x, rounded: [groups, rows], so that products with several rows read one stream. The last group of a row is
/// filled up with zeros.
struct Activations {
  std::int64_t rows = 0;
  const RoundedGroup* groups = nullptr;

  const RoundedGroup* at(std::int64_t row, std::int64_t group) const { return groups + group * rows + row; }
};

/// Rows that one pass over a weight serves.
inline constexpr std::int64_t kMostTogether = 8;

/// Whether many rows of x meet weights in blocks in codes of 8 bits, too (RowKernels::panel). ETNA_QUANT_PROMPTS says
/// so with "codes", and otherwise with "floats"; codes where it is not set.
bool codes_many_rows();
/// Overrides that, or, with nothing, follows the variable again. For tests.
/// @throws Error where the variable is neither.
void set_codes_many_rows(std::optional<bool> on);

/// Rows of a weight that one call of a panel kernel takes, and the memory it needs for each 256 elements of 8 of them.
inline constexpr std::int64_t kPanelRows = 32;
inline constexpr std::size_t kPackedBytes = 3328;
/// out[m, r] = Σ x[m, k] · rows[r, k] for up to kPanelRows rows of a weight and all rows of x, which may have centers.
/// @param room aligned to 64 bytes @param step from row to row of out
using PanelKernel = void (*)(const std::byte* rows, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                             const Activations& x, std::byte* room, float* out, std::int64_t step);

/// Products of ternary weights by look-up: sums of a few codes of x for each choice of weights, made once for all rows.
struct TableKernels {
  std::int64_t rows = 0;   ///< of a weight that one call takes; 0 where there is no kernel
  std::size_t bytes = 0;   ///< of the tables for a group of x
  std::int64_t least = 0;  ///< rows of x from which tables are faster than `dot`, as measured; 0 for never
  /// Tables for groups of x, in their order.
  void (*fill)(const RoundedGroup* groups, std::int64_t count, std::byte* tables) = nullptr;
  /// out[m, r] = Σ x[m, k] · weight[r, k] for up to `rows` rows of a weight and all rows of x.
  void (*multiply)(const std::byte* weight, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                   const Activations& x, const std::byte* tables, float* out, std::int64_t step) = nullptr;
};

/// Products with one row of x, which lies as a format's blocks need it.
struct OneRowKernels {
  std::int64_t groups = 0;  ///< of x that lie together; 0 where there is no kernel
  std::size_t bytes = 0;    ///< of that many
  /// @param to aligned to 64 bytes, with room for whole runs of `groups`
  void (*arrange)(const RoundedGroup* groups, std::int64_t count, std::byte* to) = nullptr;
  /// out[r] = Σ x[k] · weight[r, k] for `count` rows of a weight, whose results do not depend on each other.
  void (*multiply)(const std::byte* weight, std::size_t row_bytes, std::int64_t count, std::int64_t columns,
                   const std::byte* x, float* out) = nullptr;
};

struct RowKernels {
  /// out[m] = Σ x[m, k] · row[k] for `rows` rows of x from `first` on, at most kMostTogether
  void (*dot)(const std::byte* row, std::int64_t columns, const Activations& x, std::int64_t first, std::int64_t rows,
              float* out) = nullptr;
  /// The row's values, rounded to bf16 or not. widen_bf16 is null where the processor has no bf16.
  void (*widen)(const std::byte* row, std::int64_t columns, float* out) = nullptr;
  void (*widen_bf16)(const std::byte* row, std::int64_t columns, std::uint16_t* out) = nullptr;
  /// out[m] = Σ x[m, k] · row[k] for rows of plain formats, without rounding x. @param x_step from row to row of x
  void (*dot_plain)(const std::byte* row, std::int64_t columns, const float* x, std::int64_t x_step, std::int64_t rows,
                    float* out) = nullptr;
  /// Rounds a row of x into groups that lie `step` apart, without centers for `dot` and `tables`, with them for
  /// `panel`.
  void (*round_row)(const float* x, std::int64_t columns, RoundedGroup* out, std::int64_t step) = nullptr;
  void (*round_row_centered)(const float* x, std::int64_t columns, RoundedGroup* out, std::int64_t step) = nullptr;
  /// Null where many rows of x are better served by a gemm of floats.
  PanelKernel panel = nullptr;
  /// Of ternary formats, by AVX2.
  TableKernels tables = {};
  /// Of formats for which it is faster than `dot`.
  OneRowKernels one_row = {};
};

/// The kernels of a format; those that it has no use for are null. Formats of integers have none.
const RowKernels& row_kernels(const quant::BlockFormat& format);

/// "AVX-512 VNNI", "AVX2" or "portable".
const char* row_kernels_target();
/// Lets tests choose: null for the best. @return false where the processor lacks it
bool use_row_kernels(const char* target);

}  // namespace etna::quantized
