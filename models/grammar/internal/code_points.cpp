#include <etna/models/grammar/internal/code_points.h>

#include <algorithm>

namespace etna::models {

void CodePoints::add(std::uint32_t first, std::uint32_t last) {
  const auto before = [](const Range& range, std::uint32_t point) { return range.second + 1 < point; };
  auto begin = std::lower_bound(ranges_.begin(), ranges_.end(), first, before);
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->second);
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void CodePoints::add(const CodePoints& other) {
  for (const auto& [first, last] : other.ranges_) add(first, last);
}

void CodePoints::remove(std::uint32_t first, std::uint32_t last) {
  std::vector<Range> left;
  for (const auto& [a, b] : ranges_) {
    if (a < first) left.emplace_back(a, std::min(b, first - 1));
    if (b > last) left.emplace_back(std::max(a, last + 1), b);
  }
  ranges_ = std::move(left);
}

CodePoints CodePoints::inverse() const {
  CodePoints rest = all();
  for (const auto& [first, last] : ranges_) rest.remove(first, last);
  return rest;
}

bool CodePoints::has(std::uint32_t point) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return range.first <= point && point <= range.second; });
}

}  // namespace etna::models
