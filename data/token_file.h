#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/device/owned.h>

namespace etna::io {
class AtomicFile;
class MappedFile;
class Xxh3;
}  // namespace etna::io

namespace etna::data {

/// A file of token ids, mapped into memory: 16 bytes that name the format, the
/// ids as u16 or u32, little-endian, and a trailer of 64 bytes with all that is known at the end. Pages are
/// read when they are used, so a file may be larger than memory. A copy shares the mapping.
class TokenFile {
 public:
  /// Checks the trailer and the file's size, not the ids; verify() does.
  /// @throws FormatError for a file that is missing, cut off, no token file, or of another version
  explicit TokenFile(const FilePath& file);

  std::int64_t size() const { return size_; }
  /// Bytes of an id in the file: 2 or 4.
  int width() const { return width_; }
  /// Tokenizer::hash() of the tokenizer that made the ids, and its size().
  std::uint64_t tokenizer_hash() const { return tokenizer_hash_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  /// XXH3 of the ids as they lie in the file.
  std::uint64_t content_hash() const { return content_hash_; }

  /// The ids as they are stored. @throws FormatError for a file of the other width
  std::span<const std::uint16_t> ids16() const;
  std::span<const std::uint32_t> ids32() const;
  /// Converts ids [begin, begin + count). An id that does not fit i32 is -1. @throws IndexError outside [0, size)
  void ids(std::int64_t begin, std::int64_t count, std::int32_t* out) const;

  /// Reads all ids. @throws FormatError if they differ from what was written, or one is outside the vocabulary
  void verify() const;
  /// @throws FormatError if another tokenizer made the ids
  void require_tokenizer(std::uint64_t hash) const;

 private:
  FilePath path_;
  std::shared_ptr<const io::MappedFile> map_;
  std::int64_t size_ = 0, vocabulary_ = 0;
  std::uint64_t tokenizer_hash_ = 0, content_hash_ = 0;
  int width_ = 0;
};

/// Writes a token file piece by piece. Until finish(), a file of the same name is unchanged.
class TokenFileWriter {
 public:
  /// @param vocabulary the tokenizer's size; up to 65,536 gives ids of two bytes
  /// @throws FormatError here and below, for a file that cannot be written
  TokenFileWriter(const FilePath& file, std::int64_t vocabulary, std::uint64_t tokenizer_hash);
  ~TokenFileWriter();

  /// @throws FormatError for an id outside [0, vocabulary)
  void append(std::span<const std::int32_t> ids);
  std::int64_t size() const { return size_; }
  /// TokenFile::content_hash() of what was appended so far.
  std::uint64_t content_hash() const;
  void finish();

 private:
  void write(const void* bytes, std::size_t count);

  Owned<io::AtomicFile> file_;
  Owned<io::Xxh3> hash_;
  std::int64_t vocabulary_, size_ = 0;
  std::uint64_t tokenizer_hash_;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace etna::data
