#include "receipt_option.h"

#include <filesystem>
#include <system_error>

#include "output.h"

namespace etna::cli {
namespace {

training::ReceiptProgram this_program() { return {.name = "etna", .version = ETNA_VERSION, .command = command_line()}; }

}  // namespace

std::vector<std::string>& command_line() {
  static std::vector<std::string> arguments;
  return arguments;
}

void add_receipt_option(CLI::App& app, std::string& file, bool& force) {
  add_output(app, "--receipt", file,
             "write what ran to this file: device, kernels, fallbacks, hashes of the files (etna receipt check)",
             force);
}

std::unique_ptr<training::Receipt> begin_receipt(const std::string& file, bool force,
                                                 const std::vector<FilePath>& read) {
  return training::begin_receipt(file, this_program(), read, force);
}

std::unique_ptr<training::Receipt> begin_receipt(const ModelOptions& options, bool always) {
  auto receipt = begin_receipt(options.receipt, options.force, models_of(options));
  if (receipt == nullptr && always) receipt = std::make_unique<training::Receipt>(this_program());
  if (receipt == nullptr) return nullptr;
  const std::filesystem::path model = model_path(options.model);
  receipt->file("model", model);
  const std::filesystem::path beside = model.parent_path() / "tokenizer.bin";
  std::error_code none;
  if (!options.tokenizer.empty()) {
    receipt->file("tokenizer", options.tokenizer);
  } else if (model.extension() == ".bin" && std::filesystem::exists(beside, none)) {
    receipt->file("tokenizer", beside);
  }
  if (!options.adapter.empty()) receipt->file("adapter", options.adapter);
  if (options.has_draft_model()) receipt->file("draft", model_path(options.draft));
  return receipt;
}

void add_image_files(training::Receipt& receipt, const TextOptions& options) {
  for (const std::string& image : options.images) receipt.file("image", image);
  if (!options.images.empty() && !options.mmproj.empty()) receipt.file("mmproj", options.mmproj);
}

void add_generation(training::Receipt& receipt, const LoadedModel& model) {
  const models::GenerationTimes& times = model.generator->times();
  receipt.number("load_seconds", model.seconds);
  receipt.number("tokens_read", static_cast<double>(times.prompt_tokens));
  receipt.number("tokens_written", static_cast<double>(times.tokens));
  if (times.prompt_seconds > 0)
    receipt.number("tokens_read_per_second", static_cast<double>(times.prompt_tokens) / times.prompt_seconds);
  if (times.decode_seconds > 0)
    receipt.number("tokens_written_per_second", static_cast<double>(times.tokens) / times.decode_seconds);
}

}  // namespace etna::cli
