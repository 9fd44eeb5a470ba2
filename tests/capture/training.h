#pragma once

#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/internal/vulkan/api/adapters.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/kernel.h>
#include <etna/etna.h>
#include <etna/models/decoder.h>

namespace etna {

/// Tests that run on both devices. No test may leave a validation message.
class OnDevice : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cpu()) return;
    if (!vulkan::adapters().empty() && vulkan::adapters()[0].rejected.empty()) return;
    const char* expected = std::getenv("ETNA_TEST_VULKAN");
    if (expected != nullptr && *expected == '1') FAIL() << "no usable Vulkan device: " << vulkan::why_no_adapters();
    GTEST_SKIP() << "no usable Vulkan device: " << vulkan::why_no_adapters();
  }
  void TearDown() override {
    EXPECT_EQ(vulkan::validation_messages(), 0u);
    EXPECT_FALSE(capturing());
  }
  Device device() const { return GetParam(); }
};

inline std::string device_test_name(const testing::TestParamInfo<Device>& info) {
  return info.param.is_cpu() ? "cpu" : "vulkan";
}
#define ETNA_ON_BOTH_DEVICES(suite) INSTANTIATE_TEST_SUITE_P(, suite, testing::Values(kCPU, kVulkan), device_test_name)

/// A small language model with everything a step may contain: dropout, AdamW in two groups, clipping, a schedule.
struct Training {
  static constexpr std::int64_t kBatch = 3, kSeq = 7, kVocab = 37;

  Device device;
  models::Decoder model;
  std::vector<Tensor> parameters;
  optim::AdamW optimizer;
  optim::Scheduler schedule;

  explicit Training(Device on, std::uint64_t seed = 3)
      : device(on),
        model((manual_seed(seed), models::decoder_config("gpt2", {.vocabulary = kVocab,
                                                                  .context = kSeq,
                                                                  .width = 16,
                                                                  .layers = 2,
                                                                  .heads = 2,
                                                                  .feed_forward = 24,
                                                                  .dropout = 0.2f}))),
        parameters((model.to(on), model.parameters())),
        optimizer(groups(), {.lr = 1e-2}),
        schedule(optimizer, optim::warmup_cosine(4, 30, 0.1)) {}

  std::vector<optim::ParamGroup> groups() const {
    optim::ParamGroup matrices, vectors;
    for (const Tensor& p : parameters) (p.dim() > 1 ? matrices : vectors).parameters.push_back(p);
    matrices.weight_decay = 0.1;
    vectors.weight_decay = 0;
    return {matrices, vectors};
  }

  /// Forward, backward, clipping, update, schedule.
  Tensor step(const Tensor& x, const Tensor& y) {
    Tensor loss = model.loss(x, y);
    loss.backward();
    optim::clip_grad_norm_(parameters, 0.5);
    optimizer.step();
    schedule.step();
    optimizer.zero_grad();
    return loss;
  }

  /// Tokens of one step, on the host; a number always gives the same tokens.
  static std::pair<Tensor, Tensor> batch(std::int64_t number, std::int64_t rows = kBatch) {
    std::vector<std::int32_t> x, y;
    for (std::int64_t i = 0; i < rows * kSeq; ++i) {
      x.push_back(static_cast<std::int32_t>((i * 7 + number * 13 + i * i) % kVocab));
      y.push_back(static_cast<std::int32_t>((i * 5 + number * 11 + 3) % kVocab));
    }
    return {from_vector(x, {rows, kSeq}), from_vector(y, {rows, kSeq})};
  }
};

/// The values of all tensors, concatenated, for a bitwise comparison.
inline std::vector<float> values_of(const std::vector<Tensor>& tensors) {
  std::vector<float> all;
  for (const Tensor& x : tensors) {
    std::vector<float> values;
    Tensor host = x.detach().to(kCPU).contiguous();
    values.assign(host.data<float>(), host.data<float>() + host.numel());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace etna
