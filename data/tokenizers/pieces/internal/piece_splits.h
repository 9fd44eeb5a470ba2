#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>

namespace etna::data {

/// What becomes of the matches of a regular expression, in Hugging Face's words.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// Splits by several expressions, each within the pieces of the one before. @throws FormatError for one that is wrong
TokenizerPlan::Split regex_splits(const std::vector<std::string>& patterns, const std::string& name);
/// Splits by hand where split_scanners.h has the expression, else by PCRE2.
/// @param invert the expression describes what lies between the matches
TokenizerPlan::Split regex_split(std::string_view pattern, SplitBehavior behavior, bool invert,
                                 const std::string& name);
/// Spaces become U+2581; a piece begins at each if `split`. One is put before a text that begins with none: always, or
/// only before the first piece of the whole text.
enum class SpacePrefix { never, first, always };
TokenizerPlan::Split metaspace_split(const std::string& replacement, SpacePrefix prefix, bool split);
/// One after the other.
TokenizerPlan::Split sequence(std::vector<TokenizerPlan::Split> splits);

}  // namespace etna::data
