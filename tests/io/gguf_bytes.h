#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace etna::io {

/// Writes a GGUF file field by field, whatever the fields say, and remembers where each number stands.
class GgufBytes {
 public:
  struct Field {
    std::size_t at, size;
  };

  GgufBytes& raw(std::string_view bytes) {
    text += bytes;
    return *this;
  }
  template <typename T>
  GgufBytes& number(T value) {
    fields.push_back({text.size(), sizeof value});
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& u32(std::uint32_t value) { return number(value); }
  GgufBytes& u64(std::uint64_t value) { return number(value); }
  GgufBytes& string(std::string_view value) { return u64(value.size()).raw(value); }
  GgufBytes& head(std::uint32_t version, std::uint64_t tensors, std::uint64_t entries) {
    return raw("GGUF").u32(version).u64(tensors).u64(entries);
  }
  /// @param sizes as in the file: rows first
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                    std::uint64_t offset) {
    string(name).u32(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) u64(size);
    return u32(type).u64(offset);
  }
  GgufBytes& pad(std::size_t alignment = 32) {
    text.resize((text.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }

  std::string text;
  std::vector<Field> fields;
};

/// A small file with every kind of field: metadata of each type, lists, two tensors.
inline GgufBytes small_gguf() {
  GgufBytes file;
  file.head(3, 2, 7);
  file.string("general.architecture").u32(8).string("test");
  file.string("a.u8").u32(0).number(std::uint8_t{200});
  file.string("a.f32").u32(6).number(0.5f);
  file.string("a.bool").u32(7).number(std::uint8_t{1});
  file.string("a.list").u32(9).u32(5).u64(3).number(-1).number(2).number(3);
  file.string("a.names").u32(9).u32(8).u64(2).string("x").string("");
  file.string("general.alignment").u32(4).u32(32);
  file.tensor("w", {32, 2}, 8, 0).tensor("v", {4}, 0, 96);
  file.pad();
  for (int block = 0; block < 2; ++block) file.raw(std::string_view("\x00\x3c", 2)).raw(std::string(32, '\1'));
  file.pad();
  for (const float value : {1.0f, 2.0f, 3.0f, 4.0f}) file.raw({reinterpret_cast<const char*>(&value), sizeof value});
  return file;
}

}  // namespace etna::io
