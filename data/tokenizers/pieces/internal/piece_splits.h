#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>

namespace etna::data {

/// What happens to the matches of a regular expression, in Hugging Face's terms.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// Splits by several expressions, each within the pieces of the previous one. @throws FormatError for an invalid one
TokenizerPlan::Split regex_splits(const std::vector<std::string>& patterns, const std::string& name);
/// Uses the scanner of split_scanners.h if the expression has one, else PCRE2.
/// @param invert the expression matches the separators
TokenizerPlan::Split regex_split(std::string_view pattern, SplitBehavior behavior, bool invert,
                                 const std::string& name);
/// Replaces spaces by U+2581 and, if `split`, starts a piece at each. If the text does not begin with one, one is
/// prepended: always, or only at the start of the whole text.
enum class SpacePrefix { never, first, always };
TokenizerPlan::Split metaspace_split(const std::string& replacement, SpacePrefix prefix, bool split);
/// Applies several splits in sequence.
TokenizerPlan::Split sequence(std::vector<TokenizerPlan::Split> splits);

}  // namespace etna::data
