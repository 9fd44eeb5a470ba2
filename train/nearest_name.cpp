#include <etna/train/settings.h>

#include <algorithm>

namespace etna::training {
namespace {

/// Optimal string alignment (Damerau 1964, restricted).
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_up, up, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_up = std::move(up);
    up = std::move(row);
    row.assign(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({up[j] + 1, row[j - 1] + 1, up[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], two_up[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view typed, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 64;  // edits() takes the product of lengths
  std::string nearest;
  std::size_t least = std::max<std::size_t>(1, typed.size() / 3) + 1;
  if (typed.empty() || typed.size() > kLongest) return nearest;
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    const std::size_t count = edits(typed, name);
    if (count < least) least = count, nearest = name;
  }
  return nearest;
}

}  // namespace etna::training
