#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/models/grammar/internal/code_points.h>
#include <etna/models/grammar/internal/expressions.h>
#include <etna/models/grammar/internal/json_value.h>

namespace etna::models {

/// A bound of a range of numbers.
struct NumberBound {
  double value;
  bool exclusive;
};

/// Expressions for JSON.
class JsonGrammar {
 public:
  using Id = Expressions::Id;
  /// Integers between -kLargestInteger and kLargestInteger are the same in every program.
  static constexpr std::int64_t kLargestInteger = (std::int64_t{1} << 53) - 1;

  JsonGrammar(Expressions& expressions, const GrammarLimits& limits);

  Id space() const { return space_; }
  Id comma() const { return comma_; }  ///< with the space after it
  Id colon() const { return colon_; }  ///< with the space after it

  /// One character of a set, inside a string. Each has one spelling, which escapes only what must be escaped.
  Id character(const CodePoints& set);
  /// A string of characters in any spelling.
  Id string(std::uint32_t min = 0, std::uint32_t max = Expressions::kUnbounded);
  Id quoted(Id content);
  /// A string without escapes, other than all of these; without its first quote.
  Id string_other_than(const std::vector<std::string>& texts);

  Id null() { return expressions_.text("null"); }
  Id boolean() { return expressions_.choice({expressions_.text("true"), expressions_.text("false")}); }
  Id integer();
  Id number();
  Id integer_between(std::int64_t low, std::int64_t high);
  /// Decimal numbers of at most 15 digits. @param low, high null: unbounded
  Id number_between(const NumberBound* low, const NumberBound* high);

  Id literal(const JsonValue& value);
  /// Any value that is nested at most `depth` deep; 0: no array or object.
  Id value(int depth);
  Id any_value() { return value(free_depth_); }
  Id any_object() { return object_of(value(free_depth_ - 1)); }
  Id any_array() { return array_of(value(free_depth_ - 1)); }
  Id array_of(Id item);
  Id object_of(Id value);
  /// A list in brackets: nothing, or items with commas.
  Id list(std::string_view open, Id item, std::uint32_t min, std::uint32_t max, std::string_view close);

 private:
  Id digits_between(const std::string& low, const std::string& high);
  Id natural_between(std::int64_t low, std::int64_t high);
  Id fraction(const std::string* low, const std::string* high, std::size_t digits);
  Id decimal_between(std::int64_t low, std::int64_t high, int scale);

  Expressions& expressions_;
  int free_depth_;
  Id space_, comma_, colon_;
  std::vector<Id> values_;  ///< by depth
};

}  // namespace etna::models
