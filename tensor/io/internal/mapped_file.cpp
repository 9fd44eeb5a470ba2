#include <etna/tensor/io/internal/mapped_file.h>

#include <limits>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>

namespace etna::io {

MappedFile::MappedFile(const FilePath& path, const char* kind) {
  const auto refuse = [&](const std::string& what) { return FormatError(fmt::format("{}: {}", path.string(), what)); };
  if (path.string().empty()) throw FormatError(fmt::format("{} cannot be read: its path is empty", kind));
  std::error_code error;
  const os::File file(path, os::File::Open::read, error);
  if (error) throw refuse(fmt::format("cannot be opened: {}", error.message()));
  const os::FileInfo info = file.info(error);
  if (error) throw refuse(fmt::format("cannot be read: {}", error.message()));
  if (info.kind != os::FileKind::regular) {
    throw refuse(
        fmt::format("is {}, not {}", info.kind == os::FileKind::folder ? "a directory" : "not a regular file", kind));
  }
  if (info.bytes > std::numeric_limits<std::size_t>::max())
    throw refuse(fmt::format("has {} bytes, more than this build of {} bits can address", info.bytes,
                             std::numeric_limits<std::size_t>::digits));
  size_ = static_cast<std::size_t>(info.bytes);
  if (size_ == 0) return;
  bytes_ = file.map(size_, error);
  if (error) throw refuse(fmt::format("cannot be mapped into memory: {}", error.message()));
}

MappedFile::~MappedFile() {
  if (bytes_ != nullptr) os::File::unmap(bytes_, size_);
}

}  // namespace etna::io
