#include <etna/models/model_file.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/internal/cache_node.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/file_config.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/internal/latent_prompts.h>
#include <etna/models/internal/state_cache.h>
#include <etna/models/internal/vision_names.h>
#include <etna/tensor/io/checkpoint.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/llama2c.h>
#include <etna/tensor/io/internal/sharded_safetensors.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {
namespace {

namespace fs = std::filesystem;

/// The block that a tensor of a file is of, -1 for none: the first number among the words of its name
/// ("model.layers.3.mlp.up_proj.weight").
std::int64_t layer_in(std::string_view name, std::int64_t layers) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    std::int64_t number = -1;
    const auto [stop, error] = std::from_chars(name.data() + at, name.data() + end, number);
    if (error == std::errc{} && stop == name.data() + end && number >= 0 && number < layers) return number;
    at = end + 1;
  }
  return -1;
}

/// Whether a tensor of a file is of experts, in the words of GGUF, of Hugging Face and of checkpoints.
bool is_of_experts(const DecoderConfig& config, std::string_view name) {
  for (const std::string_view part : {"_exps.", ".experts.", ".block_sparse_moe."})
    if (name.find(part) != std::string_view::npos) return true;
  constexpr std::string_view kModel = "model.";
  return name.starts_with(kModel) && is_expert_matrix(config, std::string(name.substr(kModel.size())));
}

/// Whether a tensor is of a head for further tokens that is no block.
bool is_of_next_head(const DecoderConfig& config, std::string_view name) {
  constexpr std::string_view kModel = "model.";
  const std::string_view prefix = architecture_of(config).next_prefix;
  return !prefix.empty() && name.substr(name.starts_with(kModel) ? kModel.size() : 0).starts_with(prefix);
}

void add_tensor(ModelSizes& sizes, std::string_view name, std::uint64_t bytes) {
  const std::int64_t layer = is_of_next_head(sizes.config, name) ? -1 : layer_in(name, sizes.config.layers);
  if (layer < 0) {
    sizes.others += bytes;
    return;
  }
  sizes.layers[static_cast<std::size_t>(layer)] += bytes;
  if (is_of_experts(sizes.config, name)) sizes.experts[static_cast<std::size_t>(layer)] += bytes;
}

ModelSizes sizes_for(const DecoderConfig& config) {
  ModelSizes sizes{config, {}, 0, {}};
  sizes.layers.assign(static_cast<std::size_t>(config.layers), 0);
  sizes.experts = sizes.layers;
  return sizes;
}

/// Rows of an expert that a step computes at a time, at most.
constexpr std::int64_t kExpertRows = 96;

/// The first layer to whose keys later ones attend; that behind the last where there is none.
std::int64_t first_shared(const DecoderConfig& config) {
  std::int64_t first = config.layers;
  for (const LayerConfig& one : config.each_layer)
    if (one.shares >= 0) first = std::min(first, one.shares);
  return first;
}

/// "5.1 of 8.0 GiB", in the unit of the second.
std::string of_bytes(std::uint64_t part, std::uint64_t whole) {
  double unit = 1;
  const char* name = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (static_cast<double>(whole) < 1024 * unit) break;
    unit *= 1024;
    name = next;
  }
  return fmt::format("{:.1f} of {:.1f} {}", static_cast<double>(part) / unit, static_cast<double>(whole) / unit, name);
}

}  // namespace

std::uint64_t prompt_bytes(const DecoderConfig& config, std::int64_t tokens, std::int64_t positions) {
  // The stream and its norm, queries, keys and values with their copy, and the feed-forward layer's three.
  const ExpertConfig& experts = config.experts;
  std::int64_t heads = config.query_rows() + 2 * config.kv_rows();
  // Of latent attention: queries as wide as the rows of the cache, what they attend to, and a copy of both. Or queries,
  // the same rotated, and what they attend to, beside keys and values of all heads.
  const bool expands = expanded_rows(config, tokens) > 0;
  if (config.latent.size > 0)
    heads = expands ? 3 * config.query_rows()
                    : config.query_rows() + 2 * (config.heads + 1) * (config.latent.size + config.rope.size);
  for (const LayerConfig& one : config.each_layer)
    heads = std::max(heads, (config.heads + 2 * config.kv_heads) * one.head_size);
  const std::int64_t streams = config.streams.count * config.width, inputs = config.layers * config.layer_inputs.size;
  const std::int64_t of_state =
      config.has_state() ? 4 * (2 * config.state.key_rows() + config.state.value_rows()) + 2 * config.width : 0;
  const std::int64_t columns =
      4 * streams + 2 * inputs + 2 * heads + 3 * std::max(config.feed_forward, experts.shared) + of_state;
  // A row of each chosen expert, in tiles that are not full: before and behind the expert, and between.
  const std::int64_t rows = tokens * experts.chosen + experts.count * kExpertRows;
  const std::uint64_t expanded = expands ? expanded_latent_bytes(config, std::max(tokens, positions)) : 0;
  return static_cast<std::uint64_t>(tokens * columns + 2 * rows * (config.width + experts.feed_forward)) *
             sizeof(float) +
         expanded;
}

std::uint64_t ModelSizes::total() const { return std::accumulate(layers.begin(), layers.end(), others); }

ModelSizes part_sizes(const ModelSizes& sizes, const ModelSplit& split) {
  ModelSizes part{part_config(sizes.config, split), sizes.layers, sizes.others, sizes.experts};
  const auto ranks = static_cast<std::uint64_t>(split.ranks);
  for (auto* bytes : {&part.layers, &part.experts})
    for (std::uint64_t& layer : *bytes) layer = (layer + ranks - 1) / ranks;
  part.others = (part.others + ranks - 1) / ranks;
  return part;
}

ModelSizes model_sizes(const FilePath& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    ModelSizes sizes = sizes_for(folder_config(path));
    const io::ShardedSafetensors file(path);
    for (const std::string& name : file.names())
      if (!is_of_vision(name)) add_tensor(sizes, name, file.bytes(name).size());
    return sizes;
  }
  require_plain_file(path);
  std::ifstream in(fs::path(path), std::ios::binary);
  char magic[4] = {};
  if (!in) throw FormatError(fmt::format("{}: there is no such file, or it cannot be read", path.string()));
  in.read(magic, sizeof magic);
  if (std::string_view(magic, 4) == "GGUF") {
    const io::GgufFile file(path);
    ModelSizes sizes = sizes_for(decoder_config(file));
    for (const io::GgufTensor& tensor : file.tensors()) add_tensor(sizes, tensor.name, tensor.bytes);
    return sizes;
  }
  if (path.string().ends_with(".safetensors")) {
    const CheckpointState state = read_checkpoint(path);
    const auto config = state.metadata.find("config");
    if (config == state.metadata.end())
      throw FormatError(fmt::format("{}: the checkpoint's metadata has no \"config\"", path.string()));
    ModelSizes sizes = sizes_for(decoder_config(config->second, path.string()));
    for (const auto& [name, tensor] : state.tensors) {
      if (name.starts_with("model."))
        add_tensor(sizes, name, static_cast<std::uint64_t>(tensor.numel()) * item_size(tensor.dtype()));
    }
    return sizes;
  }
  const io::Llama2cCheckpoint file(path);
  ModelSizes sizes = sizes_for(decoder_config(file.config()));
  for (const io::Llama2cTensor& tensor : file.tensors()) add_tensor(sizes, tensor.name, file.bytes(tensor.name).size());
  return sizes;
}

std::string LayerPlan::str() const {
  std::string text =
      fmt::format("{} of {} layers on {} ({})", gpu_layers, layers, device.str(), of_bytes(needed(), available));
  if (host_layers() > 0) text += fmt::format(", {} on the CPU", host_layers());
  return text;
}

LayerPlan plan_layers(const ModelSizes& sizes, const LayerPlanOptions& options) {
  const DecoderConfig& config = sizes.config;
  LayerPlan plan;
  plan.device = options.device;
  plan.layers = plan.gpu_layers = config.layers;
  if (options.gpu_layers && *options.gpu_layers < 0)
    throw Error(fmt::format("{} layers on the GPU; wanted 0 or more", *options.gpu_layers));
  if (options.device.is_cpu()) return plan;
  plan.available = options.available > 0 ? options.available : available_memory(options.device);
  const auto bytes = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };

  const std::int64_t tokens = options.cache_tokens > 0 ? options.cache_tokens : config.context;
  const std::int64_t blocks = (tokens + kCacheBlock - 1) / kCacheBlock;
  const auto cache_of = [&](std::int64_t layer) {
    return bytes(cache_block_bytes(config, layer, options.cache)) * bytes(blocks);
  };

  // A chunk of a prompt, logits with two copies for sampling, and the largest matrix in 16 bits, which gemms of blocks
  // decode, at most 2^27 elements at once. Captured steps of prompts keep the same of their own.
  constexpr std::int64_t kFloat = 4, kHalf = 2, kDecodedAtOnce = std::int64_t{1} << 27;
  const std::int64_t chunk = std::min(options.chunk, config.context);
  const std::int64_t largest = config.width * std::max(config.feed_forward, config.query_rows());
  const std::uint64_t decoded = bytes(std::min(largest, kDecodedAtOnce) * kHalf);
  const std::uint64_t working = prompt_bytes(config, chunk, std::min(tokens, config.context)) +
                                bytes(3 * std::max(options.logits, options.slots) * config.vocabulary * kFloat) +
                                decoded + options.vision;
  // Where all layers are on the GPU.
  const std::uint64_t captured =
      prompt_bytes(config, std::min(chunk, most_captured_prompt(config, options.device))) + decoded;

  // Latent attention's matrix of keys and values once more, in halves (LatentProjections).
  const std::int64_t still = config.head_size - config.rope.size;
  const std::int64_t halves = config.heads * config.latent.size * (still + config.latent.value_size) * kHalf;
  const auto layer_bytes = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    return sizes.layers[at] + bytes(halves) -
           (options.host_experts && at < sizes.experts.size() ? sizes.experts[at] : 0);
  };
  std::uint64_t states = config.has_state() ? StateCache::bytes(config, 2 * (options.slots + 1)) : 0;
  if (options.guesses > 0) states += held_bytes(config, options.slots * (1 + options.guesses));
  const std::uint64_t fixed = sizes.others + working + captured + states;
  std::uint64_t needed = fixed;
  for (std::int64_t i = 0; i < config.layers; ++i) needed += layer_bytes(i) + cache_of(i);
  plan.all = needed;

  std::int64_t gpu_layers = 0;
  std::uint64_t weights = sizes.others, cache = 0;
  const std::int64_t most = std::min(options.gpu_layers.value_or(config.layers), config.layers);
  while (gpu_layers < most) {
    // The last blocks go first, next to the head.
    const std::int64_t layer = config.layers - 1 - gpu_layers;
    const std::uint64_t next = weights + layer_bytes(layer);
    // A twentieth is left to fragmentation.
    const std::uint64_t used = working + states + (gpu_layers + 1 == config.layers ? captured : 0);
    const bool fits = next + cache + cache_of(layer) + used <= plan.available / 20 * 19;
    if (!options.gpu_layers && !fits) break;
    weights = next;
    cache += cache_of(layer);
    ++gpu_layers;
  }
  // Layers that share keys are where these are.
  if (gpu_layers < config.layers && first_shared(config) < config.layers - gpu_layers) gpu_layers = 0;
  plan.gpu_layers = gpu_layers;
  if (gpu_layers == 0) return plan;
  plan.weights = weights;
  plan.cache = cache;
  plan.working = working + states + (gpu_layers == config.layers ? captured : 0);
  return plan;
}

}  // namespace etna::models
