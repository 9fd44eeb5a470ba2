#pragma once

#include <cstddef>

#include <etna/device/file_path.h>

namespace etna::io {

/// A read-only memory mapping of a regular file. As with any mapping, the program dies if another process truncates the
/// file while it is mapped.
class MappedFile {
 public:
  /// @param kind what the file should be, for errors: "a safetensors file"
  /// @throws FormatError if the file is missing, unreadable or a folder
  MappedFile(const FilePath& path, const char* kind);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace etna::io
