#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <etna/tensor/io/safetensors.h>

/// The JSON header of a safetensors file, parsed and validated.
namespace etna::safetensors {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct Entry {
  std::string name;
  DType dtype = f32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< byte offsets from the end of the header
};

struct Header {
  std::vector<Entry> entries;  ///< sorted by `begin`; contiguous, and together all of the data
  Metadata metadata;
};

/// @param data_bytes number of bytes after the header
/// @throws FormatError with text that fits after "FILE: "
Header parse_header(std::string_view json, std::uint64_t data_bytes);

/// The header as JSON, padded with spaces so that the data after it is aligned to eight bytes.
std::string format_header(const Header& header);

}  // namespace etna::safetensors
