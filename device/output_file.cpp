#include <etna/device/output_file.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include <etna/device/internal/atomic_file.h>
#include <etna/device/internal/os/files.h>
#include <etna/device/internal/os/process.h>

namespace etna::io {
namespace {

bool has_marks(const FilePath& path, const std::vector<std::string>& marks) {
  std::error_code error;
  const os::File file(path, os::File::Open::read, error);
  if (error || marks.empty()) return false;
  std::string begin(4096, '\0');
  begin.resize(file.read_at(0, std::span(begin)));
  return std::all_of(marks.begin(), marks.end(),
                     [&](const std::string& mark) { return begin.find(mark) != std::string::npos; });
}

}  // namespace

void write_file(const FilePath& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.finish();
}

void require_output(const OutputFile& output, bool force, const std::vector<FilePath>& read) {
  if (output.path.empty()) return;
  const std::string name = fmt::format("{} {}", output.option, output.path.string());
  std::error_code error;
  const os::FileInfo there = os::file_info(output.path, error);
  if (!error && there.kind == os::FileKind::regular) {
    for (const FilePath& file : read) {
      const os::FileInfo info = os::file_info(file, error);
      if (!error && info.identity == there.identity)
        throw OutputExists(fmt::format("{}: is a file that is read; give the output another name", name));
    }
    if (!force && there.bytes > 0 && !has_marks(output.path, output.marks))
      throw OutputExists(fmt::format("{}: is there already{}; name another file, or replace it with --force", name,
                                     output.marks.empty() ? "" : ", and this option did not write it"));
  }
  require_writable(output.path);
}

void open_standard_streams() { os::open_standard_streams(); }

}  // namespace etna::io
