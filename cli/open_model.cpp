#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/dist/dist.h>
#include <etna/models/encoder.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <etna/train/checkpointer.h>
#include <etna/train/progress.h>

#include "generation.h"
#include "model_kind.h"
#include "output.h"
#include "ranks.h"

namespace etna::cli {
namespace {

namespace fs = std::filesystem;

DType cache_dtype(const std::string& name) { return name == "q8_0" ? u8 : dtype_named(name); }

/// A draft must mean the same by each id. Files pad vocabularies, so that those of the tokenizers say less than sizes.
void require_same_vocabulary(const ModelOptions& options, const models::Model& model, const models::Model& draft) {
  const std::int64_t wanted = model.decoder->config.vocabulary, got = draft.decoder->config.vocabulary;
  if (got != wanted) {
    throw FormatError(fmt::format("{}: a draft model needs the same vocabulary; it has {} tokens, {} has {}",
                                  options.draft, got, options.model, wanted));
  }
  if (model.tokenizer == nullptr || draft.tokenizer == nullptr) return;
  const std::size_t known = std::min(model.tokenizer->size(), draft.tokenizer->size());
  for (std::size_t i = 0; i < known; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const std::string_view theirs = draft.tokenizer->token(id), ours = model.tokenizer->token(id);
    if (theirs == ours) continue;
    throw FormatError(
        fmt::format("{}: a draft needs the model's vocabulary; its token {} is '{:.40}', that of {} is "
                    "'{:.40}'",
                    options.draft, id, theirs, options.model, ours));
  }
}

/// Guesses in each step: where a draft is given without their number, a few. A head's own guesses soon get worse.
std::int64_t guesses_of(const ModelOptions& options) {
  if (options.draft.empty() || options.guesses > 0) return options.guesses;
  return options.mtp() ? 2 : 4;
}

/// Forecasts what the GPU needs, and says so where layers stay on the CPU. @param device becomes the CPU where all do
/// @return the layers that stay there @throws OutOfMemory in strict mode, which moves nothing to the CPU unasked
std::int64_t place_layers(const ModelOptions& options, const models::ModelSplit& split, std::int64_t slots,
                          Device& device) {
  if (device.is_cpu()) return 0;
  const bool automatic = options.gpu_layers == "auto";
  const models::ModelSizes sizes = part_sizes(models::model_sizes(model_path(options.model)), split);
  const std::int64_t most = sizes.config.context;
  const std::int64_t context = options.context > 0 ? std::min(options.context, most) : most;
  models::LayerPlanOptions wanted{.device = device,
                                  .host_experts = options.experts == "cpu",
                                  .cache_tokens = (context + kCacheBlock - 1) / kCacheBlock * kCacheBlock * slots,
                                  .cache = cache_dtype(options.cache),
                                  .slots = slots,
                                  .guesses = guesses_of(options),
                                  .logits = options.logits,
                                  .vision = options.sees ? models::vision_bytes(vision_path(options), context) : 0};
  if (!automatic) wanted.gpu_layers = std::stoll(options.gpu_layers);
  const models::LayerPlan plan = models::plan_layers(sizes, wanted);
  if (plan.host_layers() == 0) return 0;
  if (automatic && strict()) {
    throw OutOfMemory(fmt::format(
        "{}: needs about {}, {} has {}; strict mode leaves no layer on the CPU unless asked: "
        "--gpu-layers {} would fit",
        options.model, readable_bytes(plan.all), device.str(), readable_bytes(plan.available), plan.gpu_layers));
  }
  if (!options.quiet) std::fprintf(stderr, "layers: %s\n", plan.str().c_str());
  if (plan.gpu_layers > 0) return plan.host_layers();
  device = kCPU;
  return 0;
}

/// The model, or the part of it that this rank has.
LoadedModel open_own_model(const ModelOptions& options, std::int64_t slots, bool reuse_prefixes) {
  const auto begin = std::chrono::steady_clock::now();
  LoadedModel loaded;
  loaded.device = device_of(options);
  if (!options.quiet) std::fprintf(stderr, "%s\n", device_line(options.device, loaded.device).c_str());
  const models::ModelSplit split{distributed::rank(), distributed::size()};
  if (split.is_split() && !options.adapter.empty())
    throw Error("an adapter's weights cannot be divided over processes; merge them into the model, or run on one");
  const std::int64_t host_layers = place_layers(options, split, slots, loaded.device);
  loaded.model = models::load_model(model_path(options.model), {.device = loaded.device,
                                                                .host_layers = host_layers,
                                                                .host_experts = options.experts == "cpu",
                                                                .mtp = options.mtp(),
                                                                .split = split});
  if (loaded.model.decoder->config.bidirectional)
    throw FormatError(
        fmt::format("{}: the model reads texts in both directions, and writes none; use etna embed", options.model));
  if (!options.tokenizer.empty()) {
    loaded.model.tokenizer = open_tokenizer(options.tokenizer);
    const std::size_t size = loaded.model.tokenizer->size();
    if (std::cmp_greater(size, loaded.model.decoder->config.vocabulary)) {
      throw FormatError(fmt::format("{}: it has {} tokens, the model {}; give the tokenizer of this model",
                                    options.tokenizer, size, loaded.model.decoder->config.vocabulary));
    }
  }
  if (!options.adapter.empty()) require_plain_files(options.adapter);
  if (!options.adapter.empty()) models::load_adapters(options.adapter, *loaded.model.decoder);
  for (const std::string& file : options.stacked) {
    require_plain_files(file);
    models::stack_adapters(file, *loaded.model.decoder);
  }
  if (options.has_draft_model()) {
    loaded.draft = models::load_model(model_path(options.draft), {.device = loaded.device});
    require_same_vocabulary(options, loaded.model, loaded.draft);
  }
  const std::int64_t most = loaded.model.decoder->config.context;
  const std::int64_t context = options.context > 0 ? std::min(options.context, most) : most;
  // Sequences share no block.
  const std::int64_t blocks = (context + kCacheBlock - 1) / kCacheBlock * slots;
  loaded.generator = std::make_unique<models::Generator>(
      *loaded.model.decoder, models::GeneratorOptions{.device = loaded.device,
                                                      .slots = slots,
                                                      .guesses = guesses_of(options),
                                                      .draft = loaded.draft.decoder.get(),
                                                      .mtp = options.mtp(),
                                                      .all_slots = options.all_slots,
                                                      .cache = {.tokens = slots == 1 ? context : blocks * kCacheBlock,
                                                                .dtype = cache_dtype(options.cache),
                                                                .reuse_prefixes = reuse_prefixes}});
  loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return loaded;
}

}  // namespace

fs::path model_path(const fs::path& path) {
  if (const std::string why = why_no_model(path); !why.empty())
    throw FormatError(fmt::format("{}: {}", path.string(), why));
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) || fs::exists(path / "config.json", ignored) ||
      !fs::exists(path / "checkpoints", ignored))
    return path;
  const training::CheckpointFiles files = training::find_checkpoints(path / "checkpoints");
  if (!files.best.empty()) return files.best;
  if (!files.latest.empty()) return files.latest;
  throw FormatError(fmt::format("{}: the run has no checkpoint yet", path.string()));
}

std::vector<FilePath> models_of(const ModelOptions& options) {
  return {options.model, options.tokenizer, options.adapter, options.has_draft_model() ? options.draft : ""};
}

Device device_of(const ModelOptions& options) {
  const Device device = options.strict ? select_device_strictly(options.device) : select_device(options.device);
  return distributed::is_distributed() ? distributed::select_local_device(options.device) : device;
}

std::shared_ptr<const data::Tokenizer> open_tokenizer(const fs::path& path) {
  require_plain_files(path);
  const std::string kind = path.extension().string();
  // A checkpoint of llama2.c has its tokenizer beside it.
  const fs::path beside = path.parent_path() / "tokenizer.bin";
  std::error_code none;
  if (kind == ".bin") return data::load_tokenizer(fs::exists(beside, none) ? beside : path);
  if (kind == ".json" || kind == ".model" || kind == ".txt") return data::load_tokenizer(path);
  if (kind == ".gguf") {
    // The vocabulary alone: the weights may be of a model that this build does not run.
    const io::GgufFile file(model_path(path));
    const std::string vocabulary = file.string("tokenizer.ggml.model", "none");
    if (vocabulary != "none" && vocabulary != "no_vocab")
      return std::make_shared<data::ModelTokenizer>(models::vocabulary_of(file), path.string());
    throw FormatError(fmt::format("{}: contains no tokenizer", path.string()));
  }
  const fs::path model = model_path(path);
  std::shared_ptr<const data::Tokenizer> tokenizer =
      models::is_encoder(model) ? models::load_encoder(model).tokenizer : models::load_model(model).tokenizer;
  if (tokenizer == nullptr) throw FormatError(fmt::format("{}: contains no tokenizer", path.string()));
  return tokenizer;
}

LoadedModel open_model(const ModelOptions& options, std::int64_t slots, bool reuse_prefixes) {
  return on_all_ranks([&] { return open_own_model(options, slots, reuse_prefixes); });
}

std::int64_t LoadedModel::room() const {
  return std::min(model.decoder->config.context, generator->cache().capacity());
}

std::string guesses_line(const models::GenerationTimes& times) {
  return times.guessed == 0 ? "" : fmt::format("{} of {} guesses were right", times.guessed_right, times.guessed);
}

const data::Tokenizer& tokenizer_of(const LoadedModel& model, const std::string& path) {
  if (model.model.tokenizer == nullptr)
    throw FormatError(fmt::format("{}: the model has no tokenizer, so it cannot read text", path));
  return *model.model.tokenizer;
}

}  // namespace etna::cli
