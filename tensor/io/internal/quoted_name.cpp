#include <etna/tensor/io/internal/quoted_name.h>

#include <cstddef>

#include <fmt/format.h>

namespace etna::io {
namespace {

/// The length of the multibyte UTF-8 character at `at`; 0 if there is none.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(at);
  const std::size_t size = first >= 0xc2 && first < 0xe0   ? 2
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  if (size == 0 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0u) != 0x80u) return 0;
  }
  // An overlong form, a surrogate, beyond the last character, or a control character.
  const unsigned second = byte(at + 1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second >= 0x90) || (first == 0xc2 && second < 0xa0))
    return 0;
  return size;
}

}  // namespace

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kMost = 80;
  std::string text = "'";
  for (std::size_t i = 0; i < name.size();) {
    if (i >= kMost) return text + "...'";
    const auto byte = static_cast<unsigned char>(name[i]);
    if (byte >= 0x20 && byte < 0x7f) {
      text += name[i++];
    } else if (const std::size_t size = character_at(name, i); size > 0) {
      text += name.substr(i, size);
      i += size;
    } else {
      text += fmt::format("\\x{:02x}", byte);
      ++i;
    }
  }
  return text + "'";
}

}  // namespace etna::io
