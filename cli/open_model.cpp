#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/models/adapter_file.h>
#include <etna/train/checkpointer.h>
#include <etna/train/terminal_text.h>

#include "generation.h"
#include "output.h"

namespace etna::cli {
namespace {

namespace fs = std::filesystem;

DType cache_dtype(const std::string& name) { return name == "q8_0" ? u8 : dtype_named(name); }

/// Of a tokenizer's own file, or of a model that has one.
std::shared_ptr<const data::Tokenizer> tokenizer_in(const fs::path& path) {
  const std::string kind = path.extension().string();
  if (kind == ".json" || kind == ".model" || kind == ".bin") return data::load_tokenizer(path);
  models::Model model = models::load_model(model_path(path));
  if (model.tokenizer == nullptr) throw FormatError(fmt::format("{}: there is no tokenizer in it", path.string()));
  return model.tokenizer;
}

}  // namespace

fs::path model_path(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) || fs::exists(path / "config.json", ignored) ||
      !fs::exists(path / "checkpoints", ignored))
    return path;
  const training::CheckpointFiles files = training::find_checkpoints(path / "checkpoints");
  if (!files.best.empty()) return files.best;
  if (!files.latest.empty()) return files.latest;
  throw FormatError(fmt::format("{}: the run has no checkpoint yet", path.string()));
}

LoadedModel open_model(const ModelOptions& options, std::int64_t slots) {
  const auto begin = std::chrono::steady_clock::now();
  LoadedModel loaded;
  loaded.device = select_device(options.device);
  std::fprintf(stderr, "%s\n", device_line(options.device, loaded.device).c_str());
  loaded.model = models::load_model(model_path(options.model), {.device = loaded.device});
  if (!options.tokenizer.empty()) loaded.model.tokenizer = tokenizer_in(options.tokenizer);
  if (!options.adapter.empty()) models::load_adapters(options.adapter, *loaded.model.decoder);
  const std::int64_t most = loaded.model.decoder->config.context;
  const std::int64_t context = options.context > 0 ? std::min(options.context, most) : most;
  // Sequences share no block.
  const std::int64_t blocks = (context + kCacheBlock - 1) / kCacheBlock * slots;
  loaded.generator = std::make_unique<models::Generator>(
      *loaded.model.decoder, models::GeneratorOptions{.device = loaded.device,
                                                      .slots = slots,
                                                      .guesses = options.guesses,
                                                      .cache = {.tokens = slots == 1 ? context : blocks * kCacheBlock,
                                                                .dtype = cache_dtype(options.cache)}});
  loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return loaded;
}

const data::Tokenizer& tokenizer_of(const LoadedModel& model, const std::string& path) {
  if (model.model.tokenizer == nullptr)
    throw FormatError(fmt::format("{}: the model came without a tokenizer, so it cannot read a text", path));
  return *model.model.tokenizer;
}

}  // namespace etna::cli
