#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/decoder_config.h>

// The config.json of each family, as its authors publish it. The numbers of weights are theirs.
namespace etna::models {
namespace {

using testing::HasSubstr;

DecoderConfig read(const std::string& json) { return decoder_config(json, "config.json"); }

std::string family_config_refusal(const std::string& json) {
  try {
    read(json);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

std::string mistral(const std::string& window) {
  return R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
    "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": )" +
         window + R"(, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
    "vocab_size": 32000})";
}

TEST(FamilyConfig, Mistral) {
  const DecoderConfig c = read(mistral("4096"));
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.num_parameters(), 7'241'732'096);
  EXPECT_EQ(c.window, 4096);
  EXPECT_TRUE(c.has_window(0) && c.has_window(31));
  EXPECT_EQ(c.head_size, 128);
  EXPECT_FALSE(c.tied || c.query_bias || c.rope.interleaved);
  EXPECT_FALSE(read(mistral("null")).has_window(0));
}

TEST(FamilyConfig, Starcoder2) {
  const std::string three_billion =
      R"({"architectures": ["Starcoder2ForCausalLM"], "attention_softmax_in_fp32": true, "bos_token_id": 0,
    "eos_token_id": 0, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072, "intermediate_size": 12288,
    "layer_norm_epsilon": 1e-05, "max_position_embeddings": 16384, "mlp_type": "default", "model_type": "starcoder2",
    "norm_epsilon": 1e-05, "norm_type": "layer_norm", "num_attention_heads": 24, "num_hidden_layers": 30,
    "num_key_value_heads": 2, "rope_theta": 999999.4420358813, "scale_attn_weights": true, "sliding_window": 4096,
    "use_bias": true, "vocab_size": 49152})";
  const DecoderConfig c = read(three_billion);
  EXPECT_EQ(c.num_parameters(), 3'030'371'328);
  EXPECT_TRUE(c.tied && c.norm_bias && c.ffn_bias && c.query_bias && c.output_bias && !c.gated);
  EXPECT_EQ(c.norm, NormKind::layer);
  EXPECT_EQ(c.activation, Activation::gelu_tanh);
  EXPECT_EQ(c.window, 4096);
  EXPECT_NEAR(c.rope.base, 999999.44, 0.01);
  std::string without = three_billion;
  without.replace(without.find("\"use_bias\": true"), 16, "\"use_bias\": false");
  const DecoderConfig bare = read(without);
  EXPECT_FALSE(bare.query_bias || bare.output_bias || bare.ffn_bias);
  EXPECT_TRUE(bare.norm_bias);
}

TEST(FamilyConfig, RefusesWhatWouldRunAsAnotherModel) {
  const auto with = [](const std::string& type, const std::string& fields) {
    return R"({"model_type": ")" + type + R"(", "vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 512, "n_positions": 512,
      "n_embd": 64, "n_layer": 2, "n_head": 4)" +
           fields + "}";
  };
  const std::vector<std::array<const char*, 3>> cases = {
      {"gpt2", R"(, "scale_attn_weights": false)", "scale_attn_weights"},
      {"gpt2", R"(, "scale_attn_by_inverse_layer_idx": true)", "scale_attn_by_inverse_layer_idx"},
      {"phi", R"(, "qk_layernorm": true)", "qk_layernorm"},
      {"bitnet", R"(, "quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear",
        "quantization_mode": "online", "use_rms_norm": true})",
       "use_rms_norm"},
      {"llama", R"(, "rope_scaling": {"rope_type": "linear"})", "'factor' of rope_scaling is missing"},
      {"llama", R"(, "rope_scaling": {"rope_type": "yarn"})", "'factor' of rope_scaling is missing"},
      {"llama", R"(, "layer_types": ["chunked_attention", "full_attention"])", "chunked_attention"},
      {"llama", R"(, "layer_types": "x")", "'layer_types' has \"x\""},
      {"llama", R"(, "sliding_window": 8, "layer_types": ["sliding_attention"])", "for 2 layers"},
      {"llama", R"(, "sliding_window": 8, "layer_types": [])", "for 2 layers"},
      {"llama", R"(, "clip_qkv": 0.5)", "behind norms of all heads together"},
      {"olmoe", R"(, "num_experts": 4, "clip_qkv": -1)", "limit of queries, keys and values is -1"},
      {"glm4_moe", R"(, "n_routed_experts": 4, "moe_intermediate_size": 8, "mlp_layer_types": ["sparse", 3])",
       "'mlp_layer_types' has 3"},
      {"glm4_moe", R"(, "n_routed_experts": 4, "moe_intermediate_size": 8, "mlp_layer_types": ["sparse"])",
       "has 1 entries for 2 layers"},
      {"llama", R"(, "rope_theta": 1e-300)", "rope's base"},
      {"llama", R"(, "query_pre_attn_scalar": 1e-320)", "the scale of attention"},
      {"llama", R"(, "head_dim": 9223372036854775808)", "'head_dim' is 9223372036854775808; wanted a whole number"},
  };
  for (const auto& [type, fields, wanted] : cases)
    EXPECT_THAT(family_config_refusal(with(type, fields)), HasSubstr(wanted));
  EXPECT_THAT(family_config_refusal("[]"), HasSubstr("config.json: not a config: wanted a JSON object"));
  EXPECT_THAT(family_config_refusal(R"({"model_type": "llama",})"), HasSubstr("not a config: invalid or cut off JSON"));

  EXPECT_EQ(read(with("phi", "")).rope.size, 8);
  const std::string yarn =
      R"(, "rope_scaling": {"rope_type": "yarn", "factor": null, "original_max_position_embeddings": 128})";
  EXPECT_EQ(read(with("llama", yarn)).rope.factor, 4);
  const std::string gemma2 = R"(, "head_dim": 16, "sliding_window": 8)";
  EXPECT_EQ(read(with("gemma2", gemma2)).logit_softcap, 30);
  EXPECT_EQ(read(with("gemma2", gemma2 + R"(, "final_logit_softcapping": null)")).logit_softcap, 0);
}

std::string qwen2(const std::string& window) {
  return R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "model_type": "qwen2", "num_attention_heads": 14,
    "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, )" +
         window + R"("vocab_size": 151936})";
}

TEST(FamilyConfig, Qwen2) {
  const DecoderConfig c = read(qwen2(R"("max_window_layers": 21, "use_sliding_window": false, )"));
  EXPECT_EQ(c.architecture, "qwen2");
  EXPECT_EQ(c.num_parameters(), 494'032'768);
  EXPECT_TRUE(c.query_bias && c.tied);
  EXPECT_FALSE(c.output_bias || c.ffn_bias || c.query_key_norm);
  EXPECT_EQ(c.rope.base, 1e6);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.window, 0);
}

TEST(FamilyConfig, WindowsOfQwenBeginAtALayer) {
  EXPECT_EQ(read(qwen2("")).window, 0) << "the switch is off where it is missing";
  EXPECT_EQ(read(qwen2(R"("max_window_layers": 24, "use_sliding_window": true, )")).window, 0);
  EXPECT_EQ(read(qwen2(R"("max_window_layers": 0, "use_sliding_window": true, )")).window, 32768);
  const DecoderConfig c = read(qwen2(R"("max_window_layers": 21, "use_sliding_window": true, )"));
  for (std::int64_t i = 0; i < c.layers; ++i) EXPECT_EQ(c.layer(i).window, i >= 21 ? 32768 : 0) << i;
}

TEST(FamilyConfig, Qwen3) {
  const DecoderConfig c = read(R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
    "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
    "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
    "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(c.num_parameters(), 596'049'920);
  EXPECT_TRUE(c.query_key_norm && c.tied);
  EXPECT_FALSE(c.query_bias);
  EXPECT_EQ(c.query_rows(), 2048);
  EXPECT_EQ(c.rope.size, 128);
  EXPECT_EQ(c.rope.scaling, RopeScaling::none);
}

TEST(FamilyConfig, Gemma1) {
  const DecoderConfig c = read(R"({"architectures": ["GemmaForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 2, "eos_token_id": 1, "head_dim": 256, "hidden_act": "gelu",
    "hidden_activation": null, "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 16384,
    "max_position_embeddings": 8192, "model_type": "gemma", "num_attention_heads": 8, "num_hidden_layers": 18,
    "num_key_value_heads": 1, "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000.0,
    "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 256000})");
  EXPECT_EQ(c.num_parameters(), 2'506'172'416);
  EXPECT_EQ(c.activation, Activation::gelu_tanh);
  EXPECT_TRUE(c.tied && c.gated);
  EXPECT_FALSE(c.post_norms || c.query_key_norm);
  EXPECT_NEAR(c.embedding_scale, std::sqrt(2048.0), 1e-9);
  EXPECT_DOUBLE_EQ(c.score_scale(), 1.0 / 16);
}

std::string gemma2(const std::string& sizes) {
  return R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
    "final_logit_softcapping": 30.0, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
    "initializer_range": 0.02, "max_position_embeddings": 8192, "model_type": "gemma2", "pad_token_id": 0,
    "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "sliding_window_size": 4096,
    "torch_dtype": "float32", "use_cache": true, "vocab_size": 256000, )" +
         sizes + "}";
}

TEST(FamilyConfig, Gemma2) {
  const DecoderConfig c = read(gemma2(R"("head_dim": 256, "hidden_size": 3584, "intermediate_size": 14336,
    "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8, "query_pre_attn_scalar": 256)"));
  EXPECT_EQ(c.num_parameters(), 9'241'705'984);
  EXPECT_TRUE(c.post_norms && c.tied);
  EXPECT_EQ(c.attention_softcap, 50);
  EXPECT_EQ(c.logit_softcap, 30);
  EXPECT_TRUE(c.has_window(0) && !c.has_window(1) && c.has_window(40) && !c.has_window(41));
  EXPECT_DOUBLE_EQ(c.score_scale(), 1.0 / 16);
  const DecoderConfig large = read(gemma2(R"("head_dim": 128, "hidden_size": 4608, "intermediate_size": 36864,
    "num_attention_heads": 32, "num_hidden_layers": 46, "num_key_value_heads": 16, "query_pre_attn_scalar": 144)"));
  EXPECT_EQ(large.num_parameters(), 27'227'128'320);
  EXPECT_DOUBLE_EQ(large.score_scale(), 1.0 / 12);
}

/// With the parts for images left out.
std::string gemma3(const std::string& text) {
  return R"({"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999, "eos_token_id": [1, 106],
    "image_token_index": 262144, "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
    "text_config": {"model_type": "gemma3_text", "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024, )" +
         text + R"(}, "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152, "model_type": "siglip"}})";
}

TEST(FamilyConfig, Gemma3LeavesOutWhatItsClassTakesByDefault) {
  const DecoderConfig c = read(gemma3(R"("hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34)"));
  EXPECT_EQ(c.num_parameters(), 3'880'263'168);
  EXPECT_EQ(c.query_rows(), 2048);
  EXPECT_EQ(c.kv_rows(), 1024);
  EXPECT_EQ(c.rope.base, 1e6);
  EXPECT_EQ(c.window_rope_base, 10000);
  EXPECT_EQ(c.context, 131072);
  EXPECT_DOUBLE_EQ(c.score_scale(), 1.0 / 16);
  EXPECT_TRUE(c.has_window(4) && !c.has_window(5) && c.has_window(6));
  EXPECT_FLOAT_EQ(c.rope_frequencies(5)[0], 1.0f / 8);
  EXPECT_FLOAT_EQ(c.rope_frequencies(0)[0], 1);
  const DecoderConfig largest = read(gemma3(R"("head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504,
    "num_attention_heads": 32, "num_hidden_layers": 62, "num_key_value_heads": 16, "query_pre_attn_scalar": 168)"));
  EXPECT_EQ(largest.query_rows(), 4096);
  EXPECT_DOUBLE_EQ(largest.score_scale(), 1 / std::sqrt(168.0));
}

TEST(FamilyConfig, Phi2) {
  const DecoderConfig c = read(R"({"architectures": ["PhiForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 50256, "embd_pdrop": 0.0, "eos_token_id": 50256, "hidden_act": "gelu_new", "hidden_size": 2560,
    "initializer_range": 0.02, "intermediate_size": 10240, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
    "model_type": "phi", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "partial_rotary_factor": 0.4, "qk_layernorm": false, "resid_pdrop": 0.1, "rope_scaling": null,
    "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true,
    "vocab_size": 51200})");
  EXPECT_EQ(c.architecture, "phi2");
  EXPECT_EQ(c.num_parameters(), 2'779'683'840);
  EXPECT_EQ(c.head_size, 80);
  EXPECT_EQ(c.rope.size, 32);
  EXPECT_EQ(c.norm, NormKind::layer);
  EXPECT_TRUE(c.parallel && c.norm_bias && c.query_bias && c.output_bias && c.ffn_bias && c.head_bias);
  EXPECT_FALSE(c.gated || c.tied);
}

TEST(FamilyConfig, Phi3WithLongrope) {
  const DecoderConfig c = read(R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 32000, "hidden_act": "silu",
    "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
    "model_type": "phi3", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
    "rope_scaling": {"long_factor": [1.0700000524520874, 1.1200000047683716, 1.149999976158142, 1.4199999570846558,
      1.5699999332427979, 1.7999999523162842, 2.129999876022339, 2.129999876022339, 3.009999990463257,
      5.910000324249268, 6.950000286102295, 9.070000648498535, 9.930000305175781, 10.710000038146973,
      11.130000114440918, 14.609999656677246, 15.409998893737793, 19.809999465942383, 37.279998779296875,
      38.279998779296875, 38.599998474121094, 40.12000274658203, 46.20000457763672, 50.940006256103516,
      53.66000747680664, 54.9373893737793, 56.89738845825195, 57.28738784790039, 59.98738479614258,
      60.86738586425781, 60.887386322021484, 61.71739196777344, 62.91739273071289, 62.957393646240234,
      63.41739273071289, 63.8173942565918, 63.83739471435547, 63.897396087646484, 63.93739700317383,
      64.06739807128906, 64.11434936523438, 64.12435150146484, 64.15435028076172, 64.19435119628906,
      64.24435424804688, 64.57435607910156, 64.69000244140625, 64.76000213623047],
    "short_factor": [1.1, 1.1, 1.1, 1.3, 1.3500000000000003, 1.3500000000000003, 1.4000000000000004,
      1.5500000000000005, 2.000000000000001, 2.000000000000001, 2.000000000000001, 2.000000000000001,
      2.000000000000001, 2.0500000000000007, 2.0500000000000007, 2.0500000000000007, 2.0500000000000007,
      2.0500000000000007, 2.0500000000000007, 2.1000000000000005, 2.1000000000000005, 2.1500000000000004,
      2.25, 2.25, 2.25, 2.25, 2.25, 2.3999999999999995, 2.4499999999999993, 2.499999999999999, 2.6999999999999984,
      2.6999999999999984, 2.7499999999999982, 2.799999999999998, 2.8999999999999977, 3.049999999999997,
      3.049999999999997, 3.049999999999997, 3.049999999999997, 3.049999999999997, 3.049999999999997,
      3.049999999999997, 3.049999999999997, 3.049999999999997, 3.049999999999997, 3.049999999999997,
      3.049999999999997, 3.049999999999997], "type": "longrope"},
    "rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "use_cache": true, "vocab_size": 32064})");
  EXPECT_EQ(c.num_parameters(), 3'821'079'552);
  EXPECT_EQ(c.rope.scaling, RopeScaling::longrope);
  ASSERT_EQ(c.rope_divisors().size(), 48u);
  EXPECT_FLOAT_EQ(c.rope_divisors().back(), 64.76000213623047f);
  EXPECT_FLOAT_EQ(c.rope.short_divisors.back(), 3.05f);
  EXPECT_NEAR(c.rope_magnitude(), std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-12);
  EXPECT_EQ(c.window, 262144);
  EXPECT_EQ(c.activation, Activation::silu);
}

std::string bitnet(const std::string& quantization) {
  return R"({"architectures": ["BitNetForCausalLM"], "auto_map": {"AutoConfig": "configuration_bitnet.BitNetConfig"},
    "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "relu2", "hidden_size": 2560,
    "initializer_range": 0.02, "intermediate_size": 6912, "max_position_embeddings": 4096, "model_type": "bitnet",
    "rms_norm_eps": 1e-05, "num_attention_heads": 20, "num_hidden_layers": 30, "num_key_value_heads": 5,
    "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
    "vocab_size": 128256, "quantization_config": )" +
         quantization + "}";
}

TEST(FamilyConfig, BitNet) {
  const DecoderConfig c = read(bitnet(R"({"quant_method": "bitnet", "linear_class": "autobitlinear",
    "quantization_mode": "online"})"));
  EXPECT_EQ(c.num_parameters(), 2'412'820'480);
  EXPECT_EQ(c.activation, Activation::relu_squared);
  EXPECT_TRUE(c.sub_norms && c.tied && c.gated);
  EXPECT_TRUE(c.rounds_to_ternary);
  EXPECT_FALSE(c.ternary_scales);
  const DecoderConfig offline = read(bitnet(R"({"quant_method": "bitnet", "linear_class": "autobitlinear",
    "quantization_mode": "offline"})"));
  EXPECT_TRUE(offline.ternary_scales);
  EXPECT_FALSE(offline.rounds_to_ternary);
  EXPECT_FALSE(read(bitnet("null")).rounds_to_ternary);
  EXPECT_THAT(family_config_refusal(bitnet(R"({"quant_method": "bitnet", "linear_class": "autobitlinear",
    "quantization_mode": "sometimes"})")),
              HasSubstr("'sometimes'; known are online and offline"));
  EXPECT_THAT(family_config_refusal(bitnet(R"({"quant_method": "bitnet", "linear_class": "autobitlinear",
    "quantization_mode": "online", "modules_to_not_convert": ["o_proj"]})")),
              HasSubstr(R"(weights of "o_proj" that are not rounded)"));
}

TEST(FamilyConfig, RefusesWeightsOfOtherQuantizers) {
  const std::string rest =
      "do not run here; supported is 'bitnet', 'mxfp4'; try the model in f32, f16 or bf16, or as a GGUF file";
  for (const std::string method : {"awq", "gptq", "bitsandbytes", "fp8", "compressed-tensors", "BitNet"}) {
    EXPECT_EQ(family_config_refusal(bitnet(R"({"bits": 4, "quant_method": ")" + method + "\"}")),
              "config.json: weights quantized by '" + method + "' ('quant_method' of quantization_config) " + rest);
  }
  // bitsandbytes' first files do not name it.
  EXPECT_EQ(
      family_config_refusal(bitnet(R"({"load_in_8bit": true})")),
      "config.json: weights quantized by a method without a name ('quant_method' of quantization_config) " + rest);
  EXPECT_THAT(family_config_refusal(bitnet(R"("awq")")),
              HasSubstr("'quantization_config' is \"awq\"; wanted an object"));
  EXPECT_THAT(family_config_refusal(bitnet(R"(null, "compression_config": {"quant_method": "compressed-tensors"})")),
              HasSubstr("'compressed-tensors' ('quant_method' of compression_config) do not run here"));
  EXPECT_THAT(family_config_refusal(bitnet(R"({"quant_method": "bitnet"})")),
              HasSubstr("BitNet with packed weights ('linear_class' of quantization_config is 'bitlinear')"));
  // Models of several kinds of input have it beside the text's part.
  const std::string text = bitnet("null");
  EXPECT_THAT(
      family_config_refusal(R"({"text_config": )" + text + R"(, "quantization_config": {"quant_method": "fp8"}})"),
      HasSubstr("weights quantized by 'fp8'"));
  EXPECT_EQ(family_config_refusal(R"({"text_config": )" + text + "}"), "");
}

TEST(FamilyConfig, RopeInOneObject) {
  const DecoderConfig c = read(R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 131072,
    "rope_parameters": {"rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 8192, "rope_type": "llama3"}})");
  EXPECT_EQ(c.rope.base, 500000);
  EXPECT_EQ(c.rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(c.rope.original_context, 8192);
  const DecoderConfig gemma = read(R"({"model_type": "gemma3_text", "vocab_size": 100, "hidden_size": 64,
    "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 64, "sliding_window": 512,
    "rope_parameters": {"full_attention": {"factor": 8.0, "rope_theta": 1000000.0, "rope_type": "linear"},
                        "sliding_attention": {"rope_theta": 20000.0, "rope_type": "default"}}})");
  EXPECT_EQ(gemma.rope.base, 1e6);
  EXPECT_EQ(gemma.rope.scaling, RopeScaling::linear);
  EXPECT_EQ(gemma.window_rope_base, 20000);
  EXPECT_THAT(
      family_config_refusal(R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 64, "partial_rotary_factor": 1e300})"),
      HasSubstr("at most 1"));
}

}  // namespace
}  // namespace etna::models
