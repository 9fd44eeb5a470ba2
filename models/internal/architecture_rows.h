#pragma once

#include <string_view>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/architecture_names.h>

/// Rows of the table in architecture.cpp: Gemma, and families with parts that few have. Internal.
namespace etna::models {

// ---- what config.json says of these families only (decoder_config_json_families.cpp)
void read_gpt_oss(const nlohmann::json& json, DecoderConfig& config);
void read_llama4(const nlohmann::json& json, DecoderConfig& config);
void read_gemma3n(const nlohmann::json& json, DecoderConfig& config);
void read_gemma4(const nlohmann::json& json, DecoderConfig& config);

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
inline void gemma3n(DecoderConfig& c) {
  gemma3(c);
  c.value_norm = true;
  c.attention_scale = 1;
  c.window_every = 5;
  c.logit_softcap = 30;
}
inline void gemma4(DecoderConfig& c) {
  gemma3(c);
  c.value_norm = c.block_scales = true;
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
constexpr Architecture gemma3_row(std::string_view hugging_face) {
  Architecture row = gemma_row("gemma3", hugging_face, gemma3);
  row.names = kGemmaNames;
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
  row.only_hugging_face = true;
  row.names = kGemmaWithInputsNames;
  row.norm_offset = 0;
  row.heads = 8;
  row.head_size = 256;
  row.context = 131072;
  row.rope_base = 1e6;
  row.read_json = read;
  return row;
}
constexpr Architecture gemma3n_row() {
  Architecture row = gemma_with_inputs_row("gemma3n", "gemma3n_text", gemma3n, read_gemma3n);
  row.vocabulary = 262400;
  row.kv_heads = 2;
  row.context = 32768;
  return row;
}
constexpr Architecture gemma4_row() {
  Architecture row = gemma_with_inputs_row("gemma4", "gemma4_text", gemma4, read_gemma4);
  row.vocabulary = 262144;
  row.kv_heads = 4;
  return row;
}
inline constexpr Architecture kGemma3nRow = gemma3n_row();
inline constexpr Architecture kGemma4Row = gemma4_row();

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
                                            .only_hugging_face = true,
                                            .apply = llama4,
                                            .neighbours_in_hugging_face = true,
                                            .names = kLlama4Names,
                                            .attention_bias = AttentionBias::all,
                                            .rope_base = 500000,
                                            .experts = {.there = true, .in_by_out = true},
                                            .read_json = read_llama4};

}  // namespace etna::models
