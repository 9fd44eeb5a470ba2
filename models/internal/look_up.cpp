#include <etna/models/internal/look_up.h>

#include <algorithm>

namespace etna::models {

std::vector<std::int32_t> look_up(std::span<const std::int32_t> tokens, std::int64_t count) {
  for (const std::size_t length : {std::size_t{3}, std::size_t{2}}) {
    if (tokens.size() <= length) continue;
    const auto end = tokens.last(length), before = tokens.first(tokens.size() - 1);
    const auto found = std::find_end(before.begin(), before.end(), end.begin(), end.end());
    if (found == before.end()) continue;
    const auto rest = tokens.subspan(static_cast<std::size_t>(found - before.begin()) + length);
    const auto some = rest.first(std::min(rest.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, count))));
    return {some.begin(), some.end()};
  }
  return {};
}

}  // namespace etna::models
