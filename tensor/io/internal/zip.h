#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <etna/device/file_path.h>

/// ZIP archives, by libzip: the container of .npz and PyTorch files.
namespace etna::io {

class ZipReader {
 public:
  struct Entry {
    std::string name;
    std::uint64_t size = 0;  ///< uncompressed bytes, as claimed by the archive
  };

  /// Reads the directory of the archive and checks all sizes in it against the file's size.
  /// @param kind what the file should be, for errors: "an NPZ file"
  /// @throws FormatError for a file that is missing, damaged, encrypted or not an archive, and in builds without libzip
  ZipReader(const FilePath& path, const char* kind);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  /// The bytes of an entry, with its checksum verified. Memory grows with the actual, not the claimed size.
  /// @throws FormatError naming the entry
  std::vector<std::byte> read(std::size_t entry) const;

 private:
  struct Archive;
  FilePath path_;
  std::unique_ptr<Archive> archive_;
  std::vector<Entry> entries_;
};

/// Writes an archive atomically, like AtomicFile. Entries have no timestamps, so the same entries give the same bytes.
class ZipWriter {
 public:
  /// @throws FormatError in builds without libzip
  explicit ZipWriter(const FilePath& path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// @param compress by deflate; else stored
  void add(const std::string& name, std::vector<std::byte> bytes, bool compress);
  /// Writes the file. Without this call, no file is created.
  void finish();

 private:
  struct Archive;
  FilePath path_;
  std::unique_ptr<Archive> archive_;
};

}  // namespace etna::io
