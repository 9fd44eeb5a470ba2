#include <etna/models/grammar/internal/gbnf.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/models/grammar/internal/source_text.h>

namespace etna::models {
namespace {

/// Reads llama.cpp's grammars: rules `name ::= alternatives`, which end at a line that begins another rule.
class GbnfReader {
 public:
  GbnfReader(std::string_view source, Expressions& expressions, const GrammarLimits& limits)
      : source_(source), text_(source), expressions_(expressions), limits_(limits) {}

  Expressions::Id run() {
    skip(true);
    while (!text_.at_end()) {
      const std::size_t begin = text_.position();
      const std::string name = read_name();
      if (name.empty()) fail(fmt::format("wanted the name of a rule, found {}", text_.here()));
      skip(false);
      if (!text_.take("::=")) fail(fmt::format("wanted '::=' after '{}', found {}", name, text_.here()));
      Rule& rule = rule_of(name, begin);
      if (rule.defined) {
        text_.seek(begin);
        fail(fmt::format("rule '{}' is defined twice", name));
      }
      rule.defined = true;
      skip(true);
      expressions_.define(rule.id, alternatives(0));
      if (!text_.at_end() && !begins_rule()) fail(fmt::format("wanted a rule, found {}", text_.here()));
    }
    for (const auto& [name, rule] : rules_) {
      if (rule.defined) continue;
      text_.seek(rule.first_use);
      fail(fmt::format("rule '{}' is not defined", name));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw GrammarError("gbnf: it has no rule 'root', which is where a text begins");
    return root->second.id;
  }

 private:
  struct Rule {
    Expressions::Id id;
    std::size_t first_use;
    bool defined = false;
  };

  [[noreturn]] void fail(const std::string& why) const {
    const std::string_view before = source_.substr(0, text_.position());
    const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
    std::size_t column = 1;
    for (std::size_t at = begin; at < before.size(); ++column) at += data::utf8_character(source_, at).length;
    throw GrammarError(
        fmt::format("gbnf: line {}, column {}: {}", 1 + std::count(before.begin(), before.end(), '\n'), column, why));
  }

  void skip(bool lines) {
    while (!text_.at_end()) {
      const char c = text_.peek();
      if (c == '#') {
        while (!text_.at_end() && text_.peek() != '\n') text_.take(source_.substr(text_.position(), 1));
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        text_.take(source_.substr(text_.position(), 1));
      } else {
        return;
      }
    }
  }

  std::string read_name() {
    const std::size_t begin = text_.position();
    std::size_t end = begin;
    const auto in_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    };
    while (end < source_.size() && in_name(source_[end])) ++end;
    text_.seek(end);
    return std::string(source_.substr(begin, end - begin));
  }

  bool begins_rule() {
    const std::size_t begin = text_.position();
    const bool name = !read_name().empty();
    skip(false);
    const bool rule = name && text_.starts_with("::=");
    text_.seek(begin);
    return rule;
  }

  Rule& rule_of(const std::string& name, std::size_t position) {
    auto found = rules_.find(name);
    if (found == rules_.end())
      found = rules_.emplace(name, Rule{expressions_.rule(fmt::format("rule '{}'", name)), position}).first;
    return found->second;
  }

  Expressions::Id alternatives(int depth) {
    if (depth > limits_.depth)
      fail(fmt::format("groups are nested more than {} deep (GrammarLimits::depth)", limits_.depth));
    std::vector<Expressions::Id> all{sequence(depth)};
    while (text_.peek() == '|') {
      text_.take("|");
      skip(true);
      all.push_back(sequence(depth));
    }
    return expressions_.choice(all);
  }

  Expressions::Id sequence(int depth) {
    std::vector<Expressions::Id> parts;
    while (!text_.at_end() && text_.peek() != '|' && text_.peek() != ')' && !begins_rule()) {
      Expressions::Id part = item(depth);
      // A count may be counted again: llama.cpp reads a** as (a*)*.
      while (count(part)) {}
      parts.push_back(part);
      skip(true);
    }
    Expressions::Id id = expressions_.empty();
    for (std::size_t i = parts.size(); i-- > 0;) id = expressions_.sequence(parts[i], id);
    return id;
  }

  Expressions::Id item(int depth) {
    const std::size_t begin = text_.position();
    if (text_.take("\"")) {
      std::string literal;
      while (!text_.take("\"")) {
        if (text_.at_end() || text_.peek() == '\n') {
          text_.seek(begin);
          fail("a literal without its closing '\"'");
        }
        data::append_utf8(literal, character());
      }
      return expressions_.text(literal);
    }
    if (text_.take("[")) return char_class(begin);
    if (text_.take("(")) {
      skip(true);
      const Expressions::Id id = alternatives(depth + 1);
      if (!text_.take(")")) fail(fmt::format("wanted ')' to close the group, found {}", text_.here()));
      return id;
    }
    if (text_.take(".")) return expressions_.characters(CodePoints::all());
    const std::string name = read_name();
    if (name.empty())
      fail(fmt::format("wanted a literal, a class, a group or the name of a rule, found {}", text_.here()));
    return rule_of(name, begin).id;
  }

  Expressions::Id char_class(std::size_t begin) {
    const bool inverse = text_.take("^");
    CodePoints set;
    while (!text_.take("]")) {
      if (text_.at_end() || text_.peek() == '\n') {
        text_.seek(begin);
        fail("a class without its closing ']'");
      }
      const std::size_t at = text_.position();
      const std::uint32_t first = character();
      std::uint32_t last = first;
      if (text_.peek() == '-' && text_.peek(1) != ']' && text_.peek(1) != '\0') {
        text_.take("-");
        last = character();
      }
      if (last < first) {
        text_.seek(at);
        fail("the range of a class ends before it begins");
      }
      set.add(first, last);
    }
    const Expressions::Id id = expressions_.characters(inverse ? set.inverse() : set);
    if (id == expressions_.never()) {
      text_.seek(begin);
      fail("a class that no character is in");
    }
    return id;
  }

  /// A character of a literal or a class.
  std::uint32_t character() {
    const std::size_t begin = text_.position();
    if (!text_.take("\\")) return text_.character();
    std::uint32_t point = 0;
    if (text_.take("x") && text_.hex(2, point)) return point;
    text_.seek(begin + 1);
    if ((text_.take("u") && text_.hex(4, point)) || (text_.take("U") && text_.hex(8, point))) {
      if (point <= CodePoints::kLast && (point < 0xD800 || point > 0xDFFF)) return point;
      text_.seek(begin);
      fail(fmt::format("U+{:04X} is not a character", point));
    }
    text_.seek(begin + 1);
    const char c = text_.peek();
    static constexpr std::string_view kEscapes = "nrt\\\"[]-^", kMeanings = "\n\r\t\\\"[]-^";
    const std::size_t which = c == '\0' ? std::string_view::npos : kEscapes.find(c);
    if (which == std::string_view::npos) {
      text_.seek(begin);
      fail("an unknown escape; known are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
    }
    text_.seek(begin + 2);
    return static_cast<unsigned char>(kMeanings[which]);
  }

  /// A count after an item, applied to it.
  bool count(Expressions::Id& id) {
    const std::size_t begin = text_.position();
    skip(false);
    std::uint64_t min = 0, max = Expressions::kUnbounded;
    const std::size_t at = text_.position();
    if (text_.take("*")) {
    } else if (text_.take("+")) {
      min = 1;
    } else if (text_.take("?")) {
      max = 1;
    } else if (text_.take("{")) {
      skip(false);
      const bool has_min = text_.number(min);
      skip(false);
      if (has_min && text_.peek() == '}') max = min;
      bool closed = text_.take("}");
      if (!closed && text_.take(",")) {
        skip(false);
        std::uint64_t given = 0;
        if (text_.number(given)) max = given;
        skip(false);
        closed = (has_min || max != Expressions::kUnbounded) && text_.take("}");
      } else if (closed && !has_min) {
        closed = false;
      }
      if (!closed) {
        text_.seek(at);
        fail("a count is {m}, {m,}, {,n} or {m,n}");
      }
      if (max < min || std::max(min, max == Expressions::kUnbounded ? 0 : max) > Expressions::kMostRepeats) {
        text_.seek(at);
        fail(max < min ? fmt::format("a count of {} to {}", min, max)
                       : fmt::format("a count of more than {}", Expressions::kMostRepeats));
      }
    } else {
      text_.seek(begin);
      return false;
    }
    id = expressions_.repeat(id, static_cast<std::uint32_t>(min), static_cast<std::uint32_t>(max));
    return true;
  }

  std::string_view source_;
  SourceText text_;
  Expressions& expressions_;
  const GrammarLimits& limits_;
  std::map<std::string, Rule> rules_;
};

}  // namespace

Expressions::Id parse_gbnf(std::string_view source, Expressions& expressions, const GrammarLimits& limits) {
  check_source(source, "gbnf", limits);
  return GbnfReader(source, expressions, limits).run();
}

}  // namespace etna::models
