#include <etna/models/grammar/internal/schema_compiler.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include <etna/models/grammar/internal/schema_formats.h>

namespace etna::models {
namespace {

constexpr std::size_t kMostCases = 20'000;

std::uint32_t repeat_count(std::uint64_t count) {
  return count > Expressions::kMostRepeats ? Expressions::kUnbounded : static_cast<std::uint32_t>(count);
}

}  // namespace

Expressions::Id SchemaCompiler::run() {
  const Id root = schema({&root_});
  while (!queue_.empty()) {
    const auto [schemas, rule] = queue_.front();
    queue_.pop_front();
    expressions_.define(rule, with_choices(reader_.facts_of(schemas)));
  }
  ByteSet every;
  every.add(0, 255);
  if (!expressions_.productive(every)[static_cast<std::size_t>(root)])
    throw GrammarError(
        "JSON schema: no value validates against it; look for types, bounds or required members that contradict each "
        "other, and for schemas that must contain themselves");
  return root;
}

/// A rule for values that validate against all schemas; its body is made later, so that nesting takes no stack.
Expressions::Id SchemaCompiler::schema(SchemaList schemas) {
  std::sort(schemas.begin(), schemas.end());
  schemas.erase(std::unique(schemas.begin(), schemas.end()), schemas.end());
  std::erase_if(schemas, [](const JsonValue* s) { return s->is(JsonValue::Kind::boolean) && s->flag; });
  if (schemas.empty()) return json_.any_value();
  const auto [found, added] = rules_.try_emplace(schemas, 0);
  if (!added) return found->second;
  const Id rule = expressions_.rule("the schema at " + schemas.front()->pointer());
  found->second = rule;
  queue_.emplace_back(std::move(schemas), rule);
  return rule;
}

/// Facts and each combination of alternatives of their anyOf and oneOf.
Expressions::Id SchemaCompiler::with_choices(const SchemaFacts& facts) {
  if (++cases_ > kMostCases)
    throw GrammarError(
        fmt::format("JSON schema: anyOf, oneOf and allOf multiply to more than {} cases; nest fewer of "
                    "them in each other",
                    kMostCases));
  if (facts.impossible) return expressions_.never();
  if (facts.choices.empty()) return values(facts);
  const SchemaFacts::Choice choice = facts.choices.front();
  if (cases_ + choice.keyword->items.size() > kMostCases)
    SchemaReader::refuse(*choice.keyword, fmt::format("all cases of anyOf and oneOf are more than {}", kMostCases));
  std::vector<SchemaFacts> cases;
  for (const JsonValue& alternative : choice.keyword->items) {
    SchemaFacts one = facts;
    one.choices.erase(one.choices.begin());
    reader_.absorb(one, alternative, choice.chain);
    cases.push_back(std::move(one));
  }
  for (std::size_t i = 0; choice.exactly_one && i < cases.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (++cases_ > kMostCases)
        SchemaReader::refuse(*choice.keyword, "there are too many alternatives to compare; use anyOf");
      if (!reader_.surely_disjoint(cases[i], cases[j]))
        SchemaReader::refuse(*choice.keyword,
                             fmt::format("a value may validate against both alternatives {} and {}; use anyOf, or give "
                                         "them different types or a required member with different const",
                                         j, i));
    }
  }
  std::vector<Id> all;
  for (const SchemaFacts& one : cases) all.push_back(with_choices(one));
  return expressions_.choice(all);
}

Expressions::Id SchemaCompiler::values(const SchemaFacts& facts) {
  std::vector<Id> all;
  if (facts.values) {
    for (const JsonValue* value : *facts.values) {
      const Validates result = reader_.validates(facts, *value, true);
      if (result == Validates::unknown)
        SchemaReader::refuse(*value,
                             "whether this value validates against the other keywords is not tested; leave "
                             "them out next to enum and const");
      if (result == Validates::yes) all.push_back(json_.literal(*value));
    }
    return expressions_.choice(all);
  }
  const unsigned types = facts.written_types();
  if ((types & kNullType) != 0) all.push_back(json_.null());
  if ((types & kBooleanType) != 0) all.push_back(json_.boolean());
  if ((types & kNumberTypes) != 0) all.push_back(number(facts, (types & kFractionType) == 0));
  if ((types & kStringType) != 0) all.push_back(string(facts));
  if ((types & kArrayType) != 0) all.push_back(array(facts));
  if ((types & kObjectType) != 0) all.push_back(object(facts));
  return expressions_.choice(all);
}

Expressions::Id SchemaCompiler::number(const SchemaFacts& facts, bool integers) {
  const NumberBound* low = facts.low ? &*facts.low : nullptr;
  const NumberBound* high = facts.high ? &*facts.high : nullptr;
  if (low == nullptr && high == nullptr) return integers ? json_.integer() : json_.number();
  if (low != nullptr && high != nullptr &&
      (low->value > high->value || (low->value == high->value && (low->exclusive || high->exclusive))))
    return expressions_.never();
  Id id = expressions_.never();
  if (integers) {
    constexpr auto kLargest = static_cast<double>(JsonGrammar::kLargestInteger);
    const double from = low == nullptr   ? -HUGE_VAL
                        : low->exclusive ? std::floor(low->value) + 1
                                         : std::ceil(low->value);
    const double to = high == nullptr   ? HUGE_VAL
                      : high->exclusive ? std::ceil(high->value) - 1
                                        : std::floor(high->value);
    if (from > to) return expressions_.never();
    if (from <= kLargest && to >= -kLargest)
      id = json_.integer_between(static_cast<std::int64_t>(std::max(from, -kLargest)),
                                 static_cast<std::int64_t>(std::min(to, kLargest)));
  } else {
    id = json_.number_between(low, high);
  }
  if (id == expressions_.never())
    SchemaReader::refuse(*facts.at, integers
                                        ? "all integers between its bounds are beyond 2^53 - 1, where JSON numbers are "
                                          "not exact"
                                        : "no number of up to 15 digits, 6 of them after the point, is between its "
                                          "bounds; widen them");
  return id;
}

Expressions::Id SchemaCompiler::string(const SchemaFacts& facts) {
  if (facts.max_length < facts.min_length) return expressions_.never();
  for (const JsonValue* format : facts.formats)
    if (regex_of_format(format->text).empty())
      SchemaReader::refuse(*format,
                           fmt::format("format {} is not known; known are {}", brief_json(*format), known_formats()));
  SchemaList forms = facts.patterns;
  forms.insert(forms.end(), facts.formats.begin(), facts.formats.end());
  std::set<std::string> different;
  std::erase_if(forms, [&](const JsonValue* form) { return !different.insert(form->text).second; });
  if (forms.empty()) {
    if (facts.min_length > Expressions::kMostRepeats)
      SchemaReader::refuse(*facts.at, fmt::format("a minLength of more than {}", Expressions::kMostRepeats));
    return json_.string(static_cast<std::uint32_t>(facts.min_length), repeat_count(facts.max_length));
  }
  if (forms.size() > 1)
    SchemaReader::refuse(*forms[1], "only one pattern or format is supported for a value; join them in one pattern");
  const bool is_pattern = !facts.patterns.empty();
  const Regex regex(is_pattern ? forms[0]->text : regex_of_format(forms[0]->text),
                    fmt::format("JSON schema: {}", forms[0]->pointer()), limits_);
  const auto write = [&](const CodePoints& set) { return json_.character(set); };
  const Regex::Lengths lengths = regex.lengths(false);
  if (lengths.max < facts.min_length || lengths.min > facts.max_length) return expressions_.never();
  if (lengths.min >= facts.min_length && lengths.max <= facts.max_length)
    return json_.quoted(regex.compile(expressions_, write, false));
  const auto content = regex.repeat_between(expressions_, write, facts.min_length, facts.max_length);
  if (!content)
    SchemaReader::refuse(*forms[0],
                         "a length next to a pattern or format is supported only for patterns such as "
                         "^[a-z]*$ and where it changes nothing; count in the pattern, such as "
                         "^[a-z][0-9]{1,10}$");
  return json_.quoted(*content);
}

Expressions::Id compile_schema(std::string_view text, Expressions& expressions, const GrammarLimits& limits) {
  JsonValue root;
  parse_json(text, "JSON schema", limits, root);
  return SchemaCompiler(root, expressions, limits).run();
}

}  // namespace etna::models
