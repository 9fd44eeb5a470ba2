#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/io/internal/safetensors_header.h>
#include <etna/tensor/io/mapped_bytes.h>

namespace etna::io {

/// A mapped safetensors file. Opening it reads the header only; the bytes of tensors are views of the mapping. A copy
/// is another handle of the same mapping.
class SafetensorsFile {
 public:
  /// @throws FormatError for a file that cannot be read or is damaged, naming the file and the fault
  explicit SafetensorsFile(const FilePath& path);

  const FilePath& path() const;
  const std::vector<safetensors::Entry>& tensors() const;
  const Metadata& metadata() const;
  /// The entry of a name, or null.
  const safetensors::Entry* find(std::string_view name) const;

  /// The bytes of a tensor of this file, not copied. They outlive this object. A byte of a bool may be any number.
  MappedBytes bytes(const safetensors::Entry& tensor) const;
  Tensor load(const safetensors::Entry& tensor, Device device = {}) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace etna::io
