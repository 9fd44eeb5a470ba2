#include <etna/device/internal/atomic_file.h>

#include <filesystem>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>
#include <etna/device/internal/os/process.h>

namespace etna::io {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code missing;
  const fs::path target = fs::is_symlink(path, missing) ? fs::weakly_canonical(path, missing) : path;
  return target.empty() ? path : target;
}

/// Neither a file nor a folder, so that a rename would put a file where a device was.
bool is_device(const FilePath& path) {
  std::error_code error;
  const os::FileInfo there = os::file_info(path, error);
  return !error && there.kind == os::FileKind::other;
}

}  // namespace

AtomicFile::AtomicFile(const FilePath& path) : target_(resolved(path)), in_place_(is_device(target_)) {
  std::error_code error;
  create(error);
  if (error) fail(error);
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (file_) file_->close(ignored);
  if (file_ && !finished_ && !in_place_) fs::remove(name_, ignored);
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  std::error_code error;
  file_->write({static_cast<const char*>(bytes), count}, error);
  if (error) fail(error);
}

void AtomicFile::finish() {
  std::error_code error;
  if (in_place_) {
    file_->close(error);
    if (error) fail(error);
    finished_ = true;
    return;
  }
  if (const fs::file_status old = fs::status(target_, error); !error && fs::exists(old)) {
    fs::permissions(name_, old.permissions(), error);
    if (error) fail(error);
  }
  file_->flush(error);
  if (error) fail(error);
  // Some file systems report a full disk only when the file is closed.
  file_->close(error);
  if (error) fail(error);
  os::replace_file(name_, target_, error);
  if (error) fail(error);
  finished_ = true;
}

/// Beside the target, so that the rename stays within one file system, and with the permissions of a plain open().
void AtomicFile::create(std::error_code& error) {
  if (in_place_) {
    file_ = std::make_unique<os::File>(target_, os::File::Open::overwrite, error);
    return;
  }
  int attempt = 0;
  do {
    name_ = fmt::format("{}.{}-{}.tmp", target_.string(), os::process_id(), attempt++);
    file_ = std::make_unique<os::File>(name_, os::File::Open::create, error);
  } while (error == std::errc::file_exists);
}

void AtomicFile::fail(const std::error_code& error) const {
  throw FormatError(fmt::format("{}: cannot be written: {}{}", target_.string(), error.message(),
                                in_place_ ? "" : "; what was there is unchanged"));
}

void require_writable(const FilePath& path) {
  std::error_code error;
  if (fs::path(path).filename().empty() || fs::is_directory(path, error))
    throw FormatError(fmt::format("'{}' cannot be written: it names a folder, name a file", path.string()));
  // Opening a pipe would wait for its reader.
  if (is_device(path)) {
    os::check_access(path, os::Access::write, error);
    if (!error) return;
    throw FormatError(fmt::format("{}: cannot be written: {}", path.string(), error.message()));
  }
  AtomicFile probe(path);
}

}  // namespace etna::io
