#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Block formats: weights in a few bits per element. A block holds a fixed number of consecutive elements of a row and
/// their scales, so any run of whole blocks can be decoded on its own.
namespace etna::quant {

/// The placeholder for a format without a GGUF type number.
inline constexpr std::uint32_t kNoGgufType = 0xffffffffu;

/// Byte offsets of the f16 numbers in a block, up to two; -1: none.
struct F16Fields {
  int first = -1, second = -1;
};

/// One format. block_formats() has all of them; a format is referred to by a pointer into that table.
struct BlockFormat {
  std::string_view name;    ///< llama.cpp's name: "Q4_K"
  std::uint32_t gguf_type;  ///< the number in a GGUF file, or kNoGgufType
  std::int64_t elements;    ///< elements per block
  std::size_t bytes;        ///< bytes per block
  std::size_t tail;         ///< bytes after all blocks of a tensor; the first four are an f32 scale for all of them
  float largest;            ///< the largest magnitude that quantize() accepts
  std::string_view holds;   ///< description of a block
  std::uint32_t gguf_file_type;  ///< general.file_type of a GGUF file mostly in this format, or kNoGgufType
  F16Fields f16_fields;          ///< scales and minimums

  /// Decodes or encodes consecutive blocks, without checks; call dequantize() and quantize() instead.
  /// `weights` has one factor of the squared error for each element.
  void (*decode)(const std::byte* blocks, float* out, std::int64_t count);
  void (*encode)(const float* values, const float* weights, std::byte* blocks, std::int64_t count);
  /// The same with one scale for all blocks of a row; null if blocks have more than a scale (and zero point) and
  /// quants.
  void (*encode_row)(const float* values, const float* weights, std::byte* blocks, std::int64_t count) = nullptr;

  /// False for integers and f64, which are read-only.
  bool can_quantize() const { return encode != nullptr; }
  /// Bits per element, scales included: 4.5 for Q4_K.
  double bits() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(elements); }
};

/// Every format, unquantized ones first.
std::span<const BlockFormat> block_formats();
/// The format with this name, in upper or lower case, or null.
const BlockFormat* find_format(std::string_view name);
/// The format with this GGUF type number, or null.
const BlockFormat* find_format(std::uint32_t gguf_type);
/// Like find_format(). @throws FormatError listing the names
const BlockFormat& format_named(std::string_view name);

/// The number of bytes of `count` elements, the tail included.
/// @throws ShapeError if `count` is negative or not a multiple of the block, or the bytes do not fit in 63 bits
std::size_t storage_bytes(const BlockFormat& format, std::int64_t count);

/// Decodes `count` elements, bit for bit like ggml's reference.
/// @param bytes storage_bytes(format, count) or more. If the format has a tail, it begins after `count` elements, so
/// only a whole tensor can be decoded
/// @throws ShapeError if `bytes` is too short, or as storage_bytes()
void dequantize(const BlockFormat& format, std::span<const std::byte> bytes, float* out, std::int64_t count);

/// Encodes `count` values with a small squared error: scales and minimums are searched for, not taken from the
/// extremes. Runs on all CPU threads; the result does not depend on their number. Blocks are independent, so a tensor
/// may be encoded in ranges of blocks, unless the format has a tail.
/// @param bytes must hold storage_bytes(format, count)
/// @param importance nonnegative factors of the squared error for the elements of one row, used for every row. Empty:
/// all equal
/// @throws ShapeError as storage_bytes(), or if `importance` does not divide `count`
/// @throws FormatError for NaN, an infinite value or one beyond `format.largest`, naming its index; nothing is written
void quantize(const BlockFormat& format, const float* values, std::span<std::byte> bytes, std::int64_t count,
              std::span<const float> importance = {});

/// Per-channel quantization: like quantize(), with one scale (and zero point) per row, repeated in all its blocks. Only
/// for formats with `encode_row`: INT4_... and INT8_....
/// @throws FormatError as quantize(), and for other formats
/// @throws ShapeError if rows are not whole blocks, or the length of `importance` is not that of a row
void quantize_rows(const BlockFormat& format, const float* values, std::span<std::byte> bytes, std::int64_t rows,
                   std::int64_t columns, std::span<const float> importance = {});

/// The error of approximate values. Sums are f64.
struct ErrorStatistics {
  std::int64_t count = 0;
  double mean_square_error = 0;
  double mean_square = 0;    ///< of the exact values
  double largest_error = 0;  ///< in magnitude; infinite if only one of two values is NaN or infinite
  std::int64_t largest_error_at = 0;

  /// 10 log10(mean square / mean square error), in dB: infinite without an error, 0 if all exact values are 0.
  double signal_to_noise() const;
  /// Adds the statistics of further values, the first of which gets index `count`.
  void add(const ErrorStatistics& other);
  /// "mean square error 2.1e-06, largest 0.0041 at 17, 31.4 dB"
  std::string str() const;
};

/// @throws ShapeError if the lengths differ
ErrorStatistics compare(std::span<const float> exact, std::span<const float> approximate);

/// The error of quantizing and dequantizing `values`; arguments as quantize().
ErrorStatistics quantization_error(const BlockFormat& format, std::span<const float> values,
                                   std::span<const float> importance = {});
/// The same for quantize_rows(). @throws ShapeError if `columns` does not divide the number of values
ErrorStatistics quantization_error_of_rows(const BlockFormat& format, std::span<const float> values,
                                           std::int64_t columns, std::span<const float> importance = {});

/// A sign of a damaged or wrongly converted tensor, found without knowing the model.
struct Finding {
  enum class Kind {
    not_finite,  ///< a value is NaN or infinite
    scale,       ///< the scale or minimum of a block is NaN or infinite, so all of its values are lost
    large,       ///< finite values larger than those of any weights
    quant,       ///< a quant that the format does not use, such as a fourth ternary value
    zeros        ///< all values of a tensor are 0
  };
  Kind kind;
  std::int64_t count = 0;  ///< affected elements
  std::int64_t first = 0;  ///< index of the first one
  std::string text;        ///< the message: "3 values are NaN or infinite, the first at element 17"
};

struct SuspicionLimits {
  float largest = 1e4f;  ///< larger magnitudes are reported
};

/// Checks every block of a tensor. Returns at most one finding of each kind, in the order of Kind; none for a sound or
/// empty tensor.
/// @throws ShapeError as dequantize()
std::vector<Finding> find_suspicious(const BlockFormat& format, std::span<const std::byte> bytes, std::int64_t count,
                                     SuspicionLimits limits = {});

}  // namespace etna::quant
