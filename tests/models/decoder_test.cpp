#include <etna/models/decoder.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/optim/optim.h>

#include "small_models.h"

namespace etna::models {
namespace {

double decoder_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

class EachArchitecture : public testing::TestWithParam<std::string> {};

TEST_P(EachArchitecture, GivesTheSameLogitsFromACache) {
  const auto model = small_model(small_config(GetParam()));
  const std::vector<std::int32_t> text = some_text(90, 97);
  const NoGrad no_grad;
  const Tensor whole = model->forward(from_vector(text, {1, 90})).select(0, 0);
  for (const std::int64_t chunk : {90, 31, 1}) {
    Generator generator(*model, {.chunk = chunk, .cache = {.dtype = f32}});
    EXPECT_LT(decoder_difference(generator.logits(text), whole), 2e-4) << "chunks of " << chunk;
  }
}

TEST_P(EachArchitecture, HasAsManyWeightsAsItsConfigSays) {
  const DecoderConfig config = small_config(GetParam());
  EXPECT_EQ(small_model(config)->num_parameters(), config.num_parameters());
}

TEST(Decoder, TrainsExpertsAndTheirRouter) {
  const auto model = small_model(small_config("glm4moe"));
  const Tensor text = from_vector(some_text(24, 97), {2, 12});
  model->loss(text, text).backward();
  const DecoderFeedForward& ffn = *model->blocks[1].ffn;
  for (const Tensor& weight :
       {ffn.gate->weight, ffn.up.weight, ffn.down.weight, ffn.router->logits.weight, ffn.shared->up.weight})
    EXPECT_GT(abs(weight.grad()).sum().item<double>(), 0);
  EXPECT_FALSE(model->blocks[0].ffn->router);
}

INSTANTIATE_TEST_SUITE_P(Decoder, EachArchitecture,
                         testing::Values("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi2", "phi3", "gpt2",
                                         "bitnet", "bitnet-b1.58", "mistral3", "smollm3", "olmo2", "granite", "glm4",
                                         "cohere2", "exaone4", "stablelm", "gptneox", "arcee", "apertus", "seed_oss",
                                         "qwen3moe", "olmoe", "granitemoe", "phimoe", "ernie4_5-moe", "glm4moe",
                                         "deepseek2", "deepseek3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

DecoderConfig tiny_gpt2(double dropout = 0) {
  return decoder_config(
      "gpt2",
      {.vocabulary = 100, .context = 8, .width = 32, .layers = 2, .heads = 2, .feed_forward = 64, .dropout = dropout});
}

TEST(Decoder, StartsWithFreshWeights) {
  manual_seed(1);
  const Decoder model(tiny_gpt2());
  for (const auto& [name, p] : model.named_parameters()) {
    const Tensor x = p.detach();
    if (x.dim() > 1) {
      EXPECT_NEAR(std::sqrt(mean(square(x)).item<double>()), 0.02, 0.003) << name;
    } else {
      const double wanted = name.ends_with("bias") ? 0 : 1;
      EXPECT_EQ(max(abs(x - wanted)).item<double>(), 0) << name;
    }
  }
  DecoderConfig config = tiny_gpt2();
  config.scaled_start = true;
  const Tensor scaled = Decoder(config).blocks[1].ffn->down.weight.detach();
  EXPECT_NEAR(std::sqrt(mean(square(scaled)).item<double>()), 0.01, 0.001);
}

TEST(Decoder, NamesItsParameters) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& p : Decoder(tiny_gpt2()).named_parameters())
    if (!p.name.starts_with("blocks.1.")) names.push_back(p.name);
  EXPECT_THAT(names, testing::ElementsAre("token_embedding.weight", "position_embedding.weight",
                                          "blocks.0.attention_norm.weight", "blocks.0.attention_norm.bias",
                                          "blocks.0.attention.qkv.weight", "blocks.0.attention.qkv.bias",
                                          "blocks.0.attention.output.weight", "blocks.0.attention.output.bias",
                                          "blocks.0.ffn_norm.weight", "blocks.0.ffn_norm.bias",
                                          "blocks.0.ffn.up.weight", "blocks.0.ffn.up.bias", "blocks.0.ffn.down.weight",
                                          "blocks.0.ffn.down.bias", "norm.weight", "norm.bias"));
}

TEST(Decoder, LooksBackOnly) {
  const Decoder model(tiny_gpt2());
  std::vector<std::int64_t> tokens = {3, 1, 4, 1, 5, 9};
  const Tensor before = model(from_vector(tokens, {1, 6}));
  tokens[4] = 7;
  const Tensor after = model(from_vector(tokens, {1, 6}));
  EXPECT_EQ(before.shape(), Shape({1, 6, 100}));
  EXPECT_EQ(before.slice(1, 0, 4).to_vector<float>(), after.slice(1, 0, 4).to_vector<float>());
  EXPECT_NE(before.slice(1, 4, 6).to_vector<float>(), after.slice(1, 4, 6).to_vector<float>());
  EXPECT_THROW(model(zeros({1, 9}, {i64})), ShapeError);
  EXPECT_THROW(model(zeros({9}, {i64})), ShapeError);
}

TEST(Decoder, DropsOutWhileItTrainsOnly) {
  manual_seed(1);
  Decoder model(tiny_gpt2(0.5)), same(tiny_gpt2());
  same.load_state_dict(model.state_dict());
  const std::vector<std::int32_t> text = some_text(8, 97);
  const Tensor x = from_vector(text, {1, 8});
  const std::vector<float> wanted = same(x).to_vector<float>();
  EXPECT_NE(model(x).to_vector<float>(), wanted);
  Generator training(model, {.cache = {.dtype = f32}}), generator(same, {.cache = {.dtype = f32}});
  EXPECT_EQ(training.logits(text).to_vector<float>(), generator.logits(text).to_vector<float>());
  model.eval();
  EXPECT_EQ(model(x).to_vector<float>(), wanted);
}

/// A design by its name has what a file of Hugging Face would say.
TEST(Decoder, IsMadeByTheNameOfItsArchitecture) {
  const DecoderOptions options{
      .vocabulary = 97, .context = 64, .width = 64, .layers = 2, .heads = 4, .feed_forward = 96};
  for (const char* architecture : {"llama", "gpt2"}) {
    const DecoderConfig config = decoder_config(architecture, options);
    EXPECT_EQ(config_json(decoder_config(config_json(config), "config.json")), config_json(config));
    EXPECT_NO_THROW(Decoder{config});
  }
  EXPECT_FALSE(decoder_config("llama", options).rope.interleaved);
  EXPECT_THROW(decoder_config("rwkv", options), FormatError);
  DecoderConfig all = decoder_config("gpt2", options);
  all.dropout = 1.5;
  EXPECT_THROW(Decoder{all}, FormatError);
}

TEST(Decoder, Trains) {
  manual_seed(3);
  Decoder model(small_config("llama"));
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  const std::vector<std::int32_t> text = some_text(65, 97);
  const Tensor x = from_vector(std::vector<std::int32_t>(text.begin(), text.end() - 1), {1, 64});
  const Tensor y = from_vector(std::vector<std::int32_t>(text.begin() + 1, text.end()), {1, 64});
  const double before = model.loss(x, y).item<double>();
  for (int i = 0; i < 30; ++i) {
    model.loss(x, y).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_NEAR(before, std::log(97.0), 0.3);
  EXPECT_LT(model.loss(x, y).item<double>(), 0.5 * before);
}

TEST(Decoder, TrainsAdaptersOnly) {
  manual_seed(3);
  Decoder model(small_config("llama"));
  model.add_adapters(4, 8, true);
  std::int64_t trained = 0;
  for (const nn::NamedTensor& p : model.named_parameters()) {
    EXPECT_EQ(p.tensor.requires_grad(), p.name.find("lora_") != std::string::npos) << p.name;
    if (p.tensor.requires_grad()) trained += p.tensor.numel();
  }
  EXPECT_EQ(trained, 2 * 4 * (64 + 64 + 64 + 32 + 64 + 32 + 64 + 64 + 3 * (64 + 96)));
  std::vector<Tensor> adapters;
  for (const Tensor& p : model.parameters())
    if (p.requires_grad()) adapters.push_back(p);
  optim::AdamW optimizer(adapters, {.lr = 1e-2});
  const Tensor x = from_vector(some_text(64, 97), {1, 64}), y = from_vector(some_text(64, 89), {1, 64});
  const double before = model.loss(x, y).item<double>();
  for (int i = 0; i < 20; ++i) {
    model.loss(x, y).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_LT(model.loss(x, y).item<double>(), 0.9 * before);
  const NoGrad no_grad;
  const Tensor apart = model.forward(x);
  model.merge_adapters();
  EXPECT_LT(decoder_difference(model.forward(x), apart), 1e-4);
}

TEST(Decoder, RefusesSizesThatMakeNoModel) {
  DecoderConfig config = small_config("llama");
  config.kv_heads = 3;
  EXPECT_THROW(Decoder{config}, FormatError);
  config = small_config("llama");
  config.width = std::int64_t{1} << 40;
  EXPECT_THROW(Decoder{config}, FormatError);
  config = small_config("llama");
  config.rope.size = 7;
  EXPECT_THROW(Decoder{config}, FormatError);
}

}  // namespace
}  // namespace etna::models
