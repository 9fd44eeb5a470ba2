#include <etna/data/tokenizers/internal/unicode/charsmap.h>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::data {
namespace {

// A unit of the trie (Yata's compact double array, as darts-clone writes it): bits 0-7 are the label, bit 8 is set if a
// string ends here, bits 10-30 are the offset of the children, multiplied by 256 if bit 9 is set. In the child for
// label 0, the lower 31 bits are the string's value.
bool ends(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& name) {
  if (blob.empty()) return;
  const auto refuse = [&](std::string_view why) {
    return FormatError(fmt::format("{}: its normalization rules (precompiled_charsmap) are damaged: {}", name, why));
  };
  if (blob.size() < 4) throw refuse("they are cut off");
  const std::size_t size = read_u32(blob, 0);
  blob.remove_prefix(4);
  if (size > blob.size() || size < 4 || size % 4 != 0) throw refuse("the size of their trie is wrong");
  for (std::size_t at = 0; at < size; at += 4) units_.push_back(read_u32(blob, at));
  texts_ = blob.substr(size);
  if (texts_.empty() || texts_.back() != '\0') throw refuse("their texts are not terminated");
}

Charsmap::Rule Charsmap::find(std::string_view text, bool longest) const {
  Rule rule;
  if (empty()) return rule;
  std::size_t node = offset(units_[0]);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!ends(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t begin = value(units_[node]);
    if (begin >= texts_.size()) break;
    rule = {at + 1, std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin)};
    if (!longest) break;
  }
  return rule;
}

}  // namespace etna::data
