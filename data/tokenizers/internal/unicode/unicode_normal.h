#pragma once

#include <string>
#include <string_view>

namespace etna::data {

/// Unicode's normal forms. Bytes that are not UTF-8 stay unchanged.
enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string to_normal_form(std::string_view text, NormalForm form);

/// Lowercases each character on its own, independent of context and language.
std::string to_lowercase(std::string_view text);

/// Removes combining marks (general category M), or only those that take no space (Mn).
enum class Accents { all, nonspacing };
std::string without_accents(std::string_view text, Accents accents = Accents::all);

/// What BERT's tokenizers do first: white space becomes a space; U+FFFD, and characters for control, of format and for
/// private use are removed.
std::string without_controls(std::string_view text);
/// Puts spaces around each ideograph, which BERT reads as words.
std::string with_spaced_ideographs(std::string_view text);

/// Removes leading and trailing white space.
std::string strip(std::string_view text, bool left, bool right);

}  // namespace etna::data
