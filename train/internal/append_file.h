#pragma once

#include <cstdint>
#include <string_view>

#include <etna/device/file_path.h>
#include <etna/device/internal/os/files.h>

namespace etna::training {

/// A log that others may read while it grows. Each append() is one write at the end of the file, so that a kill leaves
/// at most one record cut.
class AppendFile {
 public:
  enum class Open {
    create,  ///< makes the file where it is missing
    only,    ///< @throws FormatError where it exists
  };

  /// @throws FormatError naming the file and the reason
  explicit AppendFile(const FilePath& path, Open open = Open::create);

  /// After a failure, such as a full disk, the file ends where it ended before, so that later records stay readable.
  /// @throws FormatError naming the file and the reason
  void append(std::string_view bytes);

  /// As append(), while no other process that appends this way does; begins a new line first where the last one was
  /// cut.
  void append_line_locked(std::string_view line);

  const FilePath& path() const { return path_; }

 private:
  FilePath path_;
  os::File file_;
};

}  // namespace etna::training
