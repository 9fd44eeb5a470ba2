#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace etna::data {

/// The object that a JSON file holds. @throws FormatError for a file that is missing, no JSON, or another value
nlohmann::json read_json_object(const std::filesystem::path& file);

/// A JSON string. @throws FormatError for a text that is not UTF-8
std::string json_text(const std::string& text);

}  // namespace etna::data
