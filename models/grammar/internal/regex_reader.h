#pragma once

#include <string>
#include <string_view>

#include <etna/models/grammar/internal/regex.h>
#include <etna/models/grammar/internal/source_text.h>

namespace etna::models {

/// Reads the syntax of a Regex.
class RegexReader {
 public:
  RegexReader(std::string_view source, Regex& regex, const GrammarLimits& limits)
      : text_(source), regex_(regex), limits_(limits) {}

  /// The node of the whole expression.
  int run();

 private:
  [[noreturn]] void fail(std::size_t position, const std::string& why) const;
  int add(Regex::Kind kind, std::vector<int> parts = {});
  int add_set(CodePoints set);
  int alternatives(int depth);
  int sequence(int depth);
  int atom(int depth);
  int group(int depth);
  int quantified(int node, std::size_t position);
  /// After a backslash. @return whether it stands for a set, such as \d
  bool escape(bool in_class, CodePoints& set, std::uint32_t& point);
  std::uint32_t unicode_escape(std::size_t position);
  CodePoints char_class();

  SourceText text_;
  Regex& regex_;
  const GrammarLimits& limits_;
};

}  // namespace etna::models
