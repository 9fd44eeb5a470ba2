#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <etna/tensor/io/gguf_value.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/shape.h>

/// What stands before the bytes of the tensors in a GGUF file, parsed and checked.
namespace etna::io {

inline constexpr std::uint64_t kGgufAlignment = 32;  ///< of a file that names none
inline constexpr std::size_t kMaxGgufName = 65535;   ///< bytes of a key or of a tensor's name
inline constexpr std::uint32_t kMaxGgufDims = 4;

struct GgufEntry {
  std::string key;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  /// Outermost dimension first and rows last, as everywhere in Etna. The file has the sizes in the other order.
  Shape shape;
  std::int64_t elements = 0;
  std::uint32_t type = 0;  ///< the file's number of the format
  /// Null if the number is of no format that is known here; the bytes cannot be found then.
  const quant::BlockFormat* format = nullptr;
  std::uint64_t begin = 0;  ///< first byte, from the beginning of the file
  std::size_t bytes = 0;    ///< without padding; 0 for an unknown format
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = kGgufAlignment;
  std::vector<GgufEntry> metadata;  ///< in the order of the file, keys are distinct
  std::vector<GgufTensor> tensors;  ///< likewise, names are distinct
  std::uint64_t data = 0;           ///< where the tensors begin
};

/// "Q4_K", or what is known of another number: "type 16 (IQ2_XXS)".
std::string gguf_type_name(std::uint32_t type);

/// The number that a file has for a format, if it has one.
std::optional<std::uint32_t> gguf_type_of(const quant::BlockFormat& format);

/// Whether a file can hold a tensor of this format: the format has a number, and rows are whole blocks.
bool gguf_can_hold(const quant::BlockFormat& format, const Shape& shape);

/// Checks every count, length, offset and product before it is used, so that no field causes a read out of bounds or an
/// allocation larger than the file justifies.
/// @param file all bytes of the file
/// @throws FormatError with text that fits after "FILE: "
GgufHeader parse_gguf_header(std::span<const std::byte> file);

}  // namespace etna::io
