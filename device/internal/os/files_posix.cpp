#include <etna/device/internal/os/files.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace etna::os {
namespace {

namespace fs = std::filesystem;

std::error_code last_error() { return {errno, std::system_category()}; }

FileInfo described(const struct stat& info) {
  const FileKind kind = S_ISREG(info.st_mode)   ? FileKind::regular
                        : S_ISDIR(info.st_mode) ? FileKind::folder
                                                : FileKind::other;
  return {kind, static_cast<std::uint64_t>(info.st_size), {info.st_dev, info.st_ino}};
}

int descriptor(std::intptr_t handle) { return static_cast<int>(handle); }

int flags(File::Open how) {
  switch (how) {
    case File::Open::read:
      return O_RDONLY | O_NONBLOCK;
    case File::Open::overwrite:
      return O_WRONLY;
    case File::Open::create:
      return O_WRONLY | O_CREAT | O_EXCL;
    case File::Open::append:
      return O_RDWR | O_CREAT | O_APPEND | O_NOCTTY;
    case File::Open::append_new:
      return O_RDWR | O_CREAT | O_APPEND | O_NOCTTY | O_EXCL;
    case File::Open::update:
      break;
  }
  return O_RDWR | O_CREAT;
}

}  // namespace

FileInfo file_info(const fs::path& path, std::error_code& error) {
  struct stat info {};
  error = ::stat(path.c_str(), &info) == 0 ? std::error_code() : last_error();
  return error ? FileInfo() : described(info);
}

void check_access(const fs::path& path, Access access, std::error_code& error) {
  error = ::access(path.c_str(), access == Access::read ? R_OK : W_OK) == 0 ? std::error_code() : last_error();
}

std::FILE* open_stream(const fs::path& path, const char* mode) {
  if (mode[0] != 'r' || std::strchr(mode, '+') != nullptr) return std::fopen(path.c_str(), mode);
  // A pipe that nobody writes to would hold up open(); then it reads as empty.
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return nullptr;
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return ::fdopen(file, mode);
}

void replace_file(const fs::path& from, const fs::path& to, std::error_code& error) {
  error = ::rename(from.c_str(), to.c_str()) == 0 ? std::error_code() : last_error();
  if (error) return;
  const fs::path folder = to.has_parent_path() ? to.parent_path() : ".";
  if (const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

void File::open(const fs::path& path, Open how, std::error_code& error) {
  const int wanted = flags(how) | O_CLOEXEC;
  handle_ = ::open(path.c_str(), wanted, 0666);
  // Whoever appends reads the last byte; a file that may only be written is taken, too.
  if (handle_ < 0 && errno == EACCES && (wanted & O_APPEND) != 0)
    handle_ = ::open(path.c_str(), (wanted & ~O_ACCMODE) | O_WRONLY, 0666);
  error = is_open() ? std::error_code() : last_error();
}

File::~File() {
  std::error_code ignored;
  close(ignored);
}

FileInfo File::info(std::error_code& error) const {
  struct stat info {};
  error = ::fstat(descriptor(handle_), &info) == 0 ? std::error_code() : last_error();
  return error ? FileInfo() : described(info);
}

std::size_t File::write(std::string_view bytes, std::error_code& error) {
  error.clear();
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t count = std::min<std::size_t>(bytes.size() - done, std::size_t{1} << 30);
    const ssize_t written = ::write(descriptor(handle_), bytes.data() + done, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error = written < 0 ? last_error() : std::make_error_code(std::errc::io_error);
      break;
    }
    done += static_cast<std::size_t>(written);
  }
  return done;
}

std::size_t File::read_at(std::uint64_t at, std::span<char> bytes) const {
  const ssize_t count = ::pread(descriptor(handle_), bytes.data(), bytes.size(), static_cast<off_t>(at));
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

void File::truncate(std::uint64_t bytes, std::error_code& error) {
  error = ::ftruncate(descriptor(handle_), static_cast<off_t>(bytes)) == 0 ? std::error_code() : last_error();
}

void File::flush(std::error_code& error) {
  error = ::fsync(descriptor(handle_)) == 0 ? std::error_code() : last_error();
}

void File::close(std::error_code& error) {
  error.clear();
  if (is_open() && ::close(descriptor(std::exchange(handle_, kClosed))) != 0) error = last_error();
}

File::Lock File::lock() { return lock(true); }
File::Lock File::try_lock() { return lock(false); }

File::Lock File::lock(bool wait) {
  int result = 0;
  do {
    result = ::flock(descriptor(handle_), LOCK_EX | (wait ? 0 : LOCK_NB));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Lock::held;
  return errno == EWOULDBLOCK ? Lock::busy : Lock::unsupported;
}

void File::unlock() { ::flock(descriptor(handle_), LOCK_UN); }

const std::byte* File::map(std::size_t bytes, std::error_code& error) const {
  void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor(handle_), 0);
  error = address != MAP_FAILED ? std::error_code() : last_error();
  return error ? nullptr : static_cast<const std::byte*>(address);
}

void File::unmap(const std::byte* at, std::size_t bytes) { ::munmap(const_cast<std::byte*>(at), bytes); }

void close_descriptors(std::span<const int> descriptors) {
  for (const int d : descriptors)
    if (d >= 0) ::close(d);
}

}  // namespace etna::os
