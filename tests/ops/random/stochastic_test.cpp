#include <cmath>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Stochastic, LeaveTheirInputOutsideTraining) {
  const Tensor x = ones({2, 3, 4});
  EXPECT_EQ(dropout1d(x, 0.5, false).impl(), x.impl());
  EXPECT_EQ(dropout2d(x, 0).impl(), x.impl());
  EXPECT_EQ(alpha_dropout(x).impl(), x.impl()) << "PyTorch's default";
  EXPECT_EQ(feature_alpha_dropout(x, 0.5).impl(), x.impl());
}

TEST(Stochastic, LockedDropoutDropsTheSameAtEveryStep) {
  for (Device device : devices()) {
    manual_seed(3);
    const Tensor y = locked_dropout(ones({6, 4, 32}, device), 0.5);
    EXPECT_TRUE(equal(y.slice(0, 0, 1).expand({6, 4, 32}), y));
    const float share = mean(ne(y, 0.0).to(f32)).item<float>();
    EXPECT_GT(share, 0.3);
    EXPECT_LT(share, 0.7);
    const Tensor rows = locked_dropout(ones({32, 4}, device), 0.5, true, -1);
    EXPECT_TRUE(equal(rows.slice(1, 0, 1).expand({32, 4}), rows));
  }
  EXPECT_THAT([] { locked_dropout(ones({2}), 1.5); }, ThrowsMessage<ShapeError>(HasSubstr("locked_dropout: p is 1.5")));
  EXPECT_THROW(locked_dropout(ones({2}), 0.5, true, 1), ShapeError);
}

TEST(Stochastic, EmbeddingDropoutDropsAWordEverywhere) {
  manual_seed(5);
  const Tensor index = arange(64).remainder(16.0), y = embedding_dropout(index, ones({16, 3}), 0.5);
  const std::vector<float> values = y.to_vector<float>();
  int dropped = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(values[3 * i], values[3 * (i % 16)]);
    EXPECT_EQ(values[3 * i], values[3 * i + 2]);
    EXPECT_TRUE(values[3 * i] == 0 || values[3 * i] == 2);
    dropped += values[3 * i] == 0 ? 1 : 0;
  }
  EXPECT_GT(dropped, 8);
  EXPECT_LT(dropped, 56);
}

TEST(Stochastic, DropWholeChannels) {
  for (Device device : devices()) {
    manual_seed(3);
    const Tensor x = ones({4, 16, 5}, device);
    for (const Tensor& y : {dropout1d(x, 0.5), feature_alpha_dropout(x, 0.5, true)}) {
      const Tensor spread = max(y, {2}) - min(y, {2});
      EXPECT_EQ(max(abs(spread)).item<float>(), 0) << "a channel has one value";
      const float high = max(y).item<float>(), low = min(y).item<float>();
      EXPECT_LT(low, high);
      for (float v : y.to_vector<float>()) EXPECT_TRUE(v == high || v == low) << v;
    }
    EXPECT_EQ(max(abs(alpha_dropout(x, 1, true))).item<float>(), 0);
  }
}

TEST(Stochastic, GumbelSamplesFollowTheProbabilities) {
  for (Device device : devices()) {
    manual_seed(4);
    const Tensor p = from_vector<float>({0.5F, 0.2F, 0.3F}, device);
    Tensor logits = log(p).expand({20000, 3}).contiguous().requires_grad_();
    const Tensor hard = gumbel_softmax(logits, 0.5, true);
    const std::vector<double> shares = mean(hard, {0}).to_vector<double>();
    EXPECT_NEAR(shares[0], 0.5, 0.02);
    EXPECT_NEAR(shares[1], 0.2, 0.02);
    EXPECT_NEAR(max(hard).item<float>(), 1, 1e-6);
    const Tensor soft = gumbel_softmax(logits.detach(), 2);
    EXPECT_NEAR(max(abs(sum(soft, {1}) - 1.0)).item<float>(), 0, 1e-6);
    sum(hard * from_vector<float>({1, 2, 3}, device)).backward();
    EXPECT_GT(max(abs(logits.grad())).item<float>(), 0) << "the gradient of the soft values";
  }
}

TEST(Stochastic, DrawAnewAtEachReplay) {
  for (Device device : devices()) {
    const Tensor x = ones({4, 64, 2}, device);
    auto step = capture(
        [&] {
          return std::vector<Tensor>{dropout1d(x, 0.5), alpha_dropout(x, 0.5, true), gumbel_softmax(x, 1, true)};
        },
        {.device = device});
    step(), step();
    std::vector<std::vector<float>> before;
    for (const Tensor& y : step()) before.push_back(y.to_vector<float>());
    const std::vector<Tensor> after = step();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NE(after[i].to_vector<float>(), before[i]) << i;
  }
}

TEST(Stochastic, SayWhatIsWrong) {
  const Tensor x = ones({2, 3});
  EXPECT_THAT([&] { dropout3d(x); }, ThrowsMessage<ShapeError>(HasSubstr("dropout3d: x is [2, 3]; wanted 4 or 5")));
  EXPECT_THAT([&] { dropout1d(x, 1.5); }, ThrowsMessage<ShapeError>(HasSubstr("dropout1d: p is 1.5")));
  EXPECT_THROW(alpha_dropout(x, NAN, true), ShapeError);
  EXPECT_THROW(feature_alpha_dropout(ones({3}), 0.5, true), ShapeError);
  EXPECT_THROW(dropout1d(ones({2, 3}, i64)), DtypeError);
  EXPECT_THROW(gumbel_softmax(x, 0), Error);
  EXPECT_THROW(gumbel_softmax(x, 1, false, 2), ShapeError);
  EXPECT_EQ(gumbel_softmax(ones({}), 1, true).item<float>(), 1) << "0-d: one class";
}

TEST(Distances, OfFewRowsAreNone) {
  for (Device device : devices()) {
    EXPECT_EQ(pdist(ones({0, 3}, device)).shape(), Shape({0}));
    EXPECT_EQ(pdist(ones({1, 3}, device)).shape(), Shape({0}));
    EXPECT_EQ(pdist(from_vector<float>({0, 3}, {2, 1}, device)).to_vector<float>(), std::vector<float>({3}));
  }
  EXPECT_THROW(pdist(ones({3})), ShapeError);
  EXPECT_THROW(normalize(ones({3}), 2, 1), ShapeError);
  // A row of zeros stays one, and its gradient is finite.
  Tensor x = zeros({2, 3}).requires_grad_();
  const Tensor y = normalize(x);
  sum(y).backward();
  EXPECT_EQ(max(abs(y)).item<float>(), 0);
  for (float g : x.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(g));
}

TEST(EmbeddingBag, SaysWhatIsWrong) {
  const Tensor table = ones({5, 3}), index = from_vector<std::int64_t>({0, 1, 4});
  EXPECT_THAT([&] { embedding_bag(table, index); }, ThrowsMessage<ShapeError>(HasSubstr("embedding_bag: index is")));
  EXPECT_THROW(embedding_bag(ones({5}), index), ShapeError);
  EXPECT_THROW(embedding_bag(table, index.unsqueeze(0), {}, {.padding_idx = 5}), Error);
  EXPECT_THROW(embedding_bag(table, index.unsqueeze(0), {}, {.mode = BagMode::max}, ones({1, 3})), Error);
  EXPECT_THROW(bilinear(ones({2, 3}), ones({2, 3}), ones({3, 3})), ShapeError);
  EXPECT_THROW(bilinear(ones({2, 3}), ones({2, 3}), ones({1, 3, 3}), ones({2})), ShapeError);
}

}  // namespace
}  // namespace etna
