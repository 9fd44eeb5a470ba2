#include <etna/data/tokenizers/internal/splits/text_chunks.h>

#include <algorithm>

#include <etna/device/internal/cpu/parallel.h>

namespace etna::data {
namespace {

bool text_chunks_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

std::vector<std::string_view> text_chunks(std::string_view text, std::size_t least) {
  std::vector<std::string_view> chunks;
  std::size_t begin = 0;
  while (text.size() - begin > least) {
    std::size_t at = begin + std::max<std::size_t>(least, 1);
    const auto starts = [&] {
      return text_chunks_is_space(text[at]) && !text_chunks_is_space(text[at - 1]) && !(text[at - 1] & 0x80);
    };
    while (at < text.size() && !starts()) ++at;
    if (at == text.size()) break;
    chunks.push_back(text.substr(begin, at - begin));
    begin = at;
  }
  if (begin < text.size()) chunks.push_back(text.substr(begin));
  return chunks;
}

std::size_t chunk_size(std::size_t bytes) {
  return std::clamp<std::size_t>(bytes / (4 * static_cast<std::size_t>(cpu::workers())), 1 << 16, 1 << 22);
}

}  // namespace etna::data
