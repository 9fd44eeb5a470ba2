#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/io/gguf_header.h>
#include <etna/tensor/io/gguf_writer.h>
#include <etna/tensor/io/mapped_bytes.h>
#include <etna/tensor/tensor.h>

/// GGUF, llama.cpp's file format for models: metadata, then tensors in block formats. Versions 2 and 3, little-endian.
namespace etna::io {

/// A memory-mapped GGUF file. Opening it only reads the header; the bytes of tensors are views of the mapping. A copy
/// is another handle to the same mapping.
class GgufFile {
 public:
  /// @throws FormatError for a file that cannot be read or is damaged, naming the file and the fault
  explicit GgufFile(const FilePath& path);

  const FilePath& path() const;
  std::uint32_t version() const;
  std::uint64_t alignment() const;
  std::uint64_t file_bytes() const;

  /// In file order.
  const std::vector<GgufEntry>& metadata() const;
  /// The value of a key, or null.
  const GgufValue* find(std::string_view key) const;
  /// The value of a key, converted like GgufValue does.
  /// @throws FormatError naming file and key, if the key is missing or has another type
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::string string(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;
  /// The value of a key, or a default if the key is missing. @throws FormatError if it has another type
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string string(std::string_view key, const std::string& otherwise) const;

  /// In file order.
  const std::vector<GgufTensor>& tensors() const;
  /// The tensor with this name, or null.
  const GgufTensor* find_tensor(std::string_view name) const;
  /// @throws FormatError naming the file if there is none
  const GgufTensor& tensor(std::string_view name) const;

  /// A view of the bytes of a tensor in this file, which may outlive this object.
  /// @throws FormatError naming the type number, if the tensor's format is unknown
  MappedBytes bytes(const GgufTensor& tensor) const;
  MappedBytes bytes(std::string_view name) const { return bytes(tensor(name)); }

  /// The values of a tensor. Unquantized formats keep their dtype, I16 becomes i32; other formats are decoded to f32.
  /// @throws FormatError as bytes()
  Tensor load(const GgufTensor& tensor, Device device = {}) const;
  Tensor load(std::string_view name, Device device = {}) const { return load(tensor(name), device); }

 private:
  struct Contents;
  template <typename T>
  T convert(std::string_view key, T (GgufValue::*get)() const) const;

  std::shared_ptr<const Contents> contents_;
};

}  // namespace etna::io

namespace etna {

/// Loads all tensors of a GGUF file with GgufFile::load(). @throws FormatError, also for an unknown format
std::map<std::string, Tensor> load_gguf(const FilePath& path, Device device = {});

}  // namespace etna
