#pragma once

#include <optional>
#include <string>
#include <vector>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/data/tokenizers/pieces/internal/bert_text.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>

namespace etna::data {

/// The normalizer of a tokenizer.json. @throws FormatError that names an unsupported type
TokenizerPlan::Normalize read_normalizer(const JsonPart& part);

/// Its pre-tokenizer, and what the model must know about it.
struct JsonSplit {
  std::vector<TokenizerPlan::Split> steps;
  bool byte_level = false;  ///< tokens are spelled with one character per byte
  bool spelled = false;     ///< pieces are spelled this way, too, because another step follows
};
JsonSplit read_pre_tokenizer(const JsonPart& part);

/// Its decoder.
struct JsonDecoder {
  bool byte_level = false;
  bool byte_fallback = false;  ///< tokens <0xNN> decode to bytes
  std::optional<WordPieceText> word_pieces;
  std::vector<std::pair<std::string, std::string>> replaced;
  std::size_t strip_each = 0;  ///< leading spaces stripped from each token
  LeadingSpace leading_space = LeadingSpace::keep;
  std::size_t leading_spaces = 0;
};
JsonDecoder read_decoder(const JsonPart& part);

}  // namespace etna::data
