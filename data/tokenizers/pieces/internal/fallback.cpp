#include <algorithm>

#include <fmt/format.h>

#include <etna/data/tokenizers/pieces/internal/segment_model.h>
#include <etna/device/error.h>

namespace etna::data {

int byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = 16 * value + digit;
  }
  return value;
}

void Fallback::read_bytes(const std::vector<std::string>& tokens) {
  bytes.fill(-1);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const int byte = byte_token(tokens[id]);
    if (byte >= 0 && bytes[static_cast<std::size_t>(byte)] < 0)
      bytes[static_cast<std::size_t>(byte)] = static_cast<std::int32_t>(id);
  }
  const auto there = [](std::int32_t id) { return id >= 0; };
  use_bytes = std::any_of(bytes.begin(), bytes.end(), there);
  all_bytes = std::all_of(bytes.begin(), bytes.end(), there);
}

void Fallback::append(std::string_view characters, std::vector<std::int32_t>& ids) const {
  const auto has_byte = [this](char c) { return bytes[static_cast<unsigned char>(c)] >= 0; };
  if (use_bytes && std::all_of(characters.begin(), characters.end(), has_byte)) {
    for (const char c : characters) ids.push_back(bytes[static_cast<unsigned char>(c)]);
  } else if (unknown >= 0) {
    ids.push_back(unknown);
  } else {
    throw FormatError(fmt::format(
        "tokenizer: the vocabulary has no token for the character with bytes {:02X}, no byte fallback and no unknown "
        "token",
        fmt::join(
            reinterpret_cast<const unsigned char*>(characters.data()),
            reinterpret_cast<const unsigned char*>(characters.data()) + std::min<std::size_t>(characters.size(), 8),
            " ")));
  }
}

}  // namespace etna::data
