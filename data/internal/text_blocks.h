#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <etna/device/file_path.h>
#include <etna/tensor/io/internal/xxh3.h>

namespace etna::data {

/// Reads a UTF-8 text file in blocks, so that a text may be larger than memory:
///     TextBlocks blocks(file);
///     while (const auto block = blocks.next()) tokenize(*block);
/// A block ends where a word ends and white space follows, so that the words of the blocks are those of the text. A
/// byte order mark is left out.
class TextBlocks {
 public:
  /// @param advice ends error messages @param bytes of a block; one with a longer word is larger
  /// @throws FormatError for a file that is missing, unreadable or a folder
  explicit TextBlocks(const FilePath& file, std::string advice = {}, std::size_t bytes = 1 << 24);

  /// The next block, valid until the next call; nothing at the end. Blocks are never empty.
  /// @throws FormatError for a file that cannot be read on, has NUL bytes or is not UTF-8
  std::optional<std::string_view> next();

  /// Bytes read so far.
  std::int64_t bytes() const { return bytes_; }
  /// XXH3 of the bytes read so far.
  std::uint64_t hash() const { return hash_.value(); }
  /// Whether the last block ended within a line. False for an empty file.
  bool open_line() const { return open_line_; }

 private:
  bool read_more();
  void check_text();
  std::size_t last_cut() const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string name_, advice_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::string buffer_;
  std::size_t given_ = 0;    ///< bytes at the front of the buffer that next() gave out
  std::size_t filled_ = 0;   ///< bytes in the buffer
  std::size_t checked_ = 0;  ///< of them known to be text
  std::size_t block_;
  std::int64_t bytes_ = 0;
  bool ended_ = false, open_line_ = false;
  io::Xxh3 hash_;
};

}  // namespace etna::data
