#include <etna/models/decoder.h>

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

INSTANTIATE_TEST_SUITE_P(Decoder, EachArchitecture,
                         testing::Values("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi2", "phi3", "gpt2",
                                         "bitnet", "bitnet-b1.58"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

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
