#include <etna/models/grammar/internal/schema_facts.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include <etna/models/grammar/internal/source_text.h>

namespace etna::models {
namespace {

constexpr std::size_t kLongestChain = 500, kMostChoices = 200, kMostSchemas = 5000;

using JsonKind = JsonValue::Kind;

const std::map<std::string, unsigned>& schema_types() {
  static const std::map<std::string, unsigned> types = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberTypes},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  return types;
}

/// Keywords that demand nothing.
bool is_annotation(const std::string& name) {
  static const std::set<std::string> names = {"$schema",  "$comment",    "$defs",     "definitions",
                                              "title",    "description", "default",   "examples",
                                              "readOnly", "writeOnly",   "deprecated"};
  return names.contains(name);
}

/// What to do about a keyword that is not supported; empty for unknown ones.
std::string advice(const std::string& name) {
  static const std::map<std::string, std::string> advices = {
      {"not", "describe what is wanted by type, enum or anyOf"},
      {"if", "use anyOf with one schema for each case"},
      {"then", "use anyOf with one schema for each case"},
      {"else", "use anyOf with one schema for each case"},
      {"contains", "give the schema of every item by items or prefixItems"},
      {"minContains", "give the schema of every item by items or prefixItems"},
      {"maxContains", "give the schema of every item by items or prefixItems"},
      {"additionalItems", "use prefixItems and items of draft 2020-12"},
      {"propertyNames", "name the properties, or use patternProperties"},
      {"dependentRequired", "use anyOf with one schema for each case"},
      {"dependentSchemas", "use anyOf with one schema for each case"},
      {"dependencies", "use anyOf with one schema for each case"},
      {"unevaluatedProperties", "use additionalProperties"},
      {"unevaluatedItems", "use items"},
      {"nullable", "write \"type\": [\"string\", \"null\"]"},
      {"$dynamicRef", "use $ref"},
      {"$recursiveRef", "use $ref"},
      {"$anchor", "refer by JSON pointer, such as #/$defs/name"},
      {"$dynamicAnchor", "refer by JSON pointer, such as #/$defs/name"}};
  const auto found = advices.find(name);
  return found == advices.end() ? "" : found->second;
}

const std::string& text_of(const JsonValue& value) {
  if (!value.is(JsonKind::string)) SchemaReader::refuse(value, "wanted a string, found " + brief_json(value));
  return value.text;
}

std::uint64_t count_of(const JsonValue& value) {
  if (!value.is(JsonKind::number) || value.number < 0 || value.number != std::floor(value.number))
    SchemaReader::refuse(value, "wanted an integer of 0 or more, found " + brief_json(value));
  return static_cast<std::uint64_t>(std::min(value.number, 1e15));
}

const JsonValue& object_of_schemas(const JsonValue& value) {
  if (!value.is(JsonKind::object))
    SchemaReader::refuse(value, "wanted an object of schemas, found " + brief_json(value));
  return value;
}

const JsonValue& list_of_schemas(const JsonValue& value) {
  if (!value.is(JsonKind::array) || value.items.empty())
    SchemaReader::refuse(value, "wanted an array of one schema or more, found " + brief_json(value));
  return value;
}

void tighten(std::optional<NumberBound>& bound, NumberBound other, bool low) {
  const bool tighter = !bound || (low ? other.value > bound->value : other.value < bound->value) ||
                       (other.value == bound->value && other.exclusive);
  if (tighter) bound = other;
}

}  // namespace

unsigned type_of(const JsonValue& value) {
  switch (value.kind) {
    case JsonKind::null:
      return kNullType;
    case JsonKind::boolean:
      return kBooleanType;
    case JsonKind::number:
      return value.number == std::floor(value.number) ? kIntegerType : kFractionType;
    case JsonKind::string:
      return kStringType;
    case JsonKind::array:
      return kArrayType;
    default:
      return kObjectType;
  }
}

void SchemaReader::refuse(const JsonValue& at, const std::string& why) {
  throw GrammarError(fmt::format("JSON schema: {}: {}", at.pointer(), why));
}

SchemaFacts SchemaReader::facts_of(const SchemaList& schemas) const {
  SchemaFacts facts;
  for (const JsonValue* schema : schemas) absorb(facts, *schema);
  return facts;
}

void SchemaReader::absorb(SchemaFacts& facts, const JsonValue& schema, SchemaList chain) const {
  if (facts.at == nullptr) facts.at = &schema;
  if (schema.is(JsonKind::boolean)) {
    facts.impossible = facts.impossible || !schema.flag;
    return;
  }
  if (!schema.is(JsonKind::object))
    refuse(schema, "wanted a schema (an object, true or false), found " + brief_json(schema));
  if (std::find(chain.begin(), chain.end(), &schema) != chain.end())
    refuse(schema, "the schema refers to itself without a level of JSON between; no text satisfies it step by step");
  if (std::find(facts.absorbed.begin(), facts.absorbed.end(), &schema) != facts.absorbed.end()) return;
  facts.absorbed.push_back(&schema);
  if (facts.absorbed.size() > kMostSchemas)
    refuse(schema, fmt::format("more than {} schemas hold for one value; merge them", kMostSchemas));
  chain.push_back(&schema);
  if (chain.size() > kLongestChain)
    refuse(schema,
           fmt::format("more than {} schemas refer to each other without a level of JSON between", kLongestChain));
  for (std::size_t i = 0; i < schema.items.size(); ++i) keyword(facts, schema, schema.keys[i], schema.items[i], chain);
}

void SchemaReader::keyword(SchemaFacts& facts, const JsonValue& schema, const std::string& name, const JsonValue& value,
                           const SchemaList& chain) const {
  if (is_annotation(name)) return;
  if (name == "$id") {
    if (&schema != &root_) refuse(value, "a schema inside of another with its own $id is not supported; leave it out");
  } else if (name == "type") {
    unsigned types = 0;
    const auto add = [&](const JsonValue& type) {
      const auto found = schema_types().find(text_of(type));
      if (found == schema_types().end())
        refuse(type, fmt::format("{} is not a type; known are null, boolean, integer, number, string, array, object",
                                 brief_json(type)));
      types |= found->second;
    };
    if (value.is(JsonKind::array))
      for (const JsonValue& type : list_of_schemas(value).items) add(type);
    else
      add(value);
    facts.types &= types;
    facts.typed = true;
  } else if (name == "enum" || name == "const") {
    std::map<std::string, const JsonValue*> values;
    if (name == "const") {
      values.emplace(canonical_json(value), &value);
    } else {
      if (!value.is(JsonKind::array) || value.items.empty())
        refuse(value, "wanted an array of one value or more, found " + brief_json(value));
      for (const JsonValue& one : value.items) values.emplace(canonical_json(one), &one);
    }
    std::vector<const JsonValue*> both;
    if (facts.values) {
      for (const JsonValue* one : *facts.values)
        if (values.contains(canonical_json(*one))) both.push_back(one);
    } else if (name == "const") {
      both.push_back(&value);
    } else {
      for (const JsonValue& one : value.items)
        if (values.at(canonical_json(one)) == &one) both.push_back(&one);
    }
    facts.values = std::move(both);
  } else if (name == "$ref") {
    absorb(facts, resolve(value), chain);
  } else if (name == "allOf") {
    for (const JsonValue& part : list_of_schemas(value).items) absorb(facts, part, chain);
  } else if (name == "anyOf" || name == "oneOf") {
    facts.choices.push_back({&list_of_schemas(value), name == "oneOf", chain});
    if (facts.choices.size() > kMostChoices)
      refuse(value, fmt::format("more than {} anyOf and oneOf hold for one value", kMostChoices));
  } else if (!number_keyword(facts, name, value) && !text_keyword(facts, name, value) &&
             !array_keyword(facts, schema, name, value) && !object_keyword(facts, schema, name, value)) {
    const std::string what_to_do = advice(name);
    refuse(value, what_to_do.empty() ? "this keyword is not known; leave it out"
                                     : "this keyword is not supported; " + what_to_do);
  }
}

bool SchemaReader::number_keyword(SchemaFacts& facts, const std::string& name, const JsonValue& value) const {
  const bool low = name == "minimum" || name == "exclusiveMinimum";
  if (low || name == "maximum" || name == "exclusiveMaximum") {
    if (!value.is(JsonKind::number)) refuse(value, "wanted a number, found " + brief_json(value));
    tighten(low ? facts.low : facts.high, {value.number, name.starts_with("exclusive")}, low);
  } else if (name == "multipleOf") {
    if (!value.is(JsonKind::number) || value.number <= 0)
      refuse(value, "wanted a number above 0, found " + brief_json(value));
    if (value.number != 1)
      refuse(value, "only a multipleOf of 1 is supported; leave it out, or list the values by enum");
    facts.types &= ~static_cast<unsigned>(kFractionType);
  } else {
    return false;
  }
  facts.keyword_types |= kNumberTypes;
  return true;
}

bool SchemaReader::text_keyword(SchemaFacts& facts, const std::string& name, const JsonValue& value) const {
  if (name == "minLength") {
    facts.min_length = std::max(facts.min_length, count_of(value));
  } else if (name == "maxLength") {
    facts.max_length = std::min(facts.max_length, count_of(value));
  } else if (name == "pattern") {
    text_of(value);
    facts.patterns.push_back(&value);
  } else if (name == "format") {
    text_of(value);
    facts.formats.push_back(&value);
  } else {
    return false;
  }
  facts.keyword_types |= kStringType;
  return true;
}

bool SchemaReader::array_keyword(SchemaFacts& facts, const JsonValue& schema, const std::string& name,
                                 const JsonValue& value) const {
  if (name == "minItems") {
    facts.min_items = std::max(facts.min_items, count_of(value));
  } else if (name == "maxItems") {
    facts.max_items = std::min(facts.max_items, count_of(value));
  } else if (name == "uniqueItems") {
    if (!value.is(JsonKind::boolean)) refuse(value, "wanted true or false, found " + brief_json(value));
    if (value.flag) facts.unique_items = &value;
  } else if (name == "prefixItems" || name == "items") {
    if (name == "prefixItems") list_of_schemas(value);
    if (name == "items" && value.is(JsonKind::array))
      refuse(value, "items is one schema; for a list of them use prefixItems of draft 2020-12");
    if (facts.array_sources.empty() || facts.array_sources.back() != &schema) facts.array_sources.push_back(&schema);
  } else {
    return false;
  }
  facts.keyword_types |= kArrayType;
  return true;
}

bool SchemaReader::object_keyword(SchemaFacts& facts, const JsonValue& schema, const std::string& name,
                                  const JsonValue& value) const {
  if (name == "minProperties") {
    facts.min_properties = std::max(facts.min_properties, count_of(value));
  } else if (name == "maxProperties") {
    facts.max_properties = std::min(facts.max_properties, count_of(value));
  } else if (name == "required") {
    if (!value.is(JsonKind::array)) refuse(value, "wanted an array of strings, found " + brief_json(value));
    std::set<std::string> known(facts.required.begin(), facts.required.end());
    for (const JsonValue& key : value.items)
      if (known.insert(text_of(key)).second) facts.required.push_back(key.text);
  } else if (name == "properties" || name == "patternProperties" || name == "additionalProperties") {
    if (name != "additionalProperties") object_of_schemas(value);
    if (name == "patternProperties" && value.items.size() > 1)
      refuse(value, "only one pattern is supported, since a key may match several");
    if (facts.object_sources.empty() || facts.object_sources.back() != &schema) facts.object_sources.push_back(&schema);
  } else {
    return false;
  }
  facts.keyword_types |= kObjectType;
  return true;
}

const JsonValue& SchemaReader::resolve(const JsonValue& reference) const {
  const std::string& text = text_of(reference);
  if (!text.starts_with("#"))
    refuse(reference, fmt::format("{} is another document; only references into this one are supported, such as "
                                  "#/$defs/name",
                                  brief_json(reference)));
  if (text.size() > 1 && text[1] != '/')
    refuse(reference,
           fmt::format("{} is an anchor; refer by JSON pointer, such as #/$defs/name", brief_json(reference)));
  const JsonValue* at = &root_;
  for (std::size_t begin = 2; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    std::string key;
    for (std::size_t i = begin; i < end; ++i) {
      std::uint32_t byte = 0;
      SourceText rest(std::string_view(text).substr(i + 1));
      if (text[i] == '~' && i + 1 < end && (text[i + 1] == '0' || text[i + 1] == '1')) {
        key += text[++i] == '0' ? '~' : '/';
      } else if (text[i] == '%' && i + 2 < end && rest.hex(2, byte)) {
        key += static_cast<char>(byte);
        i += 2;
      } else {
        key += text[i];
      }
    }
    const JsonValue* next = nullptr;
    if (at->is(JsonKind::array) && !key.empty() && key.size() < 9 &&
        key.find_first_not_of("0123456789") == std::string::npos && std::stoul(key) < at->items.size())
      next = &at->items[std::stoul(key)];
    else if (at->is(JsonKind::object))
      next = at->find(key);
    if (next == nullptr) refuse(reference, fmt::format("{} refers to nothing in this document", brief_json(reference)));
    at = next;
    begin = end + 1;
    if (end == text.size()) break;
  }
  return *at;
}

SchemaList SchemaReader::schemas_of_item(const SchemaFacts& facts, std::size_t index) const {
  SchemaList all;
  for (const JsonValue* source : facts.array_sources) {
    const JsonValue *prefix = source->find("prefixItems"), *items = source->find("items");
    if (prefix != nullptr && index < prefix->items.size())
      all.push_back(&prefix->items[index]);
    else if (items != nullptr)
      all.push_back(items);
  }
  return all;
}

}  // namespace etna::models
