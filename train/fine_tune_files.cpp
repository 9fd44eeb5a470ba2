#include <etna/train/internal/fine_tune_files.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/models/internal/gguf_tensors.h>
#include <etna/models/internal/model_source.h>
#include <etna/models/internal/peft_config.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

/// Null for matrices as they are. @throws FormatError for an unknown format
const quant::BlockFormat* merge_format(const std::string& merge) {
  if (merge == "off" || merge == "on") return nullptr;
  std::string upper = merge;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return &quant::format_named(upper);
}

void write_adapters(const FineTuneOptions& options, const models::Decoder& decoder, FineTuneResult& result) {
  const FilePath folder = options.folder / "adapter", gguf = options.folder / "adapter.gguf";
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::string why;
  const auto attempt = [&](const FilePath& file, const FilePath& written, FilePath& name) {
    try {
      models::save_adapters(file, decoder);
      name = written;
    } catch (const FormatError& error) {
      why += why.empty() ? error.what() : fmt::format("; {}", error.what());
    }
  };
  attempt(folder / "adapter_model.safetensors", folder, result.adapter_folder);
  attempt(gguf, gguf, result.adapter);
  if (result.adapter_folder.empty() && result.adapter.empty()) throw FormatError(why);
  if (!why.empty() && options.progress) fmt::print("note: {}\n", printable(why));
}

}  // namespace

void check_merge(const std::string& merge) {
  const quant::BlockFormat* format = merge_format(merge);
  if (format != nullptr && !format->can_quantize())
    throw FormatError(fmt::format("merge is '{}', a format that cannot hold weights; try q8_0", merge));
}

std::string checkpoint_config(const FineTuneOptions& options, const models::DecoderConfig& config) {
  const FilePath file = FilePath(options.model) / "config.json";
  if (models::is_file(file)) return models::read_text(file);
  try {
    return models::config_json(config);
  } catch (const Error&) {
    return "";
  }
}

void check_tuned_model(const FineTuneOptions& options, const models::Model& model) {
  if (options.method == "full" || options.merge != "off")
    models::check_gguf_model(*model.decoder, model.tokenizer.get());
  if (options.method == "dora") models::check_peft_adapters(*model.decoder);  // GGUF files hold no magnitudes
}

void write_tuned_model(const FineTuneOptions& options, models::Model& model, FineTuneResult& result) {
  const bool full = options.method == "full";
  if (!full) write_adapters(options, *model.decoder, result);
  if (!full && options.merge == "off") return;
  model.decoder->merge_adapters();
  const FilePath file = options.folder / "model.gguf";
  models::save_gguf_model(file, *model.decoder, model.tokenizer.get(), merge_format(options.merge));
  result.merged = file;
}

std::string commands_to_run(const FineTuneOptions& options, const FineTuneResult& result) {
  const FilePath& adapter = result.adapter.empty() ? result.adapter_folder : result.adapter;
  const std::string what =
      result.merged.empty() ? fmt::format("{} --adapter {}", options.model, adapter.string()) : result.merged.string();
  return fmt::format(
      "next:\n"
      "  etna run {0} --prompt \"...\"        # let it write\n"
      "  etna chat {0}                       # talk to it\n",
      printable(what));
}

}  // namespace etna::training
