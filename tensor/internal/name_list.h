#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace etna {

/// Names for an error, the first three of many: "a, b, c and 45 more"; "none" without any.
/// @param quote around each, for names that a file gives
std::string name_list(const std::vector<std::string>& names, std::string_view quote = "");

}  // namespace etna
