#include <etna/models/internal/architecture.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/models/internal/architecture_names.h>
#include <etna/models/internal/architecture_rows.h>
#include <etna/models/internal/encoder_family.h>

namespace etna::models {
namespace {

void plain(DecoderConfig&) {}
/// GGUF files of this family hold queries and keys in the order of Meta's.
void llama(DecoderConfig& c) {
  c.rope.interleaved = true;
  c.experts.normalized = true;  // Mixtral
}
void qwen2(DecoderConfig& c) { c.query_bias = true; }
void qwen3(DecoderConfig& c) { c.query_key_norm = true; }
void qwen3_vl_text(DecoderConfig& c) {
  qwen3(c);
  c.rope.pairs_by_place = {20, 20};
}
void gpt2(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = c.query_bias = c.output_bias = c.ffn_bias = c.tied = true;
  c.packed_qkv = true;
  c.scaled_start = false;  // as in its published code
  c.positions = PositionKind::learned;
  c.gated = false;
  c.activation = Activation::gelu_tanh;
}
void phi2(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = c.query_bias = c.output_bias = c.ffn_bias = c.head_bias = c.parallel = true;
  c.gated = false;
  c.activation = Activation::gelu_tanh;
}
void starcoder2(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = c.query_bias = c.output_bias = c.ffn_bias = c.tied = true;
  c.gated = false;
  c.activation = Activation::gelu_tanh;
}
void smollm3(DecoderConfig& c) {
  llama(c);
  c.tied = true;
}
void olmo2(DecoderConfig& c) {
  c.pre_norms = false;
  c.post_norms = c.query_key_norm = c.norms_all_heads = true;
  c.window_every = 4;
}
void exaone4(DecoderConfig& c) {
  c.pre_norms = false;
  c.post_norms = c.query_key_norm = true;
  c.window_every = 4;
}
void glm4(DecoderConfig& c) { c.post_norms = c.rope.interleaved = true; }
void cohere2(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.parallel = c.rope.interleaved = c.tied = true;
  c.window_every = 4;
  c.logit_scale = 0.0625;
}
void stablelm(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = true;
}
void gpt_neox(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = c.query_bias = c.output_bias = c.ffn_bias = c.parallel = c.parallel_norms = true;
  c.gated = false;
  c.activation = Activation::gelu;
}
void arcee(DecoderConfig& c) {
  llama(c);
  c.gated = false;
  c.activation = Activation::relu_squared;
}
void apertus(DecoderConfig& c) {
  c.query_key_norm = c.xielu = true;
  c.gated = false;
}
/// Files of mixtures say how many experts there are.
void normalized_experts(DecoderConfig& c) { c.experts.normalized = true; }
void qwen3_moe(DecoderConfig& c) {
  qwen3(c);
  normalized_experts(c);
}
void qwen3_vl_moe_text(DecoderConfig& c) {
  qwen3_vl_text(c);
  normalized_experts(c);
}
void olmoe(DecoderConfig& c) { c.query_key_norm = c.norms_all_heads = true; }
void phimoe(DecoderConfig& c) {
  c.norm = NormKind::layer;
  c.norm_bias = true;
  c.experts.router = RouterKind::sparsemixer;
  c.experts.jitter = 0.01;
}
void ernie_moe(DecoderConfig& c) {
  c.rope.interleaved = c.experts.choice_bias = true;
  normalized_experts(c);
}
void glm4_moe(DecoderConfig& c) {
  c.experts.router = RouterKind::sigmoid;
  c.experts.choice_bias = true;
  normalized_experts(c);
}
void deepseek_v2(DecoderConfig& c) {
  c.rope.interleaved = true;
  c.experts.groups_by_best = true;
}
void deepseek_v3(DecoderConfig& c) {
  c.rope.interleaved = true;
  glm4_moe(c);
}
void bitnet(DecoderConfig& c) { c.sub_norms = c.tied = true; }
void bitnet_squared(DecoderConfig& c) {
  bitnet(c);
  c.activation = Activation::relu_squared;
}

constexpr Architecture deepseek_v3_row(std::string_view own, std::string_view hugging_face) {
  return {.gguf = own,
          .hugging_face = hugging_face,
          .only_hugging_face = true,
          .written_as = "deepseek2",
          .apply = deepseek_v3,
          .neighbours_in_hugging_face = true,
          .latent = true,
          .gguf_names = kLatentGguf,
          .names = kLatentQueryNames,
          .attention_bias = AttentionBias::all,
          .experts = {.there = true,
                      .width = "moe_intermediate_size",
                      .shared = "n_shared_experts",
                      .norm = "norm_topk_prob",
                      .normalized = true,
                      .scaled = true,
                      .dense_first = "first_k_dense_replace"}};
}

constexpr Architecture kAll[] = {
    {.gguf = "llama",
     .hugging_face = "llama",
     .apply = llama,
     .neighbours_in_gguf = true,
     .names = kMixtralNames,
     .of_one_bit = "bitnet",
     .attention_bias = AttentionBias::all,
     .is_written = true},
    {.gguf = "llama", .hugging_face = "mistral", .apply = llama, .neighbours_in_gguf = true},
    {.gguf = "llama",
     .hugging_face = "mixtral",
     .apply = llama,
     .neighbours_in_gguf = true,
     .experts = {.there = true}},
    {.gguf = "qwen2", .hugging_face = "qwen2", .apply = qwen2, .window_is_asked_for = true},
    {.gguf = "qwen3",
     .hugging_face = "qwen3",
     .apply = qwen3,
     .asks_classifiers = true,
     .attention_bias = AttentionBias::all,
     .window_is_asked_for = true},
    qwen3_vl_row("qwen3vl", "qwen3_vl_text", qwen3_vl_text),
    qwen3_vl_moe_row(qwen3_vl_moe_text),
    gemma_row("gemma", "gemma", gemma),
    gemma2_row(),
    gemma3_row("gemma3", "gemma3_text", gemma3),
    gemma3_row("gemma3", "gemma3", gemma3),
    gemma3_row("gemma-embedding", "", gemma_embedding),
    kGemma3nRow,
    kGemma4Row,
    kGptOssRow,
    kLlama4Row,
    {.gguf = "phi2", .hugging_face = "phi", .apply = phi2, .names = kPhiNames, .rotary_part = 0.5},
    {.gguf = "phi3", .hugging_face = "phi3", .apply = plain, .packing = Packing::qkv_and_gate},
    {.gguf = "gpt2",
     .hugging_face = "gpt2",
     .apply = gpt2,
     .packing = Packing::qkv,
     .names = kGpt2Names,
     .prefix = "transformer.",
     .blocks = "h",
     .buffers = kGpt2Buffers,
     .in_by_out = true,
     .target_words = 2,  // two modules are c_proj
     .keys = kGpt2Keys,
     .is_written = true,
     .context = 0,
     .feed_forward_per_width = 4},
    {.gguf = "starcoder2",
     .hugging_face = "starcoder2",
     .apply = starcoder2,
     .names = kStarcoder2Names,
     .keys = kStarcoder2Keys},
    {.gguf = "mistral3",
     .hugging_face = "ministral3",
     .apply = llama,
     .neighbours_in_gguf = true,
     .scales_queries = true},
    {.gguf = "smollm3",
     .hugging_face = "smollm3",
     .apply = smollm3,
     .neighbours_in_gguf = true,
     .rotated = RotatedLayers::not_every_fourth,
     .attention_bias = AttentionBias::all,
     .window_is_asked_for = true,
     .rope_base = 2e6},
    {.gguf = "olmo2",
     .hugging_face = "olmo2",
     .apply = olmo2,
     .names = kPostNormNames,
     .attention_bias = AttentionBias::all,
     .plain_window_rope = true},
    {.gguf = "olmo2",
     .hugging_face = "olmo3",
     .apply = olmo2,
     .names = kPostNormNames,
     .attention_bias = AttentionBias::all,
     .plain_window_rope = true},
    {.gguf = "granite",
     .hugging_face = "granite",
     .apply = llama,
     .neighbours_in_gguf = true,
     .keys = kGraniteKeys,
     .attention_bias = AttentionBias::all,
     .divides_logits = true,
     .factors = GgufFactors::all},
    {.gguf = "glm4",
     .hugging_face = "glm4",
     .apply = glm4,
     .packing = Packing::gate,
     .neighbours_in_hugging_face = true,
     .names = kGlm4Names,
     .attention_bias = AttentionBias::query_key_value,
     .rotary_part = 0.5},
    {.gguf = "cohere2",
     .hugging_face = "cohere2",
     .apply = cohere2,
     .neighbours_in_hugging_face = true,
     .rotated = RotatedLayers::windowed,
     .attention_bias = AttentionBias::all,
     .factors = GgufFactors::logits},
    {.gguf = "exaone4",
     .hugging_face = "exaone4",
     .apply = exaone4,
     .rotated = RotatedLayers::windowed,
     .names = kPostNormNames},
    {.gguf = "stablelm",
     .hugging_face = "stablelm",
     .apply = stablelm,
     .packed_rows = norms_of_heads,
     .keys = kStablelmKeys,
     .attention_bias = AttentionBias::query_key_value,
     .rotary_part = 0.25,
     .says_parallel = true,
     .says_head_norms = true},
    {.gguf = "gptneox",
     .hugging_face = "gpt_neox",
     .apply = gpt_neox,
     .packing = Packing::qkv,
     .names = kGptNeoxNames,
     .prefix = "gpt_neox.",
     .buffers = kGptNeoxBuffers,
     .qkv_by_head = true,
     .keys = kGptNeoxKeys,
     .attention_bias = AttentionBias::all,
     .rotary_part = 0.25,
     .says_parallel = true},
    {.gguf = "arcee",
     .hugging_face = "arcee",
     .apply = arcee,
     .neighbours_in_gguf = true,
     .attention_bias = AttentionBias::all},
    {.gguf = "apertus",
     .hugging_face = "apertus",
     .apply = apertus,
     .names = kApertusNames,
     .attention_bias = AttentionBias::all,
     .rope_base = 12e6},
    {.gguf = "seed_oss",
     .hugging_face = "seed_oss",
     .apply = qwen2,
     .gguf_names = kSeedOssGguf,
     .attention_bias = AttentionBias::query_key_value},
    {.gguf = "qwen3moe",
     .hugging_face = "qwen3_moe",
     .apply = qwen3_moe,
     .attention_bias = AttentionBias::all,
     .window_is_asked_for = true,
     .experts =
         {.there = true, .width = "moe_intermediate_size", .norm = "norm_topk_prob", .every = "decoder_sparse_step"}},
    {.gguf = "olmoe",
     .hugging_face = "olmoe",
     .apply = olmoe,
     .attention_bias = AttentionBias::all,
     .experts = {.there = true, .norm = "norm_topk_prob"}},
    {.gguf = "granitemoe",
     .hugging_face = "granitemoe",
     .apply = llama,
     .neighbours_in_gguf = true,
     .names = kGraniteMoeNames,
     .keys = kGraniteKeys,
     .attention_bias = AttentionBias::all,
     .divides_logits = true,
     .factors = GgufFactors::all,
     .experts = {.there = true}},
    {.gguf = "phimoe",
     .hugging_face = "phimoe",
     .apply = phimoe,
     .names = kMixtralNames,
     .keys = kLayerNormKeys,
     .attention_bias = AttentionBias::all,
     .says_epsilon_twice = true,
     .experts = {.there = true}},
    {.gguf = "ernie4_5-moe",
     .hugging_face = "ernie4_5_moe",
     .apply = ernie_moe,
     .neighbours_in_hugging_face = true,
     .names = kErnieNames,
     .set_gguf = set_gguf_expert_step,
     .experts = {.there = true,
                 .width = "moe_intermediate_size",
                 .chosen = "moe_k",
                 .shared = "moe_num_shared_experts",
                 .dense_first = "moe_layer_start_index",
                 .last = "moe_layer_end_index",
                 .every = "moe_layer_interval"}},
    {.gguf = "glm4moe",
     .hugging_face = "glm4_moe",
     .apply = glm4_moe,
     .gguf_names = kSeedOssGguf,
     .attention_bias = AttentionBias::query_key_value,
     .rotary_part = 0.5,
     .next_in_gguf = true,
     .experts = {.there = true,
                 .width = "moe_intermediate_size",
                 .shared = "n_shared_experts",
                 .norm = "norm_topk_prob",
                 .normalized = true,
                 .scaled = true,
                 .dense_first = "first_k_dense_replace"}},
    {.gguf = "deepseek2",
     .hugging_face = "deepseek_v2",
     .apply = deepseek_v2,
     .neighbours_in_hugging_face = true,
     .latent = true,
     .gguf_names = kLatentGguf,
     .names = kLatentQueryNames,
     .attention_bias = AttentionBias::all,
     .read_gguf = read_gguf_latent,
     .set_gguf = set_gguf_latent,
     .differs_from_gguf = latent_differs,
     .experts = {.there = true,
                 .width = "moe_intermediate_size",
                 .shared = "n_shared_experts",
                 .scaled = true,
                 .dense_first = "first_k_dense_replace"}},
    deepseek_v3_row("deepseek3", "deepseek_v3"),
    deepseek_v3_row("glm4moelite", "glm4_moe_lite"),
    {.gguf = "bitnet",
     .hugging_face = "",
     .apply = bitnet,
     .names = kBitnetNames,
     .attention_bias = AttentionBias::all},
    {.gguf = "bitnet-25", .hugging_face = "", .apply = bitnet_squared},
    {.gguf = "bitnet-b1.58", .hugging_face = "bitnet", .apply = bitnet_squared, .attention_bias = AttentionBias::all}};

/// By the first of some tables that has it.
std::string translated(std::string_view part, std::initializer_list<PartNames> tables) {
  for (const PartNames names : tables)
    for (const auto& [own, theirs] : names)
      if (own == part) return std::string(theirs);
  return std::string(part);
}

std::vector<std::string_view> distinct_names(std::string_view Architecture::*field) {
  std::vector<std::string_view> names;
  for (const std::span<const Architecture> table : {std::span<const Architecture>(kAll), architectures_with_states()})
    for (const Architecture& a : table)
      if (!(a.*field).empty() && !(field == &Architecture::gguf && a.only_hugging_face) &&
          std::find(names.begin(), names.end(), a.*field) == names.end())
        names.push_back(a.*field);
  return names;
}

const Architecture* find_row(std::string_view Architecture::*field, std::string_view name) {
  for (const std::span<const Architecture> table : {std::span<const Architecture>(kAll), architectures_with_states()})
    for (const Architecture& a : table)
      if (!name.empty() && a.*field == name) return &a;
  return nullptr;
}

}  // namespace

const Architecture* find_architecture_gguf(std::string_view name) { return find_row(&Architecture::gguf, name); }

const Architecture* find_architecture_hugging_face(std::string_view name) {
  return find_row(&Architecture::hugging_face, name);
}

const Architecture& require_architecture(std::string_view gguf) {
  const Architecture* found = find_architecture_gguf(gguf);
  if (found == nullptr || found->only_hugging_face) {
    refuse_encoder(gguf);
    throw FormatError(
        fmt::format("models of the architecture '{}' do not run here; these do: {}", gguf, architecture_names()));
  }
  return *found;
}

std::vector<std::string_view> known_architectures() { return distinct_names(&Architecture::gguf); }
std::string architecture_names() { return fmt::format("{}", fmt::join(known_architectures(), ", ")); }
std::string hugging_face_type_names() {
  return fmt::format("{}", fmt::join(distinct_names(&Architecture::hugging_face), ", "));
}

const Architecture& architecture_of(const DecoderConfig& config) {
  const Architecture* found = find_architecture_gguf(config.architecture);
  return found != nullptr ? *found : kAll[0];
}

DecoderConfig gguf_config(const DecoderConfig& config) {
  DecoderConfig c = config;
  const Architecture& own = architecture_of(config);
  if (!own.written_as.empty()) c.architecture = own.written_as;
  if (!own.written_with_experts.empty() && c.experts.count > 0) c.architecture = own.written_with_experts;
  const Architecture& there = architecture_of(c);
  if (there.states.tiled_in_gguf && c.state.heads != c.state.key_heads) c.state.tiled = true;
  if (there.divides_still_pairs) {
    c.rope.divisors = divisors_of_still_pairs(c);
    c.rope.turning = 1;
  }
  if (!there.folds_factors) return c;
  c.attention_scale = 0;
  c.embedding_scale = c.logit_scale = c.attention_input_scale = c.attention_output_scale = 1;
  c.gate_scale = c.down_scale = c.state.input_scale = c.state.output_scale = 1;
  std::fill(std::begin(c.state.part_scales), std::end(c.state.part_scales), 1.0);
  return c;
}

std::string gguf_part(const Architecture& architecture, std::string_view part) {
  return translated(part, {architecture.gguf_names, kGgufNames});
}

std::string hugging_face_part(const Architecture& architecture, std::string_view part) {
  return translated(part, {architecture.names, kLlamaNames});
}

void fill_defaults(DecoderConfig& c) {
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_size == 0 && c.heads > 0) c.head_size = c.width / c.heads;
  if (c.rope.size == 0) c.rope.size = c.head_size;
  if (architecture_of(c).scales_embeddings) c.embedding_scale = std::sqrt(static_cast<double>(c.width));
}

bool set_windows(DecoderConfig& c, const std::vector<bool>& windowed) {
  if (windowed.empty() || std::ssize(windowed) != c.layers) return false;
  const auto full = std::find(windowed.begin(), windowed.end(), false);
  if (std::find(windowed.begin(), windowed.end(), true) == windowed.end()) {
    c.window = 0;
  } else {
    c.window_every = full == windowed.end() ? 1 : full - windowed.begin() + 1;
  }
  std::vector<LayerConfig> layers;
  bool repeated = true;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const bool own = windowed[static_cast<std::size_t>(i)];
    repeated = repeated && own == c.has_window(i);
    layers.push_back(c.layer(i));
    layers.back().window = own ? c.window : 0;
  }
  if (!repeated) c.each_layer = std::move(layers);
  return true;
}

void set_layers(DecoderConfig& c, const std::vector<bool>& rotated) {
  const RotatedLayers rule = architecture_of(c).rotated;
  if ((rotated.empty() && rule == RotatedLayers::all) || c.layers > kMostLayers) return;
  std::vector<LayerConfig> layers;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    LayerConfig layer = c.layer(i);
    if (!rotated.empty()) {
      layer.rotary = rotated.at(static_cast<std::size_t>(i));
    } else {
      layer.rotary = rule == RotatedLayers::windowed ? layer.window > 0 || c.window == 0 : (i + 1) % 4 != 0;
    }
    layers.push_back(layer);
  }
  c.each_layer = std::move(layers);
}

}  // namespace etna::models
