#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <etna/device/file_path.h>

/// ZIP archives by libzip: the container of .npz and of PyTorch's files.
namespace etna::io {

class ZipReader {
 public:
  struct Entry {
    std::string name;
    std::uint64_t size = 0;  ///< uncompressed, in bytes, as the archive claims
  };

  /// Reads the directory of the archive and checks every size in it against the file's.
  /// @param kind what the file should be, for errors: "an NPZ file"
  /// @throws FormatError for a file that is missing, no archive, damaged or encrypted, or if libzip is not there
  ZipReader(const FilePath& path, const char* kind);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  /// The bytes of one entry, its checksum verified. Memory grows with what the file holds, not with what it claims.
  /// @throws FormatError naming the entry
  std::vector<std::byte> read(std::size_t entry) const;

 private:
  struct Archive;
  FilePath path_;
  std::unique_ptr<Archive> archive_;
  std::vector<Entry> entries_;
};

/// Writes an archive in one step for everybody else, as AtomicFile does. Entries carry no time: the same entries give
/// the same bytes.
class ZipWriter {
 public:
  /// @throws FormatError if libzip is not there
  explicit ZipWriter(const FilePath& path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// @param compress by deflate; else stored
  void add(const std::string& name, std::vector<std::byte> bytes, bool compress);
  /// Writes the file. Without this call there is none.
  void finish();

 private:
  struct Archive;
  FilePath path_;
  std::unique_ptr<Archive> archive_;
};

}  // namespace etna::io
