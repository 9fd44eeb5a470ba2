#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <etna/device/error.h>
#include <etna/device/file_path.h>

namespace etna::io {

/// Writes a whole file in one step for everybody else: if anything fails before, what was at `path` is unchanged. A
/// device, a pipe or a terminal ("/dev/stdout") is written in place. @throws FormatError
void write_file(const FilePath& path, std::string_view text);

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
/// @param read files that the command reads @throws OutputExists, FormatError
void require_output(const OutputFile& output, bool force, const std::vector<FilePath>& read = {});

/// Opens the null device as standard input, output and error where the process came without them: a file that is opened
/// later would get their number, and the text that belongs there. To be called before anything is opened.
void open_standard_streams();

}  // namespace etna::io
