#include <cmath>

#include <gmock/gmock.h>

#include <etna/nn/embedding.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <nn/on_device.h>

namespace etna {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Rope : public OnDevice {
 protected:
  static Tensor draw(Shape shape) {
    manual_seed(8);
    return randn(shape, {f32, device()});
  }
};

TEST_P(Rope, TurnsPairsByTheirAngles) {
  const Tensor x = from_vector<float>({1, 2, 3, 4, 1, 2, 3, 4}, {2, 4}, device());
  const Tensor frequencies = from_vector<float>({1, 0.5}, device());
  const double a = std::cos(1.0), b = std::sin(1.0), c = std::cos(0.5), d = std::sin(0.5);
  expect_near(rope(x, frequencies), std::vector<double>{1, 2, 3, 4, a - 3 * b, 2 * c - 4 * d, 3 * a + b, 4 * c + 2 * d},
              1e-6);
  expect_near(rope(x, frequencies, {}, true),
              std::vector<double>{1, 2, 3, 4, a - 2 * b, 2 * a + b, 3 * c - 4 * d, 4 * c + 3 * d}, 1e-6);
}

TEST_P(Rope, ProductsDependOnDistancesOnly) {
  const Tensor f = rotary_frequencies(8, 10000, device()), q = draw({1, 8}), k = draw({1, 8}) * 0.5;
  const auto product = [&](std::int64_t at, std::int64_t behind) {
    const auto place = [&](std::int64_t n) { return full({}, static_cast<double>(n), {i64, device()}); };
    return sum(rope(q, f, place(at + behind)) * rope(k, f, place(at))).item<double>();
  };
  EXPECT_NEAR(product(0, 3), product(100, 3), 1e-4);
  EXPECT_NEAR(product(7, 11), product(1000, 11), 1e-3);
}

TEST_P(Rope, ReadsItsPositionAtEveryReplay) {
  nn::RotaryEmbedding rotary(4);
  const Tensor x = draw({2, 1, 4});
  auto step = capture([&](const Tensor& position) { return rotary(x, position); }, {.device = device()});
  for (std::int64_t at : {0, 5, 9, 100}) {
    const Tensor position = full({}, static_cast<double>(at), {i64, device()});
    EXPECT_EQ(step(position).to_vector<float>(), rotary(x, position).to_vector<float>());
  }
}

TEST_P(Rope, ReadsTransposedHeadsInPlace) {
  const Tensor x = draw({2, 5, 3, 6}).transpose(1, 2), f = rotary_frequencies(4, 100, device());
  EXPECT_EQ(rope(x, f).to_vector<float>(), rope(x.contiguous(), f).to_vector<float>());
}

ETNA_ON_EVERY_DEVICE(Rope);

TEST(RopeErrors, NameWhatDoesNotFit) {
  const Tensor f = rotary_frequencies(4);
  EXPECT_THAT([&] { rope(ones({2, 3}), f); }, ThrowsMessage<ShapeError>(HasSubstr("at most D/2")));
  EXPECT_THAT([&] { rope(ones({2, 4}, i64), f); }, ThrowsMessage<DtypeError>(HasSubstr("floating")));
  EXPECT_THAT([&] { rope(ones({2, 4}), f, ones({3}, i64)); }, ThrowsMessage<ShapeError>(HasSubstr("[2]")));
  EXPECT_THAT([&] { rope(ones({2, 4}), f, ones({2})); }, ThrowsMessage<DtypeError>(HasSubstr("positions")));
  EXPECT_THROW(rotary_frequencies(3), ShapeError);
  EXPECT_THROW(rope({}, f), UndefinedTensor);
}

class Settings : public OnDevice {};

TEST_P(Settings, AgreeWithAttentionWithWeights) {
  manual_seed(9);
  const auto draw = [&](Shape shape) { return randn(shape, {f32, device()}); };
  const Tensor q = draw({2, 4, 3, 8}), k = draw({2, 2, 5, 8}), v = draw({2, 2, 5, 12});
  const Tensor mask = gt(draw({3, 5}), -0.5), added = draw({3, 5});
  for (const AttentionSettings& s : std::vector<AttentionSettings>{{},
                                                                   {.causal = true},
                                                                   {.causal_from_end = true},
                                                                   {.mask = mask},
                                                                   {.mask = mask, .causal_from_end = true},
                                                                   {.mask = added, .causal = true, .scale = 0.3}})
    expect_near(dot_product_attention(q, k, v, s), attention_with_weights(q, k, v, s).output, 1e-5);
  // The last query sees all keys, the first all but the last two.
  const Tensor w = attention_with_weights(q, k, v, {.causal_from_end = true}).weights;
  expect_near(w.select(2, 0).slice(2, 3, 5), std::vector<double>(16, 0), 0);
  // A cap bounds the scores: far above them it changes nothing, at 0+ all weights are equal.
  expect_near(dot_product_attention(q, k, v, {.softcap = 1e4}), dot_product_attention(q, k, v), 1e-4);
  expect_near(attention_with_weights(q, k, v, {.softcap = 1e-6}).weights, std::vector<double>(120, 0.2), 1e-5);
  EXPECT_THROW(dot_product_attention(k, q, q), ShapeError);
  EXPECT_THROW(dot_product_attention(q, k, v, {.softcap = -1}), Error);
}

ETNA_ON_EVERY_DEVICE(Settings);

}  // namespace
}  // namespace etna
