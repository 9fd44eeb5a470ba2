#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <etna/device/file_path.h>

namespace etna::os {
class File;
}

namespace etna::io {

/// Writes a file in one step for everybody else: the bytes go to a temporary file beside `path`, and finish() renames
/// it. If anything fails before, what was at `path` is unchanged. Follows a symbolic link: replaces what it points to,
/// not the link. A device, a pipe or a terminal ("/dev/stdout") is written in place.
class AtomicFile {
 public:
  /// Here and below: @throws FormatError naming the file and the reason
  explicit AtomicFile(const FilePath& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Renames the file to its target and flushes the directory, so that the new name survives a power loss.
  void finish();

 private:
  void create(std::error_code& error);
  [[noreturn]] void fail(const std::error_code& error) const;

  FilePath target_;
  bool in_place_;
  FilePath name_;  ///< of the temporary file; empty in place
  std::unique_ptr<os::File> file_;
  bool finished_ = false;
};

/// Checks that AtomicFile could write there, so that a wrong name is reported before the work and not after it.
/// @throws FormatError
void require_writable(const FilePath& path);

}  // namespace etna::io
