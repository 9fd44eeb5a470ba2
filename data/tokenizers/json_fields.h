#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace etna::data {

/// The object that a JSON text is. @param name for errors @throws FormatError for a text that is no JSON, or another
/// value
nlohmann::json parse_json_object(std::string_view text, const std::string& name);

/// A JSON string. @throws FormatError for a text that is not UTF-8
std::string json_text(const std::string& text);

}  // namespace etna::data
