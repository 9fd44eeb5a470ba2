#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <etna/models/grammar/internal/regex.h>
#include <etna/models/grammar/internal/schema_compiler.h>

// Arrays and objects of a schema.
namespace etna::models {
namespace {

bool is_false_schema(const JsonValue* schema) { return schema->is(JsonValue::Kind::boolean) && !schema->flag; }

/// A lower bound.
std::uint32_t least_count(std::uint64_t count, const SchemaFacts& facts) {
  if (count > Expressions::kMostRepeats)
    SchemaReader::refuse(*facts.at, fmt::format("a count of more than {}", Expressions::kMostRepeats));
  return static_cast<std::uint32_t>(count);
}

/// An upper bound; no text is so long that one of more than a billion matters.
std::uint32_t most_count(std::uint64_t count) {
  return count > Expressions::kMostRepeats ? Expressions::kUnbounded : static_cast<std::uint32_t>(count);
}

}  // namespace

Expressions::Id SchemaCompiler::array(const SchemaFacts& facts) {
  if (facts.max_items < facts.min_items) return expressions_.never();
  if (facts.unique_items != nullptr && facts.max_items > 1) return unique_array(facts);
  const bool silent =
      facts.array_sources.empty() && facts.min_items == 0 && facts.max_items == Regex::Lengths::kUnbounded;
  if (silent) return json_.any_array();
  std::size_t prefix = 0;
  bool has_items = false;
  for (const JsonValue* source : facts.array_sources) {
    if (const JsonValue* items = source->find("prefixItems")) prefix = std::max(prefix, items->items.size());
    has_items = has_items || source->find("items") != nullptr;
  }
  const std::uint64_t min = facts.min_items;
  std::uint64_t max = facts.max_items;
  // Where the schema is silent about further items, there are none unless they are counted.
  if (!has_items && prefix > 0) max = std::min(max, std::max<std::uint64_t>(prefix, min));
  const SchemaList later_schemas = reader_.schemas_of_item(facts, prefix);
  const bool no_more = std::any_of(later_schemas.begin(), later_schemas.end(), is_false_schema);
  if (no_more) max = std::min<std::uint64_t>(max, prefix);
  if (max < min) return expressions_.never();
  Expressions& e = expressions_;
  const Id later = no_more ? e.never() : schema(later_schemas);
  if (prefix == 0) return json_.list("[", later, least_count(min, facts), most_count(max), "]");
  const std::uint64_t more = max == Regex::Lengths::kUnbounded ? max : max - std::min<std::uint64_t>(max, prefix);
  Id rest = e.repeat(e.sequence(json_.comma(), later), least_count(min - std::min<std::uint64_t>(min, prefix), facts),
                     most_count(more));
  for (std::size_t i = prefix; i-- > 0;) {
    const Id item = e.sequence(i == 0 ? json_.space() : json_.comma(), schema(reader_.schemas_of_item(facts, i)));
    rest = i < max ? e.sequence(item, rest) : e.never();
    if (i >= min) rest = e.optional(rest);
  }
  return e.sequence({e.text("["), rest, json_.space(), e.text("]")});
}

/// Different items of a list of values, in the order of the list.
Expressions::Id SchemaCompiler::unique_array(const SchemaFacts& facts) {
  const SchemaFacts items = reader_.facts_of(reader_.schemas_of_item(facts, 0));
  const bool prefixes = std::any_of(facts.array_sources.begin(), facts.array_sources.end(),
                                    [](const JsonValue* source) { return source->find("prefixItems") != nullptr; });
  if (prefixes || !items.values || !items.choices.empty())
    SchemaReader::refuse(*facts.unique_items,
                         "uniqueItems is supported for items of an enum and for at most one item; leave it out");
  Members members{expressions_.empty(), {}, expressions_.never(), facts.min_items, facts.max_items};
  for (const JsonValue* value : *items.values) {
    const Validates result = reader_.validates(items, *value, true);
    if (result == Validates::unknown)
      SchemaReader::refuse(*value,
                           "whether this value validates against the other keywords is not tested; leave them "
                           "out next to enum and const");
    if (result == Validates::yes) members.declared.emplace_back(json_.literal(*value), false);
  }
  return expressions_.sequence(
      {expressions_.text("["), in_order(members, facts), json_.space(), expressions_.text("]")});
}

Expressions::Id SchemaCompiler::object(const SchemaFacts& facts) {
  if (facts.max_properties < facts.min_properties) return expressions_.never();
  Expressions& e = expressions_;
  std::vector<std::string> names;
  std::set<std::string> known;
  const auto declare = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  bool additional = false;
  for (const JsonValue* source : facts.object_sources) {
    if (const JsonValue* properties = source->find("properties"))
      for (const std::string& name : properties->keys) declare(name);
    additional =
        additional || source->find("additionalProperties") != nullptr || source->find("patternProperties") != nullptr;
  }
  for (const std::string& name : facts.required) declare(name);
  // Where the schema is silent about members, there are any; where it names some, only those.
  const bool silent = names.empty() && !additional;
  if (silent && facts.min_properties == 0 && facts.max_properties == Regex::Lengths::kUnbounded)
    return json_.any_object();
  const std::set<std::string> required(facts.required.begin(), facts.required.end());
  Members members{e.text("\""), {}, e.never(), facts.min_properties, facts.max_properties};
  for (const std::string& name : names) {
    const SchemaList schemas = reader_.schemas_of_member(facts, name);
    const bool must = required.contains(name);
    if (std::any_of(schemas.begin(), schemas.end(), is_false_schema)) {
      if (must) return e.never();
      continue;
    }
    const Id key = e.text(std::string_view(quoted_json(name)).substr(1));
    members.declared.emplace_back(e.sequence({key, json_.colon(), schema(schemas)}), must);
  }
  if (silent || additional) members.other = other_member(facts, names);
  const bool others = members.other != e.never();
  const std::uint64_t surely_different = members.declared.size() + (others ? 1 : 0);
  if (others && facts.min_properties > surely_different)
    SchemaReader::refuse(*facts.at,
                         fmt::format("minProperties {} needs several members that the schema does not name, and their "
                                     "keys might be equal; name more properties",
                                     facts.min_properties));
  return e.sequence({e.text("{"), in_order(members, facts), json_.space(), e.text("}")});
}

/// A member whose key is none of those declared.
Expressions::Id SchemaCompiler::other_member(const SchemaFacts& facts, const std::vector<std::string>& declared) {
  Expressions& e = expressions_;
  SchemaList schemas;
  const JsonValue* patterns = nullptr;
  for (const JsonValue* source : facts.object_sources) {
    const JsonValue *own = source->find("patternProperties"), *additional = source->find("additionalProperties");
    if (own != nullptr && !own->items.empty()) {
      if (patterns != nullptr)
        SchemaReader::refuse(*own, "only one pattern is supported, since a key may match several");
      patterns = own;
      schemas.push_back(&own->items[0]);
      if (additional != nullptr && !is_false_schema(additional))
        SchemaReader::refuse(*additional, "next to patternProperties only false is supported");
    } else if (additional != nullptr) {
      schemas.push_back(additional);
    }
  }
  if (std::any_of(schemas.begin(), schemas.end(), is_false_schema)) return e.never();
  if (patterns == nullptr) return e.sequence({json_.string_other_than(declared), json_.colon(), schema(schemas)});
  for (const std::string& name : declared) {
    const SchemaList own = reader_.schemas_of_member(facts, name);
    if (std::find(own.begin(), own.end(), &patterns->items[0]) != own.end())
      SchemaReader::refuse(*patterns, fmt::format("the property {} matches the pattern, so that it might be written "
                                                  "twice; choose a pattern that no property matches",
                                                  quoted_json(name)));
  }
  const Regex regex(patterns->keys[0], fmt::format("JSON schema: {}", patterns->items[0].pointer()), limits_);
  const auto write = [&](const CodePoints& set) { return json_.character(set); };
  return e.sequence({regex.compile(e, write, false), e.text("\""), json_.colon(), schema(schemas)});
}

Expressions::Id SchemaCompiler::in_order(const Members& members, const SchemaFacts& facts) {
  Expressions& e = expressions_;
  const std::uint64_t size = members.declared.size();
  // What follows depends on how many members there are, as far as the bounds and the comma need it.
  const bool bounded = members.max != Regex::Lengths::kUnbounded && (members.max < size || members.other != e.never());
  const std::uint64_t counted =
      std::min(size, bounded ? std::min(members.max, size) : std::max<std::uint64_t>(members.min, 1));
  if ((size + 1) * (counted + 1) > limits_.nodes)
    SchemaReader::refuse(*facts.at, fmt::format("{} members that are counted up to {} take more than {} nodes "
                                                "(GrammarLimits::nodes)",
                                                size, counted, limits_.nodes));
  // Separator and quote come before the choice of a member, so that a thread stands for all that may come next.
  const Id first = e.sequence(json_.space(), members.prefix), later = e.sequence(json_.comma(), members.prefix);
  const auto more = [&](std::uint64_t count, Id some, bool may_stop) {
    return e.choice({e.sequence(count == 0 ? first : later, some), may_stop ? e.empty() : e.never()});
  };
  const auto enough = [&](std::uint64_t count) { return count >= members.min; };
  // From a member on: one or more after that many, and what may follow that many.
  std::vector<Id> some(static_cast<std::size_t>(counted) + 1), rest(some.size());
  for (std::uint64_t count = 0; count <= counted; ++count) {
    const std::uint64_t left = bounded ? members.max - std::min(count, members.max) : Regex::Lengths::kUnbounded;
    const bool fits = left > 0 && count + 1 >= members.min;  // further members may have equal keys
    some[count] = fits ? e.sequence(members.other, e.repeat(e.sequence(later, members.other), 0,
                                                            most_count(bounded ? left - 1 : left)))
                       : e.never();
    rest[count] = more(count, some[count], enough(count));
  }
  bool must_come = false;
  for (std::size_t i = static_cast<std::size_t>(size); i-- > 0;) {
    const auto& [member, must] = members.declared[i];
    must_come = must_come || must;
    for (std::uint64_t count = 0; count <= counted; ++count) {
      const bool full = bounded && count >= members.max;
      const Id with = full ? e.never() : e.sequence(member, rest[std::min(count + 1, counted)]);
      some[count] = must ? with : e.choice({with, some[count]});
      // rest[count] is still needed where the count is capped.
    }
    for (std::uint64_t count = 0; count <= counted; ++count)
      rest[count] = more(count, some[count], enough(count) && !must_come);
  }
  return rest[0];
}

}  // namespace etna::models
