#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <etna/models/grammar/grammar.h>

namespace etna::models {

/// @throws GrammarError for a source that is longer than the limit or not UTF-8. @param what such as "regex"
void check_source(std::string_view source, const char* what, const GrammarLimits& limits);

/// The characters of a regular expression or a grammar, read one after the other.
class SourceText {
 public:
  /// @param text is UTF-8 and must outlive this object
  explicit SourceText(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  std::size_t position() const { return at_; }
  void seek(std::size_t position) { at_ = position; }
  /// The next byte; 0 at the end.
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  /// Whether the text goes on so, and if, skips it.
  bool take(std::string_view text);
  /// The next character. Not at the end.
  std::uint32_t character();
  /// That many hexadecimal digits. @return false, and skips nothing, if there are others
  bool hex(int digits, std::uint32_t& value);
  /// Decimal digits, capped at 4,000,000,000. @return false if there are none
  bool number(std::uint64_t& value);
  /// What stands here, for errors: a quoted character or "the end".
  std::string here() const;

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace etna::models
