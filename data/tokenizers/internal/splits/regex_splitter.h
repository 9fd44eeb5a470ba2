#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace etna::data {

/// Finds the matches of a regular expression in arbitrary bytes: \p{L}, \s and the like follow Unicode, where \s is
/// White_Space. A byte that is not part of well-formed UTF-8 counts as a control character. Safe to use from several
/// threads.
class RegexSplitter {
 public:
  /// @param name for errors @throws FormatError for an expression that cannot be compiled
  RegexSplitter(const std::string& pattern, const std::string& name);
  ~RegexSplitter();
  RegexSplitter(RegexSplitter&&) noexcept;

  using Match = std::pair<std::size_t, std::size_t>;  ///< begin, end

  /// All non-empty matches, in order. @throws FormatError if matching takes too long on this text
  std::vector<Match> matches(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// Translates a regular expression in the syntax of Ruby and Hugging Face's tokenizers for RegexSplitter.
/// @throws FormatError for unsupported syntax: nested sets, && in sets, \h, \w
std::string from_ruby_regex(std::string_view pattern, const std::string& name);
/// A regular expression that matches this text.
std::string escape_regex(std::string_view text);

}  // namespace etna::data
