#include <etna/train/internal/append_file.h>

#include <string>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::training {
namespace {

void check(const FilePath& path, const std::error_code& error) {
  if (error) throw FormatError(fmt::format("{} cannot be written: {}", path.string(), error.message()));
}

}  // namespace

AppendFile::AppendFile(const FilePath& path, Open open) : path_(path) {
  std::error_code error;
  file_.open(path, open == Open::only ? os::File::Open::append_new : os::File::Open::append, error);
  check(path, error);
}

void AppendFile::append(std::string_view bytes) {
  std::error_code error;
  const std::size_t written = file_.write(bytes, error);
  if (error && written > 0) {
    // Readers skip a cut last line, so a failure to remove it does not matter.
    std::error_code unknown;
    const os::FileInfo now = file_.info(unknown);
    if (!unknown && now.kind == os::FileKind::regular && now.bytes >= written)
      file_.truncate(now.bytes - written, unknown);
  }
  check(path_, error);
}

void AppendFile::append_line_locked(std::string_view line) {
  struct Lock {
    explicit Lock(os::File& file) : file(file) {}
    ~Lock() {
      if (held) file.unlock();
    }
    os::File& file;
    bool held = file.lock() == os::File::Lock::held;  // without locks, one write is as good as it gets
  } lock(file_);
  std::error_code error;
  const os::FileInfo now = file_.info(error);
  char last = '\n';
  if (!error && now.kind == os::FileKind::regular && now.bytes > 0 && file_.read_at(now.bytes - 1, {&last, 1}) != 1)
    last = '\n';
  std::string whole = last == '\n' ? "" : "\n";
  whole += line;
  whole += '\n';
  append(whole);
}

}  // namespace etna::training
