#include <etna/models/projection.h>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <nn/on_device.h>

#include "small_models.h"

namespace etna::models {
namespace {

/// Matrices in a block format, on a device.
struct PackedWeights : Weights {
  PackedWeights(std::string_view format, Device device) : format(&quant::format_named(format)), device(device) {}
  Matrix matrix(const std::string&, std::int64_t rows, std::int64_t columns) override {
    return {{}, quantize(randn({rows, columns}), *format).to(device)};
  }
  Tensor vector(const std::string&, std::int64_t size) override { return randn({size}, device); }

  const quant::BlockFormat* format;
  Device device;
};

/// As large as LoudWeights.
struct LoudPackedWeights : PackedWeights {
  using PackedWeights::PackedWeights;
  Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) override {
    return {{}, quantize(LoudWeights().matrix(name, rows, columns).dense, *format).to(device)};
  }
  Tensor vector(const std::string& name, std::int64_t size) override {
    return LoudWeights().vector(name, size).to(device);
  }
};

class ProjectionTogether : public OnDevice {};

TEST_P(ProjectionTogether, MovesFrozenMatricesBehindEachOther) {
  const Device device = GetParam();
  manual_seed(1);
  PackedWeights weights("Q4_K", device);
  Projection a(weights, "a", 256, 16, true), b(weights, "b", 256, 8, false);
  const Tensor x = randn({3, 256}).to(device);
  const std::vector<float> before = cat({a(x), b(x)}, -1).to_vector<float>();
  concat_weights({&a, &b});
  EXPECT_EQ(a.packed.storage() == b.packed.storage(), !device.is_cpu());
  if (!device.is_cpu()) {
    EXPECT_EQ(a.packed.offset() + a.packed.numel(), b.packed.offset());
  }
  EXPECT_EQ(cat({a(x), b(x)}, -1).to_vector<float>(), before);
  EXPECT_EQ(a.named_buffers().size(), 1u);
}

TEST_P(ProjectionTogether, LeavesOthersWhereTheyAre) {
  const Device device = GetParam();
  PackedWeights four("Q4_K", device), six("Q6_K", device), tailed("I2_S", device), odd("F16", device);
  Projection a(four, "a", 256, 16, false), b(six, "b", 256, 8, false), c(tailed, "c", 256, 8, false),
      d(tailed, "d", 256, 8, false), e(odd, "e", 7, 3, false), f(odd, "f", 7, 3, false);
  concat_weights({&a, &b});
  concat_weights({&c, &d});
  concat_weights({&e, &f});
  for (const auto& [one, other] : {std::pair{&a, &b}, {&c, &d}, {&e, &f}})
    EXPECT_NE(one->packed.storage(), other->packed.storage());
}

ETNA_ON_EVERY_DEVICE(ProjectionTogether);

class DecoderOnGpu : public OnDevice {};

/// Products of few rows round their results for one another; floats are the measure.
TEST_P(DecoderOnGpu, RoundsRowsFromProductToProduct) {
  for (const char* architecture : {"llama", "qwen3", "bitnet", "gemma2", "phi2"}) {
    DecoderConfig config = small_config(architecture);
    config.feed_forward = 128;
    manual_seed(3);
    LoudPackedWeights weights("Q8_0", kVulkan);
    const Decoder model(config, weights);
    const std::vector<std::int32_t> text = some_text(20, config.vocabulary);
    const auto logits = [&] {
      Generator generator(model, {.device = kVulkan, .chunk = 1, .cache = {.dtype = f32}});
      return generator.logits(text).to(kCPU);
    };
    const Tensor rounded = logits();
    const Override floats(&Overrides::quantized_activations, false);
    const Tensor exact = logits();
    const double size = std::sqrt(mean(square(exact)).item<double>());
    EXPECT_LT(std::sqrt(mean(square(rounded - exact)).item<double>()), 0.06 * size) << architecture;
    EXPECT_GT((rounded - exact).abs().max().item<double>(), 0.0) << architecture;
  }
}

TEST_P(DecoderOnGpu, TakesNoDispatchToRoundBetweenProducts) {
  DecoderConfig config = small_config("llama");
  config.feed_forward = 128;
  LoudPackedWeights weights("Q8_0", kVulkan);
  const Decoder model(config, weights);
  std::vector<PagedCache> caches;
  for (std::int64_t i = 0; i < config.layers; ++i)
    caches.push_back(paged_cache(1, config.kv_heads, config.head_size, {f16, kVulkan}));
  const DecoderCache cache{&caches, {zeros({1, 1}, {i32, kVulkan}), zeros({1}, {i32, kVulkan})}};
  const Tensor token = zeros({1, 1}, {i32, kVulkan});
  const NoGrad no_grad;
  model.extend(token, cache);
  const auto before = gpu::queue_stats(kVulkan).dispatches;
  model.extend(token, cache);
  // Of each layer four products, the attention, and a rounding of its heads, which are too small for it to round them;
  // before all the embedding and the first rounding.
  EXPECT_EQ(gpu::queue_stats(kVulkan).dispatches - before, static_cast<std::uint64_t>(2 + 6 * config.layers));
}

INSTANTIATE_TEST_SUITE_P(Device, DecoderOnGpu, testing::Values(kVulkan), device_type);

}  // namespace
}  // namespace etna::models
