#pragma once

#include <string>
#include <string_view>

#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>

namespace etna::data {

/// The normalizer of BERT's tokenizers.
struct BertNormalizer {
  bool clean = true;              ///< without_controls()
  bool spaces_ideographs = true;  ///< with_spaced_ideographs()
  bool strips_accents = true;
  bool lowercases = true;

  std::string operator()(std::string_view text) const;
};

/// Words and punctuation marks, without white space.
TokenizerPlan::Split bert_split(const std::string& name);

/// How tokens of WordPiece become text.
struct WordPieceText {
  std::string prefix = "##";
  bool cleans = true;  ///< no space in front of punctuation and of what follows an apostrophe

  /// The text of a token behind others.
  std::string operator()(std::string_view token) const;
};

}  // namespace etna::data
