#include <etna/device/atomic_file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::io {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code missing;
  const fs::path target = fs::is_symlink(path, missing) ? fs::weakly_canonical(path, missing) : path;
  return target.empty() ? path : target;
}

/// Neither a file nor a folder, so that a rename would put a file where a device was.
bool is_device(const fs::path& path) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path)
    : target_(resolved(path)), in_place_(is_device(target_)), descriptor_(create()) {
  if (descriptor_ < 0) fail();
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!finished_ && !in_place_) ::unlink(name_.c_str());
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, at, std::min<std::size_t>(count, std::size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail();
    at += written;
    count -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::finish() {
  if (in_place_) {
    if (::close(std::exchange(descriptor_, -1)) != 0) fail();
    finished_ = true;
    return;
  }
  struct stat old {};
  if (::stat(target_.c_str(), &old) == 0 && ::fchmod(descriptor_, old.st_mode & 07777) != 0) fail();
  // Some file systems report a full disk only when the file is closed.
  if (::fsync(descriptor_) != 0 || ::close(std::exchange(descriptor_, -1)) != 0) fail();
  if (::rename(name_.c_str(), target_.c_str()) != 0) fail();
  finished_ = true;
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  if (const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

/// Created beside the target, so that the rename stays within one file system, and with the permissions of a plain
/// open().
int AtomicFile::create() {
  if (in_place_) return ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  for (int attempt = 0;; ++attempt) {
    name_ = fmt::format("{}.{}-{}.tmp", target_.string(), ::getpid(), attempt);
    const int descriptor = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
}

void AtomicFile::fail() const {
  const std::string reason = std::strerror(errno);
  throw FormatError(fmt::format("{}: cannot be written: {}{}", target_.string(), reason,
                                in_place_ ? "" : "; what was there is unchanged"));
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.finish();
}

void require_writable(const fs::path& path) {
  std::error_code error;
  if (path.filename().empty() || fs::is_directory(path, error))
    throw FormatError(fmt::format("'{}' cannot be written: it names a folder, name a file", path.string()));
  // Opening a pipe would wait for its reader.
  if (is_device(path)) {
    if (::access(path.c_str(), W_OK) == 0) return;
    throw FormatError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  }
  AtomicFile probe(path);
}

}  // namespace etna::io
