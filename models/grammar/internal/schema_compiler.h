#pragma once

#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/models/grammar/internal/json_grammar.h>
#include <etna/models/grammar/internal/schema_facts.h>

namespace etna::models {

/// Writes expressions for the values that validate. What is written is a part of what would validate where the schema
/// leaves it open: members in the order of `properties`, one spelling of keys, decimals of at most 15 digits.
class SchemaCompiler {
 public:
  using Id = Expressions::Id;

  SchemaCompiler(const JsonValue& root, Expressions& expressions, const GrammarLimits& limits)
      : root_(root), expressions_(expressions), limits_(limits), reader_(root), json_(expressions, limits) {}

  Id run();

 private:
  /// Of an object that is being written, or an array of different items.
  struct Members {
    Id prefix;                                  ///< of each: the quote before a key
    std::vector<std::pair<Id, bool>> declared;  ///< a member, and whether it must be there
    Id other;                                   ///< a member that is not declared; never(): none
    std::uint64_t min, max;
  };

  Id schema(SchemaList schemas);
  Id with_choices(const SchemaFacts& facts);
  Id values(const SchemaFacts& facts);
  Id string(const SchemaFacts& facts);
  Id number(const SchemaFacts& facts, bool integers);
  Id array(const SchemaFacts& facts);
  Id unique_array(const SchemaFacts& facts);
  Id object(const SchemaFacts& facts);
  Id other_member(const SchemaFacts& facts, const std::vector<std::string>& declared);
  /// Members in their order with commas, each once, `min` to `max` of them.
  Id in_order(const Members& members, const SchemaFacts& facts);

  const JsonValue& root_;
  Expressions& expressions_;
  const GrammarLimits& limits_;
  SchemaReader reader_;
  JsonGrammar json_;
  std::map<SchemaList, Id> rules_;
  std::deque<std::pair<SchemaList, Id>> queue_;
  std::size_t cases_ = 0;
};

/// @throws GrammarError
Expressions::Id compile_schema(std::string_view schema, Expressions& expressions, const GrammarLimits& limits);

}  // namespace etna::models
