#include <iterator>

#include <etna/models/internal/architecture_rows.h>
#include <etna/models/internal/state_names.h>

// Families whose layers keep a state in place of keys and values.
namespace etna::models {
namespace {

void delta_net(DecoderConfig& c) { c.query_key_norm = c.attention_gate = true; }
void delta_net_moe(DecoderConfig& c) {
  delta_net(c);
  c.experts.normalized = c.experts.shared_gate = true;
}
void lfm2(DecoderConfig& c) { c.query_key_norm = c.tied = true; }
void lfm2_moe(DecoderConfig& c) {
  lfm2(c);
  c.experts.router = RouterKind::sigmoid;
  c.experts.choice_bias = c.experts.normalized = true;
}
/// llama.cpp has neither for this family.
const char* lfm2_moe_differs(const DecoderConfig& c) {
  return c.experts.normalized && c.experts.scale == 1 ? nullptr : "factor of experts";
}
void mamba_blocks(DecoderConfig&) {}
void granite_hybrid(DecoderConfig& c) { c.rope.interleaved = c.experts.normalized = true; }
void nemotron_h(DecoderConfig& c) {
  c.gated = false;
  c.activation = Activation::relu_squared;
  c.experts.router = RouterKind::sigmoid;
  c.experts.choice_bias = c.experts.normalized = true;
}

/// A head's query, then what its result is multiplied by.
std::vector<PackedRows> gated_queries_of(const DecoderConfig& c, std::string_view part, std::string_view name) {
  const bool gate = part == "attention.gate";
  std::vector<PackedRows> rows;
  if (!gate && part != "attention.query") return rows;
  for (std::int64_t head = 0; head < c.heads; ++head)
    rows.push_back({std::string(name), (2 * head + (gate ? 1 : 0)) * c.head_size, c.head_size, 2 * c.query_rows()});
  return rows;
}
std::vector<PackedRows> gated_queries(const DecoderConfig& c, std::string_view part) {
  return gated_queries_of(c, part, "self_attn.q_proj");
}
std::vector<PackedRows> gated_queries_in_gguf(const DecoderConfig& c, std::string_view part) {
  return gated_queries_of(c, part, "attn_q");
}

/// The projections of delta nets: a head of keys has its query, its key, and what its heads of values have.
/// @param wide the name of their tensor @param narrow that of the rates
std::vector<PackedRows> grouped_heads_of(const DecoderConfig& c, std::string_view part, std::string_view wide,
                                         std::string_view narrow) {
  const StateConfig& s = c.state;
  std::vector<PackedRows> rows;
  const std::int64_t shared = s.heads / s.key_heads, values = shared * s.value_size, group = 2 * (s.key_size + values);
  const auto add = [&](std::string_view name, std::int64_t begin, std::int64_t count, std::int64_t of_group) {
    for (std::int64_t g = 0; g < s.key_heads; ++g)
      rows.push_back({std::string(name), g * of_group + begin, count, s.key_heads * of_group});
  };
  if (part == "delta.qkv") {
    add(wide, 0, s.key_size, group);
    add(wide, s.key_size, s.key_size, group);
    add(wide, 2 * s.key_size, values, group);
  }
  if (part == "delta.gate") add(wide, 2 * s.key_size + values, values, group);
  if (part == "delta.beta") add(narrow, 0, shared, 2 * shared);
  if (part == "delta.decay") add(narrow, shared, shared, 2 * shared);
  return rows;
}
std::vector<PackedRows> grouped_heads(const DecoderConfig& c, std::string_view part) {
  if (!part.starts_with("delta.") || c.state.key_heads < 1) return gated_queries(c, part);
  return grouped_heads_of(c, part, "linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba");
}
/// GGUF files of early converters have the first tensor, too.
std::vector<PackedRows> grouped_heads_in_gguf(const DecoderConfig& c, std::string_view part) {
  if (!part.starts_with("delta.") || c.state.key_heads < 1) return gated_queries_in_gguf(c, part);
  return grouped_heads_of(c, part, "ssm_in", "ssm_ba");
}

/// The gate above the up projection.
std::vector<PackedRows> gate_and_up(const DecoderConfig& c, std::string_view part) {
  const std::int64_t width = part.starts_with("ffn.shared.") ? c.experts.shared : c.feed_forward;
  if (part == "ffn.gate" || part == "ffn.shared.gate") return {{"shared_mlp.input_linear", 0, width, 2 * width}};
  if (part == "ffn.up" || part == "ffn.shared.up") return {{"shared_mlp.input_linear", width, width, 2 * width}};
  return {};
}

constexpr StateRules kDelta = {.mixer = MixerKind::delta,
                               .kernel = "linear_conv_kernel_dim",
                               .heads = "linear_num_value_heads",
                               .key_heads = "linear_num_key_heads",
                               .value_size = "linear_value_head_dim",
                               .key_size = "linear_key_head_dim",
                               .interval = 4,
                               .interval_in_gguf = true};
constexpr StateRules tiled_delta() {
  StateRules rules = kDelta;
  rules.tiled_in_gguf = true;
  return rules;
}
constexpr StateRules joined_delta() {
  StateRules rules = kDelta;
  rules.joins_rates = true;
  return rules;
}
constexpr StateRules kMamba = {.mixer = MixerKind::mamba,
                               .kernel = "mamba_d_conv",
                               .heads = "mamba_n_heads",
                               .key_heads = "mamba_n_groups",
                               .value_size = "mamba_d_head",
                               .key_size = "mamba_d_state",
                               .kernel_bias = "mamba_conv_bias",
                               .input_bias = "mamba_proj_bias",
                               .output_bias = "mamba_proj_bias",
                               .attention_layers = "attn_layer_indices"};
constexpr StateRules falcon_states() {
  StateRules rules = kMamba;
  rules.mixer = MixerKind::attention_and_mamba;
  rules.output_bias = "projectors_bias";
  rules.norms_groups = rules.optional_norm = true;
  return rules;
}
constexpr StateRules granite_states() {
  StateRules rules = kMamba;
  rules.asks_for_rotary = true;
  return rules;
}
constexpr StateRules kMamba2 = {.mixer = MixerKind::mamba,
                                .kernel = "conv_kernel",
                                .heads = "num_heads",
                                .key_heads = "n_groups",
                                .value_size = "head_dim",
                                .key_size = "state_size",
                                .kernel_bias = "use_conv_bias",
                                .input_bias = "use_bias",
                                .output_bias = "use_bias",
                                .single = true,
                                .no_attention = true};
constexpr StateRules kNemotron = {.mixer = MixerKind::mamba,
                                  .kernel = "conv_kernel",
                                  .heads = "mamba_num_heads",
                                  .key_heads = "n_groups",
                                  .value_size = "mamba_head_dim",
                                  .key_size = "ssm_state_size",
                                  .kernel_bias = "use_conv_bias",
                                  .input_bias = "use_bias",
                                  .output_bias = "use_bias",
                                  .activation = "mamba_hidden_act",
                                  .single = true,
                                  .rotary = false,
                                  .least_step = true,
                                  .norms_groups = true};
constexpr StateRules kConvolution = {.mixer = MixerKind::convolution,
                                     .kernel = "conv_L_cache",
                                     .kernel_bias = "conv_bias",
                                     .input_bias = "conv_bias",
                                     .output_bias = "conv_bias",
                                     .attention_layers = "full_attn_idxs"};

constexpr ExpertRules kQwenExperts = {.there = true,
                                      .width = "moe_intermediate_size",
                                      .shared_width = "shared_expert_intermediate_size",
                                      .norm = "norm_topk_prob",
                                      .normalized = true,
                                      .every = "decoder_sparse_step"};

constexpr Architecture nemotron_row(std::string_view gguf, std::string_view hugging_face,
                                    std::string_view with_experts) {
  return {.gguf = gguf,
          .hugging_face = hugging_face,
          .written_with_experts = with_experts,
          .apply = nemotron_h,
          .gguf_names = kNemotronHGguf,
          .names = kNemotronHNames,
          .prefix = "backbone.",
          .keys = kNemotronHKeys,
          .attention_bias = AttentionBias::all,
          .says_epsilon_twice = true,
          .differs_from_gguf = nemotron_differs,
          .experts = {.there = true,
                      .width = "moe_intermediate_size",
                      .shared_width = "moe_shared_expert_intermediate_size",
                      .norm = "norm_topk_prob",
                      .normalized = true,
                      .scaled = true},
          .states = kNemotron};
}

constexpr Architecture kWithStates[] = {{.gguf = "qwen3next",
                                         .hugging_face = "qwen3_next",
                                         .apply = delta_net_moe,
                                         .gguf_names = kDeltaGguf,
                                         .packed_gguf = grouped_heads_in_gguf,
                                         .names = kDeltaNames,
                                         .packed_rows = grouped_heads,
                                         .norm_offset = 1,
                                         .next_prefix = "mtp.",
                                         .next_reads_normed = true,
                                         .attention_bias = AttentionBias::all,
                                         .rotary_part = 0.25,
                                         .differs_from_gguf = delta_differs,
                                         .experts = kQwenExperts,
                                         .states = joined_delta()},
                                        {.gguf = "qwen35",
                                         .hugging_face = "qwen3_5_text",
                                         .apply = delta_net,
                                         .gguf_names = kDeltaGguf,
                                         .packed_gguf = gated_queries_in_gguf,
                                         .names = kDeltaNames,
                                         .packed_rows = gated_queries,
                                         .norm_offset = 1,
                                         .next_prefix = "mtp.",
                                         .next_reads_normed = true,
                                         .attention_bias = AttentionBias::all,
                                         .rotary_part = 0.25,
                                         .next_in_gguf = true,
                                         .set_gguf = set_gguf_delta,
                                         .differs_from_gguf = delta_differs,
                                         .states = tiled_delta()},
                                        {.gguf = "qwen35moe",
                                         .hugging_face = "qwen3_5_moe_text",
                                         .apply = delta_net_moe,
                                         .gguf_names = kDeltaGguf,
                                         .packed_gguf = gated_queries_in_gguf,
                                         .names = kDeltaNames,
                                         .packed_rows = gated_queries,
                                         .norm_offset = 1,
                                         .next_prefix = "mtp.",
                                         .next_reads_normed = true,
                                         .attention_bias = AttentionBias::all,
                                         .rotary_part = 0.25,
                                         .next_in_gguf = true,
                                         .set_gguf = set_gguf_delta,
                                         .differs_from_gguf = delta_differs,
                                         .experts = kQwenExperts,
                                         .states = tiled_delta()},
                                        {.gguf = "lfm2",
                                         .hugging_face = "lfm2",
                                         .apply = lfm2,
                                         .gguf_names = kLfm2Gguf,
                                         .names = kLfm2Names,
                                         .keys = kLfm2Keys,
                                         .rope_base = 1e6,
                                         .states = kConvolution},
                                        {.gguf = "lfm2moe",
                                         .hugging_face = "lfm2_moe",
                                         .apply = lfm2_moe,
                                         .gguf_names = kLfm2Gguf,
                                         .names = kLfm2Names,
                                         .keys = kLfm2Keys,
                                         .rope_base = 1e6,
                                         .differs_from_gguf = lfm2_moe_differs,
                                         .experts = {.there = true,
                                                     .width = "moe_intermediate_size",
                                                     .norm = "norm_topk_prob",
                                                     .normalized = true,
                                                     .scaled = true,
                                                     .dense_first = "num_dense_layers"},
                                         .states = kConvolution},
                                        {.gguf = "mamba2",
                                         .hugging_face = "mamba2",
                                         .apply = mamba_blocks,
                                         .gguf_names = kMambaGguf,
                                         .names = kMamba2Names,
                                         .prefix = "backbone.",
                                         .keys = kMamba2Keys,
                                         .context = 131072,
                                         .states = kMamba2},
                                        {.gguf = "bamba",
                                         .hugging_face = "bamba",
                                         .only_hugging_face = true,
                                         .written_as = "granitehybrid",
                                         .apply = mamba_blocks,
                                         .gguf_names = kMambaGguf,
                                         .names = kBambaNames,
                                         .attention_bias = AttentionBias::all,
                                         .rotary_part = 0.5,
                                         .states = kMamba},
                                        {.gguf = "falcon-h1",
                                         .hugging_face = "falcon_h1",
                                         .apply = mamba_blocks,
                                         .gguf_names = kFalconH1Gguf,
                                         .folds_factors = true,
                                         .names = kBambaNames,
                                         .keys = kFalconH1Keys,
                                         .attention_bias = AttentionBias::all,
                                         .differs_from_gguf = falcon_differs,
                                         .states = falcon_states()},
                                        {.gguf = "granitehybrid",
                                         .hugging_face = "granitemoehybrid",
                                         .apply = granite_hybrid,
                                         .neighbours_in_gguf = true,
                                         .gguf_names = kMambaGguf,
                                         .names = kGraniteHybridNames,
                                         .packed_rows = gate_and_up,
                                         .target_words = 2,  // experts have an input_linear, too
                                         .keys = kGraniteHybridKeys,
                                         .attention_bias = AttentionBias::all,
                                         .divides_logits = true,
                                         .factors = GgufFactors::all,
                                         .experts = {.there = true, .shared_width = "shared_intermediate_size"},
                                         .states = granite_states()},
                                        nemotron_row("nemotron_h", "nemotron_h", "nemotron_h_moe"),
                                        nemotron_row("nemotron_h_moe", "", "")};

}  // namespace

std::span<const Architecture> architectures_with_states() { return kWithStates; }

}  // namespace etna::models
