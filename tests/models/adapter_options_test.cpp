#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/model_file.h>
#include <etna/optim/optim.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <nn/on_device.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Adapters of chosen layers, with dropout and with magnitudes, and rows of several texts.
namespace etna::models {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::size_t adapters_of(Decoder& decoder, const std::string& name) {
  std::size_t count = 0;
  for (DecoderBlock& block : decoder.blocks)
    for (const NamedProjection& own : block.adapter_layers())
      count += own.layer->has_adapter() && own.name.find(name) != std::string::npos ? 1 : 0;
  return count;
}

double options_difference(const Tensor& a, const Tensor& b) {
  return (a.to(kCPU) - b.to(kCPU)).abs().max().item<double>();
}

Tensor text_of_row(std::int64_t tokens, Device device) {
  return from_vector(some_text(tokens, 97), {1, tokens}, device);
}

/// So that an adapter does something before it is trained.
void shake_adapters(Decoder& decoder) {
  const NoGrad no_grad;
  manual_seed(4);
  for (const nn::NamedTensor& p : decoder.named_parameters())
    if (p.name.ends_with("lora_b")) p.tensor.detach().copy_(randn(p.tensor.shape()).to(p.tensor.device()) * 0.1);
}

TEST(AdapterOptions, TargetsHaveTheNamesOfTheDecoderAndOfHuggingFace) {
  for (const char* name : {"query", "attention.query", "q_proj", "self_attn.q_proj"}) {
    const auto model = small_model(small_config("llama"));
    model->add_adapters({.rank = 2, .targets = {name, "down_proj"}});
    EXPECT_EQ(adapters_of(*model, ""), 4U) << name;
    EXPECT_EQ(adapters_of(*model, "attention.query"), 2U) << name;
  }
  const auto packed = small_model(small_config("gpt2"));
  packed->add_adapters({.rank = 2, .targets = {"c_attn"}});
  EXPECT_EQ(adapters_of(*packed, "attention.qkv"), 2U);
}

TEST(AdapterOptions, TargetsMayBeExpertsAndLayersThatKeepAState) {
  using Targets = std::vector<std::string>;
  for (const Targets& targets : {Targets{"experts"}, Targets{"gate_proj", "up_proj", "down_proj"},
                                 Targets{"experts.0.gate_proj", "ffn.up", "down"}}) {
    const auto model = small_model(small_config("qwen3moe"));
    model->add_adapters({.rank = 2, .targets = targets});
    EXPECT_EQ(adapters_of(*model, ""), 6U) << targets[0];
  }
  const auto shared = small_model(small_config("glm4moe"));  // one layer of two has experts, and a shared one
  shared->add_adapters({.rank = 2, .targets = {"experts"}});
  EXPECT_EQ(adapters_of(*shared, ""), 3U);
  const auto all = small_model(small_config("glm4moe"));
  all->add_adapters({.rank = 2, .targets = {"all"}});
  EXPECT_EQ(adapters_of(*all, "ffn"), 9U);
  EXPECT_EQ(adapters_of(*all, "ffn.shared"), 3U);
  EXPECT_THAT([&] { small_model(small_config("llama"))->add_adapters({.targets = {"experts"}}); },
              ThrowsMessage<Error>(HasSubstr("'experts'")));
}

TEST(AdapterOptions, RefusesUnknownTargetsAndOddNumbers) {
  const auto model = small_model(small_config("llama"));
  EXPECT_THAT([&] { model->add_adapters({.targets = {"q_prog"}}); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("'q_prog'"), HasSubstr("q_proj"))));
  EXPECT_THROW(model->add_adapters({.targets = {}}), Error);
  EXPECT_THROW(model->add_adapters({.rank = 0}), Error);
  EXPECT_THROW(model->add_adapters({.dropout = 1}), Error);
}

TEST(AdapterOptions, DropoutIsOfTrainingAlone) {
  const auto model = small_model(small_config("llama"));
  model->add_adapters({.rank = 4, .dropout = 0.5, .targets = {"all"}});
  shake_adapters(*model);
  const Tensor x = text_of_row(12, kCPU);
  model->train();
  EXPECT_GT(options_difference(model->forward(x), model->forward(x)), 1e-3);
  model->eval();
  EXPECT_EQ(options_difference(model->forward(x), model->forward(x)), 0);
}

class AdapterMagnitudes : public OnDevice {};

/// y = m / ‖W + s·B·A‖ · (W + s·B·A) x + b, with the norms as constants, in f64.
TEST_P(AdapterMagnitudes, FollowTheFormulaAndItsGradients) {
  manual_seed(6);
  LoudWeights weights;
  Projection layer(weights, "layer", 48, 40, true);
  layer.to(device());
  layer.add_adapter(4, 6);
  layer.set_magnitudes();
  const Tensor start = layer(ones({3, 48}, {f32, device()}));
  EXPECT_LT(options_difference(start, linear(ones({3, 48}, {f32, device()}), layer.weight, layer.bias)), 1e-4);
  {
    const NoGrad no_grad;
    layer.lora_b.detach().copy_(randn({40, 4}).to(device()));
    layer.lora_magnitude.detach().copy_((rand({40}) + 0.5).to(device()));
  }
  const Tensor x = randn({5, 48}).to(device()), upstream = randn({5, 40}).to(device());
  (layer(x) * upstream).sum().backward();

  const auto exact = [](const Tensor& t) { return t.detach().to(kCPU).to(f64); };
  const Tensor a = exact(layer.lora_a).requires_grad_(), b = exact(layer.lora_b).requires_grad_(),
               m = exact(layer.lora_magnitude).requires_grad_();
  const Tensor whole = exact(layer.weight) + matmul(b, a) * 1.5;
  const Tensor norms = sqrt((whole * whole).sum(-1)).detach();
  const Tensor y = matmul(exact(x), whole.t()) * (m / norms) + exact(layer.bias);
  (y * exact(upstream)).sum().backward();
  EXPECT_LT(options_difference(layer(x).detach().to(kCPU).to(f64), y.detach()), 1e-4);
  EXPECT_LT(options_difference(layer.lora_a.grad().to(kCPU).to(f64), a.grad()), 1e-3);
  EXPECT_LT(options_difference(layer.lora_b.grad().to(kCPU).to(f64), b.grad()), 1e-3);
  EXPECT_LT(options_difference(layer.lora_magnitude.grad().to(kCPU).to(f64), m.grad()), 1e-3);
  const Tensor before = layer(x).detach();
  layer.merge_adapter();
  EXPECT_LT(options_difference(layer(x), before), 1e-4);
}

TEST_P(AdapterMagnitudes, StandBesideBlocks) {
  manual_seed(6);
  LoudWeights weights;
  Projection layer(weights, "layer", 256, 24, false);
  layer.freeze(quantize(layer.weight.detach(), quant::format_named("Q4_K")));
  layer.to(device());
  layer.add_adapter(4, 6);
  layer.set_magnitudes();
  {
    const NoGrad no_grad;
    layer.lora_b.detach().copy_((randn({24, 4}) * 0.3).to(device()));
  }
  const Tensor x = randn({2, 256}).to(device());
  const Tensor before = layer(x).detach();
  layer.merge_adapter();
  EXPECT_LT(options_difference(layer(x), before), 0.05);  // products of blocks round x
}

TEST_P(AdapterMagnitudes, AreInPeftsFolder) {
  const TemporaryFolder folder;
  for (const char* architecture : {"llama", "phi3"}) {
    const auto model = small_model(small_config(architecture));
    model->to(device());
    model->add_adapters({.rank = 3, .alpha = 5, .magnitudes = true, .targets = {"all"}});
    shake_adapters(*model);
    const Tensor x = text_of_row(9, device());
    const NoGrad no_grad;
    const Tensor wanted = model->forward(x);
    const FilePath file = folder / architecture / "adapter_model.safetensors";
    std::filesystem::create_directories(folder / architecture);
    save_adapters(file, *model);
    EXPECT_THAT([&] { save_adapters(folder / "adapter.gguf", *model); },
                ThrowsMessage<FormatError>(HasSubstr("magnitudes")));
    const auto again = small_model(small_config(architecture));
    again->to(device());
    EXPECT_THAT([&] { stack_adapters(folder / architecture, *again); },
                ThrowsMessage<FormatError>(HasSubstr("stacked")));
    load_adapters(folder / architecture, *again);
    EXPECT_LT(options_difference(again->forward(x), wanted), 1e-4) << architecture;
  }
}

ETNA_ON_EVERY_DEVICE(AdapterMagnitudes);

class PackedTexts : public OnDevice {};

/// A text in a row of several has the logits that it has alone.
TEST_P(PackedTexts, DoNotSeeEachOther) {
  for (const char* architecture : {"llama", "gpt2", "gemma2", "mistral3", "qwen3"}) {
    const auto model = small_model(small_config(architecture));
    model->to(device());
    model->eval();
    const NoGrad no_grad;
    const Tensor row = text_of_row(40, device());
    const Tensor lengths = from_vector(std::vector<std::int32_t>{21, 15, 0}, {1, 3}).to(device());
    const Tensor documents = document_bounds(lengths, 40);
    const Tensor packed = model->logits_of(model->hidden(row, {}, documents));
    const Tensor first = model->forward(row.slice(1, 0, 21)), second = model->forward(row.slice(1, 21, 36));
    EXPECT_LT(options_difference(packed.slice(1, 0, 21), first), 2e-4) << architecture;
    EXPECT_LT(options_difference(packed.slice(1, 21, 36), second), 2e-4) << architecture;
  }
}

TEST_P(PackedTexts, HaveTheSameGradientsWithRecomputedBlocks) {
  std::vector<Tensor> gradients[2];
  for (const bool recompute : {false, true}) {
    const auto model = small_model(small_config("llama"));
    model->to(device());
    model->recompute_blocks = recompute;
    const Tensor row = text_of_row(17, device());
    const Tensor documents = document_bounds(from_vector(std::vector<std::int32_t>{9, 7}, {1, 2}).to(device()), 16);
    model->loss(row.slice(1, 0, 16), row.slice(1, 1, 17), documents, Reduction::sum).backward();
    for (const Tensor& p : model->parameters()) gradients[recompute ? 1 : 0].push_back(p.grad());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_LT(options_difference(gradients[0][i], gradients[1][i]), 1e-5);
}

ETNA_ON_EVERY_DEVICE(PackedTexts);

}  // namespace
}  // namespace etna::models
