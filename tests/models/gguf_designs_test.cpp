#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Designs that GGUF files describe in several ways, as converters of different years write them, and files whose
// metadata contradict their tensors.
namespace etna::models {
namespace {

using testing::HasSubstr;

/// A GGUF file in pieces, to be put together otherwise.
struct GgufPieces {
  NamedTensors tensors;
  GgufOptions options;

  explicit GgufPieces(const FilePath& path) {
    const io::GgufFile file(path);
    for (const io::GgufTensor& one : file.tensors()) tensors.emplace_back(one.name, file.load(one));
    for (const io::GgufEntry& entry : file.metadata())
      if (entry.key != "general.alignment") options.metadata.emplace_back(entry.key, entry.value);
  }
  const Tensor& at(const std::string& name) const {
    for (const auto& [own, tensor] : tensors)
      if (own == name) return tensor;
    throw std::out_of_range(name);
  }
  void replace(const std::vector<std::string>& names, const std::string& name, const Tensor& tensor) {
    for (const std::string& old : names) std::erase_if(tensors, [&](const auto& one) { return one.first == old; });
    tensors.emplace_back(name, tensor);
  }
  void set(const std::string& key, const io::GgufValue& value) {
    erase(key);
    options.metadata.emplace_back(key, value);
  }
  void erase(const std::string& key) {
    std::erase_if(options.metadata, [&](const auto& one) { return one.first == key; });
  }
};

class GgufDesigns : public testing::Test {
 protected:
  GgufPieces written(const Decoder& model) const {
    save_gguf_model(folder_ / "whole.gguf", model, nullptr);
    return GgufPieces(folder_ / "whole.gguf");
  }
  Model loaded(const GgufPieces& pieces) const {
    save_gguf(folder_ / "changed.gguf", pieces.tensors, pieces.options);
    return load_model(folder_ / "changed.gguf", {.trainable = true});
  }
  std::string refusal(const GgufPieces& pieces) const {
    try {
      loaded(pieces);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "taken";
  }
  /// Of logits of a text, against the largest.
  static double difference(const Decoder& a, const Decoder& b) {
    const NoGrad no_grad;
    const std::vector<std::int32_t> text = some_text(24, 97);
    const Tensor tokens = from_vector(text, {1, std::ssize(text)}), x = a.forward(tokens), y = b.forward(tokens);
    return abs(x - y).max().item<double>() / abs(x).max().item<double>();
  }

 private:
  TemporaryFolder folder_;
};

/// llama.cpp counts shared experts, which are as wide as the others.
DecoderConfig latent_config(const std::string& architecture) {
  DecoderConfig config = small_config(architecture);
  config.experts.shared = config.experts.feed_forward;
  return config;
}

TEST_F(GgufDesigns, LatentAttentionHasItsMatricesApartOrTogether) {
  for (const char* architecture : {"deepseek2", "deepseek3"}) {
    SCOPED_TRACE(architecture);
    const auto model = small_model(latent_config(architecture));
    GgufPieces pieces = written(*model);
    EXPECT_EQ(pieces.at("blk.0.attn_k_b.weight").shape(), (Shape{4, 24, 8}));
    EXPECT_EQ(pieces.at("blk.0.attn_v_b.weight").shape(), (Shape{4, 12, 24}));
    const Model apart = loaded(pieces);
    EXPECT_LT(difference(*model, *apart.decoder), 1e-6);
    EXPECT_EQ(apart.decoder->config.experts.groups_by_best, model->config.experts.groups_by_best);
    // As files were before keys and values were halves: sizes are those of heads.
    for (int layer = 0; layer < 2; ++layer) {
      const std::string block = fmt::format("blk.{}.", layer);
      const Tensor keys = pieces.at(block + "attn_k_b.weight").transpose(1, 2).contiguous();
      const Tensor both = cat({keys, pieces.at(block + "attn_v_b.weight")}, 1).reshape({-1, 24});
      pieces.replace({block + "attn_k_b.weight", block + "attn_v_b.weight"}, block + "attn_kv_b.weight", both);
    }
    for (const char* key : {"key_length_mla", "value_length_mla"})
      pieces.erase(std::string("deepseek2.attention.") + key);
    pieces.set("deepseek2.attention.key_length", std::uint32_t{16});
    pieces.set("deepseek2.attention.value_length", std::uint32_t{12});
    pieces.set("deepseek2.attention.head_count_kv", std::uint32_t{4});
    EXPECT_LT(difference(*model, *loaded(pieces).decoder), 1e-6);
  }
}

TEST_F(GgufDesigns, LatentAttentionKeepsYarnsFactors) {
  DecoderConfig config = latent_config("deepseek3");
  config.rope.scaling = RopeScaling::yarn;
  config.rope.factor = 40;
  config.rope.original_context = 32;
  config.rope.attention_factor = 1;
  config.attention_scale = std::pow(1 + 0.1 * 0.707 * std::log(40.0), 2) / 4;
  const auto model = small_model(config);
  const GgufPieces pieces = written(*model);
  const Model again = loaded(pieces);
  EXPECT_NEAR(again.decoder->config.score_scale(), config.attention_scale, 1e-6);
  EXPECT_EQ(again.decoder->config.rope_magnitude(), 1);
  EXPECT_EQ(again.decoder->config.rope_frequencies(0), config.rope_frequencies(0));
  EXPECT_LT(difference(*model, *again.decoder), 1e-5);
  config.rope.attention_factor = 1.2;
  EXPECT_THROW(written(*small_model(config)), FormatError);
  EXPECT_THROW(written(*small_model(small_config("deepseek3"))), FormatError);
}

TEST_F(GgufDesigns, LatentAttentionThatContradictsItselfIsRefused) {
  const GgufPieces whole = written(*small_model(latent_config("deepseek3")));
  for (const auto& [key, number, what] : {std::tuple{"key_length", 31U, "'attention.key_length' is 31"},
                                          {"value_length", 12U, "'attention.value_length' is 12"},
                                          {"head_count_kv", 4U, "'attention.head_count_kv' is 4"},
                                          {"key_length_mla", 20U, "the model's sizes require"},
                                          {"value_length_mla", 16U, "the model's sizes require"},
                                          {"kv_lora_rank", 0U, "'attention.key_length' is 32"},
                                          {"q_lora_rank", 31U, "the model's sizes require"}}) {
    GgufPieces pieces = whole;
    pieces.set(std::string("deepseek2.attention.") + key, number);
    EXPECT_THAT(refusal(pieces), HasSubstr(what)) << key;
  }
  for (const char* half : {"attn_k_b", "attn_v_b"}) {
    GgufPieces less = whole;
    less.replace({fmt::format("blk.1.{}.weight", half)}, "rope_freqs.weight", ones({4}));
    EXPECT_THAT(refusal(less), HasSubstr("'blk.1.attn_kv_b.weight' is missing"));
    GgufPieces other = whole;
    const std::string name = fmt::format("blk.1.{}.weight", half);
    other.replace({name}, name, other.at(name).transpose(1, 2).contiguous());
    EXPECT_THAT(refusal(other), HasSubstr("the model's sizes require"));
  }
}

/// A model whose layers take turns between delta nets and attention.
std::unique_ptr<Decoder> delta_model(const char* type) {
  const DecoderConfig config =
      decoder_config(fmt::format(R"({{"model_type": "{}", "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48,
          "max_position_embeddings": 512, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
          "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "num_experts": 3,
          "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24,
          "full_attention_interval": 2}})",
                                 type),
                     "config.json");
  return small_model(config);
}

TEST_F(GgufDesigns, DeltaNetsHaveOneTensorOrTwoAsTheirConverterWasOfAge) {
  const auto model = delta_model("qwen3_next");
  GgufPieces pieces = written(*model);
  EXPECT_LT(difference(*model, *loaded(pieces).decoder), 1e-6);
  // A head of keys has its query, its key, and the values and gates of its heads.
  const Tensor qkv = pieces.at("blk.0.attn_qkv.weight"), gate = pieces.at("blk.0.attn_gate.weight");
  const auto by_head = [](const Tensor& rows) { return rows.reshape({2, rows.size(0) / 2, 32}); };
  const Tensor all = cat(
      {by_head(qkv.slice(0, 0, 16)), by_head(qkv.slice(0, 16, 32)), by_head(qkv.slice(0, 32, 80)), by_head(gate)}, 1);
  pieces.replace({"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight"}, "blk.0.ssm_in.weight", all.reshape({-1, 32}));
  EXPECT_LT(difference(*model, *loaded(pieces).decoder), 1e-6);
}

TEST_F(GgufDesigns, ExpertsMayHaveGateAndUpProjectionsInOneTensor) {
  const auto model = delta_model("qwen3_5_moe_text");
  GgufPieces pieces = written(*model);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    const Tensor both = cat({pieces.at(block + "ffn_gate_exps.weight"), pieces.at(block + "ffn_up_exps.weight")}, 1);
    pieces.replace({block + "ffn_gate_exps.weight", block + "ffn_up_exps.weight"}, block + "ffn_gate_up_exps.weight",
                   both);
  }
  EXPECT_LT(difference(*model, *loaded(pieces).decoder), 1e-6);
}

TEST_F(GgufDesigns, HeadsOfValuesAreInTheFilesOrder) {
  const auto model = delta_model("qwen3_5_text");
  const GgufPieces pieces = written(*model);
  const Tensor own = model->blocks[0].delta->step_bias, there = pieces.at("blk.0.ssm_dt.bias");
  // The first heads of both heads of keys are in front of the second ones.
  const std::vector<std::size_t> order = {0, 3, 1, 4, 2, 5};
  const auto before = own.detach().to_vector<float>(), after = there.to_vector<float>();
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(after[i], before[order[i]]) << i;
  const Model again = loaded(pieces);
  EXPECT_TRUE(again.decoder->config.state.tiled);
  EXPECT_LT(difference(*model, *again.decoder), 1e-6);
  // Written again, nothing is turned once more.
  const GgufPieces twice = written(*again.decoder);
  EXPECT_EQ(twice.at("blk.0.ssm_dt.bias").to_vector<float>(), after);
}

TEST_F(GgufDesigns, DeltaNetsThatContradictThemselvesAreRefused) {
  const GgufPieces whole = written(*delta_model("qwen3_5_text"));
  for (const auto& [key, number, what] : {std::tuple{"ssm.inner_size", 47U, "must divide the first"},
                                          {"ssm.state_size", 7U, "the model's sizes require"},
                                          {"ssm.group_count", 4U, "the second must divide the first"},
                                          {"ssm.group_count", 0U, "heads of a state's keys is 0"},
                                          {"ssm.time_step_rank", 3U, "the second must divide the first"},
                                          {"ssm.conv_kernel", 3U, "the model's sizes require"},
                                          {"attention.head_count", 8U, "the model's sizes require"},
                                          {"block_count", 3U, "layer 2 has neither attention, a state nor"},
                                          {"block_count", 0x7fffffffU, "it must be from 1 to 16384"}}) {
    GgufPieces pieces = whole;
    pieces.set(std::string("qwen35.") + key, number);
    EXPECT_THAT(refusal(pieces), HasSubstr(what)) << key << " " << number;
  }
}

}  // namespace
}  // namespace etna::models
