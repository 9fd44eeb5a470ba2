#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/train/progress.h>

#include "commands.h"
#include "generation.h"
#include "model_kind.h"
#include "output.h"
#include "weight_format.h"

namespace etna::cli {

using training::printable;

namespace {

struct ConvertOptions {
  std::string model, out, adapter, to, gptq;
  bool no_tokenizer = false, force = false;
};

/// Texts of a context's length from a file.
std::vector<std::vector<std::int32_t>> texts_of(const models::Model& model, const std::string& file) {
  constexpr std::int64_t kMost = 128, kLength = 512;
  if (model.tokenizer == nullptr) throw FormatError("the model has no tokenizer, so it cannot read text");
  const std::vector<std::int32_t> ids = model.tokenizer->encode(data::read_text_file(file));
  const std::int64_t length = std::min(kLength, model.decoder->config.context), all = std::ssize(ids);
  std::vector<std::vector<std::int32_t>> texts;
  for (std::int64_t at = 0; at < all && std::ssize(texts) < kMost; at += length)
    texts.emplace_back(ids.begin() + at, ids.begin() + std::min(all, at + length));
  return texts;
}

/// @return false after Ctrl-C
bool round_by_text(const models::Model& model, const std::string& file, const quant::BlockFormat& format) {
  const auto texts = texts_of(model, file);
  training::Interrupt interrupt;
  training::Progress progress(model.decoder->config.layers, {.title = "gptq", .keep = false, .out = stderr});
  models::quantize_gptq(*model.decoder, texts, {.format = &format, .progress = [&](std::int64_t block) {
                                                  progress.update(block, {});
                                                  return !interrupt.requested();
                                                }});
  progress.finish();
  return !interrupt.requested();
}

int convert_encoder(const ConvertOptions& options, const std::filesystem::path& path,
                    const quant::BlockFormat* format) {
  if (!options.adapter.empty() || !options.gptq.empty()) {
    print_error("--adapter and --gptq go with language models; this is a text encoder");
    return 2;
  }
  const models::EncoderModel model = models::load_encoder(path);
  const data::Tokenizer* tokenizer = options.no_tokenizer ? nullptr : model.tokenizer.get();
  models::save_gguf_encoder(options.out, *model.encoder, tokenizer, models::embedding_settings(path).pooling, format);
  print_all(fmt::format("{}: {}, an encoder{}\n", printable(options.out),
                        readable_bytes(std::filesystem::file_size(options.out)),
                        tokenizer == nullptr ? ", no tokenizer" : ""));
  return 0;
}

int convert(const ConvertOptions& options) try {
  namespace fs = std::filesystem;
  const quant::BlockFormat* format = options.to.empty() ? nullptr : writable_format(options.to);
  if (format == nullptr && !options.to.empty()) {
    print_error(unknown_format(options.to));
    return 2;
  }
  io::require_output({"--out", options.out, {}}, options.force, {options.model, options.adapter, options.gptq});
  const bool calibrated = !options.gptq.empty();
  if (calibrated && (format == nullptr || (format->name != "Q4_0" && format->name != "Q4_1"))) {
    print_error("--gptq goes with --to q4_0 or q4_1");
    return 2;
  }
  const fs::path path = model_path(options.model);
  if (models::is_encoder(path)) return convert_encoder(options, path, format);
  const models::Model model = models::load_model(path, {.trainable = calibrated, .mtp_for_gguf = !calibrated});
  if (!options.adapter.empty()) {
    require_plain_files(options.adapter);
    models::load_adapters(options.adapter, *model.decoder);
    model.decoder->merge_adapters();
  }
  models::check_weights(*model.decoder);
  if (calibrated && !round_by_text(model, options.gptq, *format)) return 130;
  const data::Tokenizer* tokenizer = options.no_tokenizer ? nullptr : model.tokenizer.get();
  const models::EmbeddingSettings embedding = models::embedding_settings(path);
  const bool embeds = embedding.stated || model.decoder->config.bidirectional;
  models::save_gguf_model(options.out, *model.decoder, tokenizer, format, embeds ? &embedding : nullptr);
  print_all(fmt::format("{}: {}, {} weights{}\n", printable(options.out), readable_bytes(fs::file_size(options.out)),
                        model.decoder->config.num_parameters(), tokenizer == nullptr ? ", no tokenizer" : ""));
  return 0;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_convert(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* convert = app.add_subcommand("convert", "Write a model as a GGUF file");
  convert
      ->add_option("-m,--model,model", options->model,
                   "a folder of Hugging Face, a llama2.c checkpoint, a training run, or a GGUF file")
      ->required();
  convert->add_option("--out", options->out, "the file to write; one that is there is refused")->required();
  convert->add_option("--adapter", options->adapter, "low-rank adapters to add to its matrices first");
  convert->add_option("--to", options->to,
                      "format of its matrices: f32, f16, bf16, q8_0, q4_k ... (default: as they are)");
  convert->add_option("--gptq", options->gptq,
                      "with --to q4_0 or q4_1: a text by which the rounding errors of columns make up for each other");
  convert->add_flag("--no-tokenizer", options->no_tokenizer, "leave the tokenizer out");
  convert->add_flag("--force", options->force, "replace --out");
  return {convert, [options] { return cli::convert(*options); }};
}

}  // namespace etna::cli
