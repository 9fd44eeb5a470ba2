#include <etna/train/internal/read_bytes.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::training {

std::string read_bytes(const FilePath& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) throw FormatError(fmt::format("{} does not exist", file.string()));
  // A pipe would block, a device may never end.
  if (!std::filesystem::is_regular_file(status))
    throw FormatError(fmt::format("{} cannot be read: it is not a regular file", file.string()));
  errno = 0;
  std::ifstream in(std::filesystem::path(file), std::ios::binary);
  if (!in) throw FormatError(fmt::format("{} cannot be read: {}", file.string(), std::strerror(errno)));
  std::string bytes;
  char chunk[1 << 16];
  while (in.read(chunk, sizeof chunk) || in.gcount() > 0) bytes.append(chunk, static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw FormatError(fmt::format("{} cannot be read: {}", file.string(), std::strerror(errno)));
  return bytes;
}

}  // namespace etna::training
