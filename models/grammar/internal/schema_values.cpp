#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/models/grammar/internal/byte_automaton.h>
#include <etna/models/grammar/internal/schema_facts.h>
#include <etna/models/grammar/internal/schema_formats.h>

// What is known of single values: which validate, and which two schemas no value can satisfy together.
namespace etna::models {
namespace {

constexpr int kDeepestComparison = 4;

bool regex_matches(const std::string& source, std::string_view text) {
  const GrammarLimits limits;
  const auto expressions = std::make_shared<Expressions>(limits.nodes);
  const auto write = [&](const CodePoints& set) { return expressions->characters(set); };
  const Expressions::Id root = Regex(source, "pattern", limits).compile(*expressions, write, false);
  ByteSet every;
  every.add(0, 255);
  if (!expressions->productive(every)[static_cast<std::size_t>(root)]) return false;
  ByteAutomaton automaton(expressions, root, every, 1, limits);
  ByteAutomaton::State state = ByteAutomaton::kStart;
  for (const char c : text) {
    automaton.begin_call();
    state = automaton.step(state, static_cast<unsigned char>(c));
    if (state == ByteAutomaton::kDead) return false;
  }
  return automaton.accepts(state);
}

std::uint64_t characters_of(const std::string& text) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) at += data::utf8_character(text, at).length;
  return count;
}

bool within(const SchemaFacts& facts, double number) {
  const auto& [low, high] = std::pair(facts.low, facts.high);
  if (low && (number < low->value || (low->exclusive && number == low->value))) return false;
  return !high || (number < high->value || (!high->exclusive && number == high->value));
}

/// Whether no object has the member. Only what additionalProperties: false or a schema `false` says.
bool forbids(const SchemaReader& reader, const SchemaFacts& facts, const std::string& name) {
  const SchemaList schemas = reader.schemas_of_member(facts, name);
  return std::any_of(schemas.begin(), schemas.end(),
                     [](const JsonValue* s) { return s->is(JsonValue::Kind::boolean) && !s->flag; });
}

bool objects_disjoint(const SchemaReader& reader, const SchemaFacts& a, const SchemaFacts& b, int depth) {
  if (a.max_properties < b.min_properties || b.max_properties < a.min_properties) return true;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const std::string& name : one->required) {
      if (forbids(reader, *other, name)) return true;
      // A member that one has validates against its schemas; where the other needs it too, so it would there.
      const bool both = std::find(other->required.begin(), other->required.end(), name) != other->required.end();
      if (both && depth < kDeepestComparison &&
          surely_disjoint(reader, reader.facts_of(reader.schemas_of_member(*one, name)),
                          reader.facts_of(reader.schemas_of_member(*other, name)), depth + 1))
        return true;
    }
  }
  return false;
}

}  // namespace

Validates validates(const SchemaFacts& facts, const JsonValue& value) {
  const unsigned type = type_of(value);
  if (facts.impossible || (facts.types & type) == 0) return Validates::no;
  if (facts.values && std::none_of(facts.values->begin(), facts.values->end(),
                                   [&](const JsonValue* one) { return canonical_json(*one) == canonical_json(value); }))
    return Validates::no;
  if ((type & kNumberTypes) != 0 && !within(facts, value.number)) return Validates::no;
  if (type == kStringType) {
    const std::uint64_t length = characters_of(value.text);
    if (length < facts.min_length || length > facts.max_length) return Validates::no;
    for (const JsonValue* pattern : facts.patterns)
      if (!regex_matches(pattern->text, value.text)) return Validates::no;
    // What the expression for a format leaves out may still have the format.
    for (const JsonValue* format : facts.formats)
      if (!regex_matches(regex_of_format(format->text), value.text)) return Validates::unknown;
  }
  if (type == kArrayType) {
    if (value.items.size() < facts.min_items || value.items.size() > facts.max_items) return Validates::no;
    if (facts.unique_items != nullptr || !facts.array_sources.empty()) return Validates::unknown;
  }
  if (type == kObjectType) {
    if (value.items.size() < facts.min_properties || value.items.size() > facts.max_properties) return Validates::no;
    for (const std::string& name : facts.required)
      if (value.find(name) == nullptr) return Validates::no;
    if (!facts.object_sources.empty()) return Validates::unknown;
  }
  return facts.choices.empty() ? Validates::yes : Validates::unknown;
}

SchemaList SchemaReader::schemas_of_member(const SchemaFacts& facts, const std::string& name) const {
  SchemaList all;
  for (const JsonValue* source : facts.object_sources) {
    const JsonValue *properties = source->find("properties"), *patterns = source->find("patternProperties"),
                    *additional = source->find("additionalProperties");
    bool named = false;
    if (const JsonValue* own = properties == nullptr ? nullptr : properties->find(name)) {
      all.push_back(own);
      named = true;
    }
    for (std::size_t i = 0; patterns != nullptr && i < patterns->items.size(); ++i) {
      if (!regex_matches(patterns->keys[i], name)) continue;
      all.push_back(&patterns->items[i]);
      named = true;
    }
    if (!named && additional != nullptr) all.push_back(additional);
  }
  return all;
}

bool surely_disjoint(const SchemaReader& reader, const SchemaFacts& a, const SchemaFacts& b, int depth) {
  if (a.impossible || b.impossible) return true;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (one->values) {
      // All that is written for one of them.
      if (std::all_of(one->values->begin(), one->values->end(), [&](const JsonValue* value) {
            return validates(*one, *value) == Validates::no || validates(*other, *value) == Validates::no;
          }))
        return true;
    }
  }
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const unsigned shared = one->written_types() & other->types;
    if ((shared & (kNullType | kBooleanType)) != 0) return false;
    if ((shared & kNumberTypes) != 0) {
      const auto& low = one->low && (!other->low || one->low->value > other->low->value) ? one->low : other->low;
      const auto& high = one->high && (!other->high || one->high->value < other->high->value) ? one->high : other->high;
      const bool apart =
          low && high &&
          (low->value > high->value || (low->value == high->value && (low->exclusive || high->exclusive)));
      if (!apart) return false;
    }
    if ((shared & kStringType) != 0 && a.max_length >= b.min_length && b.max_length >= a.min_length) return false;
    if ((shared & kArrayType) != 0 && a.max_items >= b.min_items && b.max_items >= a.min_items) return false;
    if ((shared & kObjectType) != 0 && !objects_disjoint(reader, a, b, depth)) return false;
  }
  return true;
}

}  // namespace etna::models
