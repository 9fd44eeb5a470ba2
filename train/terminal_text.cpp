#include <etna/train/progress.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>

namespace etna::training {
namespace {

struct Range {
  char32_t first, last;
};

/// @param ranges sorted
template <std::size_t N>
bool within(const Range (&ranges)[N], char32_t code) {
  const auto at = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                   [](char32_t c, const Range& range) { return c < range.first; });
  return at != std::begin(ranges) && code <= std::prev(at)->last;
}

/// Controls, direction marks, separators of lines, fillers and tags that show nothing. The two joiners that scripts and
/// emoji need (U+200C, U+200D) are not among them.
constexpr Range kHidden[] = {
    {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x61c, 0x61c},   {0x115f, 0x1160}, {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x200b, 0x200b},   {0x200e, 0x200f},   {0x2028, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164},
    {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0x1fffe, 0x1ffff}, {0xe0000, 0x10ffff}};

constexpr Range kCombining[] = {
    {0x300, 0x36f},   {0x483, 0x489},    {0x591, 0x5bd},   {0x5bf, 0x5bf},   {0x5c1, 0x5c2},   {0x5c4, 0x5c5},
    {0x5c7, 0x5c7},   {0x610, 0x61a},    {0x64b, 0x65f},   {0x670, 0x670},   {0x6d6, 0x6dc},   {0x6df, 0x6e4},
    {0x6e7, 0x6e8},   {0x6ea, 0x6ed},    {0x711, 0x711},   {0x730, 0x74a},   {0x7a6, 0x7b0},   {0x816, 0x82d},
    {0x8d3, 0x902},   {0x93a, 0x93a},    {0x93c, 0x93c},   {0x941, 0x948},   {0x94d, 0x94d},   {0x951, 0x957},
    {0x962, 0x963},   {0x9bc, 0x9bc},    {0x9c1, 0x9c4},   {0x9cd, 0x9cd},   {0xa3c, 0xa51},   {0xabc, 0xabc},
    {0xac1, 0xac8},   {0xacd, 0xacd},    {0xb3c, 0xb3c},   {0xb41, 0xb44},   {0xb4d, 0xb56},   {0xbcd, 0xbcd},
    {0xc3e, 0xc40},   {0xc46, 0xc56},    {0xcbc, 0xcbc},   {0xccc, 0xccd},   {0xd41, 0xd44},   {0xd4d, 0xd4d},
    {0xe31, 0xe31},   {0xe34, 0xe3a},    {0xe47, 0xe4e},   {0xeb1, 0xeb1},   {0xeb4, 0xebc},   {0xec8, 0xecd},
    {0xf71, 0xf7e},   {0xf80, 0xf84},    {0x102d, 0x1030}, {0x1032, 0x1037}, {0x1039, 0x103a}, {0x135d, 0x135f},
    {0x17b7, 0x17bd}, {0x17c6, 0x17c6},  {0x17c9, 0x17d3}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200c, 0x200d},
    {0x20d0, 0x20f0}, {0x302a, 0x302d},  {0x3099, 0x309a}, {0xa66f, 0xa672}, {0xfb1e, 0xfb1e}, {0xfe00, 0xfe0f},
    {0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff}};

constexpr Range kWide[] = {
    {0x1100, 0x115e},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
    {0x267f, 0x267f},   {0x2693, 0x2693},   {0x26a1, 0x26a1},   {0x26bd, 0x26be},   {0x26d4, 0x26d4},
    {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x274c},   {0x2753, 0x2755},
    {0x2795, 0x2797},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2e80, 0x303e},   {0x3041, 0x3247},
    {0x3250, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
    {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18cff},
    {0x1aff0, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a},
    {0x1f200, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff},
    {0x20000, 0x3fffd}};

std::size_t width_of(char32_t code) {
  if (code < 0x300) return 1;
  if (within(kCombining, code)) return 0;
  return within(kWide, code) ? 2 : 1;
}

std::string escape(const data::Utf8Character& character) {
  const auto code = static_cast<unsigned>(character.point);
  if (!character.valid) return fmt::format("\\x{:02x}", code);
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  if (code < 0x80) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

/// A part of the text that is shown whole or not at all.
struct Piece {
  std::string text;
  std::size_t width;
};

/// @param most columns after which nothing is read any more
std::vector<Piece> pieces_of(std::string_view text, Charset charset, std::size_t most) {
  std::vector<Piece> pieces;
  std::size_t width = 0, marks = 0;
  while (!text.empty() && width <= most) {
    const data::Utf8Character character = data::utf8_character(text, 0);
    const std::size_t own = width_of(character.point);
    const bool mark = character.valid && own == 0 && !pieces.empty() && marks < 8;
    const bool plain = character.valid && !within(kHidden, character.point) &&
                       (charset == Charset::utf8 || character.point < 0x80) && (own > 0 || mark);
    if (!plain) {
      pieces.push_back({escape(character), 0});
      pieces.back().width = pieces.back().text.size();
      marks = 0;
    } else if (own == 0) {
      pieces.back().text += text.substr(0, character.length);
      ++marks;
    } else {
      pieces.push_back({std::string(text.substr(0, character.length)), own});
      marks = 0;
    }
    if (own > 0 || !plain) width += pieces.back().width;
    text.remove_prefix(character.length);
  }
  return pieces;
}

}  // namespace

Charset terminal_charset() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale = value;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool utf8 = locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    return utf8 ? Charset::utf8 : Charset::ascii;
  }
  return Charset::ascii;
}

std::string printable(std::string_view text, Charset charset) {
  std::string out;
  for (const Piece& piece : pieces_of(text, charset, static_cast<std::size_t>(-1) / 2)) out += piece.text;
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    all += (all.empty() ? "" : "\n") + printable(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return all;
}

std::size_t columns(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const data::Utf8Character character = data::utf8_character(text, 0);
    width += width_of(character.point);
    text.remove_prefix(character.length);
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t width, Cut cut, Charset charset) {
  // The end of a text takes at least one byte a column. Marks and wide characters take up to 8 · 4 + 4 bytes.
  constexpr std::size_t kBytes = 64;
  const bool skipped = cut == Cut::begin && text.size() / kBytes > width;
  if (skipped) {
    text.remove_prefix(text.size() - (width + 1) * kBytes);
    while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80) text.remove_prefix(1);
  }
  std::vector<Piece> pieces = pieces_of(text, charset, cut == Cut::end ? width : static_cast<std::size_t>(-1) / 2);
  std::size_t total = 0;
  for (const Piece& piece : pieces) total += piece.width;
  std::string out;
  if (total <= width && !skipped) {
    for (const Piece& piece : pieces) out += piece.text;
    return out;
  }
  if (width == 0) return out;
  const std::string mark = charset == Charset::utf8 ? "…" : "~";
  std::size_t used = 1;
  if (cut == Cut::end) {
    for (const Piece& piece : pieces) {
      if (used + piece.width > width) break;
      used += piece.width;
      out += piece.text;
    }
    return out + mark;
  }
  std::size_t from = pieces.size();
  while (from > 0 && used + pieces[from - 1].width <= width) used += pieces[--from].width;
  for (std::size_t i = from; i < pieces.size(); ++i) out += pieces[i].text;
  return mark + out;
}

std::string padded(std::string_view text, std::size_t width, bool to_the_right, Cut cut, Charset charset) {
  std::string out = shortened(text, width, cut, charset);
  const std::string spaces(width - std::min(width, columns(out)), ' ');
  return to_the_right ? spaces + out : out + spaces;
}

}  // namespace etna::training
