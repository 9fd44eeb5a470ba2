#pragma once

#include <string_view>
#include <utility>

/// What files call the parts of a decoder, and their fields of config.json. Internal.
namespace etna::models {

inline constexpr std::pair<std::string_view, std::string_view> kLlamaNames[] = {
    {"token_embedding", "embed_tokens"},
    {"norm", "norm"},
    {"output", "lm_head"},
    {"attention_norm", "input_layernorm"},
    {"attention.qkv", "self_attn.qkv_proj"},
    {"attention.query", "self_attn.q_proj"},
    {"attention.key", "self_attn.k_proj"},
    {"attention.value", "self_attn.v_proj"},
    {"attention.output", "self_attn.o_proj"},
    {"attention.query_norm", "self_attn.q_norm"},
    {"attention.key_norm", "self_attn.k_norm"},
    {"attention.sub_norm", "self_attn.attn_sub_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn.gate", "mlp.gate_proj"},
    {"ffn.up", "mlp.up_proj"},
    {"ffn.down", "mlp.down_proj"},
    {"ffn.sub_norm", "mlp.ffn_sub_norm"},
    {"ffn.activation", "mlp.act_fn"},
    {"attention.latent.query_down", "self_attn.q_a_proj"},
    {"attention.latent.query_norm", "self_attn.q_a_layernorm"},
    {"attention.latent.down", "self_attn.kv_a_proj_with_mqa"},
    {"attention.latent.norm", "self_attn.kv_a_layernorm"},
    {"attention.latent.up", "self_attn.kv_b_proj"},
    {"ffn.router.logits", "mlp.gate"},
    {"ffn.router.choice_bias", "mlp.gate.e_score_correction_bias"},
    {"ffn.experts.gate", "mlp.experts.{}.gate_proj"},
    {"ffn.experts.up", "mlp.experts.{}.up_proj"},
    {"ffn.experts.down", "mlp.experts.{}.down_proj"},
    {"ffn.shared.gate", "mlp.shared_experts.gate_proj"},
    {"ffn.shared.up", "mlp.shared_experts.up_proj"},
    {"ffn.shared.down", "mlp.shared_experts.down_proj"},
    {"mtp.next_norm", "enorm"},
    {"mtp.hidden_norm", "hnorm"},
    {"mtp.combine", "eh_proj"},
    {"mtp.norm", "shared_head.norm"}};

inline constexpr std::pair<std::string_view, std::string_view> kGgufNames[] = {
    {"token_embedding", "token_embd"},
    {"position_embedding", "position_embd"},
    {"norm", "output_norm"},
    {"output", "output"},
    {"attention_norm", "attn_norm"},
    {"attention.qkv", "attn_qkv"},
    {"attention.query", "attn_q"},
    {"attention.key", "attn_k"},
    {"attention.value", "attn_v"},
    {"attention.output", "attn_output"},
    {"attention.query_norm", "attn_q_norm"},
    {"attention.key_norm", "attn_k_norm"},
    {"attention.sub_norm", "attn_sub_norm"},
    {"attention_post_norm", "post_attention_norm"},
    {"ffn_norm", "ffn_norm"},
    {"ffn.gate", "ffn_gate"},
    {"ffn.up", "ffn_up"},
    {"ffn.down", "ffn_down"},
    {"ffn.sub_norm", "ffn_sub_norm"},
    {"ffn.activation", "xielu"},
    {"ffn_post_norm", "post_ffw_norm"},
    {"ffn.router.logits", "ffn_gate_inp"},
    {"ffn.router.choice_bias", "exp_probs_b.bias"},
    {"ffn.experts.gate", "ffn_gate_exps"},
    {"ffn.experts.up", "ffn_up_exps"},
    {"ffn.experts.down", "ffn_down_exps"},
    {"ffn.shared.gate", "ffn_gate_shexp"},
    {"ffn.shared.up", "ffn_up_shexp"},
    {"ffn.shared.down", "ffn_down_shexp"},
    {"mtp.next_norm", "nextn.enorm"},
    {"mtp.hidden_norm", "nextn.hnorm"},
    {"mtp.combine", "nextn.eh_proj"},
    {"mtp.norm", "nextn.shared_head_norm"}};

/// Gemma 2 and 3 have norms on both sides.
inline constexpr std::pair<std::string_view, std::string_view> kGemmaNames[] = {
    {"attention_post_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_post_norm", "post_feedforward_layernorm"}};

/// Gemma 3n and 4: Gemma's, and those of inputs of blocks, streams, and experts besides.
inline constexpr std::pair<std::string_view, std::string_view> kGemmaWithInputsNames[] = {
    {"attention_post_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_post_norm", "post_feedforward_layernorm"},
    {"layer_inputs.table", "embed_tokens_per_layer"},
    {"layer_inputs.projection", "per_layer_model_projection"},
    {"layer_inputs.norm", "per_layer_projection_norm"},
    {"input.gate", "per_layer_input_gate"},
    {"input.projection", "per_layer_projection"},
    {"input.norm", "post_per_layer_input_norm"},
    {"scale", "layer_scalar"},
    {"laurel.left", "laurel.linear_left"},
    {"laurel.right", "laurel.linear_right"},
    {"laurel.norm", "laurel.post_laurel_norm"},
    {"streams.starts", "altup_projections"},
    {"streams.ends", "altup_unembed_projections"},
    {"mixer.router", "altup.modality_router"},
    {"mixer.router_norm", "altup.router_norm"},
    {"mixer.prediction", "altup.prediction_coefs.weight"},
    {"mixer.correction", "altup.correction_coefs.weight"},
    {"mixer.scale", "altup.correct_output_scale"},
    {"beside.ffn.router.logits", "router.proj"},
    {"beside.router_scale", "router.scale"},
    {"beside.factors", "router.per_expert_scale"},
    {"beside.dense_norm", "post_feedforward_layernorm_1"},
    {"beside.norm", "pre_feedforward_layernorm_2"},
    {"beside.post_norm", "post_feedforward_layernorm_2"},
    {"ffn.experts.gate.weight", "experts.gate_up_proj"},
    {"ffn.experts.up.weight", "experts.gate_up_proj"},
    {"ffn.experts.down.weight", "experts.down_proj"}};

inline constexpr std::pair<std::string_view, std::string_view> kGemmaWithInputsGguf[] = {
    {"layer_inputs.table", "per_layer_token_embd"},
    {"layer_inputs.projection", "per_layer_model_proj"},
    {"layer_inputs.norm", "per_layer_proj_norm"},
    {"input.gate", "inp_gate"},
    {"input.projection", "proj"},
    {"input.norm", "post_norm"},
    {"scale", "layer_output_scale.weight"},
    {"laurel.left", "laurel_l"},
    {"laurel.right", "laurel_r"},
    {"laurel.norm", "laurel_post_norm"},
    {"mixer.router", "altup_router"},
    {"mixer.router_norm", "altup_router_norm"},
    {"mixer.prediction", "altup_predict_coef.weight"},
    {"mixer.correction", "altup_correct_coef.weight"},
    {"mixer.scale", "altup_correct_scale.weight"},
    {"beside.ffn.router.logits", "ffn_gate_inp"},
    {"beside.router_scale", "ffn_gate_inp.scale"},
    {"beside.factors", "ffn_down_exps.scale"},
    {"beside.dense_norm", "post_ffw_norm_1"},
    {"beside.norm", "pre_ffw_norm_2"},
    {"beside.post_norm", "post_ffw_norm_2"}};

inline constexpr std::pair<std::string_view, std::string_view> kGptOssNames[] = {
    {"attention.sinks", "self_attn.sinks"},
    {"ffn.router.logits", "mlp.router"},
    {"ffn.experts.gate.weight", "mlp.experts.gate_up_proj"},
    {"ffn.experts.up.weight", "mlp.experts.gate_up_proj"},
    {"ffn.experts.down.weight", "mlp.experts.down_proj"},
    {"ffn.experts.gate.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn.experts.up.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn.experts.down.bias", "mlp.experts.down_proj_bias"}};

/// Experts of Qwen3-VL.
inline constexpr std::pair<std::string_view, std::string_view> kPackedExpertNames[] = {
    {"ffn.experts.gate.weight", "mlp.experts.gate_up_proj"},
    {"ffn.experts.up.weight", "mlp.experts.gate_up_proj"},
    {"ffn.experts.down.weight", "mlp.experts.down_proj"}};

/// The norm of the feed-forward layer is called after what is in front of it.
inline constexpr std::pair<std::string_view, std::string_view> kGptOssGguf[] = {
    {"ffn_norm", "post_attention_norm"}, {"attention.sinks", "attn_sinks.weight"}};

inline constexpr std::pair<std::string_view, std::string_view> kLlama4Names[] = {
    {"ffn.gate", "feed_forward.gate_proj"},
    {"ffn.up", "feed_forward.up_proj"},
    {"ffn.down", "feed_forward.down_proj"},
    {"ffn.router.logits", "feed_forward.router"},
    {"ffn.shared.gate", "feed_forward.shared_expert.gate_proj"},
    {"ffn.shared.up", "feed_forward.shared_expert.up_proj"},
    {"ffn.shared.down", "feed_forward.shared_expert.down_proj"},
    {"ffn.experts.gate.weight", "feed_forward.experts.gate_up_proj"},
    {"ffn.experts.up.weight", "feed_forward.experts.gate_up_proj"},
    {"ffn.experts.down.weight", "feed_forward.experts.down_proj"}};

/// OLMo 2 and EXAONE 4 have norms behind the sublayers only.
inline constexpr std::pair<std::string_view, std::string_view> kPostNormNames[] = {
    {"attention_post_norm", "post_attention_layernorm"}, {"ffn_post_norm", "post_feedforward_layernorm"}};

inline constexpr std::pair<std::string_view, std::string_view> kGlm4Names[] = {
    {"attention_post_norm", "post_self_attn_layernorm"}, {"ffn_post_norm", "post_mlp_layernorm"}};

inline constexpr std::pair<std::string_view, std::string_view> kGraniteKeys[] = {{"logit_scale", "logits_scaling"}};

inline constexpr std::pair<std::string_view, std::string_view> kStablelmKeys[] = {{"attention_bias", "use_qkv_bias"}};

inline constexpr std::pair<std::string_view, std::string_view> kGptNeoxNames[] = {
    {"token_embedding", "embed_in"},
    {"norm", "final_layer_norm"},
    {"output", "embed_out"},
    {"attention.qkv", "attention.query_key_value"},
    {"attention.output", "attention.dense"},
    {"ffn.up", "mlp.dense_h_to_4h"},
    {"ffn.down", "mlp.dense_4h_to_h"}};

inline constexpr std::pair<std::string_view, std::string_view> kGptNeoxKeys[] = {
    {"num_key_value_heads", ""},
    {"head_dim", ""},
    {"partial_rotary_factor", "rotary_pct"},
    {"rope_theta", "rotary_emb_base"}};

inline constexpr std::string_view kGptNeoxBuffers[] = {".attention.bias", ".attention.masked_bias"};

inline constexpr std::pair<std::string_view, std::string_view> kApertusNames[] = {
    {"attention_norm", "attention_layernorm"}, {"ffn_norm", "feedforward_layernorm"}};

inline constexpr std::pair<std::string_view, std::string_view> kMixtralNames[] = {
    {"ffn.router.logits", "block_sparse_moe.gate"},
    {"ffn.experts.gate", "block_sparse_moe.experts.{}.w1"},
    {"ffn.experts.up", "block_sparse_moe.experts.{}.w3"},
    {"ffn.experts.down", "block_sparse_moe.experts.{}.w2"}};

inline constexpr std::pair<std::string_view, std::string_view> kGraniteMoeNames[] = {
    {"ffn.router.logits", "block_sparse_moe.router.layer"},
    {"ffn.experts.gate", "block_sparse_moe.input_linear"},
    {"ffn.experts.up", "block_sparse_moe.input_linear"},
    {"ffn.experts.down", "block_sparse_moe.output_linear"}};

inline constexpr std::pair<std::string_view, std::string_view> kErnieNames[] = {
    {"ffn.router.choice_bias", "mlp.moe_statics.e_score_correction_bias"}};

inline constexpr std::pair<std::string_view, std::string_view> kLayerNormKeys[] = {{"layer_norm_eps", "rms_norm_eps"}};

/// In GGUF files the norm of the feed-forward layer is called after what is in front of it.
inline constexpr std::pair<std::string_view, std::string_view> kSeedOssGguf[] = {{"ffn_norm", "post_attention_norm"}};

/// The first BitNet models; later ones have llama's names.
inline constexpr std::pair<std::string_view, std::string_view> kBitnetNames[] = {
    {"attention.sub_norm", "self_attn.inner_attn_ln"}, {"ffn.sub_norm", "mlp.ffn_layernorm"}};

inline constexpr std::pair<std::string_view, std::string_view> kPhiNames[] = {{"attention.output", "self_attn.dense"},
                                                                              {"ffn.up", "mlp.fc1"},
                                                                              {"ffn.down", "mlp.fc2"},
                                                                              {"norm", "final_layernorm"}};

inline constexpr std::pair<std::string_view, std::string_view> kStarcoder2Names[] = {{"ffn.up", "mlp.c_fc"},
                                                                                     {"ffn.down", "mlp.c_proj"}};

inline constexpr std::pair<std::string_view, std::string_view> kStarcoder2Keys[] = {{"layer_norm_eps", "norm_epsilon"}};

inline constexpr std::pair<std::string_view, std::string_view> kGpt2Names[] = {
    {"token_embedding", "wte"}, {"position_embedding", "wpe"},    {"norm", "ln_f"},
    {"attention_norm", "ln_1"}, {"attention.qkv", "attn.c_attn"}, {"attention.output", "attn.c_proj"},
    {"ffn_norm", "ln_2"},       {"ffn.up", "mlp.c_fc"},           {"ffn.down", "mlp.c_proj"}};

inline constexpr std::pair<std::string_view, std::string_view> kGpt2Keys[] = {
    {"max_position_embeddings", "n_positions"}, {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},           {"num_attention_heads", "n_head"},
    {"intermediate_size", "n_inner"},           {"layer_norm_eps", "layer_norm_epsilon"},
    {"hidden_act", "activation_function"}};

/// Masks that Hugging Face's class kept.
inline constexpr std::string_view kGpt2Buffers[] = {".attn.bias", ".attn.masked_bias"};

inline constexpr std::pair<std::string_view, std::string_view> kLatentGguf[] = {
    {"attention.latent.query_down", "attn_q_a"}, {"attention.latent.query_norm", "attn_q_a_norm"},
    {"attention.latent.query", "attn_q_b"},      {"attention.latent.down", "attn_kv_a_mqa"},
    {"attention.latent.norm", "attn_kv_a_norm"}, {"attention.latent.up", "attn_kv_b"}};

/// Queries of latent attention, which may have one projection or two.
inline constexpr std::pair<std::string_view, std::string_view> kLatentQueryNames[] = {
    {"attention.latent.query", "self_attn.q_b_proj"}};

}  // namespace etna::models
