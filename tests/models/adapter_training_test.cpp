#include <cstdio>
#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/decoder.h>
#include <etna/optim/optim.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

#include "small_models.h"

namespace etna::models {
namespace {

constexpr std::int64_t kTokens = 64, kSteps = 12;

/// A model whose rows are whole blocks of 256.
DecoderConfig wide_config() {
  DecoderConfig config = small_config("llama");
  config.width = config.feed_forward = 256;
  config.head_size = config.rope.size = 64;
  return config;
}

struct Losses {
  double before, after;
};

/// Trains adapters on a text. @param format of the matrices that they stand beside; null: f32
Losses train_adapters(const char* format, Device device) {
  manual_seed(3);
  Decoder model(wide_config());
  if (format != nullptr) {
    const NoGrad no_grad;
    for (const nn::NamedModule& part : model.named_modules()) {
      auto* layer = dynamic_cast<Projection*>(part.module);
      if (layer != nullptr && part.name != "token_embedding")
        layer->freeze(quantize(layer->weight.detach(), quant::format_named(format)));
    }
  }
  manual_seed(5);
  model.add_adapters(8, 16, true);
  model.to(device);
  std::vector<Tensor> adapters;
  for (const Tensor& p : model.parameters())
    if (p.requires_grad()) adapters.push_back(p);
  optim::AdamW optimizer(adapters, {.lr = 3e-3});
  std::vector<std::int32_t> text = {5};
  while (std::ssize(text) <= kTokens) text.push_back((text.back() * 7 + 11) % 97);
  const Tensor x = from_vector(std::vector<std::int32_t>(text.begin(), text.end() - 1), {1, kTokens}, device);
  const Tensor y = from_vector(std::vector<std::int32_t>(text.begin() + 1, text.end()), {1, kTokens}, device);
  const double before = model.loss(x, y).item<double>();
  for (int i = 0; i < kSteps; ++i) {
    model.loss(x, y).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return {before, model.loss(x, y).item<double>()};
}

class AdapterTraining : public OnDevice {};

/// What the CPU reaches beside f32 is the measure on every device.
TEST_P(AdapterTraining, LowersTheLossOnBlocksAsOnF32) {
  static const Losses exact = train_adapters(nullptr, kCPU);
  EXPECT_LT(exact.after, 0.55 * exact.before);
  for (const char* format : {"Q4_0", "Q4_K"}) {
    const Losses blocks = train_adapters(format, GetParam());
    std::printf("%s: %.4f to %.4f, f32: %.4f to %.4f\n", format, blocks.before, blocks.after, exact.before,
                exact.after);
    EXPECT_NEAR(blocks.before, exact.before, 0.05 * exact.before) << format;
    EXPECT_NEAR(blocks.after, exact.after, 0.05 * exact.after) << format;
  }
}

ETNA_ON_EVERY_DEVICE(AdapterTraining);

}  // namespace
}  // namespace etna::models
