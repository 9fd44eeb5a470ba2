#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
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

std::string adapter_file_refusal(const std::function<void()>& run) {
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

/// PEFT has modules for each expert, GGUF one tensor for all.
TEST_F(AdapterFile, HasAnAdapterOfEachExpert) {
  for (const char* architecture : {"qwen3moe", "glm4moe"}) {
    const DecoderConfig config = small_config(architecture);
    for (const char* name : {"a.gguf", "adapter_model.safetensors"}) {
      const auto model = adapted(config);
      save_adapters(folder_ / name, *model);
      const auto again = small_model(config);
      load_adapters(folder_ / name, *again);
      EXPECT_EQ(logits_of(*again).to_vector<float>(), logits_of(*model).to_vector<float>()) << architecture;
      again->merge_adapters();
      expect_near(logits_of(*again), logits_of(*model), 2e-3);
      const auto stacked = small_model(config);
      EXPECT_THAT(adapter_file_refusal([&] { stack_adapters(folder_ / name, *stacked); }), HasSubstr("stacked"));
    }
  }
  save_adapters(folder_ / "a.gguf", *adapted(small_config("qwen3moe")));
  const auto gguf = load_gguf(folder_ / "a.gguf");
  EXPECT_EQ(gguf.at("blk.1.ffn_gate_exps.weight.lora_a").shape(), (Shape{4, 3, 64}));
  EXPECT_EQ(gguf.at("blk.1.ffn_gate_exps.weight.lora_b").shape(), (Shape{4, 48, 3}));
  EXPECT_EQ(gguf.at("blk.1.ffn_down_exps.weight.lora_a").shape(), (Shape{4, 3, 48}));
  save_adapters(folder_ / "adapter_model.safetensors", *adapted(small_config("qwen3moe")));
  auto tensors = load_safetensors(folder_ / "adapter_model.safetensors");
  const std::string expert = "base_model.model.model.layers.1.mlp.experts.2.gate_proj.lora_";
  EXPECT_EQ(tensors.at(expert + "A.weight").shape(), (Shape{3, 64}));
  EXPECT_EQ(tensors.at(expert + "B.weight").shape(), (Shape{48, 3}));
  const auto config = nlohmann::json::parse(std::ifstream(folder_ / "adapter_config.json"));
  EXPECT_EQ(config["target_modules"],
            nlohmann::json({"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"}));

  // Experts that are not in the file have none.
  NamedTensors some;
  for (const auto& [name, tensor] : tensors)
    if (name.find("experts.2.") == std::string::npos) some.emplace_back(name, tensor);
  save_safetensors(folder_ / "adapter_model.safetensors", some);
  const auto model = small_model(small_config("qwen3moe"));
  load_adapters(folder_.path(), *model);
  const Tensor b = model->blocks[1].ffn->gate->lora_b.detach().reshape({4, 48, 3});
  EXPECT_EQ(abs(b.select(0, 2)).max().item<double>(), 0);
  EXPECT_GT(abs(b.select(0, 1)).max().item<double>(), 0);
}

TEST_F(AdapterFile, BelongsToFrozenExpertsAsWell) {
  const DecoderConfig config = small_config("qwen3moe");
  const auto model = adapted(config);
  save_adapters(folder_ / "a.gguf", *model);
  save_gguf_model(folder_ / "base.gguf", *small_model(config), nullptr);
  const Model base = load_model(folder_ / "base.gguf");
  ASSERT_TRUE(base.decoder->blocks[0].ffn->up.frozen());
  load_adapters(folder_ / "a.gguf", *base.decoder);
  expect_near(logits_of(*base.decoder), logits_of(*model), 2e-3);
  base.decoder->merge_adapters();
  expect_near(logits_of(*base.decoder), logits_of(*model), 2e-3);
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
  ASSERT_TRUE(base.decoder->blocks[0].attention->query->frozen());
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

/// Of projections that are separate here, and one in files.
DecoderConfig packed_in_files(const char* architecture) {
  DecoderConfig config = small_config(architecture);
  config.packed_qkv = false;
  return config;
}

/// Files of gpt2 and phi3 have queries, keys and values in one matrix, those of phi3 also gate and up.
TEST_F(AdapterFile, PacksTheAdaptersOfPackedMatrices) {
  for (const char* architecture : {"gpt2", "phi3"}) {
    const DecoderConfig config = packed_in_files(architecture);
    for (const char* name : {"a.gguf", "adapter_model.safetensors"}) {
      const auto model = adapted(config);
      save_adapters(folder_ / name, *model);
      const auto again = small_model(config);
      load_adapters(folder_ / name, *again);
      EXPECT_EQ(again->blocks[0].attention->query->lora_a.size(0), 9);
      EXPECT_EQ(again->blocks[0].attention->output.lora_a.size(0), 3);
      const Tensor wanted = logits_of(*model);
      expect_near(logits_of(*again), wanted, 1e-4);
      // They share A now, so that nothing grows.
      const auto read = [&] {
        if (std::string(name) == "a.gguf") return load_gguf(folder_ / name).at("blk.1.attn_qkv.weight.lora_b");
        return load_safetensors(folder_ / name)
            .at(std::string("base_model.model.") +
                (config.architecture == "gpt2" ? "transformer.h.1.attn.c_attn" : "model.layers.1.self_attn.qkv_proj") +
                ".lora_B.weight");
      };
      const Tensor first = read();
      EXPECT_EQ(first.shape(), (Shape{config.query_rows() + 2 * config.kv_rows(), 9}));
      save_adapters(folder_ / name, *again);
      EXPECT_EQ(read().to_vector<float>(), first.to_vector<float>());
      again->merge_adapters();
      expect_near(logits_of(*again), wanted, 1e-3);
    }
  }
}

TEST_F(AdapterFile, HasTheNamesOfPackedMatrices) {
  save_adapters(folder_ / "a.gguf", *adapted(small_config("phi3")));
  const auto gguf = load_gguf(folder_ / "a.gguf");
  EXPECT_EQ(gguf.at("blk.1.attn_qkv.weight.lora_a").shape(), (Shape{9, 64}));
  EXPECT_EQ(gguf.at("blk.1.ffn_up.weight.lora_a").shape(), (Shape{6, 64}));
  EXPECT_EQ(gguf.at("blk.1.ffn_up.weight.lora_b").shape(), (Shape{192, 6}));
  EXPECT_EQ(gguf.size(), 2u * 2 * 4);
  save_adapters(folder_ / "adapter_model.safetensors", *adapted(packed_in_files("gpt2"), false));
  const auto tensors = load_safetensors(folder_ / "adapter_model.safetensors");
  EXPECT_EQ(tensors.at("base_model.model.transformer.h.1.attn.c_attn.lora_A.weight").shape(), (Shape{9, 64}));
  EXPECT_EQ(tensors.at("base_model.model.transformer.h.1.attn.c_proj.lora_B.weight").shape(), (Shape{64, 3}));
  const auto config = nlohmann::json::parse(std::ifstream(folder_ / "adapter_config.json"));
  EXPECT_EQ(config["target_modules"], nlohmann::json({"attn.c_attn", "attn.c_proj"}));
  EXPECT_EQ(config["fan_in_fan_out"], true);
  EXPECT_EQ(config["r"], 3);
  EXPECT_EQ(config["lora_alpha"], 12);
  EXPECT_EQ(config["rank_pattern"], nlohmann::json({{"h.0.attn.c_attn", 9}, {"h.1.attn.c_attn", 9}}));
}

/// As others train them: one A for all rows.
TEST_F(AdapterFile, SplitsAPackedAdapter) {
  const DecoderConfig config = packed_in_files("gpt2");
  const Tensor a = randn({2, 64}) * 0.1, b = randn({192, 2}) * 0.1;
  save_safetensors(folder_ / "adapter_model.safetensors",
                   NamedTensors{{"base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", a},
                                {"base_model.model.transformer.h.0.attn.c_attn.lora_B.weight", b}});
  std::ofstream(folder_ / "adapter_config.json") << R"({"r": 2, "lora_alpha": 8, "fan_in_fan_out": true})";
  const auto model = small_model(config), plain = small_model(config);
  load_adapters(folder_.path(), *model);
  save_adapters(folder_ / "a.gguf", *model);
  const auto gguf = load_gguf(folder_ / "a.gguf");
  EXPECT_EQ(gguf.size(), 2u);
  EXPECT_EQ(gguf.at("blk.0.attn_qkv.weight.lora_a").to_vector<float>(), a.to_vector<float>());
  EXPECT_EQ(gguf.at("blk.0.attn_qkv.weight.lora_b").to_vector<float>(), b.to_vector<float>());
  model->merge_adapters();
  const auto& merged = *model->blocks[0].attention;
  const auto& before = *plain->blocks[0].attention;
  expect_near(cat({merged.query->weight.detach(), merged.key->weight.detach(), merged.value->weight.detach()}),
              cat({before.query->weight.detach(), before.key->weight.detach(), before.value->weight.detach()}) +
                  matmul(b, a) * 4,
              1e-6);
}

TEST_F(AdapterFile, OfThreeProjectionsFitsOne) {
  const auto three = small_model(packed_in_files("gpt2"));
  const auto one = decoder_of(small_config("gpt2"), three->state_dict(), {.trainable = true});
  const auto model = adapted(packed_in_files("gpt2"));
  for (const char* name : {"a.gguf", "adapter_model.safetensors"}) {
    save_adapters(folder_ / name, *model);
    const auto again = clone_of(*one);
    load_adapters(folder_ / name, *again);
    EXPECT_EQ(again->blocks[0].attention->qkv->lora_a.size(0), 9);
    expect_near(logits_of(*again), logits_of(*model), 1e-4);
  }
}

TEST_F(AdapterFile, PacksSomeLayersAndOtherFactors) {
  for (const char* name : {"a.gguf", "adapter_model.safetensors"}) {
    const DecoderConfig config = small_config("phi3");
    const auto model = small_model(config), again = small_model(config);
    DecoderBlock& block = model->blocks[1];
    block.attention->key->set_adapter(randn({2, 64}) * 0.2, randn({32, 2}) * 0.2, 3);
    block.attention->value->set_adapter(randn({5, 64}) * 0.2, randn({32, 5}) * 0.2, 0.5);
    block.ffn->up.set_adapter(randn({1, 64}) * 0.2, randn({96, 1}) * 0.2, 2);
    save_adapters(folder_ / name, *model);
    load_adapters(folder_ / name, *again);
    expect_near(logits_of(*again), logits_of(*model), 1e-4);
    EXPECT_EQ(amax(abs(again->blocks[1].attention->query->lora_b)).item<double>(), 0);
    EXPECT_FALSE(again->blocks[0].attention->query->has_adapter());
  }
}

/// In GGUF, up without a gate is the name of both in one matrix.
TEST_F(AdapterFile, UpAloneIsNotPacked) {
  const auto model = small_model(small_config("llama")), again = small_model(small_config("llama"));
  model->blocks[0].ffn->up.set_adapter(randn({2, 64}), randn({96, 2}) * 0.2, 1);
  save_adapters(folder_ / "a.gguf", *model);
  load_adapters(folder_ / "a.gguf", *again);
  EXPECT_FALSE(again->blocks[0].ffn->gate->has_adapter());
  EXPECT_EQ(logits_of(*again).to_vector<float>(), logits_of(*model).to_vector<float>());
}

TEST_F(AdapterFile, IsRefusedInWords) {
  const auto model = small_model(small_config("llama"));
  EXPECT_THAT(adapter_file_refusal([&] { save_adapters(folder_ / "a.gguf", *model); }),
              HasSubstr("no adapters to write"));
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "none.gguf", *model); }), HasSubstr("none.gguf"));
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "none.safetensors", *model); }),
              HasSubstr("adapter_config.json: there is no such file"));
  save_gguf_model(folder_ / "model.gguf", *model, nullptr);
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "model.gguf", *model); }),
              HasSubstr("no low-rank adapters"));

  DecoderConfig other = small_config("llama");
  other.feed_forward = 64;
  save_adapters(folder_ / "a.gguf", *adapted(other));
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "a.gguf", *model); }),
              HasSubstr("blocks.0.ffn.gate is [3, 64] and [64, 3]; wanted [rank, 64] and [96, rank]"));
  EXPECT_FALSE(model->blocks[0].attention->query->has_adapter());
  other = small_config("llama");
  other.layers = 3;
  save_adapters(folder_ / "a.gguf", *adapted(other));
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "a.gguf", *model); }),
              HasSubstr("belongs to no layer"));

  const auto packed = small_model(small_config("gpt2"));
  save_gguf(folder_ / "a.gguf",
            {{"blk.0.attn_qkv.weight.lora_a", randn({2, 64})}, {"blk.0.attn_qkv.weight.lora_b", randn({191, 2})}},
            {.metadata = {{"adapter.type", std::string("lora")}}});
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "a.gguf", *packed); }),
              HasSubstr("blocks.0.attention.qkv is [2, 64] and [191, 2]; wanted [rank, 64] and [192, rank]"));

  save_adapters(folder_ / "adapter_model.safetensors", *adapted(small_config("llama")));
  for (const char* config :
       {"", "[]", "{}", R"({"r": "3", "lora_alpha": 3})", R"({"r": 3, "lora_alpha": 3, "use_dora": true})",
        R"({"r": 3, "lora_alpha": 3, "use_rslora": true})", R"({"r": 3, "lora_alpha": 3, "fan_in_fan_out": true})",
        R"({"r": 3, "lora_alpha": 3, "alpha_pattern": {"q_proj": 5}})"}) {
    std::ofstream(folder_ / "adapter_config.json") << config;
    EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_.path(), *model); }), HasSubstr("adapter_config.json"));
  }
  auto endless = adapted(small_config("llama"));
  for (DecoderBlock& block : endless->blocks)
    for (const NamedProjection& own : block.adapter_layers())
      own.layer->lora_scale = std::numeric_limits<double>::infinity();
  save_adapters(folder_ / "endless.gguf", *endless);
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "endless.gguf", *model); }),
              HasSubstr("no finite number"));
  const auto twice = adapted(small_config("llama"));
  save_adapters(folder_ / "a.gguf", *twice);
  EXPECT_THAT(adapter_file_refusal([&] { load_adapters(folder_ / "a.gguf", *twice); }), HasSubstr("merge them first"));
}

}  // namespace
}  // namespace etna::models
