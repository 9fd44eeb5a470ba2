#include <etna/tensor/internal/name_list.h>

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace etna {

std::string name_list(const std::vector<std::string>& names, std::string_view quote) {
  constexpr std::size_t kMost = 3;
  if (names.empty()) return "none";
  const std::size_t shown = std::min(kMost, names.size());
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("{}{}{}{}", i > 0 ? ", " : "", quote, names[i], quote);
  return shown < names.size() ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

}  // namespace etna
