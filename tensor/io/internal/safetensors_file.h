#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/io/internal/safetensors_header.h>
#include <etna/tensor/io/mapped_bytes.h>

namespace etna::io {

/// A memory-mapped safetensors file. Opening it only reads the header; the bytes of tensors are views of the mapping. A
/// copy is another handle to the same mapping.
class SafetensorsFile {
 public:
  /// @throws FormatError for a file that cannot be read or is damaged, naming the file and the fault
  explicit SafetensorsFile(const FilePath& path);

  const FilePath& path() const;
  const std::vector<safetensors::Entry>& tensors() const;
  const Metadata& metadata() const;
  /// The entry with this name, or null.
  const safetensors::Entry* find(std::string_view name) const;

  /// A view of a tensor's bytes, which may outlive this object. A bool's byte may have any value.
  MappedBytes bytes(const safetensors::Entry& tensor) const;
  Tensor load(const safetensors::Entry& tensor, Device device = {}) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace etna::io
