#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/models/model_file.h>

#include "data/temporary_folder.h"
#include "etna_program.h"
#include "models/small_models.h"

/// A small language model in a file, and etna run on it.
namespace etna {

/// What etna prints to standard output.
inline std::string text_of(const std::string& arguments) {
  return run_program(ETNA_PROGRAM, arguments, "", "2>/dev/null").output;
}

/// Bytes and a few words.
inline data::VocabularyFields some_fields() {
  data::VocabularyFields fields;
  fields.model = "llama";
  fields.tokens = {"<unk>", "<s>", "</s>"};
  fields.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    fields.tokens.emplace_back(name);
    fields.types.push_back(6);
  }
  for (const char* word :
       {"\xE2\x96\x81", "the", "\xE2\x96\x81the", "river", "\xE2\x96\x81river", "a", "b", "c", "."}) {
    fields.tokens.emplace_back(word);
    fields.types.push_back(1);
  }
  fields.scores.resize(fields.tokens.size());
  for (std::size_t i = 0; i < fields.scores.size(); ++i) fields.scores[i] = -static_cast<float>(i);
  fields.bos = 1;
  fields.eos = 2;
  return fields;
}
inline data::ModelTokenizer some_tokenizer() { return data::ModelTokenizer(some_fields()); }

class EtnaModel : public testing::Test {
 protected:
  void SetUp() override {
    const data::ModelTokenizer tokenizer = some_tokenizer();
    models::DecoderConfig config = models::small_config("llama");
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    const auto decoder = models::small_model(config);
    models::save_gguf_model(model(), *decoder, &tokenizer);
    models::save_gguf_model(folder_ / "mute.gguf", *decoder, nullptr);
  }
  std::filesystem::path model() const { return folder_ / "model.gguf"; }
  std::string with_model(const std::string& command) const {
    return command + " --device cpu --model " + quoted(model()) + " ";
  }

  TemporaryFolder folder_;
};

}  // namespace etna
