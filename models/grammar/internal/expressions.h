#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <etna/models/grammar/internal/code_points.h>

namespace etna::models {

/// A set of bytes.
struct ByteSet {
  std::array<std::uint64_t, 4> words{};

  bool has(unsigned byte) const { return (words[byte / 64] >> byte % 64 & 1) != 0; }
  void add(unsigned first, unsigned last) {
    for (unsigned b = first; b <= last; ++b) words[b / 64] |= std::uint64_t{1} << b % 64;
  }
};

/// A grammar over bytes: expressions with shared parts, and rules, through which they recur. Equal expressions have
/// equal numbers, and the parts of an expression have smaller numbers than itself.
class Expressions {
 public:
  using Id = std::int32_t;
  enum class Kind : std::uint8_t { empty, never, bytes, sequence, choice, repeat, rule };
  static constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kMostRepeats = 1'000'000'000;

  struct Node {
    Kind kind = Kind::empty;
    /// bytes: index of the set. sequence: both parts. choice: a range of alternatives. repeat: the body. rule: its
    /// index.
    Id first = 0, second = 0;
    std::uint32_t min = 0, max = 0;  ///< repeat
  };

  /// @param nodes how many expressions there may be
  explicit Expressions(std::size_t nodes);

  Id empty() const { return 0; }
  Id never() const { return 1; }
  Id bytes(const ByteSet& set);
  Id text(std::string_view text);
  Id sequence(Id first, Id second);
  Id sequence(std::initializer_list<Id> parts);
  Id choice(std::span<const Id> alternatives);
  Id choice(std::initializer_list<Id> alternatives) { return choice({alternatives.begin(), alternatives.size()}); }
  Id optional(Id id) { return choice({id, empty()}); }
  /// @param max kUnbounded, or at least min
  Id repeat(Id body, std::uint32_t min, std::uint32_t max);
  /// One character of a set, in UTF-8.
  Id characters(const CodePoints& set);

  /// A rule without a body. @param name for errors
  Id rule(std::string name);
  void define(Id rule, Id body);

  std::size_t size() const { return nodes_.size(); }
  const Node& operator[](Id id) const { return nodes_[static_cast<std::size_t>(id)]; }
  std::span<const Id> alternatives(const Node& node) const;
  const ByteSet& set(const Node& node) const { return sets_[static_cast<std::size_t>(node.first)]; }
  Id body(const Node& rule) const { return bodies_[static_cast<std::size_t>(rule.first)]; }

  /// For each expression whether it matches the empty text.
  std::vector<bool> nullable() const;
  /// For each expression whether it matches any text of `writable` bytes.
  std::vector<bool> productive(const ByteSet& writable) const;
  /// The name of a rule that derives a text starting with itself before any byte; empty: there is none.
  /// @param order receives all expressions, each after those that its texts can start with
  std::string left_recursive(const std::vector<bool>& nullable, std::vector<Id>& order) const;
  /// The bytes that texts of each expression can start with. @param order of left_recursive()
  std::vector<ByteSet> first_bytes(const std::vector<bool>& nullable, const std::vector<Id>& order) const;

 private:
  Id add(const Node& node, std::string key);
  template <typename Both>
  std::vector<bool> propagate(std::vector<bool> holds, Both sequence_holds) const;

  std::size_t limit_;
  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  std::vector<Id> alternatives_, bodies_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Id> known_;
};

}  // namespace etna::models
