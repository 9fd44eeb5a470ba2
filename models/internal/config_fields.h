#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/models/decoder_config.h>
#include <etna/models/internal/architecture.h>

/// Fields of a config.json. Internal.
namespace etna::models {

using Json = nlohmann::json;

/// A field of an object; null and missing are the same.
inline const Json* field(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

template <typename T>
T read(const Json& object, const char* key, T otherwise) {
  const Json* value = field(object, key);
  if (value == nullptr) return otherwise;
  const bool fits = std::is_same_v<T, bool>          ? value->is_boolean()
                    : std::is_same_v<T, std::string> ? value->is_string()
                    : std::is_same_v<T, double>      ? value->is_number()
                                                     : value->is_number_integer();
  // Whole numbers from 2^63 on would become negative ones.
  const bool large = std::is_same_v<T, std::int64_t> && value->is_number_unsigned() &&
                     value->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  if (!fits || large) {
    throw FormatError(fmt::format("'{}' is {}; wanted {}", key, value->dump(),
                                  std::is_same_v<T, bool>          ? "true or false"
                                  : std::is_same_v<T, std::string> ? "a string"
                                  : std::is_same_v<T, double>      ? "a number"
                                                                   : "a whole number"));
  }
  return value->get<T>();
}

inline std::int64_t required(const Json& object, const char* key) {
  if (field(object, key) == nullptr) throw FormatError(fmt::format("'{}' is missing", key));
  return read<std::int64_t>(object, key, 0);
}

/// A size that must not be 0, where the file has it.
inline std::int64_t if_given(const Json& object, const char* key, std::int64_t otherwise) {
  const auto size = read<std::int64_t>(object, key, otherwise);
  if (field(object, key) != nullptr && size < 1)
    throw FormatError(fmt::format("'{}' is {}; it must be above 0", key, size));
  return size;
}

/// The mixtures of experts of a model, and which layers have one, when windows are known. @throws FormatError
void read_experts(const Json& json, const ExpertRules& rules, DecoderConfig& config);

/// Layers that keep a state: their sizes and factors, and which layers they are.
/// @throws FormatError
void read_states(const Json& json, const StateRules& rules, DecoderConfig& config);
/// Whether the description of some layer says that it has experts.
bool lists_experts(const DecoderConfig& config);
/// How many layers a list of their kinds has, where the file does not say their number. @throws FormatError
std::int64_t listed_layers(const Json& json);
/// A config.json in which numbers that JSON does not have, as Python writes them, are large ones.
std::string with_finite_numbers(std::string_view json);

}  // namespace etna::models
