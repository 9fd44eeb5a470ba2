#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/architecture_names.h>

/// Rows of the table in architecture.cpp: Gemma, and families with parts that few have. Internal.
namespace etna::models {

// ---- what config.json says of these families only (decoder_config_json_families.cpp)
void read_gpt_oss(const nlohmann::json& json, DecoderConfig& config);
void read_llama4(const nlohmann::json& json, DecoderConfig& config);
void read_gemma3n(const nlohmann::json& json, DecoderConfig& config);
void read_gemma4(const nlohmann::json& json, DecoderConfig& config);

// ---- and what GGUF files do (decoder_config_gguf_families.cpp)
void read_gguf_latent(const GgufFields& fields, DecoderConfig& config);
void set_gguf_latent(io::GgufWriter& to, const DecoderConfig& config);
const char* latent_differs(const DecoderConfig& config);
void set_gguf_delta(io::GgufWriter& to, const DecoderConfig& config);
const char* delta_differs(const DecoderConfig& config);
/// n where layers n - 1, 2n - 1 ... have attention, and only these; 0: other ones do.
std::int64_t attention_interval(const DecoderConfig& config);
const char* falcon_differs(const DecoderConfig& config);
const char* nemotron_differs(const DecoderConfig& config);
void read_gguf_gemma3n(const GgufFields& fields, DecoderConfig& config);
void set_gguf_gemma3n(io::GgufWriter& to, const DecoderConfig& config);
const char* gemma3n_differs(const DecoderConfig& config);
void read_gguf_gemma4(const GgufFields& fields, DecoderConfig& config);
void set_gguf_gemma4(io::GgufWriter& to, const DecoderConfig& config);
const char* gemma4_differs(const DecoderConfig& config);
/// Architecture::divides_still_pairs
std::vector<float> divisors_of_still_pairs(const DecoderConfig& config);
void read_gguf_llama4(const GgufFields& fields, DecoderConfig& config);
/// RopeConfig::pairs_by_place
void read_places(const nlohmann::json& json, DecoderConfig& config);
void read_gguf_places(const GgufFields& fields, DecoderConfig& config);
void set_gguf_places(io::GgufWriter& to, const DecoderConfig& config);
/// n where layers n - 1, 2n - 1 ... have experts.
void set_gguf_expert_step(io::GgufWriter& to, const DecoderConfig& config);
const char* llama4_differs(const DecoderConfig& config);
/// What GGUF's name of Llama 4 stands for: positions of a chunk, and the number of experts of the model without norms.
inline constexpr std::int64_t kLlama4Chunk = 8192, kExpertsWithoutNorms = 128;

inline void gemma(DecoderConfig& c) {
  c.activation = Activation::gelu_tanh;
  c.tied = true;
}
inline void gemma2(DecoderConfig& c) {
  gemma(c);
  c.post_norms = true;
  c.window_every = 2;
  c.attention_softcap = 50;
  c.logit_softcap = 30;
}
inline void gemma3(DecoderConfig& c) {
  gemma(c);
  c.post_norms = c.query_key_norm = true;
  c.window_every = 6;
  c.window_rope_base = 10000;
}
inline void gemma_embedding(DecoderConfig& c) {
  gemma3(c);
  c.bidirectional = true;
}
inline void gemma3n(DecoderConfig& c) {
  gemma3(c);
  c.value_norm = true;
  c.attention_scale = 1;
  c.window_every = 5;
  c.logit_softcap = 30;
}
inline void gemma4(DecoderConfig& c) {
  gemma3(c);
  c.value_norm = c.block_scales = c.experts.normalized = true;
  c.attention_scale = 1;
  c.rope.turning = 0.25;
}
inline void gpt_oss(DecoderConfig& c) {
  c.sinks = c.query_bias = c.output_bias = true;
  c.window_every = 2;
  c.experts.bias = c.experts.normalized = true;
  c.experts.limit = 7;
  c.rope.whole_bounds = false;
}
inline void llama4(DecoderConfig& c) {
  c.rope.interleaved = true;
  c.experts.router = RouterKind::sigmoid;
  c.experts.scales_input = true;
}

constexpr Architecture gemma_row(std::string_view gguf, std::string_view hugging_face, void (*apply)(DecoderConfig&)) {
  return {.gguf = gguf,
          .hugging_face = hugging_face,
          .apply = apply,
          .norm_offset = 1,
          .attention_bias = AttentionBias::all,
          .fixed_activation = true,  // early files say gelu and mean its approximation
          .scales_embeddings = true};
}
constexpr Architecture gemma2_row() {
  Architecture row = gemma_row("gemma2", "gemma2", gemma2);
  row.names = kGemmaNames;
  row.wide_scores_at_layers = 46;
  return row;
}
/// Published files leave out what Hugging Face's class takes by default.
constexpr Architecture gemma3_row(std::string_view gguf, std::string_view hugging_face, void (*apply)(DecoderConfig&)) {
  Architecture row = gemma_row(gguf, hugging_face, apply);
  row.names = kGemmaNames;
  row.in_both_directions = "gemma-embedding";
  row.vocabulary = 262208;
  row.heads = 8;
  row.kv_heads = 4;
  row.head_size = 256;
  row.context = 131072;
  row.rope_base = 1e6;
  row.query_scalar = 256;
  row.wide_scores_at_layers = 62;
  return row;
}

/// Files leave out what Hugging Face's class takes by default, as those of Gemma 3.
constexpr Architecture gemma_with_inputs_row(std::string_view gguf, std::string_view hugging_face,
                                             void (*apply)(DecoderConfig&),
                                             void (*read)(const nlohmann::json&, DecoderConfig&)) {
  Architecture row = gemma_row(gguf, hugging_face, apply);
  row.gguf_names = kGemmaWithInputsGguf;
  row.names = kGemmaWithInputsNames;
  row.sizes_by_layer = true;
  row.norm_offset = 0;
  row.heads = 8;
  row.head_size = 256;
  row.context = 131072;
  row.rope_base = 1e6;
  row.read_json = read;
  return row;
}
/// The matrices that begin and end streams are in one tensor each. @param part "streams.starts.0"
inline std::vector<PackedRows> stacked_streams(const DecoderConfig& c, std::string_view part) {
  for (const auto& [own, theirs] :
       {std::pair{"streams.starts.", "altup_proj"}, std::pair{"streams.ends.", "altup_unembd_proj"}}) {
    if (!part.starts_with(own)) continue;
    std::int64_t index = 0;
    for (const char digit : part.substr(std::string_view(own).size())) index = 10 * index + (digit - '0');
    return {{theirs, index * c.width, c.width, (c.streams.count - 1) * c.width}};
  }
  return {};
}
/// Norms of heads that are a tensor each.
inline std::vector<PackedRows> norms_of_heads(const DecoderConfig& c, std::string_view part) {
  const bool query = part == "attention.query_norm";
  if (!c.layer_norms_heads || (!query && part != "attention.key_norm")) return {};
  std::vector<PackedRows> rows;
  for (std::int64_t head = 0; head < (query ? c.heads : c.kv_heads); ++head)
    rows.push_back({fmt::format("self_attn.{}_layernorm.norms.{}", query ? 'q' : 'k', head), 0, c.head_size, 0});
  return rows;
}
constexpr Architecture gemma3n_row() {
  Architecture row = gemma_with_inputs_row("gemma3n", "gemma3n_text", gemma3n, read_gemma3n);
  row.vocabulary = 262400;
  row.kv_heads = 2;
  row.context = 32768;
  row.packed_gguf = stacked_streams;
  row.keys_in_all_layers = true;
  row.read_gguf = read_gguf_gemma3n;
  row.set_gguf = set_gguf_gemma3n;
  row.differs_from_gguf = gemma3n_differs;
  return row;
}
constexpr Architecture gemma4_row() {
  Architecture row = gemma_with_inputs_row("gemma4", "gemma4_text", gemma4, read_gemma4);
  row.vocabulary = 262144;
  row.kv_heads = 4;
  row.divides_still_pairs = true;
  row.read_gguf = read_gguf_gemma4;
  row.set_gguf = set_gguf_gemma4;
  row.differs_from_gguf = gemma4_differs;
  return row;
}
inline constexpr Architecture kGemma3nRow = gemma3n_row();
inline constexpr Architecture kGemma4Row = gemma4_row();

constexpr Architecture qwen3_vl_row(std::string_view gguf, std::string_view hugging_face,
                                    void (*apply)(DecoderConfig&)) {
  Architecture row = {.gguf = gguf, .hugging_face = hugging_face, .apply = apply};
  row.attention_bias = AttentionBias::all;
  row.rope_base = 5e6;
  row.read_gguf = read_gguf_places;
  row.set_gguf = set_gguf_places;
  row.read_json = read_places;
  return row;
}
constexpr Architecture qwen3_vl_moe_row(void (*apply)(DecoderConfig&)) {
  Architecture row = qwen3_vl_row("qwen3vlmoe", "qwen3_vl_moe_text", apply);
  row.names = kPackedExpertNames;
  row.experts.there = row.experts.in_by_out = true;
  row.experts.width = "moe_intermediate_size";
  row.experts.every = "decoder_sparse_step";
  return row;
}

inline constexpr Architecture kGptOssRow = {.gguf = "gpt-oss",
                                            .hugging_face = "gpt_oss",
                                            .apply = gpt_oss,
                                            .gguf_names = kGptOssGguf,
                                            .names = kGptOssNames,
                                            .attention_bias = AttentionBias::all,
                                            .rope_base = 150000,
                                            .experts = {.there = true, .in_by_out = true, .interleaved = true},
                                            .read_json = read_gpt_oss};

inline constexpr Architecture kLlama4Row = {.gguf = "llama4",
                                            .hugging_face = "llama4_text",
                                            .apply = llama4,
                                            .neighbours_in_hugging_face = true,
                                            .rotated = RotatedLayers::not_every_fourth,
                                            .names = kLlama4Names,
                                            .attention_bias = AttentionBias::all,
                                            .rope_base = 500000,
                                            .read_gguf = read_gguf_llama4,
                                            .set_gguf = set_gguf_expert_step,
                                            .differs_from_gguf = llama4_differs,
                                            .scales_queries = true,
                                            .experts = {.there = true, .in_by_out = true},
                                            .read_json = read_llama4};

}  // namespace etna::models
