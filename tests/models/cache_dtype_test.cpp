#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/memory.h>
#include <etna/models/generator.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/loss.h>
#include <nn/on_device.h>

#include "small_models.h"

// Caches of keys and values in fewer bits than f32.
namespace etna::models {
namespace {

constexpr std::int64_t kLength = 200;

/// Mean negative log-likelihood of a text that the model has written, read in chunks so that all but the first meet the
/// cache.
double cache_dtype_loss_of(const Decoder& model, Device device, DType dtype, const std::vector<std::int32_t>& text) {
  Generator generator(model, {.device = device, .chunk = 20, .cache = {.dtype = dtype}});
  const NoGrad no_grad;
  const Tensor logits = generator.logits(text).slice(0, 0, std::ssize(text) - 1);
  return cross_entropy(logits, from_vector(std::vector<std::int32_t>(text.begin() + 1, text.end()), device))
      .item<double>();
}

std::vector<std::int32_t> written(const Decoder& model, Device device, DType dtype) {
  Generator generator(model, {.device = device, .cache = {.dtype = dtype}});
  std::vector<std::int32_t> tokens = some_text(30, 97);
  generator.generate(some_text(30, 97), {.max_tokens = kLength - 30, .sampling = {.temperature = 0}},
                     [&](std::int32_t token) {
                       tokens.push_back(token);
                       return true;
                     });
  return tokens;
}

class CacheDtype : public OnDevice {};

/// Keys of 8 bits (bf16, Q8_0) or 11 (f16) move the loss of a text little, and the text begins as the exact one.
TEST_P(CacheDtype, MovesTheLossLittle) {
  DecoderConfig config = small_config("llama");
  config.head_size = config.rope.size = 32;  // Q8_0 has blocks of 32
  const auto model = small_model(config);
  model->to(GetParam());
  const std::vector<std::int32_t> text = written(*model, GetParam(), f32);
  ASSERT_EQ(std::ssize(text), kLength);
  const double exact = cache_dtype_loss_of(*model, GetParam(), f32, text);
  for (const DType dtype : {f16, bf16, u8}) {
    if (dtype == f16 && !GetParam().is_cpu()) continue;  // the default, which other tests have
    const double loss = cache_dtype_loss_of(*model, GetParam(), dtype, text);
    RecordProperty(dtype == u8 ? "q8_0" : std::string(name(dtype)), std::to_string(loss - exact));
    EXPECT_NEAR(loss, exact, dtype == f16 ? 0.002 : 0.02) << name(dtype) << ", f32 has " << exact;
    const std::vector<std::int32_t> own = written(*model, GetParam(), dtype);
    EXPECT_EQ(std::ssize(own), kLength) << name(dtype);
    EXPECT_TRUE(std::equal(own.begin(), own.begin() + 34, text.begin())) << name(dtype);
  }
}

TEST_P(CacheDtype, TakesLessMemory) {
  DecoderConfig config = small_config("llama");
  config.head_size = config.rope.size = 32;
  const auto bytes = [&](DType dtype) {
    const std::uint64_t before = memory_stats(GetParam()).in_use;
    const KvCache cache(config, GetParam(), {.tokens = 256 * kCacheBlock, .dtype = dtype});
    return static_cast<double>(memory_stats(GetParam()).in_use - before);
  };
  const double exact = bytes(f32);
  EXPECT_NEAR(bytes(f16), exact / 2, 0.01 * exact);
  EXPECT_NEAR(bytes(bf16), exact / 2, 0.01 * exact);
  EXPECT_NEAR(bytes(u8), exact * 36 / 128, 0.01 * exact) << "32 codes and an f16 scale, in whole words";
}

ETNA_ON_EVERY_DEVICE(CacheDtype);

}  // namespace
}  // namespace etna::models
