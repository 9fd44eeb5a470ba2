#pragma once

#include <memory>
#include <optional>
#include <string>

namespace etna::cli {

/// Lines of standard input. On a terminal they come after a prompt and, where the build has libedit, can be edited and
/// called back by the arrow keys; Ctrl-C drops the line.
class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Nothing at the end of the input, or after Ctrl-D. @throws Error if standard output cannot be written
  std::optional<std::string> next();

 private:
  struct Editor;
  bool terminal_;
  std::unique_ptr<Editor> editor_;
};

/// The whole of standard input. @throws FormatError unless it is UTF-8 text of at most 64 MiB
std::string standard_input();

}  // namespace etna::cli
