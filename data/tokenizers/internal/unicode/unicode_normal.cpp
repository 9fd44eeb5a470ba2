#include <etna/data/tokenizers/internal/unicode/unicode_normal.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#ifdef ETNA_HAS_UTF8PROC
#include <utf8proc.h>
#endif

#include <etna/data/internal/utf8_character.h>
#include <etna/data/tokenizers/internal/unicode/unicode_classes.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

template <typename Change>
std::string each_character(std::string_view text, Change&& change) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character c = utf8_character(text, at);
    if (!c.valid || !change(c.point, out)) out += text.substr(at, c.length);
    at += c.length;
  }
  return out;
}

/// As Hugging Face's tokenizers have them, the gap in extension E included.
bool is_ideograph(std::uint32_t c) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kRanges[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return range.first <= c && c <= range.second; });
}

}  // namespace

#ifdef ETNA_HAS_UTF8PROC
namespace {

using Points = std::vector<utf8proc_int32_t>;

int combining_class(utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; }

/// Not utf8proc_map(): it bubble-sorts marks, which takes forever on a long run of them.
void append_normal(Points& points, bool compose, std::string& out) {
  for (std::size_t begin = 0; begin < points.size(); ++begin) {
    if (combining_class(points[begin]) == 0) continue;
    std::size_t end = begin;
    while (end < points.size() && combining_class(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + static_cast<std::ptrdiff_t>(begin),
                     points.begin() + static_cast<std::ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (compose)
    count = utf8proc_normalize_utf32(points.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_utf8(out, static_cast<std::uint32_t>(points[static_cast<std::size_t>(i)]));
  points.clear();
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::string out;
  out.reserve(text.size());
  Points points;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character c = utf8_character(text, at);
    if (c.valid) {
      utf8proc_int32_t parts[32];  // the longest decomposition has 18
      int boundary = 0;
      const utf8proc_ssize_t count =
          utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.point), parts, 32, options, &boundary);
      if (count > 0 && count <= 32)
        points.insert(points.end(), parts, parts + count);
      else
        points.push_back(static_cast<utf8proc_int32_t>(c.point));
    } else {
      append_normal(points, compose, out);
      out += text[at];
    }
    at += c.length;
  }
  append_normal(points, compose, out);
  return out;
}

std::string to_lowercase(std::string_view text) {
  return each_character(text, [](std::uint32_t point, std::string& out) {
    append_utf8(out, static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point))));
    if (point == 0x130) append_utf8(out, 0x307);  // the only one whose lowercase has two characters
    return true;
  });
}

std::string without_accents(std::string_view text, Accents accents) {
  return each_character(text, [accents](std::uint32_t point, std::string&) {
    const utf8proc_category_t kind = utf8proc_category(static_cast<utf8proc_int32_t>(point));
    if (kind == UTF8PROC_CATEGORY_MN) return true;
    return accents == Accents::all && (kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME);
  });
}

namespace {

bool is_removed_control(std::uint32_t point) {
  const utf8proc_category_t kind = utf8proc_category(static_cast<utf8proc_int32_t>(point));
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

}  // namespace

#else
namespace {

FormatError refuse(std::string_view what) {
  return FormatError(
      fmt::format("{} of non-ASCII text needs utf8proc, which this build of Etna lacks; build it without ETNA_MINIMAL "
                  "(Debian: libutf8proc-dev)",
                  what));
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm) {
  if (!is_ascii(text)) throw refuse("Unicode normalization");
  return std::string(text);
}

std::string to_lowercase(std::string_view text) {
  if (!is_ascii(text)) throw refuse("lowercasing");
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string without_accents(std::string_view text, Accents) {
  if (!is_ascii(text)) throw refuse("removing accents");
  return std::string(text);
}

namespace {

bool is_removed_control(std::uint32_t point) {
  if (point >= 0x80) throw refuse("removing control characters");
  return point < 0x20 || point == 0x7F;
}

}  // namespace

#endif

std::string without_controls(std::string_view text) {
  return each_character(text, [](std::uint32_t point, std::string& out) {
    const bool line = point == '\t' || point == '\n' || point == '\r';
    if (point == 0xFFFD || (!line && is_removed_control(point))) return true;
    if (character_categories()[point] != Category::space) return false;
    out += ' ';
    return true;
  });
}

std::string with_spaced_ideographs(std::string_view text) {
  return each_character(text, [](std::uint32_t point, std::string& out) {
    if (!is_ideograph(point)) return false;
    out += ' ';
    append_utf8(out, point);
    out += ' ';
    return true;
  });
}

std::string strip(std::string_view text, bool left, bool right) {
  const auto is_space = [](const Utf8Character& c) {
    return c.valid && character_categories()[c.point] == Category::space;
  };
  std::size_t first = 0, last = 0;  // begin and end of the text that is kept
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character c = utf8_character(text, at);
    at += c.length;
    if (is_space(c)) continue;
    if (!found) first = at - c.length;
    found = true;
    last = at;
  }
  if (!found) return left || right ? std::string() : std::string(text);
  const std::size_t begin = left ? first : 0, end = right ? last : text.size();
  return std::string(text.substr(begin, end - begin));
}

}  // namespace etna::data
