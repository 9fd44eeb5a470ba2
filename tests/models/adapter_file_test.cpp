#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/adapter_file.h>
#include <etna/models/gguf_export.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/safetensors.h>
#include <nn/on_device.h>

#include "small_models.h"

namespace etna::models {
namespace {

using testing::HasSubstr;

/// A model whose adapters change what it says.
std::unique_ptr<Decoder> adapted(const DecoderConfig& config, bool all = true) {
  auto model = small_model(config);
  model->add_adapters(3, 12, all);
  const NoGrad no_grad;
  for (const auto& p : model->named_parameters())
    if (p.name.ends_with("lora_b")) Tensor(p.tensor).copy_(randn(p.tensor.shape()) * 0.1);
  return model;
}

Tensor logits_of(const Decoder& model) {
  const NoGrad no_grad;
  return model(from_vector(some_text(20, 97), {1, 20}));
}

std::string refusal(const std::function<void()>& run) {
  try {
    run();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "nothing was refused";
}

class AdapterFile : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(AdapterFile, ComesBackInBothKinds) {
  for (const char* architecture : {"llama", "qwen3", "gemma2", "phi2"}) {
    for (const char* name : {"a.gguf", "adapter_model.safetensors"}) {
      const DecoderConfig config = small_config(architecture);
      const auto model = adapted(config);
      save_adapters(folder_ / name, *model);
      const auto again = small_model(config);
      load_adapters(folder_ / name, *again);
      EXPECT_EQ(logits_of(*again).to_vector<float>(), logits_of(*model).to_vector<float>()) << architecture;
      for (const auto& p : again->named_parameters())
        EXPECT_EQ(p.tensor.requires_grad(), p.name.find("lora_") != std::string::npos) << p.name;
    }
  }
}

/// A GGUF file has pairs of neighbours, so that an adapter fits the model in such a file, too.
TEST_F(AdapterFile, FitsTheModelInAnotherOrderOfRows) {
  DecoderConfig config = small_config("llama");
  config.rope.interleaved = false;
  const auto model = adapted(config);
  save_adapters(folder_ / "a.gguf", *model);
  save_adapters(folder_ / "adapter_model.safetensors", *model);
  model->merge_adapters();
  const Tensor wanted = logits_of(*model);
  save_gguf_model(folder_ / "base.gguf", *small_model(config), nullptr);
  for (const char* name : {"a.gguf", ""}) {
    const Model base = load_model(folder_ / "base.gguf");
    ASSERT_TRUE(base.decoder->config.rope.interleaved);
    load_adapters(folder_ / name, *base.decoder);
    expect_near(logits_of(*base.decoder), wanted, 2e-4);
    base.decoder->merge_adapters();
    expect_near(logits_of(*base.decoder), wanted, 2e-4);
  }
}

TEST_F(AdapterFile, BelongsToAQuantizedModelAsWell) {
  DecoderConfig config = small_config("llama");
  const auto model = adapted(config);
  save_adapters(folder_ / "a.gguf", *model);
  save_gguf_model(folder_ / "base.gguf", *small_model(config), nullptr, &quant::format_named("Q8_0"));
  const Model base = load_model(folder_ / "base.gguf");
  ASSERT_TRUE(base.decoder->blocks[0].attention.query.frozen());
  load_adapters(folder_ / "a.gguf", *base.decoder);
  const Tensor wanted = logits_of(*model);
  expect_near(logits_of(*base.decoder), wanted, 0.05 * amax(abs(wanted)).item<double>());
}

TEST_F(AdapterFile, HasTheNamesThatOthersRead) {
  save_adapters(folder_ / "a.gguf", *adapted(small_config("llama"), false));
  const io::GgufFile file(folder_ / "a.gguf");
  EXPECT_EQ(file.string("general.type"), "adapter");
  EXPECT_EQ(file.string("adapter.type"), "lora");
  EXPECT_EQ(file.number("adapter.lora.alpha"), 12);
  EXPECT_EQ(file.tensors().size(), 16u);
  EXPECT_EQ(file.tensor("blk.1.attn_q.weight.lora_a").shape, (Shape{3, 64}));
  EXPECT_EQ(file.tensor("blk.1.attn_k.weight.lora_b").shape, (Shape{32, 3}));
  save_adapters(folder_ / "adapter_model.safetensors", *adapted(small_config("llama"), false));
  const auto tensors = load_safetensors(folder_ / "adapter_model.safetensors");
  EXPECT_EQ(tensors.at("base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight").shape(), (Shape{3, 64}));
}

TEST_F(AdapterFile, IsRefusedInWords) {
  const auto model = small_model(small_config("llama"));
  EXPECT_THAT(refusal([&] { save_adapters(folder_ / "a.gguf", *model); }), HasSubstr("no adapters to write"));
  EXPECT_THAT(refusal([&] { save_adapters(folder_ / "a.gguf", *adapted(small_config("gpt2"))); }),
              HasSubstr("in one matrix"));
  EXPECT_THAT(refusal([&] { load_adapters(folder_ / "none.gguf", *model); }), HasSubstr("none.gguf"));
  EXPECT_THAT(refusal([&] { load_adapters(folder_ / "none.safetensors", *model); }),
              HasSubstr("adapter_config.json: the file cannot be read"));
  save_gguf_model(folder_ / "model.gguf", *model, nullptr);
  EXPECT_THAT(refusal([&] { load_adapters(folder_ / "model.gguf", *model); }), HasSubstr("no low-rank adapters"));

  DecoderConfig other = small_config("llama");
  other.feed_forward = 64;
  save_adapters(folder_ / "a.gguf", *adapted(other));
  EXPECT_THAT(refusal([&] { load_adapters(folder_ / "a.gguf", *model); }),
              HasSubstr("blocks.0.ffn.gate is [3, 64] and [64, 3]; wanted [rank, 64] and [96, rank]"));
  EXPECT_FALSE(model->blocks[0].attention.query.has_adapter());
  other = small_config("llama");
  other.layers = 3;
  save_adapters(folder_ / "a.gguf", *adapted(other));
  EXPECT_THAT(refusal([&] { load_adapters(folder_ / "a.gguf", *model); }), HasSubstr("belongs to no layer"));

  save_adapters(folder_ / "adapter_model.safetensors", *adapted(small_config("llama")));
  for (const char* config :
       {"", "[]", "{}", R"({"r": "3", "lora_alpha": 3})", R"({"r": 3, "lora_alpha": 3, "use_dora": true})",
        R"({"r": 3, "lora_alpha": 3, "alpha_pattern": {"q_proj": 5}})"}) {
    std::ofstream(folder_ / "adapter_config.json") << config;
    EXPECT_THAT(refusal([&] { load_adapters(folder_.path(), *model); }), HasSubstr("adapter_config.json"));
  }
  auto endless = adapted(small_config("llama"));
  for (DecoderBlock& block : endless->blocks)
    for (Projection* layer : {&block.attention.query, &block.attention.key, &block.attention.value,
                              &block.attention.output, block.ffn.gate.get(), &block.ffn.up, &block.ffn.down})
      layer->lora_scale = std::numeric_limits<double>::infinity();
  save_adapters(folder_ / "endless.gguf", *endless);
  EXPECT_THAT(refusal([&] { load_adapters(folder_ / "endless.gguf", *model); }), HasSubstr("no finite number"));
  const auto twice = adapted(small_config("llama"));
  save_adapters(folder_ / "a.gguf", *twice);
  EXPECT_THAT(refusal([&] { load_adapters(folder_ / "a.gguf", *twice); }), HasSubstr("merge them first"));
}

}  // namespace
}  // namespace etna::models
