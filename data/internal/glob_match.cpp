#include <etna/data/internal/glob_match.h>

#include <cstddef>

namespace etna::data {
namespace {

/// What the set that begins at `pattern[at]`, past its '[', says of a byte. Moves `at` past its ']'.
/// @return -1 where no ']' ends it, so that the '[' stands for itself
int in_set(std::string_view pattern, std::size_t& at, unsigned char byte) {
  std::size_t i = at;
  const bool inverted = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (inverted) ++i;
  bool found = false;
  const auto take = [&](unsigned char& to) {
    if (i < pattern.size() && pattern[i] == '\\') ++i;
    if (i >= pattern.size()) return false;
    to = static_cast<unsigned char>(pattern[i++]);
    return true;
  };
  for (bool first = true;; first = false) {
    if (i < pattern.size() && pattern[i] == ']' && !first) break;
    unsigned char low = 0;
    if (!take(low)) return -1;
    unsigned char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      ++i;
      if (!take(high)) return -1;
    }
    found = found || (low <= byte && byte <= high);
  }
  at = i + 1;
  return found != inverted ? 1 : 0;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  // Where to go on after the last star with one more byte taken by it.
  std::size_t after_star = std::string_view::npos, taken = 0;
  if (name.starts_with('.') && !pattern.starts_with('.') && !pattern.starts_with("\\.")) return false;
  while (n < name.size() || p < pattern.size()) {
    bool same = false;
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      taken = n;
      continue;
    }
    if (p < pattern.size() && n < name.size()) {
      const char c = pattern[p];
      int set = -1;
      std::size_t next = p + 1;
      if (c == '[') set = in_set(pattern, next, static_cast<unsigned char>(name[n]));
      if (set >= 0) {
        same = set == 1;
      } else if (c == '\\') {
        same = next < pattern.size() && pattern[next] == name[n];
        ++next;
      } else {
        same = c == '?' || c == name[n];
      }
      if (same) {
        p = next;
        ++n;
        continue;
      }
    }
    if (after_star == std::string_view::npos || taken >= name.size()) return false;
    p = after_star;
    n = ++taken;
  }
  return true;
}

}  // namespace etna::data
