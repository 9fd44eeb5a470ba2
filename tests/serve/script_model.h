#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/models/generator.h>
#include <etna/serve/engine.h>

#include "models/small_models.h"

/// A model that says what a script says, so that answers with calls and reasoning are known.
namespace etna::serve {

/// Each token has one successor: its row of the head is that one's embedding; all else adds nothing.
struct ScriptWeights : models::Weights {
  ScriptWeights(std::int64_t vocabulary, std::map<std::int64_t, std::int64_t> predecessors)
      : tokens(vocabulary), before(std::move(predecessors)) {}

  models::Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) override {
    std::vector<float> values(static_cast<std::size_t>(rows * columns), 0.0f);
    const bool head = name.starts_with("output.");
    if (name.starts_with("token_embedding.") || head) {
      for (std::int64_t row = 0; row < rows; ++row) {
        if (head && !before.contains(row)) continue;
        std::mt19937 random(static_cast<unsigned>(head ? before.at(row) : row));
        for (std::int64_t i = 0; i < columns; ++i)
          values[static_cast<std::size_t>(row * columns + i)] = random() % 2 == 0 ? 1.0f : -1.0f;
      }
    }
    return {from_vector(values, {rows, columns}), {}};
  }
  Tensor vector(const std::string& name, std::int64_t size) override {
    return from_vector(std::vector<float>(static_cast<std::size_t>(size), name.ends_with(".bias") ? 0.0f : 1.0f));
  }

  std::int64_t tokens;
  std::map<std::int64_t, std::int64_t> before;
};

struct ScriptModel {
  /// @param script pieces, all different, each of which is a token; they follow a line break
  /// @param chat_template Jinja, or the name of a format
  ScriptModel(const std::vector<std::string>& script, const std::string& chat_template, std::int64_t slots = 2)
      : tokenizer(fields(script, chat_template)) {
    std::map<std::int64_t, std::int64_t> before;
    std::int64_t last = '\n';
    for (std::size_t i = 0; i < script.size(); ++i) {
      const auto token = static_cast<std::int64_t>(257 + i);
      before[token] = last;
      last = token;
    }
    before[256] = last;  // the end
    models::DecoderConfig config = models::small_config("llama");
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    config.context = 4096;
    config.layers = 1;
    config.tied = false;
    ScriptWeights weights(config.vocabulary, before);
    decoder = std::make_unique<models::Decoder>(config, weights);
    decoder->eval();
    generator = std::make_unique<models::Generator>(
        *decoder, models::GeneratorOptions{.slots = slots, .cache = {.tokens = slots * config.context}});
    served = {"script", decoder.get(), generator.get(), &tokenizer, kCPU, slots, config.context};
  }

  static data::VocabularyFields fields(const std::vector<std::string>& script, const std::string& chat_template) {
    data::VocabularyFields fields;
    fields.model = "gpt2";
    fields.pre = "gpt-2";
    for (int byte = 0; byte < 256; ++byte)
      fields.tokens.push_back(data::byte_character(static_cast<unsigned char>(byte)));
    fields.types.assign(256, 1);
    fields.tokens.emplace_back("<|end|>");
    fields.types.push_back(3);
    for (const std::string& piece : script) {
      std::string characters;
      for (const char byte : piece) characters += data::byte_character(static_cast<unsigned char>(byte));
      fields.tokens.push_back(characters);
      fields.types.push_back(1);
    }
    fields.eos = 256;
    fields.chat_template = chat_template;
    return fields;
  }

  data::ModelTokenizer tokenizer;
  std::unique_ptr<models::Decoder> decoder;
  std::unique_ptr<models::Generator> generator;
  ServedModel served;
};

}  // namespace etna::serve
