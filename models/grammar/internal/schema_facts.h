#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/models/grammar/internal/json_grammar.h>
#include <etna/models/grammar/internal/json_value.h>
#include <etna/models/grammar/internal/regex.h>

namespace etna::models {

/// Types of JSON values, as bits. Integers are numbers without a fraction.
enum SchemaType : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kNumberTypes = kIntegerType | kFractionType,
  kEveryType = 127
};

/// Schemas that a value must all validate against.
using SchemaList = std::vector<const JsonValue*>;

/// What schemas demand of one value together: $ref and allOf are followed, anyOf and oneOf are kept.
struct SchemaFacts {
  struct Choice {
    const JsonValue* keyword;  ///< the array of alternatives
    bool exactly_one;
    SchemaList chain;  ///< schemas that apply through each other to this value, down to the one with the keyword
  };

  unsigned types = kEveryType;
  bool typed = false;  ///< by "type"; else the other keywords tell which types are meant
  bool impossible = false;
  unsigned keyword_types = 0;  ///< types that keywords constrain
  std::optional<std::vector<const JsonValue*>> values;
  std::optional<NumberBound> low, high;
  std::uint64_t min_length = 0, max_length = Regex::Lengths::kUnbounded;
  SchemaList patterns, formats;  ///< the keywords' values
  std::uint64_t min_items = 0, max_items = Regex::Lengths::kUnbounded;
  const JsonValue* unique_items = nullptr;
  SchemaList array_sources;   ///< schemas with prefixItems or items
  SchemaList object_sources;  ///< schemas with properties, patternProperties or additionalProperties
  std::vector<std::string> required;
  std::uint64_t min_properties = 0, max_properties = Regex::Lengths::kUnbounded;
  std::vector<Choice> choices;
  SchemaList absorbed;
  const JsonValue* at = nullptr;  ///< a schema, for errors

  /// The types that are written: those that keywords are about, if no keyword names any.
  unsigned written_types() const {
    const unsigned meant = types & keyword_types;
    return typed || meant == 0 ? types : meant;
  }
};

enum class Validates { no, yes, unknown };
class PatternMatcher;

/// Reads the keywords of the schemas of a document.
class SchemaReader {
 public:
  explicit SchemaReader(const JsonValue& root) : root_(root) {}

  /// Adds what a schema demands. @param chain schemas that lead to it without a level of JSON between
  void absorb(SchemaFacts& facts, const JsonValue& schema, SchemaList chain = {}) const;
  SchemaFacts facts_of(const SchemaList& schemas) const;

  /// Schemas for the member `name` by each source that says something about it.
  SchemaList schemas_of_member(const SchemaFacts& facts, const std::string& name) const;
  /// Schemas for an item.
  SchemaList schemas_of_item(const SchemaFacts& facts, std::size_t index) const;

  /// Whether a value validates. @param listed it is one of facts.values
  Validates validates(const SchemaFacts& facts, const JsonValue& value, bool listed = false) const;
  /// Whether surely no value validates against both that is written for one of them.
  bool surely_disjoint(const SchemaFacts& a, const SchemaFacts& b, int depth = 0) const;

  [[noreturn]] static void refuse(const JsonValue& at, const std::string& why);

 private:
  bool matches(const std::string& pattern, std::string_view text) const;
  bool objects_disjoint(const SchemaFacts& a, const SchemaFacts& b, int depth) const;
  bool forbids(const SchemaFacts& facts, const std::string& name) const;

  void keyword(SchemaFacts& facts, const JsonValue& schema, const std::string& name, const JsonValue& value,
               const SchemaList& chain) const;
  bool number_keyword(SchemaFacts& facts, const std::string& name, const JsonValue& value) const;
  bool text_keyword(SchemaFacts& facts, const std::string& name, const JsonValue& value) const;
  bool array_keyword(SchemaFacts& facts, const JsonValue& schema, const std::string& name,
                     const JsonValue& value) const;
  bool object_keyword(SchemaFacts& facts, const JsonValue& schema, const std::string& name,
                      const JsonValue& value) const;
  const JsonValue& resolve(const JsonValue& reference) const;

  const JsonValue& root_;
  mutable std::map<std::string, std::shared_ptr<PatternMatcher>> matchers_;
};

unsigned type_of(const JsonValue& value);

}  // namespace etna::models
