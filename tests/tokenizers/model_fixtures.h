#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/model_tokenizer.h>

namespace etna::data::fixtures {

using Ids = std::vector<std::int32_t>;

inline nlohmann::json read_fixture(const std::string& name) {
  std::ifstream in(std::string(ETNA_SOURCE_DIR "/tests/tokenizers/") + name);
  return nlohmann::json::parse(in);
}

inline std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0, have = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6 | static_cast<unsigned>(digits.find(c))) & 0xFFFFFF;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(static_cast<unsigned char>(bits >> have & 0xFF));
  }
  return out;
}

/// The bytes of one of SentencePiece's models in sentencepiece.json.
inline std::string sentencepiece_model(const std::string& name) {
  for (const auto& model : read_fixture("sentencepiece.json"))
    if (model["name"] == name) return from_base64(model["model"]);
  return {};
}

/// A vocabulary as a small GGUF file of the llama kind has it: <unk>, <s>, </s>, 256 bytes, then words.
inline VocabularyFields llama_fields(const std::vector<std::string>& words) {
  VocabularyFields fields;
  fields.model = "llama";
  const auto add = [&](std::string text, TokenType type, float score) {
    fields.tokens.push_back(std::move(text));
    fields.types.push_back(static_cast<std::int32_t>(type));
    fields.scores.push_back(score);
  };
  add("<unk>", TokenType::unknown, 0);
  add("<s>", TokenType::control, 0);
  add("</s>", TokenType::control, 0);
  const char* const digits = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) add(std::string("<0x") + digits[b / 16] + digits[b % 16] + ">", TokenType::byte, 0);
  float score = 0;
  for (const std::string& word : words) add(word, TokenType::normal, score -= 1);
  fields.bos = 1;
  fields.eos = 2;
  fields.unk = 0;
  return fields;
}

/// Byte-level: the 256 bytes by their characters, then words made by merges of two tokens each, then special tokens.
VocabularyFields byte_fields(const std::vector<std::pair<std::string, std::string>>& merges,
                             const std::vector<std::string>& special, const std::string& pre);

}  // namespace etna::data::fixtures
