#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace etna::io {

class MappedFile;

/// A view of bytes in a mapped file. Keeps the mapping alive; a copy is another view of the same bytes.
class MappedBytes {
 public:
  MappedBytes() = default;
  /// The caller must have checked that the range is within the file.
  MappedBytes(std::shared_ptr<const MappedFile> file, std::size_t begin, std::size_t size);

  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> span() const { return bytes_; }
  operator std::span<const std::byte>() const { return bytes_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
};

}  // namespace etna::io
