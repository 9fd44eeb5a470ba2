#include <etna/tensor/io/mapped_file.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::io {
namespace {

struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, const char* kind) {
  const auto refuse = [&](const std::string& what) { return FormatError(fmt::format("{}: {}", path.string(), what)); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) throw refuse(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(file.number, &info) != 0) throw refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) {
    throw refuse(fmt::format("is {}, not {}", S_ISDIR(info.st_mode) ? "a directory" : "no regular file", kind));
  }
  if (static_cast<std::uintmax_t>(info.st_size) > std::numeric_limits<std::size_t>::max())
    throw refuse(fmt::format("has {} bytes, more than this build of {} bits can address", info.st_size,
                             std::numeric_limits<std::size_t>::digits));
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) throw refuse(fmt::format("cannot be mapped into memory: {}", std::strerror(errno)));
  bytes_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (bytes_ != nullptr) ::munmap(const_cast<std::byte*>(bytes_), size_);
}

}  // namespace etna::io
