#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/data/vision.h>
#include <etna/device/error.h>

#include "some_tokenizer.h"

namespace etna::models {

/// What a call throws, as text; empty where it throws nothing.
template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// A small model that sees, in a folder as Hugging Face's transformers wrote it, and what it computes.
struct VisionFixture {
  static constexpr std::int32_t kImage = 60;  ///< the token in the places of images

  explicit VisionFixture(const std::string& name)
      : folder(std::filesystem::path(ETNA_SOURCE_DIR "/tests/models/vision") / name) {
    std::ifstream(folder / "expected.json") >> expected;
  }
  Tensor picture(const std::string& name) const {
    return data::read_image(folder / (name + ".png"), data::ImageMode::rgb);
  }

  /// Whether this build reads PNG, without which tests are skipped.
  bool reads_png() const {
    return message_of([&] { picture("exact"); }).find("no libpng") == std::string::npos;
  }

  std::filesystem::path folder;
  nlohmann::json expected;
};

inline const std::vector<std::string> kImageTokens = {
    "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<fake_token_around_image>",
    "<global-img>",     "<image>",        "<row_1_col_1>",      "<row_1_col_2>",
    "<row_2_col_1>",    "<row_2_col_2>",  "<|vision_start|>",   "<|vision_end|>",
    "<|image_pad|>"};

/// Bytes, some words, and the special tokens for images.
inline data::ModelTokenizer seeing_tokenizer(const std::string& chat_template = {}) {
  data::VocabularyFields fields = some_fields();
  fields.chat_template = chat_template;
  fields.add_space_prefix = false;
  for (const std::string& token : kImageTokens) {
    fields.tokens.push_back(token);
    fields.types.push_back(3);
    fields.scores.push_back(-1000);
  }
  return data::ModelTokenizer(fields);
}

/// Letters, and the special tokens for images where the small Gemma 3 has them.
inline data::ModelTokenizer gemmas_tokenizer() {
  data::VocabularyFields fields;
  fields.model = "llama";
  fields.tokens = {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "\n"};
  fields.types = {2, 3, 3, 1, 1};
  for (char letter = 'a'; fields.tokens.size() < 60; letter = letter == 'z' ? 'A' : static_cast<char>(letter + 1)) {
    fields.tokens.emplace_back(1, letter);
    fields.types.push_back(1);
  }
  for (const char* special : {"<image_soft_token>", "<start_of_image>", "<end_of_image>", "<x>"}) {
    fields.tokens.emplace_back(special);
    fields.types.push_back(3);
  }
  fields.scores.assign(fields.tokens.size(), 0);
  fields.bos = 1;
  fields.eos = 2;
  return data::ModelTokenizer(fields);
}

}  // namespace etna::models
