#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/memory.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>

#include "ops/rows.h"

namespace etna {
namespace {

using op_tests::random_tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor list(std::vector<std::int64_t> values, Device device) { return from_vector(values).to(device); }

TEST(Scatter, TheLastOfEqualIndicesStaysAndOnlyItGetsTheGradient) {
  for (Device device : op_tests::devices()) {
    Tensor x = zeros({3}, device).requires_grad_(), source = from_vector<float>({1, 2, 3, 4}, device).requires_grad_();
    const Tensor y = scatter(x, 0, list({1, 1, 2, 1}, device), source);
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, 4, 3)) << device.str();
    const TensorList g =
        autograd::grad(TensorList{(y * from_vector<float>({5, 6, 7}, device)).sum()}, TensorList{x, source});
    EXPECT_THAT(g[0].to_vector<float>(), ElementsAre(5, 0, 0));
    EXPECT_THAT(g[1].to_vector<float>(), ElementsAre(0, 0, 7, 6));
  }
}

enum class Places { mixed, skewed, sorted };

// Numbers of very different sizes; what goes to one place is compared with its sum in double.
void expect_sums(std::int64_t n, std::int64_t places, DType dtype, Places order, Device device) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(n));
  std::vector<float> values(index.size());
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto mixed = static_cast<std::int64_t>((i * 2654435761u) % 1000003u);
    index[i] = order == Places::skewed && i % 3 != 0 ? 5 : mixed % places;
    if (order == Places::sorted) index[i] = static_cast<std::int64_t>(i) * places / n;
    values[i] = std::ldexp(static_cast<float>(mixed % 2001 - 1000), static_cast<int>(mixed % 23) - 20);
  }
  const Tensor source = from_vector(values).to(dtype), start = full({places}, 0.5, {dtype, kCPU});
  const std::vector<double> added = source.to_vector<double>();
  std::vector<double> want(static_cast<std::size_t>(places), 0.5), sizes(want);
  for (std::size_t i = 0; i < index.size(); ++i) {
    want[static_cast<std::size_t>(index[i])] += added[i];
    sizes[static_cast<std::size_t>(index[i])] += std::abs(added[i]);
  }
  const auto run = [&] { return scatter_add(start.to(device), 0, list(index, device), source.to(device)); };
  const Tensor y = run();
  const std::vector<double> got = y.to_vector<double>();
  const double rounding = dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 8e-3;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], rounding * std::abs(want[i]) + 1e-7 * sizes[i])
        << device.str() << ' ' << n << ' ' << i;
  }
  EXPECT_TRUE(equal(run(), y)) << device.str() << ": other bits in a second run";
}

TEST(Scatter, ManyNumbersAddUpWhereverTheyGo) {
  for (Device device : op_tests::devices()) {
    expect_sums(20000, 100, f32, Places::mixed, device);     // one bucket, one chunk
    expect_sums(140000, 2048, bf16, Places::mixed, device);  // one bucket, three chunks
    expect_sums(20000, 70001, f32, Places::mixed, device);   // buckets of one chunk
    expect_sums(20000, 2049, f32, Places::mixed, device);
    expect_sums(200000, 30001, f32, Places::skewed, device);  // one bucket of several chunks among others
    expect_sums(20000, 5000, f16, Places::mixed, device);
    expect_sums(50000, 20000, f32, Places::sorted, device);     // few, long runs
    expect_sums(300000, 3000, bf16, Places::mixed, device);     // many long runs
    expect_sums(4300000, 268750, f32, Places::sorted, device);  // more tiles than a batch has
  }
}

TEST(Scatter, ManyNumbersKeepInfinityNaNAndTheSmallest) {
  const std::int64_t n = 70000;
  const float infinity = std::numeric_limits<float>::infinity(), least = std::ldexp(1.0F, -149);
  for (Device device : op_tests::devices()) {
    for (std::int64_t places : {20, 5000}) {
      std::vector<std::int64_t> index(n, 19);
      std::vector<float> values(n, 1.0F);
      const std::vector<std::pair<std::int64_t, float>> special = {
          {0, infinity},      {1, -infinity}, {2, infinity}, {2, -infinity},     {3, NAN},      {3, 1},     {4, least},
          {4, least},         {5, 0x1p-126F}, {5, -least},   {6, 0x1p127F},      {6, 0x1p127F}, {7, 1e30F}, {7, -1e30F},
          {8, 0x1.fffffep0F}, {8, 0x1p-24F},  {9, 1e-30F},   {9, 0x1.000002p5F}, {10, 0}};
      for (std::size_t i = 0; i < special.size(); ++i) index[i] = special[i].first, values[i] = special[i].second;
      const Tensor zero = zeros({places}).to(device);
      const std::vector<float> y =
          scatter_add(zero, 0, list(index, device), from_vector(values).to(device)).to_vector<float>();
      EXPECT_EQ(y[0], infinity) << device.str();
      EXPECT_EQ(y[1], -infinity);
      EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[3])) << y[2] << ' ' << y[3];
      EXPECT_TRUE(y[4] == 2 * least || (y[4] == 0 && !device.is_cpu())) << y[4];  // a GPU may flush what is so small
      EXPECT_NEAR(y[5], 0x1p-126F, 0x1p-126F);
      EXPECT_EQ(y[6], infinity);
      EXPECT_EQ(y[7], 0);
      EXPECT_EQ(y[8], 2);
      EXPECT_EQ(y[9], 0x1.000002p5F);
      EXPECT_EQ(y[10], 0);
      EXPECT_EQ(y[11], 0);
      EXPECT_EQ(y[19], static_cast<float>(n - static_cast<std::int64_t>(special.size())));
    }
  }
}

TEST(Scatter, ManyIndicesAreChecked) {
  const std::int64_t n = 20000, size = 5000;
  for (Device device : op_tests::devices()) {
    const Tensor zero = zeros({size}, device), source = ones({n}, device);
    for (std::int64_t wrong : {size, std::int64_t{-1}}) {
      for (DType t : {i64, i32}) {
        std::vector<std::int64_t> index(n, 3);
        index[17001] = wrong;
        EXPECT_THAT([&] { scatter_add(zero, 0, list(index, device).to(t), source).to_vector<float>(); },
                    ThrowsMessage<IndexError>(HasSubstr("scatter_add: index " + std::to_string(wrong))))
            << device.str();
      }
    }
  }
}

TEST(Scatter, LongListsAddUpInOrderOnEveryDevice) {
  const std::int64_t n = 20011;
  for (Device device : op_tests::devices()) {
    for (std::int64_t places : {1, 7, 3000}) {
      std::vector<std::int64_t> index(n);
      for (std::int64_t i = 0; i < n; ++i) index[static_cast<std::size_t>(i)] = i * 7919 % 104729 % places;
      const Tensor source = random_tensor({n}, f32, 5).to(device), at = list(index, device);
      const std::vector<double> values = source.to_vector<double>();
      std::vector<double> sums(static_cast<std::size_t>(places)), last(static_cast<std::size_t>(places), -9),
          most(static_cast<std::size_t>(places), -9);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto p = static_cast<std::size_t>(index[i]);
        sums[p] += values[i], last[p] = values[i], most[p] = std::max(most[p], values[i]);
      }
      const Tensor nothing = zeros({places}, device), low = full({places}, -9, device);
      const Tensor added = scatter_add(nothing, 0, at, source);
      op_tests::expect_close(added, sums, 1e-4, 1e-3, device.str());
      EXPECT_EQ(added.to_vector<float>(), scatter_add(nothing, 0, at, source).to_vector<float>()) << "the same bits";
      EXPECT_EQ(scatter(low, 0, at, source).to_vector<double>(), last) << device.str();
      EXPECT_EQ(scatter_reduce(low, 0, at, source, "amax").to_vector<double>(), most) << device.str();
    }
  }
}

TEST(Embedding, GradientOfManyTokensIsSorted) {
  const std::int64_t n = 33001;
  for (Device device : op_tests::devices()) {
    std::vector<std::int64_t> index(n);
    for (std::int64_t i = 0; i < n; ++i) index[static_cast<std::size_t>(i)] = i * i % 11;
    const Tensor g = embedding_backward(ones({n, 1}, device), list(index, device), 11);
    std::vector<double> counts(11);
    for (std::int64_t i : index) counts[static_cast<std::size_t>(i)] += 1;
    EXPECT_EQ(g.to_vector<double>(), counts) << device.str();
  }
}

TEST(MaskedSelect, OfManyElementsKeepsTheirOrder) {
  for (Device device : op_tests::devices()) {
    Tensor x = random_tensor({3, 5003}, f32, 2).to(device);
    std::vector<float> want;
    for (float v : x.to_vector<float>()) {
      if (v > 0.5f) want.push_back(v);
    }
    EXPECT_EQ(masked_select(x, x > 0.5).to_vector<float>(), want) << device.str();
    EXPECT_EQ(masked_select(x, x > 9.0).numel(), 0);
    x.requires_grad_();
    const TensorList g = autograd::grad(TensorList{masked_select(x, x > 0.5).sum()}, TensorList{x});
    EXPECT_EQ(g[0].to_vector<float>(), (x.detach() > 0.5).to(f32).to_vector<float>());
  }
}

TEST(Indexing, InPlaceWritesGoToTheTensor) {
  for (Device device : op_tests::devices()) {
    Tensor x = zeros({2, 3}, device), same = x, turned = x.t();
    scatter_(turned, 0, list({2, 0}, device).reshape({1, 2}), 5.0);
    EXPECT_THAT(same.to_vector<float>(), ElementsAre(0, 0, 5, 5, 0, 0)) << device.str();
    index_add_(x, 1, list({0, 0}, device), ones({2, 2}, device), 2);
    EXPECT_THAT(same.to_vector<float>(), ElementsAre(4, 0, 5, 9, 0, 0));
    index_fill_(x, 0, list({1}, device), 7);
    EXPECT_THAT(same.to_vector<float>(), ElementsAre(4, 0, 5, 7, 7, 7));
    put_(x, list({-1, 0}, device), from_vector<float>({1, 2}, device));
    EXPECT_THAT(same.to_vector<float>(), ElementsAre(2, 0, 5, 7, 7, 1));
    masked_scatter_(x, x > 4.0, from_vector<float>({1, 2, 3}, device));
    EXPECT_THAT(same.to_vector<float>(), ElementsAre(2, 0, 1, 2, 3, 1));
    index_put_(x, {x > 1.0}, -1.0);
    EXPECT_THAT(same.to_vector<float>(), ElementsAre(-1, 0, 1, -1, -1, 1));
    index_put_(x, {Slice(None, None, -1), list({0, 2}, device)}, x.slice(1, 0, 2));
    EXPECT_THAT(same.to_vector<float>(), ElementsAre(-1, 0, -1, -1, -1, 0)) << "the values are read before";
  }
}

TEST(Indexing, WrongIndicesAreErrorsOnEveryDevice) {
  for (Device device : op_tests::devices()) {
    Tensor x = zeros({4, 3}, device);
    auto wait = [&](auto call) {
      return [=] {
        call();
        synchronize(device);
      };
    };
    const Tensor bad = list({1, 4}, device), low = list({-5, 0}, device);
    const Tensor two = ones({2, 3}, device), good = list({1, 3}, device).reshape({2, 1});
    EXPECT_THAT(wait([=] { index(x, {bad}); }), ThrowsMessage<IndexError>(HasSubstr("index: index 4 at position 1")));
    EXPECT_THAT(wait([=] { index(x, {low}); }), ThrowsMessage<IndexError>(HasSubstr("index -5")));
    EXPECT_THAT(wait([=] { index_add(x, 0, bad, two); }), ThrowsMessage<IndexError>(HasSubstr("index_add: index 4")));
    EXPECT_THAT(wait([=] {
                  scatter(x, 0, bad.reshape({2, 1}), 1.0);
                }),
                ThrowsMessage<IndexError>(HasSubstr("scatter: index 4")));
    EXPECT_THAT(wait([=] { take(x, list({12}, device)); }), ThrowsMessage<IndexError>(HasSubstr("take: index 12")));
    EXPECT_NO_THROW(wait([=] { index(x, {list({-4, 3}, device)}); })());
    EXPECT_THROW(index(x, {4}), IndexError);
    EXPECT_THROW(index(x, {1, 1, 1}), ShapeError);
    EXPECT_THROW(index(x, {Ellipsis, Ellipsis}), ShapeError);
    EXPECT_THROW(index(x, {ones({3}, {boolean, device})}), ShapeError);
    EXPECT_THROW(index(x, {zeros({2}, device)}), DtypeError);
    EXPECT_THROW(index(x, {list({0, 1}, device), list({0, 1, 2}, device)}), ShapeError);
    EXPECT_THROW(index(x, {Slice(0, 2, 0)}), ShapeError);
    EXPECT_THROW(index_put_(x, {good.select(1, 0)}, ones({3, 3}, device)), ShapeError);
    Tensor integers = zeros({2}, {i64, device});
    for (double value : {0.5, 0x1p63, std::nan(""), -HUGE_VAL})
      EXPECT_THROW(index_put_(integers, {0}, value), DtypeError);
    EXPECT_NO_THROW(index_put_(integers, {0}, -0x1p63));
    EXPECT_THROW(scatter_reduce(x, 0, good, two, "median"), Error);
    EXPECT_THROW(scatter(x, 0, good, two.to(i32)), DtypeError);
    Tensor w = ones({2, 3}, device).requires_grad_();
    index_put_(x, {list({0, 1}, device)}, w);
    EXPECT_TRUE(x.requires_grad()) << "the write is recorded";
    EXPECT_THROW(index_fill_(w, 0, list({0}, device), 1), GradError);
    synchronize(device);
  }
}

TEST(Indexing, NothingIsReadOnTheHostInACapturedStep) {
  for (Device device : op_tests::devices()) {
    auto step = capture(
        [](const Tensor& x, const Tensor& at) {
          Tensor y = x.clone();
          index_put_(y, {y > 0.0}, 2.0);
          index_put_(y, {at, 0}, -1.0);
          return index(y, {at, Slice(None, None, -1)}) + masked_scatter(y, y > 0.0, x).sum();
        },
        {.device = device});
    for (unsigned run = 0; run < 4; ++run) {
      const Tensor x = random_tensor({4, 3}, f32, run).to(device), at = list({run % 4, -1}, device);
      Tensor y = where(x > 0.0, 2.0, x);
      index_put_(y, {at, 0}, -1.0);
      const Tensor want = index(y, {at, Slice(None, None, -1)}) + masked_scatter(y, y > 0.0, x).sum();
      op_tests::expect_close(step(x, at), want.to_vector<double>(), 1e-6, 1e-6, device.str());
    }
    auto counting = capture([](const Tensor& x) { return masked_select(x, x > 0.0); }, {.device = device});
    const Tensor x = ones({3}, device);
    EXPECT_THAT(
        [&] {
          for (int run = 0; run < 3; ++run) counting(x);
        },
        ThrowsMessage<CaptureError>(HasSubstr("masked_select: ")));
  }
}

TEST(Indexing, NothingHasNoElements) {
  for (Device device : op_tests::devices()) {
    const Tensor x = ones({0, 3}, device), none = list({}, device).to(i64);
    EXPECT_EQ(index(x, {none}).shape(), (Shape{0, 3}));
    EXPECT_EQ(nonzero(x).shape(), (Shape{0, 2}));
    EXPECT_EQ(nonzero(scalar(3, device)).shape(), (Shape{1, 0}));
    EXPECT_EQ(masked_select(x, x > 0.0).shape(), Shape{0});
    EXPECT_EQ(scatter(x, 1, zeros({0, 2}, {i64, device}), 1.0).shape(), (Shape{0, 3}));
    EXPECT_EQ(index_add(x, 0, none, x).shape(), (Shape{0, 3}));
    EXPECT_EQ(index(ones({4, 3}, device), {none, Slice(1, 1)}).shape(), (Shape{0, 0}));
    EXPECT_THROW(index(x, {list({0}, device)}), ShapeError);
  }
}

}  // namespace
}  // namespace etna
