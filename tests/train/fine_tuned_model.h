#pragma once

#include <fstream>
#include <string>

#include <etna/models/model_file.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/train/text_training.h>

#include "data/temporary_folder.h"
#include "models/small_models.h"
#include "models/some_tokenizer.h"

/// A small model in a file, and rows to train it on.
namespace etna::training {

class TuningFolder {
 public:
  TuningFolder() {
    manual_seed(11);
    models::DecoderConfig config = models::small_config("llama");
    const data::ModelTokenizer tokenizer = some_tokenizer();
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    config.width = config.feed_forward = 256;
    const models::Decoder decoder(config);
    models::save_gguf_model(model(), decoder, &tokenizer);
    models::save_gguf_model(folder_ / "Q4_K.gguf", decoder, &tokenizer, &quant::format_named("Q4_K"));
    models::save_gguf_model(folder_ / "BF16.gguf", decoder, &tokenizer, &quant::format_named("BF16"));
    models::save_gguf_model(folder_ / "mute.gguf", decoder, nullptr);
  }
  std::filesystem::path model() const { return folder_ / "model.gguf"; }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  /// @return the file's path
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string completions(int count = 12) const {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += R"({"prompt": "the river)" + std::string(static_cast<std::size_t>(i % 4), 'a') +
              R"(", "completion": " the river b."})" + "\n";
    return write("completions.jsonl", text);
  }
  std::string preferences() const {
    std::string text;
    for (int i = 0; i < 8; ++i)
      text += R"({"prompt": "the river)" + std::string(static_cast<std::size_t>(i % 4), 'a') +
              R"(", "chosen": " b.", "rejected": " c c"})" + "\n";
    return write("preferences.jsonl", text);
  }

  /// Few steps, nothing printed.
  FineTuneOptions options(Device device, const std::string& rows, const std::string& run) const {
    FineTuneOptions options;
    options.model = model().string();
    options.data = rows;
    options.folder = folder_ / run;
    options.device = device;
    options.seq = 64;
    options.batch = 2;
    options.rank = 4;
    options.lr = 5e-3;
    options.warmup = 0;
    options.epochs = 2;
    options.valid = 0;
    options.sample_tokens = 0;
    options.progress = options.forecast = false;
    return options;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace etna::training
