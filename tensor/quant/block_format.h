#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Block formats: tensors of weights in a few bits an element. A block holds a fixed number of consecutive elements of
/// a row and the scales that belong to them, so that any run of whole blocks can be decoded by itself.
namespace etna::quant {

/// Stands in for the GGUF number of a format that GGUF has no number for.
inline constexpr std::uint32_t kNoGgufType = 0xffffffffu;

/// Where the f16 numbers of a block lie, up to two; -1 for none.
struct F16Fields {
  int first = -1, second = -1;
};

/// One format. The table of block_formats() holds all of them; quant refers to a format by a pointer into it.
struct BlockFormat {
  std::string_view name;    ///< as llama.cpp writes it: "Q4_K"
  std::uint32_t gguf_type;  ///< the number in a GGUF file, or kNoGgufType
  std::int64_t elements;    ///< elements a block
  std::size_t bytes;        ///< bytes a block
  std::size_t tail;         ///< bytes after all blocks of a tensor; the first four are an f32 scale for all of them
  float largest;            ///< the largest magnitude that quantize() takes
  std::string_view holds;   ///< what a block holds, in words
  std::uint32_t gguf_file_type;  ///< general.file_type of a GGUF file of mostly this format, or kNoGgufType
  F16Fields f16_fields;          ///< scales and minimums

  /// Decodes or encodes consecutive blocks, without checks; dequantize() and quantize() are the way in.
  /// `weights` has one factor of the squared error for each element.
  void (*decode)(const std::byte* blocks, float* out, std::int64_t count);
  void (*encode)(const float* values, const float* weights, std::byte* blocks, std::int64_t count);
  /// The same with one scale for all blocks, those of a row; null where blocks have more than a scale and quants.
  void (*encode_row)(const float* values, const float* weights, std::byte* blocks, std::int64_t count) = nullptr;

  /// False for integers and f64, which are read only.
  bool can_quantize() const { return encode != nullptr; }
  /// Bits an element takes, scales included: 4.5 for Q4_K.
  double bits() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(elements); }
};

/// Every format, unquantized ones first.
std::span<const BlockFormat> block_formats();
/// The format of a name, in upper or lower case, or null.
const BlockFormat* find_format(std::string_view name);
/// The format of a GGUF type number, or null.
const BlockFormat* find_format(std::uint32_t gguf_type);
/// As find_format(). @throws FormatError listing the names
const BlockFormat& format_named(std::string_view name);

/// Bytes that `count` elements take, the tail included.
/// @throws ShapeError if `count` is negative, is no multiple of the block, or its bytes do not fit in 63 bits
std::size_t storage_bytes(const BlockFormat& format, std::int64_t count);

/// Decodes `count` elements. The bits are those of ggml's reference, operation for operation.
/// @param bytes storage_bytes(format, count) or more; the tail, where a format has one, begins after `count` elements,
/// so only a whole tensor can be decoded then
/// @throws ShapeError if `bytes` is too short, or as storage_bytes()
void dequantize(const BlockFormat& format, std::span<const std::byte> bytes, float* out, std::int64_t count);

/// Encodes `count` values so that their squared error is small: scales and minimums are searched for, not taken from
/// the extremes. The blocks are shared among the CPU's threads; the result does not depend on their number. Blocks do
/// not depend on each other, so a tensor may be encoded in ranges of blocks, unless the format has a tail.
/// @param bytes room for storage_bytes(format, count)
/// @param importance factors of the squared error, not negative, for the elements of one row; a row of `count` values
/// after the other uses them again. None: all equal
/// @throws ShapeError as storage_bytes(), or if `importance` does not divide `count`
/// @throws FormatError for NaN, an infinite value or one beyond `format.largest`, naming its index; nothing is written
void quantize(const BlockFormat& format, const float* values, std::span<std::byte> bytes, std::int64_t count,
              std::span<const float> importance = {});

/// As quantize(), with one scale (and zero point) for each row, which all its blocks repeat: integers per channel. Only
/// formats with `encode_row`, the integers INT4_... and INT8_....
/// @throws FormatError as quantize(), and for other formats
/// @throws ShapeError where rows are not whole blocks, or `importance` is of another length than a row
void quantize_rows(const BlockFormat& format, const float* values, std::span<std::byte> bytes, std::int64_t rows,
                   std::int64_t columns, std::span<const float> importance = {});

/// How far values are from what they should be. Sums are f64.
struct ErrorStatistics {
  std::int64_t count = 0;
  double mean_square_error = 0;
  double mean_square = 0;    ///< of the exact values
  double largest_error = 0;  ///< in magnitude; infinite where one of the two is NaN or infinite and the other not
  std::int64_t largest_error_at = 0;

  /// 10 log10 of mean square over mean square error, in dB: infinite without an error, and 0 if all exact values are 0.
  double signal_to_noise() const;
  /// Adds the statistics of other values, of which the first has index `count` here.
  void add(const ErrorStatistics& other);
  /// "mean square error 2.1e-06, largest 0.0041 at 17, 31.4 dB"
  std::string str() const;
};

/// @throws ShapeError if the lengths differ
ErrorStatistics compare(std::span<const float> exact, std::span<const float> approximate);

/// The error of quantizing `values` and decoding them again; as quantize() otherwise.
ErrorStatistics quantization_error(const BlockFormat& format, std::span<const float> values,
                                   std::span<const float> importance = {});
/// The same for quantize_rows(). @throws ShapeError where `columns` does not divide the values
ErrorStatistics quantization_error_of_rows(const BlockFormat& format, std::span<const float> values,
                                           std::int64_t columns, std::span<const float> importance = {});

/// A sign of a damaged or wrongly converted tensor, found without knowing the model.
struct Finding {
  enum class Kind {
    not_finite,  ///< a value is NaN or infinite
    scale,       ///< the scale or minimum of a block is NaN or infinite, so all of its values are lost
    large,       ///< finite values larger than weights are
    quant,       ///< a quant that the format does not use, such as a fourth ternary value
    zeros        ///< all values of a tensor are 0
  };
  Kind kind;
  std::int64_t count = 0;  ///< elements that it concerns
  std::int64_t first = 0;  ///< index of the first
  std::string text;        ///< in words: "3 values are NaN or infinite, the first at element 17"
};

struct SuspicionLimits {
  float largest = 1e4f;  ///< a larger magnitude is reported
};

/// Looks at every block of a tensor. At most one finding of each kind, in the order of Kind; none for a sound tensor,
/// and none for one without elements.
/// @throws ShapeError as dequantize()
std::vector<Finding> find_suspicious(const BlockFormat& format, std::span<const std::byte> bytes, std::int64_t count,
                                     SuspicionLimits limits = {});

}  // namespace etna::quant
