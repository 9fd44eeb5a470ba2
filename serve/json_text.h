#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

/// JSON as text, from and to the network.
namespace etna::serve {

using Json = nlohmann::ordered_json;

/// On one line. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& value);

struct JsonLimits {
  std::size_t depth = 64;          ///< arrays and objects in each other
  std::size_t names = 1024;        ///< in one object
  std::size_t values = 2'000'000;  ///< in the whole text
};

/// @param param for errors: the field that the text is the value of; empty: the request's body
/// @throws ApiError 400 that says where the text is no JSON, is not UTF-8, exceeds a limit, or names a field twice
Json parse_json(std::string_view text, const std::string& param = {}, const JsonLimits& limits = {});

}  // namespace etna::serve
