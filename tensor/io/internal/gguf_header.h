#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <etna/tensor/io/gguf.h>

/// The header of a GGUF file (everything before the tensors' bytes), parsed and checked.
namespace etna::io {

inline constexpr std::uint64_t kGgufAlignment = 32;  ///< the default
inline constexpr std::size_t kMaxGgufName = 65535;   ///< bytes of a key or of a tensor's name
inline constexpr std::uint32_t kMaxGgufDims = 4;

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t alignment = kGgufAlignment;
  std::vector<GgufEntry> metadata;  ///< in file order; keys are distinct
  std::vector<GgufTensor> tensors;  ///< in file order; names are distinct
  std::uint64_t data = 0;           ///< offset of the tensors' bytes
};

/// Checks every count, length, offset and product before it is used, so that no field can cause an out-of-bounds read
/// or an allocation larger than the file justifies.
/// @param file all bytes of the file
/// @throws FormatError with text that fits after "FILE: "
GgufHeader parse_gguf_header(std::span<const std::byte> file);

}  // namespace etna::io
