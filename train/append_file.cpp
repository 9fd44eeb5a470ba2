#include <etna/train/append_file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::training {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw FormatError(fmt::format("{} cannot be written: {}", path.string(), std::strerror(error)));
}

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& path, Open open) : path_(path) {
  // Reading is for the last byte; a file that may only be written is taken, too.
  const int flags = O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | (open == Open::only ? O_EXCL : 0);
  descriptor_ = ::open(path.c_str(), O_RDWR | flags, 0666);
  if (descriptor_ < 0 && errno == EACCES) descriptor_ = ::open(path.c_str(), O_WRONLY | flags, 0666);
  if (descriptor_ < 0) fail(path, errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view bytes) {
  struct stat before {};
  const bool regular = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  bool begun = false;
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      if (begun && regular && ::ftruncate(descriptor_, before.st_size) != 0) {
        // Readers skip a cut last line, so the failure to write is what matters.
      }
      fail(path_, error);
    }
    begun = true;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void AppendFile::append_line_locked(std::string_view line) {
  struct Lock {
    explicit Lock(int file) : descriptor(file) {
      int result = 0;
      do {
        result = ::flock(descriptor, LOCK_EX);
      } while (result != 0 && errno == EINTR);
      held = result == 0;  // some network file systems have no locks; one write is as good as it gets there
    }
    ~Lock() {
      if (held) ::flock(descriptor, LOCK_UN);
    }
    int descriptor;
    bool held = false;
  } lock(descriptor_);
  struct stat now {};
  char last = '\n';
  if (::fstat(descriptor_, &now) == 0 && S_ISREG(now.st_mode) && now.st_size > 0 &&
      ::pread(descriptor_, &last, 1, now.st_size - 1) != 1) {
    last = '\n';
  }
  std::string whole = last == '\n' ? "" : "\n";
  whole += line;
  whole += '\n';
  append(whole);
}

}  // namespace etna::training
