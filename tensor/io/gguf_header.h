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

/// The header of a GGUF file (everything before the tensors' bytes), parsed and checked.
namespace etna::io {

inline constexpr std::uint64_t kGgufAlignment = 32;  ///< the default
inline constexpr std::size_t kMaxGgufName = 65535;   ///< bytes of a key or of a tensor's name
inline constexpr std::uint32_t kMaxGgufDims = 4;

struct GgufEntry {
  std::string key;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  /// Outermost dimension first, as everywhere in Etna. The file stores the sizes in reverse order.
  Shape shape;
  std::int64_t elements = 0;
  std::uint32_t type = 0;  ///< the format's number in the file
  /// Null if the type number is unknown; the size in bytes is then unknown, too.
  const quant::BlockFormat* format = nullptr;
  std::uint64_t begin = 0;  ///< offset of the first byte in the file
  std::size_t bytes = 0;    ///< without padding; 0 for an unknown format
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = kGgufAlignment;
  std::vector<GgufEntry> metadata;  ///< in file order; keys are distinct
  std::vector<GgufTensor> tensors;  ///< in file order; names are distinct
  std::uint64_t data = 0;           ///< offset of the tensors' bytes
};

/// "Q4_K", or for other numbers "type 16 (IQ2_XXS)".
std::string gguf_type_name(std::uint32_t type);

/// The type number of a format in GGUF files; nullopt: none.
std::optional<std::uint32_t> gguf_type_of(const quant::BlockFormat& format);

/// Whether a file can hold a tensor of this format: the format has a number, and rows are whole blocks.
bool gguf_can_hold(const quant::BlockFormat& format, const Shape& shape);

/// Checks every count, length, offset and product before it is used, so that no field can cause an out-of-bounds read
/// or an allocation larger than the file justifies.
/// @param file all bytes of the file
/// @throws FormatError with text that fits after "FILE: "
GgufHeader parse_gguf_header(std::span<const std::byte> file);

}  // namespace etna::io
