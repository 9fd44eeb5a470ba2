#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/decoder_block.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/experts.h>
#include <nn/on_device.h>

#include "small_models.h"

// Mixtures of experts in training: their weights, or adapters beside them.
namespace etna::models {
namespace {

DecoderConfig mixture_config(const char* architecture) {
  DecoderConfig config = small_config(architecture);
  config.experts.count = 6;
  return config;
}

/// A layer of a mixture, and its router's choice by random logits.
struct MixtureLayer {
  explicit MixtureLayer(const char* architecture, Device device)
      : config(mixture_config(architecture)),
        layer(weights, "ffn", config, config.experts.feed_forward, &config.experts) {
    layer.to(device);
  }

  ChosenExperts choice(std::int64_t rows) const {
    const ExpertChoice made = choose_experts(randn({rows, config.experts.count}), {}, {.chosen = 2});
    return {made.expert.to(layer.up.device()), made.factor.to(layer.up.device())};
  }

  LoudWeights weights;
  DecoderConfig config;
  DecoderFeedForward layer;
};

/// The definition in f64: each expert computes all rows, and those that did not choose it count 0 times.
Tensor by_definition(const MixtureLayer& m, const Tensor& x, const ChosenExperts& chosen,
                     const std::vector<Tensor>& matrices) {
  const ExpertConfig& experts = m.config.experts;
  const Tensor none = zeros({x.size(0), experts.count}, {f64}),
               factors = scatter_add(none, -1, chosen.expert.to(kCPU).to(i64), chosen.factor.to(kCPU, f64));
  Tensor sum = zeros_like(x);
  for (std::int64_t e = 0; e < experts.count; ++e) {
    const auto times = [&](const Tensor& rows, const Tensor& all, const Projection& layer) {
      const std::int64_t size = all.size(0) / experts.count;
      const auto own = [&](const Tensor& t) { return t.slice(0, e * size, (e + 1) * size); };
      return linear(rows, own(all), layer.bias.defined() ? own(layer.bias.detach().to(kCPU, f64)) : Tensor());
    };
    const Tensor factor = factors.slice(1, e, e + 1), rows = experts.scales_input ? x * factor : x;
    const Tensor g = times(rows, matrices[0], *m.layer.gate), u = times(rows, matrices[1], m.layer.up);
    Tensor h = silu(g) * u;
    if (experts.limit != 0) {
      const Tensor least = clamp_max(g, experts.limit);
      h = least * sigmoid(least * 1.702) * (clamp(u, -experts.limit, experts.limit) + 1.0);
    }
    const Tensor y = times(h, matrices[2], m.layer.down);
    sum = sum + (experts.scales_input ? y : y * factor);
  }
  return sum;
}

class ExpertTraining : public OnDevice {};

TEST_P(ExpertTraining, HasTheGradientsOfTheDefinition) {
  for (const char* architecture : tried<const char*>({"qwen3moe", "gpt-oss", "llama4"}, 3)) {
    SCOPED_TRACE(architecture);
    manual_seed(2);
    MixtureLayer m(architecture, device());
    const ChosenExperts chosen = m.choice(37);
    const Tensor given = randn({37, m.config.width}), upstream = randn({37, m.config.width});
    const Tensor x = given.clone().to(device()).requires_grad_(), exact_x = given.to(f64).requires_grad_();
    std::vector<Tensor> matrices;
    for (const Projection* layer : {m.layer.gate.get(), &m.layer.up, &m.layer.down})
      matrices.push_back(layer->weight.detach().to(kCPU, f64).requires_grad_());
    const Tensor y = m.layer.experts(x, chosen, {}), wanted = by_definition(m, exact_x, chosen, matrices);
    expect_near(y, wanted, 1e-3);
    (y * upstream.to(device())).sum().backward();
    (wanted * upstream.to(f64)).sum().backward();
    expect_near(x.grad(), exact_x.grad(), 1e-3);
    std::size_t i = 0;
    for (const Projection* layer : {m.layer.gate.get(), &m.layer.up, &m.layer.down})
      expect_near(layer->weight.grad(), matrices[i++].grad(), 1e-3);
  }
}

/// W + B·A · scale of each expert, whether the weight is frozen or not, and with magnitudes.
TEST_P(ExpertTraining, AdaptersAddTheirProductToEachExpert) {
  for (const bool frozen : tried<bool>({true, false})) {
    for (const bool magnitudes : tried<bool>({false, true})) {
      manual_seed(2);
      MixtureLayer m("qwen3moe", device());
      const ChosenExperts chosen = m.choice(19);
      for (Projection* layer : {m.layer.gate.get(), &m.layer.up, &m.layer.down}) {
        if (frozen) layer->freeze(layer->blocks());
        layer->add_adapter(3, 6);
        if (magnitudes) layer->set_magnitudes();
        EXPECT_EQ(layer->rank(), 3);
        const NoGrad no_grad;
        layer->lora_b.detach().copy_((randn({layer->out, 3}) * 0.2).to(device()));
      }
      const Tensor x = randn({19, m.config.width}).to(device()).requires_grad_();
      const Tensor y = m.layer.experts(x, chosen, {});
      y.sum().backward();
      for (Projection* layer : {m.layer.gate.get(), &m.layer.up, &m.layer.down}) {
        EXPECT_GT(abs(layer->lora_a.grad()).sum().item<double>(), 0);
        EXPECT_GT(abs(layer->lora_b.grad()).sum().item<double>(), 0);
        layer->merge_adapter();
      }
      const Tensor dx = x.grad().clone(), again = x.detach().clone().requires_grad_();
      const Tensor merged = m.layer.experts(again, chosen, {});
      merged.sum().backward();
      expect_near(y, merged.detach(), 2e-3);
      if (!magnitudes) expect_near(dx, again.grad(), 2e-3);
    }
  }
}

TEST_P(ExpertTraining, LowersTheLossInCapturedSteps) {
  for (const bool adapters : tried<bool>({true, false})) {
    manual_seed(3);
    Decoder model(small_config("qwen3moe"));
    if (adapters) model.add_adapters({.rank = 4, .alpha = 16, .targets = {"experts"}});
    model.to(device());
    std::vector<Tensor> trained;
    for (const Tensor& p : model.parameters())
      if (p.requires_grad()) trained.push_back(p);
    optim::AdamW optimizer(trained, {.lr = 1e-2});
    const Tensor tokens = from_vector(some_text(34, 97), {1, 34}, device());
    auto step = capture(
        [&] {
          optimizer.zero_grad();
          const Tensor loss = model.loss(tokens.slice(1, 0, 33), tokens.slice(1, 1, 34));
          loss.backward();
          optimizer.step();
          return loss;
        },
        {.device = device()});
    const double first = step().item<double>();
    double last = first;
    for (int i = 0; i < 12; ++i) last = step().item<double>();
    EXPECT_LT(last, (adapters ? 0.95 : 0.7) * first);
  }
}

ETNA_ON_EVERY_DEVICE(ExpertTraining);

}  // namespace
}  // namespace etna::models
