#include <grammar/random_schemas.h>

#include <algorithm>
#include <cmath>
#include <regex>

namespace etna::models::fixtures {
namespace {

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Equal as JSON schema has it: whatever the order of members.
bool same(const Json& a, const Json& b) { return nlohmann::json::parse(a.dump()) == nlohmann::json::parse(b.dump()); }

bool has_type(const std::string& type, const Json& value) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "integer") return value.is_number() && value.get<double>() == std::floor(value.get<double>());
  return value.is_number();
}

bool bounds_hold(const Json& schema, double number) {
  const auto bound = [&](const char* name, double otherwise) { return schema.value(name, otherwise); };
  return number >= bound("minimum", -HUGE_VAL) && number <= bound("maximum", HUGE_VAL) &&
         number > bound("exclusiveMinimum", -HUGE_VAL) && number < bound("exclusiveMaximum", HUGE_VAL) &&
         (!schema.contains("multipleOf") || std::fmod(number, schema["multipleOf"].get<double>()) == 0);
}

bool items_hold(const Json& schema, const Json& value, const Json& root) {
  const std::size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (i < prefix && !validates(schema["prefixItems"][i], value[i], root)) return false;
    if (i >= prefix && schema.contains("items") && !validates(schema["items"], value[i], root)) return false;
    for (std::size_t j = 0; schema.value("uniqueItems", false) && j < i; ++j)
      if (same(value[i], value[j])) return false;
  }
  return value.size() >= schema.value("minItems", std::size_t{0}) &&
         value.size() <= schema.value("maxItems", ~std::size_t{0});
}

bool members_hold(const Json& schema, const Json& value, const Json& root) {
  for (const Json& name : schema.value("required", Json::array()))
    if (!value.contains(name.get<std::string>())) return false;
  const Json patterns = schema.value("patternProperties", Json::object());
  for (const auto& [name, member] : value.items()) {
    bool named = false;
    if (schema.contains("properties") && schema["properties"].contains(name)) {
      named = true;
      if (!validates(schema["properties"][name], member, root)) return false;
    }
    for (const auto& [pattern, inner] : patterns.items()) {
      if (!std::regex_search(name, std::regex(pattern))) continue;
      named = true;
      if (!validates(inner, member, root)) return false;
    }
    if (!named && schema.contains("additionalProperties") && !validates(schema["additionalProperties"], member, root))
      return false;
  }
  return value.size() >= schema.value("minProperties", std::size_t{0}) &&
         value.size() <= schema.value("maxProperties", ~std::size_t{0});
}

}  // namespace

bool validates(const Json& schema, const Json& value, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref") &&
      !validates(root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), value, root))
    return false;
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    if (type.is_string() ? !has_type(type, value) : std::none_of(type.begin(), type.end(), [&](const Json& one) {
          return has_type(one, value);
        }))
      return false;
  }
  if (schema.contains("const") && !same(schema["const"], value)) return false;
  const auto equal = [&](const Json& one) { return same(one, value); };
  if (schema.contains("enum") && std::none_of(schema["enum"].begin(), schema["enum"].end(), equal)) return false;
  const auto holds = [&](const Json& one) { return validates(one, value, root); };
  const auto count = [&](const char* name) { return std::count_if(schema[name].begin(), schema[name].end(), holds); };
  if (schema.contains("allOf") && count("allOf") != static_cast<std::ptrdiff_t>(schema["allOf"].size())) return false;
  if (schema.contains("anyOf") && count("anyOf") == 0) return false;
  if (schema.contains("oneOf") && count("oneOf") != 1) return false;
  if (value.is_number()) return bounds_hold(schema, value.get<double>());
  if (value.is_string()) {
    const std::string text = value;
    const std::size_t length = code_points(text);
    return length >= schema.value("minLength", std::size_t{0}) &&
           length <= schema.value("maxLength", ~std::size_t{0}) &&
           (!schema.contains("pattern") || std::regex_search(text, std::regex(schema["pattern"].get<std::string>())));
  }
  if (value.is_array()) return items_hold(schema, value, root);
  return !value.is_object() || members_hold(schema, value, root);
}

std::string RandomSchemas::name() {
  static const char* const names[] = {"a", "b", "id", "name", "next", "a\"b", "tags", "x1", "x2", "k\xC3\xA9y"};
  return names[below(10)];
}

Json RandomSchemas::value(int depth) {
  switch (below(depth > 0 ? 9 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return chance(50);
    case 2:
      return below(20) - 5;
    case 3:
      return below(100) / 8.0;
    case 7:
      return Json::array({value(depth - 1), value(depth - 1)});
    case 8:
      return Json::object({{name(), value(depth - 1)}});
    default:
      return name();
  }
}

void RandomSchemas::number(Json& s) {
  const double low = below(400) / 4.0 - 50;
  if (chance(40)) s[chance(70) ? "minimum" : "exclusiveMinimum"] = chance(50) ? std::floor(low) : low;
  if (chance(40)) s[chance(70) ? "maximum" : "exclusiveMaximum"] = low + below(1000) / 8.0;
  if (chance(4)) s["multipleOf"] = 1;
}

void RandomSchemas::string(Json& s) {
  static const char* const patterns[] = {
      "^[a-z]{1,5}$", "b", "^(ab|cd)*$", "^a|c$", "^[^\"x]*$", "^\\d{3}-\\d{2}$", "^[A-Za-z_][A-Za-z0-9_]*$", "[0-9]$"};
  static const char* const formats[] = {"date", "time",  "date-time", "uuid", "ipv4",
                                        "ipv6", "email", "hostname",  "uri",  "duration"};
  if (chance(20)) {
    s["pattern"] = patterns[below(8)];
  } else if (chance(15)) {
    s["format"] = formats[below(10)];
  } else {
    const int low = below(4);
    if (chance(40)) s["minLength"] = low;
    if (chance(40)) s["maxLength"] = low + below(30);
  }
}

void RandomSchemas::array(Json& s, int depth) {
  if (chance(25)) {
    s["prefixItems"] = Json::array();
    for (int n = 1 + below(3); n > 0; --n) s["prefixItems"].push_back(schema(depth - 1));
  }
  if (chance(80)) s["items"] = chance(5) ? Json(false) : schema(depth - 1);
  const int low = below(3);
  if (chance(40)) s["minItems"] = low;
  if (chance(40)) s["maxItems"] = low + below(5);
  if (chance(4)) s["uniqueItems"] = true;
}

void RandomSchemas::object(Json& s, int depth) {
  Json properties = Json::object(), required = Json::array();
  for (int n = below(5); n > 0; --n) {
    const std::string key = name();
    properties[key] = schema(depth - 1);
    if (chance(50) && std::find(required.begin(), required.end(), Json(key)) == required.end()) required.push_back(key);
  }
  if (chance(85)) s["properties"] = properties;
  if (chance(60)) s["required"] = required;
  if (chance(40)) s["additionalProperties"] = chance(50) ? Json(chance(40)) : schema(depth - 1);
  if (chance(4)) s["patternProperties"] = Json::object({{"^z[0-9]+$", schema(depth - 1)}});
  if (chance(10)) s["minProperties"] = below(3);
  if (chance(10)) s["maxProperties"] = 1 + below(4);
}

Json RandomSchemas::scalar() {
  Json s = Json::object();
  switch (below(8)) {
    case 0:
      return {{"type", "null"}};
    case 1:
      return {{"type", "boolean"}};
    case 2:
    case 3:
      s["type"] = chance(60) ? "integer" : "number";
      number(s);
      return s;
    case 4:
      s["enum"] = Json::array();
      for (int n = 1 + below(4); n > 0; --n) {
        const Json one = value(1);
        if (std::none_of(s["enum"].begin(), s["enum"].end(), [&](const Json& other) { return same(one, other); }))
          s["enum"].push_back(one);
      }
      return s;
    case 5:
      return {{"const", value(1)}};
    default:
      s["type"] = "string";
      string(s);
      return s;
  }
}

Json RandomSchemas::schema(int depth) {
  if (chance(3)) return true;
  if (definitions_ > 0 && chance(8)) return {{"$ref", "#/$defs/d" + std::to_string(below(definitions_))}};
  if (depth <= 0 || chance(35)) return scalar();
  Json s = Json::object();
  if (chance(10)) s["description"] = "what it is";
  const int kind = below(100);
  if (kind < 45) {
    s["type"] = "object";
    object(s, depth);
  } else if (kind < 70) {
    s["type"] = "array";
    array(s, depth);
  } else if (kind < 80) {
    s["type"] = Json::array({"string", "null", "integer"});
    string(s);
    number(s);
  } else {
    const char* const word = kind < 90 ? "anyOf" : kind < 95 ? "oneOf" : "allOf";
    s[word] = Json::array();
    for (int n = 1 + below(3); n > 0; --n) {
      Json one = schema(depth - 1);
      // Alternatives of oneOf are told apart by a constant, as programs write them.
      if (kind >= 90 && kind < 95 && chance(80))
        one = {{"type", "object"},
               {"properties", {{"kind", {{"const", n}}}, {"value", std::move(one)}}},
               {"required", {"kind"}}};
      s[word].push_back(std::move(one));
    }
    if (chance(20)) s["type"] = Json::array({"object", "string", "array"});
  }
  return s;
}

Json RandomSchemas::next() {
  definitions_ = chance(30) ? 1 + below(2) : 0;
  Json root = schema(3);
  if (!root.is_object()) root = Json::object();
  for (int i = 0; i < definitions_; ++i) root["$defs"]["d" + std::to_string(i)] = schema(2);
  return root;
}

}  // namespace etna::models::fixtures
