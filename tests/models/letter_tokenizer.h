#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/model_tokenizer.h>

namespace etna {

/// The printable letters of ASCII, a space and a line's end, in the spelling of byte-level BPE: tokens 0 to 95.
inline std::vector<std::string> letter_tokens() {
  std::vector<std::string> tokens;
  for (char letter = '!'; letter <= '~'; ++letter) tokens.emplace_back(1, letter);
  tokens.emplace_back("\xC4\xA0");
  tokens.emplace_back("\xC4\x8A");
  return tokens;
}

/// Letters, "yes" and "no", and the marks of Qwen's turns: 101 tokens.
inline data::VocabularyFields letter_fields() {
  data::VocabularyFields fields;
  fields.model = "gpt2";
  fields.pre = "qwen2";
  fields.tokens = letter_tokens();
  for (const char* word : {"ye", "yes", "no", "<|im_start|>", "<|im_end|>"}) fields.tokens.emplace_back(word);
  fields.types.resize(fields.tokens.size(), 1);
  fields.types[99] = fields.types[100] = 3;
  fields.merges = {"y e", "ye s", "n o"};
  fields.eos = 100;
  return fields;
}

/// A tokenizer.json of letters, which writes a pair as one text behind the other.
inline std::string letter_json() {
  nlohmann::json vocabulary, text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, other = text;
  other["Sequence"]["id"] = "B";
  const std::vector<std::string> tokens = letter_tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = i;
  const nlohmann::json json = {
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array()},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", nlohmann::json::array({text})},
        {"pair", nlohmann::json::array({text, other})},
        {"special_tokens", nlohmann::json::object()}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  return json.dump();
}

/// The text that letter_json() reads as these tokens.
inline std::string text_of_letters(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += id == 94 ? ' ' : id == 95 ? '\n' : static_cast<char>('!' + id);
  return text;
}

}  // namespace etna
