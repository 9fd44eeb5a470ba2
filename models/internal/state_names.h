#pragma once

#include <string_view>
#include <utility>

/// What files of families whose layers keep a state call their parts, and their fields of config.json. Internal.
namespace etna::models {

inline constexpr std::pair<std::string_view, std::string_view> kDeltaNames[] = {
    {"delta.qkv", "linear_attn.in_proj_qkv"},
    {"delta.gate", "linear_attn.in_proj_z"},
    {"delta.beta", "linear_attn.in_proj_b"},
    {"delta.decay", "linear_attn.in_proj_a"},
    {"delta.kernel", "linear_attn.conv1d"},
    {"delta.log_decay", "linear_attn.A_log"},
    {"delta.step_bias", "linear_attn.dt_bias"},
    {"delta.norm", "linear_attn.norm"},
    {"delta.output", "linear_attn.out_proj"},
    {"ffn.shared.gate", "mlp.shared_expert.gate_proj"},
    {"ffn.shared.up", "mlp.shared_expert.up_proj"},
    {"ffn.shared.down", "mlp.shared_expert.down_proj"},
    {"ffn.shared_gate", "mlp.shared_expert_gate"},
    {"mtp.next_norm", "pre_fc_norm_embedding"},
    {"mtp.hidden_norm", "pre_fc_norm_hidden"},
    {"mtp.combine", "fc"},
    {"mtp.norm", "norm"}};

inline constexpr std::pair<std::string_view, std::string_view> kLfm2Names[] = {
    {"norm", "embedding_norm"},
    {"attention_norm", "operator_norm"},
    {"attention.output", "self_attn.out_proj"},
    {"attention.query_norm", "self_attn.q_layernorm"},
    {"attention.key_norm", "self_attn.k_layernorm"},
    {"convolution.input", "conv.in_proj"},
    {"convolution.kernel", "conv.conv"},
    {"convolution.output", "conv.out_proj"},
    {"ffn_norm", "ffn_norm"},
    {"ffn.gate", "feed_forward.w1"},
    {"ffn.up", "feed_forward.w3"},
    {"ffn.down", "feed_forward.w2"},
    {"ffn.router.logits", "feed_forward.gate"},
    {"ffn.router.choice_bias", "feed_forward.expert_bias"},
    {"ffn.experts.gate", "feed_forward.experts.{}.w1"},
    {"ffn.experts.up", "feed_forward.experts.{}.w3"},
    {"ffn.experts.down", "feed_forward.experts.{}.w2"}};

inline constexpr std::pair<std::string_view, std::string_view> kBambaNames[] = {
    {"norm", "final_layernorm"},        {"mamba.input", "mamba.in_proj"},      {"mamba.kernel", "mamba.conv1d"},
    {"mamba.log_decay", "mamba.A_log"}, {"mamba.step_bias", "mamba.dt_bias"},  {"mamba.skip", "mamba.D"},
    {"mamba.output", "mamba.out_proj"}, {"ffn_norm", "pre_ff_layernorm"},      {"ffn.gate", "feed_forward.gate_proj"},
    {"ffn.up", "feed_forward.up_proj"}, {"ffn.down", "feed_forward.down_proj"}};

inline constexpr std::pair<std::string_view, std::string_view> kGraniteHybridNames[] = {
    {"mamba.input", "mamba.in_proj"},
    {"mamba.kernel", "mamba.conv1d"},
    {"mamba.log_decay", "mamba.A_log"},
    {"mamba.step_bias", "mamba.dt_bias"},
    {"mamba.skip", "mamba.D"},
    {"mamba.output", "mamba.out_proj"},
    {"ffn.down", "shared_mlp.output_linear"},
    {"ffn.router.logits", "block_sparse_moe.router.layer"},
    {"ffn.experts.gate", "block_sparse_moe.input_linear"},
    {"ffn.experts.up", "block_sparse_moe.input_linear"},
    {"ffn.experts.down", "block_sparse_moe.output_linear"},
    {"ffn.shared.down", "shared_mlp.output_linear"}};

inline constexpr std::pair<std::string_view, std::string_view> kMamba2Names[] = {
    {"token_embedding", "embeddings"},    {"norm", "norm_f"},
    {"attention_norm", "norm"},           {"mamba.input", "mixer.in_proj"},
    {"mamba.kernel", "mixer.conv1d"},     {"mamba.log_decay", "mixer.A_log"},
    {"mamba.step_bias", "mixer.dt_bias"}, {"mamba.skip", "mixer.D"},
    {"mamba.norm", "mixer.norm"},         {"mamba.output", "mixer.out_proj"}};

inline constexpr std::pair<std::string_view, std::string_view> kNemotronHNames[] = {
    {"token_embedding", "embeddings"},
    {"norm", "norm_f"},
    {"attention_norm", "norm"},
    {"attention.query", "mixer.q_proj"},
    {"attention.key", "mixer.k_proj"},
    {"attention.value", "mixer.v_proj"},
    {"attention.output", "mixer.o_proj"},
    {"mamba.input", "mixer.in_proj"},
    {"mamba.kernel", "mixer.conv1d"},
    {"mamba.log_decay", "mixer.A_log"},
    {"mamba.step_bias", "mixer.dt_bias"},
    {"mamba.skip", "mixer.D"},
    {"mamba.norm", "mixer.norm"},
    {"mamba.output", "mixer.out_proj"},
    {"ffn_norm", "norm"},
    {"ffn.up", "mixer.up_proj"},
    {"ffn.down", "mixer.down_proj"},
    {"ffn.router.logits", "mixer.gate"},
    {"ffn.router.choice_bias", "mixer.gate.e_score_correction_bias"},
    {"ffn.experts.up", "mixer.experts.{}.up_proj"},
    {"ffn.experts.down", "mixer.experts.{}.down_proj"},
    {"ffn.latent_down", "mixer.fc1_latent_proj"},
    {"ffn.latent_up", "mixer.fc2_latent_proj"},
    {"ffn.shared.up", "mixer.shared_experts.up_proj"},
    {"ffn.shared.down", "mixer.shared_experts.down_proj"}};

/// Delta nets in GGUF files.
inline constexpr std::pair<std::string_view, std::string_view> kDeltaGguf[] = {
    {"delta.qkv", "attn_qkv"},
    {"delta.gate", "attn_gate"},
    {"delta.beta", "ssm_beta"},
    {"delta.decay", "ssm_alpha"},
    {"delta.kernel", "ssm_conv1d"},
    {"delta.log_decay", "ssm_a"},
    {"delta.step_bias", "ssm_dt.bias"},
    {"delta.norm", "ssm_norm"},
    {"delta.output", "ssm_out"},
    {"ffn_norm", "post_attention_norm"},
    {"ffn.shared_gate", "ffn_gate_inp_shexp"}};

/// Parts that keep a state, in GGUF files.
inline constexpr std::pair<std::string_view, std::string_view> kMambaGguf[] = {
    {"mamba.input", "ssm_in"},          {"mamba.kernel", "ssm_conv1d"}, {"mamba.log_decay", "ssm_a"},
    {"mamba.step_bias", "ssm_dt.bias"}, {"mamba.skip", "ssm_d"},        {"mamba.norm", "ssm_norm"},
    {"mamba.output", "ssm_out"}};

inline constexpr std::pair<std::string_view, std::string_view> kFalconH1Gguf[] = {
    {"mamba.input", "ssm_in"},          {"mamba.kernel", "ssm_conv1d"}, {"mamba.log_decay", "ssm_a"},
    {"mamba.step_bias", "ssm_dt.bias"}, {"mamba.skip", "ssm_d"},        {"mamba.norm", "ssm_norm"},
    {"mamba.output", "ssm_out"},        {"ffn_norm.weight", "ffn_norm"}};

/// The same where a block has one norm, whatever is behind it.
inline constexpr std::pair<std::string_view, std::string_view> kNemotronHGguf[] = {
    {"mamba.input", "ssm_in"},          {"mamba.kernel", "ssm_conv1d"}, {"mamba.log_decay", "ssm_a"},
    {"mamba.step_bias", "ssm_dt.bias"}, {"mamba.skip", "ssm_d"},        {"mamba.norm", "ssm_norm"},
    {"mamba.output", "ssm_out"},        {"ffn_norm", "attn_norm"},      {"ffn.latent_down", "ffn_latent_down"},
    {"ffn.latent_up", "ffn_latent_up"}};

inline constexpr std::pair<std::string_view, std::string_view> kLfm2Gguf[] = {
    {"norm", "token_embd_norm"},
    {"convolution.input", "shortconv.in_proj"},
    {"convolution.kernel", "shortconv.conv"},
    {"convolution.output", "shortconv.out_proj"}};

inline constexpr std::pair<std::string_view, std::string_view> kLfm2Keys[] = {{"rms_norm_eps", "norm_eps"}};

inline constexpr std::pair<std::string_view, std::string_view> kMamba2Keys[] = {{"rms_norm_eps", "layer_norm_epsilon"}};

inline constexpr std::pair<std::string_view, std::string_view> kFalconH1Keys[] = {
    {"logit_scale", "lm_head_multiplier"}};

inline constexpr std::pair<std::string_view, std::string_view> kGraniteHybridKeys[] = {
    {"logit_scale", "logits_scaling"}, {"intermediate_size", "shared_intermediate_size"}};

inline constexpr std::pair<std::string_view, std::string_view> kNemotronHKeys[] = {
    {"rms_norm_eps", "layer_norm_epsilon"}, {"hidden_act", "mlp_hidden_act"}};

}  // namespace etna::models
