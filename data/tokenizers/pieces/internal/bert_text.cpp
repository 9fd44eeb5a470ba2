#include <etna/data/tokenizers/pieces/internal/bert_text.h>

#include <utility>
#include <vector>

#include <etna/data/tokenizers/internal/splits/published_patterns.h>
#include <etna/data/tokenizers/internal/unicode/unicode_normal.h>
#include <etna/data/tokenizers/pieces/internal/piece_splits.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>

namespace etna::data {

std::string BertNormalizer::operator()(std::string_view text) const {
  std::string now = clean ? without_controls(text) : std::string(text);
  if (spaces_ideographs) now = with_spaced_ideographs(now);
  if (strips_accents) now = without_accents(to_normal_form(now, NormalForm::nfd), Accents::nonspacing);
  return lowercases ? to_lowercase(now) : now;
}

TokenizerPlan::Split bert_split(const std::string& name) {
  std::vector<TokenizerPlan::Split> steps;
  steps.push_back(regex_split(published::kOneSpace, SplitBehavior::removed, false, name));
  steps.push_back(regex_split(published::kOnePunctuation, SplitBehavior::isolated, false, name));
  return sequence(std::move(steps));
}

std::string WordPieceText::operator()(std::string_view token) const {
  std::string text = !prefix.empty() && token.starts_with(prefix) ? std::string(token.substr(prefix.size()))
                                                                  : " " + std::string(token);
  if (!cleans) return text;
  constexpr std::pair<std::string_view, std::string_view> kCleaned[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kCleaned) text = replace_all(text, from, to);
  return text;
}

}  // namespace etna::data
