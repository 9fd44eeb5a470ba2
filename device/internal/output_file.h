#pragma once

#include <string>
#include <vector>

#include <etna/device/error.h>
#include <etna/device/file_path.h>

namespace etna::io {

/// An output would replace a file that is something else.
struct OutputExists : Error {
  using Error::Error;
};

/// A file that an option of a command names, to be written when the work is done.
struct OutputFile {
  std::string option;              ///< as the user gives it: "--json"
  FilePath path;                   ///< empty: the option was not given
  std::vector<std::string> marks;  ///< text in the first 4 KB of every such file; none: no file is taken for one
};

/// What the help of such an option says.
inline constexpr const char* kReplacesOnlyOwn = "; a file there that it did not write is refused without --force";

/// Before the work: refuses an output that cannot be written, or that would replace another file than an earlier output
/// of the same kind. Devices, pipes and empty files are taken. With `force`, only what is read is kept.
/// @param read files that the command reads @throws OutputExists, FormatError as require_writable()
void require_output(const OutputFile& output, bool force, const std::vector<FilePath>& read = {});

}  // namespace etna::io
