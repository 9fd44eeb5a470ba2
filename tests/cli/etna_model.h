#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <etna/models/model_file.h>

#include "data/temporary_folder.h"
#include "etna_program.h"
#include "models/small_models.h"
#include "models/some_tokenizer.h"

/// A small language model in a file, and etna run on it.
namespace etna {

/// What etna prints to standard output.
inline std::string text_of(const std::string& arguments) {
  return run_program(ETNA_PROGRAM, arguments, "", "2>/dev/null").output;
}

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
