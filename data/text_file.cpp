#include <etna/data/text_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <etna/data/internal/utf8_character.h>
#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>
#include <etna/device/internal/os/memory.h>
#include <etna/device/memory.h>

namespace etna::data {

std::size_t find_invalid_utf8(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080u;
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t eight;
    if (i + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if (!(eight & kHighBits)) {
        i += sizeof eight;
        continue;
      }
    }
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Character character = utf8_character(text, i);
    if (!character.valid) return i;
    i += character.length;
  }
  return std::string_view::npos;
}

std::FILE* open_text_stream(const FilePath& file, std::string& why) {
  using std::filesystem::file_type;
  std::error_code none;
  switch (std::filesystem::status(file, none).type()) {
    case file_type::directory:
      why = "is a folder, not a text file";
      return nullptr;
    case file_type::character:
    case file_type::block:
      why = "is a device, not a text file";
      return nullptr;
    default:
      break;
  }
  std::FILE* stream = os::open_stream(file, "rb");
  if (stream == nullptr)
    why = errno == ENOENT ? "there is no such file"
                          : fmt::format("cannot be read ({})", std::generic_category().message(errno));
  return stream;
}

std::string read_text_file(const FilePath& file, std::string_view advice) {
  const auto refuse = [&](const std::string& what) {
    return FormatError(fmt::format("{}: {}{}", file.string(), what, advice));
  };
  std::string why;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(open_text_stream(file, why), std::fclose);
  if (!in) throw refuse(why);

  std::error_code none;
  const auto bytes = std::filesystem::file_size(file, none);
  if (const std::uint64_t room = os::available_memory_bytes(); !none && room > 0 && bytes > room)
    throw refuse(fmt::format("has {}, and there are {} of memory", readable_bytes(bytes), readable_bytes(room)));
  std::string text;
  std::size_t filled = 0;
  // A pipe has no size, and a file may grow, so read until the end.
  text.resize(none ? 65536 : bytes + 1);
  while (const std::size_t got = std::fread(text.data() + filled, 1, text.size() - filled, in.get())) {
    filled += got;
    if (filled == text.size()) text.resize(2 * text.size());
  }
  if (std::ferror(in.get())) throw refuse(fmt::format("cannot be read ({})", std::generic_category().message(errno)));
  text.resize(filled);

  if (const std::size_t at = text.find('\0'); at != std::string::npos)
    throw refuse(fmt::format("is not text: byte {} is NUL", at));
  if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
    throw refuse(fmt::format("is not UTF-8 text: invalid sequence at byte {}", at));
  return text;
}

std::vector<std::string> read_lines(const FilePath& file) {
  const std::string text = read_text_file(file);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    at = end + 1;
  }
  return lines;
}

}  // namespace etna::data
