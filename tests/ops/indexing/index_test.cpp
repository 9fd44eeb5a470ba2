#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/memory.h>
#include <etna/tensor/ops.h>

#include "ops/rows.h"

namespace etna {
namespace {

using op_tests::expect_close;
using op_tests::random_tensor;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Indices in [0, limit); small ones are far more frequent, as words are.
Tensor skewed_index(Shape shape, std::int64_t limit, DType dtype = i64, unsigned seed = 1) {
  std::mt19937 bits(seed);
  std::vector<std::int64_t> values(static_cast<std::size_t>(numel(shape)));
  for (std::int64_t& v : values) {
    double u = static_cast<double>(bits()) / 4294967296.0;
    v = std::min<std::int64_t>(limit - 1, static_cast<std::int64_t>(u * u * u * static_cast<double>(limit)));
  }
  return from_vector(values, shape).to(dtype);
}

std::vector<double> naive_table(const Tensor& grad, const Tensor& index, std::int64_t rows) {
  std::int64_t width = grad.size(-1);
  std::vector<double> table(static_cast<std::size_t>(rows * width)), g = grad.to_vector<double>();
  std::vector<std::int64_t> chosen = index.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < g.size(); ++i) {
    auto w = static_cast<std::size_t>(width);
    table[static_cast<std::size_t>(chosen[i / w]) * w + i % w] += g[i];
  }
  return table;
}

TEST(Embedding, GradientAddsUpRepeatedTokensOnEveryDevice) {
  struct Case {
    std::int64_t tokens, rows, width;
  };
  for (auto [tokens, rows, width] :
       {Case{1, 1, 1}, {31, 5, 4}, {33, 1, 7}, {300, 3, 5}, {1500, 40, 67}, {65, 9, 1100}}) {
    for (DType t : {f32, bf16, f16}) {
      Tensor index = skewed_index({tokens}, rows, t == f32 ? i64 : i32),
             grad = random_tensor({tokens, width}, f32).to(t);
      std::vector<double> want = naive_table(grad, index, rows);
      Tensor got = embedding_backward(grad, index, rows);
      double loose = t == f32 ? 1e-6 : t == f16 ? 1e-3 : 8e-3, absolute = t == f32 ? 1e-4 : 1e-3;
      expect_close(got, want, loose, absolute, "cpu");
      if (!op_tests::have_vulkan()) continue;
      Tensor on_gpu = embedding_backward(grad.to(kVulkan), index.to(kVulkan), rows);
      expect_close(on_gpu, want, loose, absolute, "vulkan");
      EXPECT_EQ(embedding_backward(grad.to(kVulkan), index.to(kVulkan), rows).to_vector<float>(),
                on_gpu.to_vector<float>());
    }
  }
}

TEST(Embedding, AFrequentTokenLosesNoDigits) {
  std::int64_t tokens = 100000;
  Tensor grad = full({tokens, 2}, 0.1), index = zeros({tokens}, {i64});
  double exact = static_cast<double>(0.1f) * static_cast<double>(tokens);
  EXPECT_NEAR(embedding_backward(grad, index, 1).to_vector<double>()[0], exact, 1e-3);
}

TEST(Embedding, AnIndexOutsideIsAnErrorAndClampedOnAGpu) {
  Tensor weight = arange(0, 6).to(f32).reshape({3, 2}), index = from_vector(std::vector<std::int64_t>{1, 3, -1});
  EXPECT_THAT([&] { embedding(weight, index); },
              ThrowsMessage<IndexError>(HasSubstr("embedding: index 3 at position 1 is outside [0, 3)")));
  EXPECT_THAT([&] { embedding_backward(weight, index, 3); }, ThrowsMessage<ShapeError>(HasSubstr("is outside [0, 3)")));
  if (!op_tests::have_vulkan()) return;
  Tensor rows = embedding(weight.to(kVulkan), index.to(kVulkan));
  EXPECT_THROW(synchronize(kVulkan), IndexError);
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{2, 3, 4, 5, 0, 1}));
  Tensor sums = embedding_backward(weight.to(kVulkan), index.to(kVulkan), 3);
  EXPECT_THROW(synchronize(kVulkan), IndexError);
  EXPECT_EQ(sums.to_vector<float>(), (std::vector<float>{4, 5, 0, 1, 2, 3}));
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  Tensor index = zeros({2}, {i64});
  EXPECT_THAT([&] { embedding(ones({3}), index); }, ThrowsMessage<ShapeError>(HasSubstr("it must be [rows, width]")));
  EXPECT_THAT(
      [&] {
        embedding(ones({3, 2}), ones({2}));
      },
      ThrowsMessage<DtypeError>(HasSubstr("the index is f32, it must be i64 or i32")));
  EXPECT_THAT(
      [&] {
        embedding(ones({0, 2}), index);
      },
      ThrowsMessage<ShapeError>(HasSubstr("has no rows to choose from")));
  EXPECT_THAT(
      [&] {
        embedding_backward(ones({3, 2}), index, 4);
      },
      ThrowsMessage<ShapeError>(HasSubstr("does not match an index [2]")));
}

TEST(Gather, AndScatterAddDoWhatLoopsDo) {
  Tensor x = random_tensor({4, 5, 3}), source = random_tensor({3, 7, 2}, f64, 2), index = skewed_index({3, 7, 2}, 5);
  std::vector<double> xs = x.to_vector<double>(), ss = source.to_vector<double>(), picked, sums = xs;
  std::vector<std::int64_t> chosen = index.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::size_t a = i / 14, c = i % 2, at = (a * 5 + static_cast<std::size_t>(chosen[i])) * 3 + c;
    picked.push_back(xs[at]);
    sums[at] += ss[i];
  }
  expect_close(gather(x, 1, index), picked, 0);
  expect_close(gather(x.transpose(0, 2).contiguous().transpose(0, 2), 1, index), picked, 0);
  expect_close(scatter_add(x, 1, index, source), sums, 1e-14, 1e-14);
  if (!op_tests::have_vulkan()) return;
  Tensor gx = x.to(f32).to(kVulkan), gi = index.to(kVulkan);
  expect_close(gather(gx.transpose(0, 2).contiguous().transpose(0, 2), 1, gi), picked, 1e-7);
  expect_close(scatter_add(gx, 1, gi, source.to(f32).to(kVulkan)), sums, 1e-6, 1e-6);
}

TEST(ScatterAdd, OfHalvesRoundsOnce) {
  // Added one by one in f16, 2048 + 1 stays 2048.
  Tensor x = full({1}, 2048, {f16}), index = zeros({64}, {i64}), source = ones({64}, {f16});
  EXPECT_EQ(scatter_add(x, 0, index, source).item<float>(), 2112);
  if (op_tests::have_vulkan()) {
    EXPECT_EQ(scatter_add(x.to(kVulkan), 0, index.to(kVulkan), source.to(kVulkan)).item<float>(), 2112);
  }
}

TEST(IndexSelect, TakesRowsOfAViewOnEveryDevice) {
  Tensor x = arange(0, 24).reshape({2, 3, 4}), index = from_vector(std::vector<std::int32_t>{3, 0, 3});
  std::vector<std::int64_t> want;
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t c : {3, 0, 3}) want.push_back(4 * row + c);
  }
  EXPECT_EQ(index_select(x, 2, index).to_vector<std::int64_t>(), want);
  EXPECT_EQ(index_select(x.permute({2, 0, 1}), 0, index).permute({1, 2, 0}).to_vector<std::int64_t>(), want);
  if (op_tests::have_vulkan()) {
    EXPECT_EQ(index_select(x.to(kVulkan), -1, index.to(kVulkan)).to_vector<std::int64_t>(), want);
  }
}

TEST(Index, RefusesWhatDoesNotFit) {
  Tensor x = ones({3, 4});
  auto index = [](Shape shape) { return zeros(shape, {i64}); };
  EXPECT_THAT(
      [&] {
        index_select(x, 0, index({2, 2}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("it must be a list; use gather")));
  EXPECT_THAT([&] { index_select(x, 2, index({2})); }, ThrowsMessage<ShapeError>(HasSubstr("index_select")));
  EXPECT_THAT(
      [&] {
        index_select(ones({0, 4}), 0, index({2}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("nothing to choose from")));
  EXPECT_THAT([&] { gather(x, 0, index({2})); }, ThrowsMessage<ShapeError>(HasSubstr("must have as many dimensions")));
  EXPECT_THAT(
      [&] {
        gather(x, 0, index({2, 5}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("an index [2, 5] does not match [3, 4]")));
  EXPECT_THAT(
      [&] {
        gather(x, 0, full({1, 4}, 3, {i64}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("gather: index 3 at position 0 is outside [0, 3)")));
  EXPECT_THAT(
      [&] {
        scatter_add(x, 0, index({2, 4}), ones({1, 4}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("the source is [1, 4], smaller than the index [2, 4]")));
  EXPECT_THAT(
      [&] {
        scatter_add(x, 0, index({2, 4}), ones({2, 4}, {f64}));
      },
      ThrowsMessage<DtypeError>(HasSubstr("f64 is added to f32")));
  EXPECT_THAT(
      [&] {
        scatter_add(x, 0, full({1, 4}, -1, {i64}), ones({1, 4}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("index -1")));
}

TEST(Cat, PromotesAndKeepsOrderOnEveryDevice) {
  Tensor a = arange(0, 6).to(i32).reshape({2, 3}), b = full({2, 1}, 0.5), c = ones({2, 2}, {boolean}),
         d = zeros({2, 0}, {f64});
  std::vector<float> want = {0, 1, 2, 0.5, 1, 1, 3, 4, 5, 0.5, 1, 1};
  EXPECT_EQ(cat({a, b, c}, 1).dtype(), f32);
  EXPECT_EQ(cat({a, b, c}, 1).to_vector<float>(), want);
  EXPECT_EQ(cat({a, d}, 1).dtype(), f64);
  if (op_tests::have_vulkan()) {
    EXPECT_EQ(cat({a.to(kVulkan), b.to(kVulkan), c.to(kVulkan)}, -1).to_vector<float>(), want);
  }
}

TEST(Cat, JoinsFortyParts) {
  TensorList parts;
  std::vector<std::int64_t> want;
  for (std::int64_t k = 0; k < 40; ++k) parts.push_back(full({2, k % 3}, static_cast<double>(k), {i64}));
  for (int row = 0; row < 2; ++row) {
    for (std::int64_t k = 0; k < 40; ++k) want.insert(want.end(), static_cast<std::size_t>(k % 3), k);
  }
  EXPECT_EQ(cat(parts, 1).to_vector<std::int64_t>(), want);
  if (!op_tests::have_vulkan()) return;
  for (Tensor& part : parts) part = part.to(kVulkan);
  EXPECT_EQ(cat(parts, 1).to_vector<std::int64_t>(), want);
}

TEST(Cat, RefusesWhatDoesNotFit) {
  EXPECT_THAT([] { cat({}); }, ThrowsMessage<ShapeError>(HasSubstr("got no tensors")));
  EXPECT_THAT([] { cat({scalar(1)}); }, ThrowsMessage<ShapeError>(HasSubstr("use stack")));
  EXPECT_THAT(
      [] {
        cat({ones({2, 3}), ones({3, 2})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("tensor 1 is [3, 2]; it must equal the first, [2, 3]")));
  EXPECT_THAT(
      [] {
        stack({ones({2}), ones({3})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("stack: tensor 1 is [3], the first is [2]")));
}

}  // namespace
}  // namespace etna
