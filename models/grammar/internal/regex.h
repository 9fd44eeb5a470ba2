#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/models/grammar/internal/expressions.h>

namespace etna::models {

/// A regular expression of ECMA-262 with flag u: what JSON schema's "pattern" is.
class Regex {
 public:
  /// Writes one character of a set: in UTF-8, or as it stands in a JSON string.
  using Write = std::function<Expressions::Id(const CodePoints&)>;
  /// Numbers of characters that matching texts have.
  struct Lengths {
    std::uint64_t min = 0, max = 0;
    static constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};
  };

  /// @param what for errors, such as "regex" @throws GrammarError with the position of the mistake
  Regex(std::string_view source, const std::string& what, const GrammarLimits& limits);

  /// @param whole the expression matches a text from start to end, rather than somewhere in it
  Expressions::Id compile(Expressions& expressions, const Write& write, bool whole) const;
  /// Of texts that the expression matches somewhere (whole: from start to end).
  Lengths lengths(bool whole) const;
  /// Of ^C*$ with any counts: the same with the lengths between `min` and `max`, written by `write`.
  std::optional<Expressions::Id> repeat_between(Expressions& expressions, const Write& write, std::uint64_t min,
                                                std::uint64_t max) const;

 private:
  friend class RegexReader;

  enum class Kind : std::uint8_t { set, sequence, choice, repeat, begin, end };
  struct Node {
    Kind kind;
    bool anchors = false;  ///< contains ^ or $
    CodePoints set;
    std::vector<int> parts;
    std::uint32_t min = 0, max = 0;
  };
  /// One way through the alternatives around anchors: parts, and where they are anchored.
  struct Variant {
    bool begin = false, end = false;
    std::vector<int> parts;
  };

  std::vector<Variant> variants(int node, int depth) const;
  std::vector<Variant> split_anchors(Variant variant, int depth) const;
  Expressions::Id write(int node, Expressions& expressions, const Write& write) const;
  Lengths lengths_of(int node) const;

  std::string what_;
  std::vector<Node> nodes_;
  std::vector<Variant> variants_;
};

}  // namespace etna::models
