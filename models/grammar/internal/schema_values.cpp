#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/models/grammar/internal/byte_automaton.h>
#include <etna/models/grammar/internal/schema_facts.h>
#include <etna/models/grammar/internal/schema_formats.h>

// What is known of single values: which validate, and which two schemas no value can satisfy together.
namespace etna::models {
namespace {

constexpr int kDeepestComparison = 4;

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

}  // namespace

/// A pattern as an automaton, for single texts.
class PatternMatcher {
 public:
  explicit PatternMatcher(const std::string& source) : expressions_(std::make_shared<Expressions>(limits_.nodes)) {
    const auto write = [&](const CodePoints& set) { return expressions_->characters(set); };
    const Expressions::Id root = Regex(source, "pattern", limits_).compile(*expressions_, write, false);
    ByteSet every;
    every.add(0, 255);
    if (expressions_->productive(every)[static_cast<std::size_t>(root)])
      automaton_ = std::make_unique<ByteAutomaton>(expressions_, root, every, 1, limits_);
  }

  bool matches(std::string_view text) {
    ByteAutomaton::State state = automaton_ ? ByteAutomaton::kStart : ByteAutomaton::kDead;
    for (const char c : text) {
      if (state == ByteAutomaton::kDead) return false;
      automaton_->begin_call();
      state = automaton_->step(state, static_cast<unsigned char>(c));
    }
    return state != ByteAutomaton::kDead && automaton_->accepts(state);
  }

 private:
  GrammarLimits limits_;
  std::shared_ptr<Expressions> expressions_;
  std::unique_ptr<ByteAutomaton> automaton_;  ///< null: nothing matches
};

bool SchemaReader::matches(const std::string& pattern, std::string_view text) const {
  std::shared_ptr<PatternMatcher>& matcher = matchers_[pattern];
  if (matcher == nullptr) matcher = std::make_shared<PatternMatcher>(pattern);
  return matcher->matches(text);
}

/// Whether no object has the member. Only what additionalProperties: false or a schema `false` says.
bool SchemaReader::forbids(const SchemaFacts& facts, const std::string& name) const {
  const SchemaList schemas = schemas_of_member(facts, name);
  return std::any_of(schemas.begin(), schemas.end(),
                     [](const JsonValue* s) { return s->is(JsonValue::Kind::boolean) && !s->flag; });
}

bool SchemaReader::objects_disjoint(const SchemaFacts& a, const SchemaFacts& b, int depth) const {
  if (a.max_properties < b.min_properties || b.max_properties < a.min_properties) return true;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const std::string& name : one->required) {
      if (forbids(*other, name)) return true;
      // A member that one has validates against its schemas; where the other needs it too, so it would there.
      const bool both = std::find(other->required.begin(), other->required.end(), name) != other->required.end();
      if (both && depth < kDeepestComparison &&
          surely_disjoint(facts_of(schemas_of_member(*one, name)), facts_of(schemas_of_member(*other, name)),
                          depth + 1))
        return true;
    }
  }
  return false;
}

Validates SchemaReader::validates(const SchemaFacts& facts, const JsonValue& value, bool listed) const {
  const unsigned type = type_of(value);
  if (facts.impossible || (facts.types & type) == 0) return Validates::no;
  if (!listed && facts.values && std::none_of(facts.values->begin(), facts.values->end(), [&](const JsonValue* one) {
        return canonical_json(*one) == canonical_json(value);
      }))
    return Validates::no;
  if ((type & kNumberTypes) != 0 && !within(facts, value.number)) return Validates::no;
  if (type == kStringType) {
    const std::uint64_t length = characters_of(value.text);
    if (length < facts.min_length || length > facts.max_length) return Validates::no;
    for (const JsonValue* pattern : facts.patterns)
      if (!matches(pattern->text, value.text)) return Validates::no;
    // What the expression for a format leaves out may still have the format.
    for (const JsonValue* format : facts.formats)
      if (!matches(regex_of_format(format->text), value.text)) return Validates::unknown;
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
      if (!matches(patterns->keys[i], name)) continue;
      all.push_back(&patterns->items[i]);
      named = true;
    }
    if (!named && additional != nullptr) all.push_back(additional);
  }
  return all;
}

bool SchemaReader::surely_disjoint(const SchemaFacts& a, const SchemaFacts& b, int depth) const {
  if (a.impossible || b.impossible) return true;
  // By name: compilers before Clang 16 capture no structured bindings.
  for (const auto& pair : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const SchemaFacts *one = pair.first, *other = pair.second;
    if (!one->values) continue;
    std::set<std::string> listed;
    if (other->values)
      for (const JsonValue* value : *other->values) listed.insert(canonical_json(*value));
    // All that is written for one of them.
    if (std::all_of(one->values->begin(), one->values->end(), [&](const JsonValue* value) {
          return (other->values && !listed.contains(canonical_json(*value))) ||
                 validates(*one, *value, true) == Validates::no || validates(*other, *value, true) == Validates::no;
        }))
      return true;
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
    if ((shared & kObjectType) != 0 && !objects_disjoint(a, b, depth)) return false;
  }
  return true;
}

}  // namespace etna::models
