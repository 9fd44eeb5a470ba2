#pragma once

#include <string>
#include <vector>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>

namespace etna::data {

/// The normalizer of a tokenizer.json. @throws FormatError for kinds that Etna does not apply, by name
TokenizerPlan::Normalize read_normalizer(const JsonPart& part);

/// Its pre-tokenizer, with what it means for the model.
struct JsonSplit {
  std::vector<TokenizerPlan::Split> steps;
  bool byte_level = false;  ///< pieces are bytes, and tokens are spelled with a character for each
  bool spelled = false;     ///< pieces are spelled with these characters too: something else follows
};
JsonSplit read_pre_tokenizer(const JsonPart& part);

/// Its decoder: what tokens become text by.
struct JsonDecoder {
  bool byte_level = false;
  bool byte_fallback = false;  ///< tokens <0xNN> are bytes
  std::vector<std::pair<std::string, std::string>> replaced;
  std::size_t strip_each = 0;  ///< spaces that each token loses at its beginning
  LeadingSpace leading_space = LeadingSpace::keep;
  std::size_t leading_spaces = 0;
};
JsonDecoder read_decoder(const JsonPart& part);

}  // namespace etna::data
