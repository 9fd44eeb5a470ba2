#include <etna/serve/fields.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

ApiError wrong_type(const std::string& path, const Json& value, std::string_view wanted) {
  return bad_request(
      path,
      fmt::format("{} is {} ({}); wanted {}", path.empty() ? "the body" : path, shown(value), json_kind(value), wanted),
      "invalid_type");
}

}  // namespace

std::string_view json_kind(const Json& value) {
  if (value.is_number_integer()) return "integer";
  if (value.is_number_float()) return "number";
  return value.type_name();
}

std::string shown(const Json& value) {
  if (value.is_object()) return fmt::format("an object of {} fields", value.size());
  if (value.is_array()) return fmt::format("an array of {} values", value.size());
  std::string text = json_text(value.is_string() && value.get_ref<const std::string&>().size() > 64
                                   ? Json(value.get_ref<const std::string&>().substr(0, 64) + "...")
                                   : value);
  return text;
}

std::string string_of(const Json& value, const std::string& path) {
  if (!value.is_string()) throw wrong_type(path, value, "a string");
  return value.get<std::string>();
}

Fields::Fields(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
  if (!value.is_object()) throw wrong_type(path_, value, "an object");
}

std::string Fields::path_of(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

bool Fields::has(const std::string& name) const {
  const auto found = value_.find(name);
  return found != value_.end() && !found->is_null();
}

const Json* Fields::find(const std::string& name) {
  read_.insert(name);
  const auto found = value_.find(name);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::any(const std::string& name) {
  const Json* found = find(name);
  if (found == nullptr)
    throw bad_request(path_of(name), fmt::format("'{}' is missing", path_of(name)), "missing_field");
  return *found;
}

std::string Fields::string(const std::string& name) { return string_of(any(name), path_of(name)); }

std::optional<std::string> Fields::string_if(const std::string& name) {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  return string_of(*found, path_of(name));
}

std::optional<std::int64_t> Fields::integer_if(const std::string& name, IntegerRange range) {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  const std::string wanted = range.most == std::numeric_limits<std::int64_t>::max()
                                 ? (range.least == std::numeric_limits<std::int64_t>::min()
                                        ? std::string("an integer of 64 bits")
                                        : fmt::format("an integer of {} or more", range.least))
                                 : fmt::format("an integer from {} to {}", range.least, range.most);
  // A number like 5.0 is an integer, too.
  const double real = found->is_number() ? found->get<double>() : std::nan("");
  const bool whole = found->is_number_float() && std::floor(real) == real && std::abs(real) < 9e15;
  if (!found->is_number_integer() && !whole) throw wrong_type(path_of(name), *found, wanted);
  const bool too_large =
      found->is_number_unsigned() &&
      found->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::int64_t value = whole ? static_cast<std::int64_t>(real) : too_large ? 0 : found->get<std::int64_t>();
  if (too_large || value < range.least || value > range.most)
    throw bad_request(path_of(name), fmt::format("{} is {}; wanted {}", path_of(name), shown(*found), wanted));
  return value;
}

std::optional<double> Fields::real_if(const std::string& name, RealRange range) {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) throw wrong_type(path_of(name), *found, "a number");
  const auto value = found->get<double>();
  const bool fits =
      std::isfinite(value) && value <= range.most && (range.above ? value > range.least : value >= range.least);
  if (!fits) {
    throw bad_request(path_of(name), fmt::format("{} is {}; wanted {} {:g}{}", path_of(name), shown(*found),
                                                 range.above ? "a number above" : "a number from", range.least,
                                                 range.most < 1e30 ? fmt::format(" to {:g}", range.most) : ""));
  }
  return value;
}

std::optional<bool> Fields::flag_if(const std::string& name) {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_boolean()) throw wrong_type(path_of(name), *found, "true or false");
  return found->get<bool>();
}

std::optional<std::string> Fields::word_if(const std::string& name, std::initializer_list<std::string_view> words) {
  const std::optional<std::string> word = string_if(name);
  if (!word || std::find(words.begin(), words.end(), *word) != words.end()) return word;
  throw bad_request(path_of(name), fmt::format("{} is {}; wanted one of: {}", path_of(name), shown(*word),
                                               fmt::join(words.begin(), words.end(), ", ")));
}

std::vector<std::string> Fields::strings(const std::string& name, std::size_t most, bool empty) {
  const Json* found = find(name);
  std::vector<std::string> all;
  if (found == nullptr) return all;
  if (found->is_string()) {
    all.push_back(found->get<std::string>());
  } else if (found->is_array()) {
    if (found->size() > most) {
      throw bad_request(path_of(name),
                        fmt::format("{} has {} texts; wanted at most {}", path_of(name), found->size(), most));
    }
    for (std::size_t i = 0; i < found->size(); ++i)
      all.push_back(string_of((*found)[i], fmt::format("{}[{}]", path_of(name), i)));
  } else {
    throw wrong_type(path_of(name), *found, "a string or an array of strings");
  }
  if (!empty && std::find(all.begin(), all.end(), "") != all.end())
    throw bad_request(path_of(name), fmt::format("{} has an empty text", path_of(name)));
  return all;
}

const Json* Fields::array_if(const std::string& name) {
  const Json* found = find(name);
  if (found != nullptr && !found->is_array()) throw wrong_type(path_of(name), *found, "an array");
  return found;
}

const Json& Fields::array(const std::string& name) {
  any(name);
  return *array_if(name);
}

const Json* Fields::object_if(const std::string& name) {
  const Json* found = find(name);
  if (found != nullptr && !found->is_object()) throw wrong_type(path_of(name), *found, "an object");
  return found;
}

void Fields::note(std::initializer_list<const char*> names) {
  for (const char* name : names) read_.insert(name);
}

void Fields::neutral(const std::string& name, std::initializer_list<Json> values, const std::string& why) {
  const Json* found = find(name);
  if (found == nullptr || std::find(values.begin(), values.end(), *found) != values.end()) return;
  std::vector<std::string> fine;
  for (const Json& value : values) fine.push_back(json_text(value));
  throw bad_request(path_of(name),
                    fmt::format("{} is {}, which this server does not support{}{}; leave it out{}", path_of(name),
                                shown(*found), why.empty() ? "" : ": ", why,
                                fine.empty() ? "" : fmt::format(", or send {}", fmt::join(fine, " or "))),
                    "unsupported_value");
}

void Fields::refuse(const std::string& name, const std::string& why) {
  if (find(name) != nullptr)
    throw bad_request(path_of(name), fmt::format("{} {}", path_of(name), why), "unsupported_field");
}

void Fields::finish() const {
  for (const auto& [name, value] : value_.items()) {
    if (read_.contains(name)) continue;
    throw bad_request(
        path_of(name),
        fmt::format("unknown field '{:.128}'; the fields that this server knows are in docs/serving.md", path_of(name)),
        "unknown_field");
  }
}

}  // namespace etna::serve
