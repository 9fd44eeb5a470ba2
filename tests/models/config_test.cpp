#include <etna/models/decoder_config.h>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/ops/activations/internal/table.h>

namespace etna::models {
namespace {

using testing::HasSubstr;

std::string config_refusal(const std::string& json) {
  try {
    decoder_config(json, "config.json");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(DecoderConfig, ReadsLlama3) {
  const DecoderConfig c = decoder_config(R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
      "intermediate_size": 8192, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
      "tie_word_embeddings": true, "hidden_act": "silu", "attention_bias": false,
      "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                       "original_max_position_embeddings": 8192, "rope_type": "llama3"}})",
                                         "config.json");
  EXPECT_EQ(c.num_parameters(), 1'235'814'400);
  EXPECT_FALSE(c.rope.interleaved);
  const std::vector<float> f = c.rope_frequencies(0);
  ASSERT_EQ(f.size(), 32u);
  EXPECT_FLOAT_EQ(f[0], 1);
  // The slowest turn less than once within 8,192 positions: they are divided by 32.
  EXPECT_NEAR(f[31], std::pow(500000.0, -62.0 / 64) / 32, 1e-12);
}

TEST(DecoderConfig, ReadsWindowsOfGemma3) {
  const DecoderConfig c = decoder_config(R"({"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 640,
      "num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
      "intermediate_size": 2048, "sliding_window": 512, "query_pre_attn_scalar": 256, "rope_local_base_freq": 10000.0,
      "rope_theta": 1000000.0, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]})",
                                         "config.json");
  EXPECT_TRUE(c.has_window(0));
  EXPECT_FALSE(c.has_window(5));
  EXPECT_TRUE(c.has_window(6));
  EXPECT_TRUE(c.query_key_norm);
  EXPECT_TRUE(c.tied);
  EXPECT_DOUBLE_EQ(c.score_scale(), 1.0 / 16);
  EXPECT_NEAR(c.embedding_scale, std::sqrt(640.0), 1e-9);
  EXPECT_NE(c.rope_frequencies(0)[1], c.rope_frequencies(5)[1]);
}

TEST(DecoderConfig, ScalesFrequencies) {
  DecoderConfig c;
  c.context = 4096;
  c.rope = {.size = 64, .base = 10000, .factor = 4, .original_context = 1024};
  const auto plain = c.rope_frequencies(0);
  c.rope.scaling = RopeScaling::linear;
  const auto linear = c.rope_frequencies(0);
  c.rope.scaling = RopeScaling::yarn;
  const auto yarn = c.rope_frequencies(0);
  c.rope.scaling = RopeScaling::ntk;
  const auto ntk = c.rope_frequencies(0);
  EXPECT_FLOAT_EQ(linear[7], plain[7] / 4);
  EXPECT_FLOAT_EQ(yarn[0], plain[0]);
  EXPECT_FLOAT_EQ(yarn[31], plain[31] / 4);
  EXPECT_FLOAT_EQ(ntk[0], plain[0]);
  EXPECT_NEAR(ntk[31], plain[31] / 4, plain[31] * 1e-5);
  c.rope.scaling = RopeScaling::yarn;
  EXPECT_NEAR(c.rope_magnitude(), 1 + 0.1 * std::log(4.0), 1e-12);
}

TEST(DecoderConfig, GoesThroughJson) {
  for (const char* type : {"llama", "gpt2"}) {
    DecoderConfig c;
    c.architecture = type;
    c.vocabulary = 100, c.context = 64, c.width = 32, c.layers = 3, c.heads = c.kv_heads = 4, c.head_size = 8,
    c.feed_forward = 80;
    c.rope.size = 8;
    c.tied = true;
    if (c.architecture == "gpt2") c.positions = PositionKind::learned;
    const DecoderConfig again = decoder_config(config_json(c), "config.json");
    EXPECT_EQ(again.architecture, type);
    EXPECT_EQ(again.width, 32);
    EXPECT_EQ(again.head_size, 8);
    EXPECT_EQ(again.positions, c.positions);
    EXPECT_EQ(again.tied, true);
    EXPECT_EQ(config_json(again), config_json(again));
  }
}

TEST(DecoderConfig, KnowsAllActivationsByName) {
  const auto with = [](std::string_view name) {
    const std::string sizes = R"("vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,)"
                              R"("intermediate_size": 16)";
    return decoder_config(R"({"model_type": "llama", "hidden_act": ")" + std::string(name) + R"(", )" + sizes + "}",
                          "config.json");
  };
  for (const activations::Row& row : activations::kTable) {
    if (row.activation == Activation::none) continue;
    const DecoderConfig c = with(row.op);
    EXPECT_EQ(c.activation, row.activation);
    EXPECT_EQ(decoder_config(config_json(c), "config.json").activation, row.activation) << row.op;
  }
  EXPECT_EQ(with("gelu_pytorch_tanh").activation, with("gelu_new").activation);
  EXPECT_THROW(with("none"), FormatError);
}

TEST(DecoderConfig, SaysWhatIsWrong) {
  const std::string sizes = R"("vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,)"
                            R"("intermediate_size": 16)";
  EXPECT_EQ(config_refusal(R"({"model_type": "llama", )" + sizes + "}"), "");
  EXPECT_THAT(config_refusal(R"({"model_type": "mamba", )" + sizes + "}"), HasSubstr("'mamba' do not run here"));
  EXPECT_THAT(config_refusal(R"({"model_type": "llama"})"), HasSubstr("config.json: 'vocab_size' is missing"));
  EXPECT_THAT(config_refusal(R"({"model_type": "llama", "num_key_value_heads": 3, )" + sizes + "}"),
              HasSubstr("must divide"));
  EXPECT_THAT(config_refusal(R"({"model_type": "llama", "hidden_act": "quick_gelu", )" + sizes + "}"),
              HasSubstr("'quick_gelu'"));
  EXPECT_THAT(config_refusal(R"({"model_type": "llama", "rope_scaling": {"type": "magic"}, )" + sizes + "}"),
              HasSubstr("'magic'"));
  EXPECT_THAT(config_refusal(R"({"model_type": "llama", "rope_theta": "much", )" + sizes + "}"),
              HasSubstr("wanted a number"));
  EXPECT_THAT(config_refusal(R"({"model_type": "llama", "vocab_size": 1e30, "hidden_size": 8})"),
              HasSubstr("vocab_size"));
  EXPECT_THAT(config_refusal("[1, 2"), HasSubstr("config.json"));
  EXPECT_THAT(config_refusal(std::string(100000, '[')), HasSubstr("config.json"));
  EXPECT_THAT(config_refusal(R"({"model_type": "llama", "vocab_size": 9223372036854775807, "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16})"),
              HasSubstr("it must be from 1 to"));
}

}  // namespace
}  // namespace etna::models
