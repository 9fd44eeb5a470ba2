#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/models/decoder_config.h>

namespace etna::models {

using StateJson = nlohmann::json;

inline StateJson family_json(const std::string& type) {
  StateJson json = {{"model_type", type},
                    {"vocab_size", 97},
                    {"hidden_size", 32},
                    {"num_hidden_layers", 3},
                    {"num_attention_heads", 4},
                    {"num_key_value_heads", 2},
                    {"head_dim", 8},
                    {"intermediate_size", 48},
                    {"max_position_embeddings", 512},
                    {"rms_norm_eps", 1e-5},
                    {"linear_num_key_heads", 2},
                    {"linear_num_value_heads", 4},
                    {"linear_key_head_dim", 8},
                    {"linear_value_head_dim", 6},
                    {"linear_conv_kernel_dim", 4},
                    {"full_attention_interval", 2}};
  return json;
}

inline void add_mamba(StateJson& json, std::int64_t groups) {
  json.update({{"mamba_n_heads", 4},
               {"mamba_n_groups", groups},
               {"mamba_d_head", 16},
               {"mamba_d_state", 8},
               {"mamba_d_conv", 4}});
}

/// Small configurations: of each kind of layer, and of what the families' switches do.
inline std::vector<std::pair<std::string, StateJson>> state_designs() {
  std::vector<std::pair<std::string, StateJson>> all;
  all.emplace_back("delta net", family_json("qwen3_5_text"));
  StateJson next = family_json("qwen3_next");
  next.update({{"num_hidden_layers", 4},
               {"num_experts", 4},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 16},
               {"shared_expert_intermediate_size", 24},
               {"decoder_sparse_step", 2},
               {"mlp_only_layers", {3}},
               {"attention_bias", true}});
  all.emplace_back("delta net, some layers with experts", next);
  StateJson convolution = family_json("lfm2");
  convolution.update({{"conv_L_cache", 3}, {"conv_bias", true}, {"full_attn_idxs", {1}}, {"norm_eps", 1e-5}});
  all.emplace_back("convolution", convolution);
  StateJson falcon = family_json("falcon_h1");
  add_mamba(falcon, 2);
  falcon.update({{"mamba_rms_norm", true},
                 {"mamba_norm_before_gate", false},
                 {"mamba_proj_bias", true},
                 {"projectors_bias", true},
                 {"attention_in_multiplier", 0.7},
                 {"attention_out_multiplier", 1.3},
                 {"key_multiplier", 0.6},
                 {"ssm_in_multiplier", 1.2},
                 {"ssm_out_multiplier", 0.8},
                 {"lm_head_multiplier", 0.5},
                 {"embedding_multiplier", 2.0},
                 {"mlp_multipliers", {0.9, 1.1}},
                 {"time_step_limit", {0.1, 1}},
                 {"ssm_multipliers", {0.5, 2, 0.25, 1.5, 0.75}}});
  all.emplace_back("attention and Mamba-2", falcon);
  StateJson granite = family_json("granitemoehybrid");
  add_mamba(granite, 1);
  granite.update({{"layer_types", {"mamba", "attention", "mamba"}},
                  {"num_local_experts", 4},
                  {"num_experts_per_tok", 2},
                  {"shared_intermediate_size", 24},
                  {"position_embedding_type", "rope"},
                  {"residual_multiplier", 0.4},
                  {"logits_scaling", 2.0}});
  all.emplace_back("Mamba-2 and experts", granite);
  StateJson nemotron = family_json("nemotron_h");
  nemotron.erase("num_hidden_layers");
  nemotron.update({{"hybrid_override_pattern", "M-*EM"},
                   {"mamba_num_heads", 4},
                   {"mamba_head_dim", 8},
                   {"n_groups", 2},
                   {"ssm_state_size", 8},
                   {"conv_kernel", 4},
                   {"use_conv_bias", false},
                   {"mlp_hidden_act", "relu2"},
                   {"n_routed_experts", 4},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", 16},
                   {"moe_latent_size", 20},
                   {"moe_shared_expert_intermediate_size", 24}});
  all.emplace_back("blocks of one sublayer", nemotron);
  StateJson alone = family_json("mamba2");
  alone.update({{"num_heads", 4}, {"head_dim", 16}, {"n_groups", 2}, {"state_size", 8}, {"conv_kernel", 4}});
  all.emplace_back("no attention", alone);
  StateJson mixture = convolution;
  mixture.update({{"model_type", "lfm2_moe"},
                  {"num_experts", 4},
                  {"num_experts_per_tok", 2},
                  {"moe_intermediate_size", 20},
                  {"num_dense_layers", 1}});
  all.emplace_back("convolution and experts", mixture);
  return all;
}

inline DecoderConfig state_config_of(const StateJson& json) { return decoder_config(json.dump(), "config.json"); }

}  // namespace etna::models
