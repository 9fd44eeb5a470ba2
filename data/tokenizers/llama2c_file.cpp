#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <etna/data/tokenizers/pieces/internal/segment_model.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/data/tokenizers/pieces/vocabulary_fields.h>
#include <etna/device/error.h>

namespace etna::data {

// The file holds the length of the longest token, then the score, length and text of each token; all numbers have 32
// bits. Spaces are stored as spaces, and the BOS and EOS tokens (1 and 2) have line ends around them.
VocabularyFields parse_llama2c_tokenizer(std::string_view bytes, const std::string& name) {
  std::size_t at = 0;
  const auto refuse = [&](std::string_view why) -> FormatError {
    return FormatError(fmt::format("{}: not a llama2.c tokenizer, or a damaged one: {} at byte {}", name, why, at));
  };
  const auto word = [&] {
    if (bytes.size() - at < 4) throw refuse("it is cut off");
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    at += 4;
    return value;
  };
  const std::uint32_t longest = word();
  VocabularyFields fields;
  fields.model = "llama";
  const auto add = [&](std::string text, float score, TokenType type) {
    fields.tokens.push_back(std::move(text));
    fields.scores.push_back(score);
    fields.types.push_back(static_cast<std::int32_t>(type));
  };
  while (at < bytes.size()) {
    const float score = std::bit_cast<float>(word());
    const std::uint32_t length = word();
    if (length > bytes.size() - at) throw refuse("it is cut off");
    if (length > longest) throw refuse("a token is longer than the stated maximum");
    const std::string_view text = bytes.substr(at, length);
    at += length;
    const std::size_t id = fields.tokens.size();
    if (id == 0)
      add(std::string(text), score, TokenType::unknown);
    else if (id < 3)
      add(id == 1 ? "<s>" : "</s>", score, TokenType::control);
    else if (byte_token(text) >= 0)
      add(std::string(text), score, TokenType::byte);
    else
      add(replace_all(text, " ", kSpaceSymbol), score, TokenType::normal);
  }
  if (fields.tokens.size() < 3) throw refuse("it has fewer than three tokens");
  fields.unk = 0;
  fields.bos = 1;
  fields.eos = 2;
  return fields;
}

}  // namespace etna::data
